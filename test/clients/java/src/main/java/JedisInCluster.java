import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import redis.clients.jedis.ClusterPipeline;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.RedisClusterClient;
import redis.clients.jedis.Response;

/** Uses the front ends of a store as programs with Jedis's cluster client do. */
public final class JedisInCluster {
    private final int size;
    private final RedisClusterClient redis;

    private JedisInCluster(String[] addresses) {
        Set<HostAndPort> nodes = new HashSet<>();
        for (String a : addresses) {
            nodes.add(HostAndPort.from(a));
        }
        size = nodes.size();
        redis = RedisClusterClient.builder().nodes(nodes).build();
    }

    public static void main(String[] args) {
        JedisInCluster c = new JedisInCluster(args);
        ClusterWork work = new ClusterWork("jec", c.redis::set, c.redis::get);
        Check.test("commands", work::commands);
        Check.test("members", () -> Check.same("the nodes", c.redis.getClusterNodes().size(), c.size));
        Check.test("pipeline", c::pipeline);
        Check.test("waiting", c::waiting);
        Check.test("messages", c::messages);
        Check.test("survives", work::survives);
        Check.end("jedis", RedisClusterClient.class);
    }

    private void pipeline() {
        List<Response<Long>> sums = new ArrayList<>();
        try (ClusterPipeline p = redis.pipelined()) {
            for (int i = 0; i < 100; i++) {
                sums.add(p.incrBy("jec:many:" + i, i));
            }
            p.sync();
        }
        for (int i = 0; i < 100; i++) {
            Check.same("a sum", sums.get(i).get(), (long) i);
        }
        Check.same("the script", redis.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", List.of("jec:n"), List.of("5")), 5L);
    }

    private void waiting() throws Exception {
        List<List<String>> got = Collections.synchronizedList(new ArrayList<>());
        Thread t = new Thread(() -> got.add(redis.blpop(20, "jec:list")));
        t.start();
        redis.rpush("jec:list", "element");
        t.join();
        Check.same("the element", got, List.of(List.of("jec:list", "element")));
    }

    private void messages() throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onMessage(String channel, String text) {
                got.add(text);
            }
        };
        Thread t = new Thread(() -> redis.subscribe(listener, "jec:news"));
        t.start();
        Check.until("it has subscribed", listener::isSubscribed);
        for (int i = 0; i < 3; i++) {
            redis.publish("jec:news", "" + i);
        }
        Check.until("all messages came", () -> got.size() == 3);
        Check.same("the messages", got, List.of("0", "1", "2"));
        listener.unsubscribe();
        t.join();
    }
}

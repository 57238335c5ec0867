import io.lettuce.core.KeyValue;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.cluster.ClusterClientOptions;
import io.lettuce.core.cluster.ClusterTopologyRefreshOptions;
import io.lettuce.core.cluster.RedisClusterClient;
import io.lettuce.core.cluster.api.StatefulRedisClusterConnection;
import io.lettuce.core.cluster.api.sync.RedisAdvancedClusterCommands;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.cluster.pubsub.StatefulRedisClusterPubSubConnection;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;

/** Uses the front ends of a store as programs with Lettuce's cluster client do. */
public final class LettuceInCluster {
    private final int size;
    private final RedisClusterClient client;
    private final StatefulRedisClusterConnection<String, String> connection;
    private final RedisAdvancedClusterCommands<String, String> redis;

    private LettuceInCluster(String[] addresses) {
        List<RedisURI> nodes = new ArrayList<>();
        for (String a : addresses) {
            String[] where = a.split(":");
            nodes.add(RedisURI.create(where[0], Integer.parseInt(where[1])));
        }
        size = nodes.size();
        client = RedisClusterClient.create(nodes);
        client.setOptions(ClusterClientOptions.builder()
            .topologyRefreshOptions(ClusterTopologyRefreshOptions.builder()
                .enableAllAdaptiveRefreshTriggers()
                .enablePeriodicRefresh(Duration.ofSeconds(1))
                .build())
            .build());
        connection = client.connect();
        connection.setTimeout(Duration.ofSeconds(2)); // commands to a dead node are kept until it is back
        redis = connection.sync();
    }

    public static void main(String[] args) {
        LettuceInCluster c = new LettuceInCluster(args);
        ClusterWork work = new ClusterWork("lec", c.redis::set, c.redis::get);
        Check.test("commands", work::commands);
        Check.test("members", () -> Check.same("the nodes", c.client.getPartitions().size(), c.size));
        Check.test("manyKeys", c::manyKeys);
        Check.test("waiting", c::waiting);
        Check.test("messages", c::messages);
        Check.test("survives", work::survives);
        Check.end("lettuce-core", RedisClusterClient.class);
    }

    /** The library cuts MSET and MGET into one for each node. */
    private void manyKeys() {
        Map<String, String> all = new LinkedHashMap<>();
        for (int i = 0; i < 100; i++) {
            all.put("lec:many:" + i, "" + i);
        }
        Check.same("the reply", redis.mset(all), "OK");
        List<KeyValue<String, String>> got = redis.mget(all.keySet().toArray(new String[0]));
        Check.same("the values", got.stream().map(KeyValue::getValue).toList(), new ArrayList<>(all.values()));
        Check.same("the script", redis.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", ScriptOutputType.INTEGER,
            new String[] {"lec:n"}, "5"), 5L);
    }

    private void waiting() throws Exception {
        try (StatefulRedisClusterConnection<String, String> other = client.connect()) {
            RedisFuture<KeyValue<String, String>> element = other.async().blpop(20, "lec:list");
            redis.rpush("lec:list", "element");
            Check.same("the element", element.get(20, TimeUnit.SECONDS), KeyValue.just("lec:list", "element"));
        }
    }

    private void messages() throws Exception {
        try (StatefulRedisClusterPubSubConnection<String, String> subscriber = client.connectPubSub()) {
            List<String> got = Collections.synchronizedList(new ArrayList<>());
            subscriber.addListener(new RedisPubSubAdapter<String, String>() {
                @Override
                public void message(String channel, String text) {
                    got.add(text);
                }
            });
            subscriber.sync().subscribe("lec:news");
            for (int i = 0; i < 3; i++) {
                redis.publish("lec:news", "" + i);
            }
            Check.until("all messages came", () -> got.size() == 3);
            Check.same("the messages", got, List.of("0", "1", "2"));
        }
    }
}

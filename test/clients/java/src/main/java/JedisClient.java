import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import redis.clients.jedis.AbstractTransaction;
import redis.clients.jedis.ConnectionPoolConfig;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.csc.CacheConfig;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.params.XAutoClaimParams;
import redis.clients.jedis.params.XReadGroupParams;
import redis.clients.jedis.resps.StreamEntry;
import redis.clients.jedis.util.SafeEncoder;

/**
 * Uses a server as programs with Jedis do: pool, pipeline, transactions that are tried again, scripts,
 * messages, a consumer group, a cache on the client's side.
 */
public final class JedisClient {
    private final HostAndPort where;
    private final RedisClient redis;
    private String known = "0".repeat(40); // the script's hash; no script has this one

    private JedisClient(String address) {
        where = HostAndPort.from(address);
        ConnectionPoolConfig pool = new ConnectionPoolConfig();
        pool.setMaxTotal(8);
        redis = RedisClient.builder().hostAndPort(where).poolConfig(pool).build();
    }

    public static void main(String[] args) {
        JedisClient c = new JedisClient(args[0]);
        c.redis.flushAll();
        Check.test("pool", c::pool);
        Check.test("pipeline", c::pipeline);
        Check.test("transaction", c::transaction);
        Check.test("script", c::script);
        Check.test("pubsub", c::pubsub);
        Check.test("stream", c::stream);
        Check.test("cache", c::cache);
        Check.test("channel", () -> c.channel(args));
        Check.end("jedis", RedisClient.class);
    }

    private void pool() throws Exception {
        Check.atOnce(50, i -> {
            for (int n = 0; n < 20; n++) {
                redis.set("je:pool:" + i, "" + n, SetParams.setParams().ex(60));
                Check.same("the value", redis.get("je:pool:" + i), "" + n);
            }
        });
        Check.same("at most eight connections", redis.getPool().getNumActive() + redis.getPool().getNumIdle() <= 8, true);
    }

    private void pipeline() {
        try (Pipeline p = redis.pipelined()) {
            Response<Long> last = null;
            for (int i = 0; i < 1000; i++) {
                last = p.incr("je:n");
            }
            p.set("je:text", "abc");
            Response<Long> wrong = p.incr("je:text");
            p.sync();
            Check.same("the sum", last.get(), 1000L);
            try {
                wrong.get();
                throw new AssertionError("an increment of a text succeeds");
            } catch (JedisDataException e) {
                // as it must be
            }
        }
    }

    private void transaction() throws Exception {
        int users = 6;
        int each = 20;
        Check.atOnce(users, i -> {
            for (int done = 0; done < each;) {
                try (AbstractTransaction t = redis.transaction(false)) {
                    t.watch("je:counter");
                    String old = redis.get("je:counter");
                    String next = "" + (old == null ? 1 : Integer.parseInt(old) + 1);
                    t.multi();
                    t.set("je:counter", next);
                    t.rpush("je:log", next);
                    if (t.exec() != null) { // else somebody was quicker: again
                        done++;
                    }
                }
            }
        });
        List<String> log = redis.lrange("je:log", 0, -1);
        Check.same("entries", log.size(), users * each);
        for (int i = 0; i < log.size(); i++) {
            Check.same("entry " + i, log.get(i), "" + (i + 1));
        }
    }

    private void script() {
        redis.scriptFlush();
        redis.set("je:stock", "5");
        Check.same("the reply", take(2), List.of(3L, "je:stock"));
        Check.same("the reply", take(2), List.of(1L, "je:stock"));
        try {
            take(2);
            throw new AssertionError("the script's own error is not told");
        } catch (JedisDataException e) {
            Check.same("the error", e.getMessage(), "EMPTY only 1");
        }
    }

    /** Runs the script by its hash, and sends it when the server does not know it. */
    private Object take(int n) {
        List<String> keys = List.of("je:stock");
        List<String> args = List.of("" + n);
        try {
            return redis.evalsha(known, keys, args);
        } catch (JedisNoScriptException e) {
            known = redis.scriptLoad(Check.TAKE);
            return redis.evalsha(known, keys, args);
        }
    }

    private void pubsub() throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        JedisPubSub sub = new JedisPubSub() {
            @Override public void onSubscribe(String channel, int n) { got.add("subscribed " + channel + " " + n); }
            @Override public void onPSubscribe(String pattern, int n) { got.add("subscribed " + pattern + " " + n); }
            @Override public void onMessage(String channel, String text) { got.add(channel + " " + text); }
            @Override public void onPMessage(String p, String channel, String text) { got.add(p + " " + channel + " " + text); }
        };
        Thread thread = new Thread(() -> redis.subscribe(sub, "je:news"));
        thread.start();
        Check.until("subscribed", () -> got.size() == 1);
        sub.psubscribe("je:log:*");
        Check.until("subscribed", () -> got.size() == 2);
        Check.same("receivers", redis.publish("je:news", "hello"), 1L);
        redis.publish("je:log:disk", "full");
        Check.until("two messages", () -> got.size() == 4);
        Check.same("what came", got, List.of("subscribed je:news 1", "subscribed je:log:* 2", "je:news hello",
            "je:log:* je:log:disk full"));
        sub.unsubscribe();
        sub.punsubscribe();
        thread.join(20_000);
        Check.same("still subscribed", thread.isAlive(), false);
    }

    private void stream() {
        String key = "je:stream";
        String group = "workers";
        int entries = 20;
        redis.xgroupCreate(key, group, new StreamEntryID(0, 0), true);
        for (int i = 0; i < entries; i++) {
            redis.xadd(key, XAddParams.xAddParams(), Map.of("n", "" + i));
        }
        Check.same("of the dead", read(key, group, "dead", 1).size(), 1);
        Set<String> seen = new HashSet<>();
        for (List<StreamEntry> batch; !(batch = read(key, group, "alive", 7)).isEmpty();) {
            for (StreamEntry e : batch) {
                seen.add(e.getFields().get("n"));
                Check.same("acknowledged", redis.xack(key, group, e.getID()), 1L);
            }
        }
        Check.same("pending", redis.xpending(key, group).getTotal(), 1L);
        List<StreamEntry> taken = redis.xautoclaim(key, group, "alive", 0, new StreamEntryID(0, 0), XAutoClaimParams.xAutoClaimParams())
            .getValue();
        Check.same("taken over", taken.size(), 1);
        seen.add(taken.get(0).getFields().get("n"));
        redis.xack(key, group, taken.get(0).getID());
        Check.same("entries seen", seen.size(), entries);
        Check.same("pending", redis.xpending(key, group).getTotal(), 0L);
    }

    private List<StreamEntry> read(String key, String group, String consumer, int count) {
        var got = redis.xreadGroup(group, consumer, XReadGroupParams.xReadGroupParams().count(count).block(50),
            Map.of(key, StreamEntryID.XREADGROUP_UNDELIVERED_ENTRY));
        return got == null || got.isEmpty() ? List.of() : got.get(0).getValue();
    }

    private void cache() throws Exception {
        String version = redis.info("server").replaceAll("(?s).*redis_version:([0-9]+[.][0-9]+).*", "$1");
        if (Double.parseDouble(version) < 7.4) {
            throw new Check.Skipped("the library wants a server that calls itself 7.4 or later, not " + version);
        }
        try (RedisClient cached = RedisClient.builder().hostAndPort(where)
                .clientConfig(DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP3).build())
                .cacheConfig(CacheConfig.builder().maxSize(100).build()).build()) {
            for (int turn = 0; turn < 3; turn++) {
                String want = "value " + turn;
                redis.set("je:cached", want);
                Check.until("the new value", () -> want.equals(cached.get("je:cached")));
                for (int i = 0; i < 100; i++) {
                    Check.same("the value", cached.get("je:cached"), want);
                }
            }
            Check.same("the cache was used", cached.getCache().getStats().getHitCount() >= 200, true);
        }
    }

    private void channel(String[] args) throws Exception {
        try (RedisClient plain = RedisClient.builder().hostAndPort(where)
                .clientConfig(DefaultJedisClientConfig.builder().protocol(RedisProtocol.RESP2).build()).build()) {
            Check.channel(args, "je-channel", words -> text(plain.sendCommand(() -> SafeEncoder.encode(words[0]),
                Arrays.copyOfRange(words, 1, words.length))));
        }
    }

    /** A reply whose texts are bytes, as the library returns those of commands that it does not know. */
    private static Object text(Object reply) {
        return reply instanceof byte[] b ? SafeEncoder.encode(b)
            : reply instanceof List<?> l ? l.stream().map(JedisClient::text).collect(Collectors.toList()) : reply;
    }
}

import io.lettuce.core.ClientOptions;
import io.lettuce.core.Consumer;
import io.lettuce.core.LettuceFutures;
import io.lettuce.core.RedisClient;
import io.lettuce.core.RedisCommandExecutionException;
import io.lettuce.core.RedisFuture;
import io.lettuce.core.RedisNoScriptException;
import io.lettuce.core.RedisURI;
import io.lettuce.core.ScriptOutputType;
import io.lettuce.core.SetArgs;
import io.lettuce.core.StreamMessage;
import io.lettuce.core.TrackingArgs;
import io.lettuce.core.TransactionResult;
import io.lettuce.core.XAutoClaimArgs;
import io.lettuce.core.XGroupCreateArgs;
import io.lettuce.core.XReadArgs;
import io.lettuce.core.api.StatefulRedisConnection;
import io.lettuce.core.api.async.RedisAsyncCommands;
import io.lettuce.core.api.sync.RedisCommands;
import io.lettuce.core.codec.StringCodec;
import io.lettuce.core.output.NestedMultiOutput;
import io.lettuce.core.protocol.CommandArgs;
import io.lettuce.core.protocol.ProtocolKeyword;
import io.lettuce.core.protocol.ProtocolVersion;
import io.lettuce.core.pubsub.RedisPubSubAdapter;
import io.lettuce.core.pubsub.StatefulRedisPubSubConnection;
import io.lettuce.core.support.ConnectionPoolSupport;
import io.lettuce.core.support.caching.CacheAccessor;
import io.lettuce.core.support.caching.CacheFrontend;
import io.lettuce.core.support.caching.ClientSideCaching;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.commons.pool2.impl.GenericObjectPool;
import org.apache.commons.pool2.impl.GenericObjectPoolConfig;

/**
 * Uses a server as programs with Lettuce do: one connection shared by threads, a pool, pipelines by futures,
 * transactions that are tried again, scripts, messages, a consumer group, a cache on the client's side.
 */
public final class LettuceClient {
    private final RedisClient client;
    private final StatefulRedisConnection<String, String> connection;
    private final RedisCommands<String, String> redis;

    private LettuceClient(String address) {
        String[] where = address.split(":");
        client = RedisClient.create(RedisURI.create(where[0], Integer.parseInt(where[1])));
        connection = client.connect();
        redis = connection.sync();
    }

    public static void main(String[] args) {
        LettuceClient c = new LettuceClient(args[0]);
        c.redis.flushall();
        Check.test("shared", c::shared);
        Check.test("pipeline", c::pipeline);
        Check.test("transaction", c::transaction);
        Check.test("script", c::script);
        Check.test("pubsub", c::pubsub);
        Check.test("stream", c::stream);
        Check.test("cache", c::cache);
        Check.test("channel", () -> c.channel(args));
        Check.end("lettuce", RedisClient.class);
    }

    private void shared() throws Exception {
        Check.atOnce(50, i -> {
            for (int n = 0; n < 20; n++) {
                redis.set("le:pool:" + i, "" + n, SetArgs.Builder.ex(60));
                Check.same("the value", redis.get("le:pool:" + i), "" + n);
            }
        });
    }

    private void pipeline() throws Exception {
        RedisAsyncCommands<String, String> async = connection.async();
        connection.setAutoFlushCommands(false);
        List<RedisFuture<?>> all = new ArrayList<>();
        for (int i = 0; i < 1000; i++) {
            all.add(async.incr("le:n"));
        }
        all.add(async.set("le:text", "abc"));
        RedisFuture<Long> wrong = async.incr("le:text");
        connection.flushCommands();
        connection.setAutoFlushCommands(true);
        Check.same("all came", LettuceFutures.awaitAll(20, TimeUnit.SECONDS, all.toArray(new RedisFuture<?>[0])), true);
        Check.same("the sum", all.get(999).get(), 1000L);
        wrong.await(20, TimeUnit.SECONDS);
        Check.same("an increment of a text fails", wrong.getError() != null, true);
    }

    private void transaction() throws Exception {
        GenericObjectPoolConfig<StatefulRedisConnection<String, String>> size = new GenericObjectPoolConfig<>();
        size.setMaxTotal(4);
        int users = 6;
        int each = 20;
        try (GenericObjectPool<StatefulRedisConnection<String, String>> pool =
                ConnectionPoolSupport.createGenericObjectPool(client::connect, size)) {
            Check.atOnce(users, i -> {
                for (int done = 0; done < each;) {
                    try (StatefulRedisConnection<String, String> own = pool.borrowObject()) {
                        RedisCommands<String, String> r = own.sync();
                        r.watch("le:counter");
                        String old = r.get("le:counter");
                        String next = "" + (old == null ? 1 : Integer.parseInt(old) + 1);
                        r.multi();
                        r.set("le:counter", next);
                        r.rpush("le:log", next);
                        TransactionResult result = r.exec();
                        if (!result.wasDiscarded()) { // else somebody was quicker: again
                            done++;
                        }
                    } catch (Exception e) {
                        throw new RuntimeException(e);
                    }
                }
            });
        }
        List<String> log = redis.lrange("le:log", 0, -1);
        Check.same("entries", log.size(), users * each);
        for (int i = 0; i < log.size(); i++) {
            Check.same("entry " + i, log.get(i), "" + (i + 1));
        }
    }

    private void script() {
        redis.scriptFlush();
        redis.set("le:stock", "5");
        Check.same("the reply", take("2"), List.of(3L, "le:stock"));
        Check.same("the reply", take("2"), List.of(1L, "le:stock"));
        try {
            take("2");
            throw new AssertionError("the script's own error is not told");
        } catch (RedisCommandExecutionException e) {
            Check.same("the error", e.getMessage(), "EMPTY only 1");
        }
    }

    /** Runs the script by its hash, and sends it when the server does not know it. */
    private Object take(String n) {
        String[] keys = {"le:stock"};
        try {
            return redis.evalsha(redis.digest(Check.TAKE), ScriptOutputType.MULTI, keys, n);
        } catch (RedisNoScriptException e) {
            return redis.eval(Check.TAKE, ScriptOutputType.MULTI, keys, n);
        }
    }

    private void pubsub() throws Exception {
        List<String> got = Collections.synchronizedList(new ArrayList<>());
        try (StatefulRedisPubSubConnection<String, String> sub = client.connectPubSub()) {
            sub.addListener(new RedisPubSubAdapter<>() {
                @Override public void message(String channel, String text) { got.add(channel + " " + text); }
                @Override public void message(String p, String channel, String text) { got.add(p + " " + channel + " " + text); }
            });
            sub.sync().subscribe("le:news");
            sub.sync().psubscribe("le:log:*");
            Check.until("subscribed", () -> redis.pubsubNumpat() == 1);
            Check.same("receivers", redis.publish("le:news", "hello"), 1L);
            redis.publish("le:log:disk", "full");
            Check.until("two messages", () -> got.size() == 2);
            Check.same("what came", got, List.of("le:news hello", "le:log:* le:log:disk full"));
            Check.same("a command beside them", sub.sync().echo("x"), "x"); // with RESP3
            sub.sync().unsubscribe("le:news");
            sub.sync().punsubscribe("le:log:*");
        }
    }

    private void stream() {
        String key = "le:stream";
        int entries = 20;
        redis.xgroupCreate(XReadArgs.StreamOffset.from(key, "0"), "workers", XGroupCreateArgs.Builder.mkstream());
        for (int i = 0; i < entries; i++) {
            redis.xadd(key, Map.of("n", "" + i));
        }
        Check.same("of the dead", read(key, "dead", 1).size(), 1);
        Set<String> seen = new HashSet<>();
        for (List<StreamMessage<String, String>> batch; !(batch = read(key, "alive", 7)).isEmpty();) {
            for (StreamMessage<String, String> m : batch) {
                seen.add(m.getBody().get("n"));
                Check.same("acknowledged", redis.xack(key, "workers", m.getId()), 1L);
            }
        }
        Check.same("pending", redis.xpending(key, "workers").getCount(), 1L);
        List<StreamMessage<String, String>> taken = redis.xautoclaim(key,
            XAutoClaimArgs.Builder.xautoclaim(Consumer.from("workers", "alive"), Duration.ZERO, "0")).getMessages();
        Check.same("taken over", taken.size(), 1);
        seen.add(taken.get(0).getBody().get("n"));
        redis.xack(key, "workers", taken.get(0).getId());
        Check.same("entries seen", seen.size(), entries);
        Check.same("pending", redis.xpending(key, "workers").getCount(), 0L);
    }

    private List<StreamMessage<String, String>> read(String key, String consumer, int count) {
        try (StatefulRedisConnection<String, String> own = client.connect()) { // it blocks its connection
            return own.sync().xreadgroup(Consumer.from("workers", consumer), XReadArgs.Builder.count(count).block(50),
                XReadArgs.StreamOffset.lastConsumed(key));
        }
    }

    private void cache() throws Exception {
        try (StatefulRedisConnection<String, String> own = client.connect()) {
            Map<String, String> kept = new ConcurrentHashMap<>();
            CacheFrontend<String, String> cached = ClientSideCaching.enable(CacheAccessor.forMap(kept), own,
                TrackingArgs.Builder.enabled());
            for (int turn = 0; turn < 3; turn++) {
                String want = "value " + turn;
                redis.set("le:cached", want);
                Check.until("the new value", () -> want.equals(cached.get("le:cached")));
                for (int i = 0; i < 100; i++) {
                    Check.same("the value", cached.get("le:cached"), want);
                }
            }
            Check.same("what is kept", kept, Map.of("le:cached", "value 2"));
            redis.del("le:cached");
            Check.until("nothing is kept", kept::isEmpty);
        }
    }

    private void channel(String[] args) throws Exception {
        String[] where = args[0].split(":");
        RedisClient plain = RedisClient.create(RedisURI.create(where[0], Integer.parseInt(where[1])));
        plain.setOptions(ClientOptions.builder().protocolVersion(ProtocolVersion.RESP2).build());
        try (StatefulRedisConnection<String, String> own = plain.connect()) {
            Check.channel(args, "le-channel", words -> {
                CommandArgs<String, String> more = new CommandArgs<>(StringCodec.UTF8);
                for (int i = 1; i < words.length; i++) {
                    more.add(words[i]);
                }
                ProtocolKeyword command = new ProtocolKeyword() {
                    @Override
                    public byte[] getBytes() {
                        return words[0].getBytes(StandardCharsets.US_ASCII);
                    }

                    @Override
                    public String toString() {
                        return words[0];
                    }
                };
                List<Object> reply = own.sync().dispatch(command, new NestedMultiOutput<>(StringCodec.UTF8), more);
                return reply == null || reply.isEmpty() ? null : reply; // the null array is an empty one here
            });
        }
        plain.shutdown();
    }
}

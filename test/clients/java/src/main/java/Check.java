import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.List;
import java.util.Objects;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.ArrayList;
import java.util.function.IntConsumer;

/** What the programs of this directory share. */
final class Check {
    private Check() {}

    interface Test {
        void run() throws Exception;
    }

    /** The library does not do it with this server. */
    static final class Skipped extends Exception {
        Skipped(String why) {
            super(why);
        }
    }

    private static int failed;

    static void test(String name, Test test) {
        try {
            test.run();
            System.out.println("ok " + name);
        } catch (Skipped e) {
            System.out.println("skipped " + name + ": " + e.getMessage());
        } catch (Throwable e) {
            failed++;
            System.out.println("FAILED " + name);
            e.printStackTrace(System.out);
        }
    }

    /** Tells the library's version and ends the process. */
    static void end(String library, Class<?> part) {
        String jar = part.getProtectionDomain().getCodeSource().getLocation().getPath();
        System.out.println("client " + library + " " + jar.replaceAll(".*/[a-z-]*-([0-9.]+[0-9]).*", "$1"));
        System.exit(failed == 0 ? 0 : 1);
    }

    static void same(String what, Object got, Object want) {
        if (!Objects.equals(got, want)) {
            throw new AssertionError(what + " is " + got + ", want " + want);
        }
    }

    /** Runs f(0) ... f(n-1) at once. */
    static void atOnce(int n, IntConsumer f) throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(n);
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < n; i++) {
            int number = i;
            all.add(threads.submit(() -> f.accept(number)));
        }
        for (Future<?> one : all) {
            one.get();
        }
        threads.shutdown();
    }

    /** Waits until it is true. */
    static void until(String what, Callable<Boolean> f) throws Exception {
        for (long end = System.currentTimeMillis() + 20_000; System.currentTimeMillis() < end; Thread.sleep(2)) {
            if (f.call()) {
                return;
            }
        }
        throw new AssertionError("still not: " + what);
    }

    static final String TAKE = """
        local n = tonumber(redis.call('GET', KEYS[1]) or '0')
        if n < tonumber(ARGV[1]) then return redis.error_reply('EMPTY only ' .. n) end
        return {redis.call('DECRBY', KEYS[1], ARGV[1]), KEYS[1]}""";

    /** A command by its words, with a reply of numbers, texts, lists and null. */
    interface Sender {
        Object send(String... words) throws Exception;
    }

    /** Uses a durable channel by commands and over HTTP. */
    static void channel(String[] args, String name, Sender c) throws Exception {
        if (args.length < 2) {
            throw new Skipped("the server has no channels over HTTP");
        }
        c.send("CHSUBSCRIBE", name, "reader");
        same("the publish", c.send("CHPUBLISH", name, "m1", "{\"n\":1}"), List.of(1L, 1L));
        same("a retry", c.send("CHPUBLISH", name, "m1", "{\"n\":1}"), List.of(1L, 0L));
        String base = "http://" + args[1] + "/channel/" + name;
        ask("PUT", base + "/message/m2", "{\"n\":2}");
        List<?> read = (List<?>) c.send("CHREAD", name, "reader", "BLOCK", "1000");
        same("what is read", read.get(0), List.of(List.of(1L, "m1", "{\"n\":1}"), List.of(2L, "m2", "{\"n\":2}")));
        String polled = ask("GET", base + "/subscription/polling/reader?timeout=1s", ""); // nothing was acknowledged
        String messages = "\"messages\":[{\"messageID\":\"m1\",\"content\":{\"n\":1}},{\"messageID\":\"m2\",\"content\":{\"n\":2}}]";
        same("what is polled has the messages: " + polled, polled.contains(messages), true);
        String handle = polled.replaceAll("(?s).*\"ackHandle\":\"([^\"]*)\".*", "$1");
        ask("DELETE", base + "/subscription/polling/reader/message?ackHandle=" + handle, "");
        same("after the acknowledgement", c.send("CHREAD", name, "reader", "BLOCK", "10"), null);
    }

    private static String ask(String method, String url, String body) throws IOException, InterruptedException {
        HttpRequest request = HttpRequest.newBuilder(URI.create(url)).method(method, HttpRequest.BodyPublishers.ofString(body)).build();
        HttpResponse<String> answer = HttpClient.newHttpClient().send(request, HttpResponse.BodyHandlers.ofString());
        if (answer.statusCode() >= 300) {
            throw new IOException(method + " " + url + ": " + answer.statusCode() + " " + answer.body());
        }
        return answer.body();
    }
}

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
}

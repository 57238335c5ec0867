import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.BiConsumer;
import java.util.function.UnaryOperator;

/** What the programs with cluster clients share: work that goes on when a front end is killed. */
final class ClusterWork {
    private static final int KEYS = 64;

    private final String name;
    private final BiConsumer<String, String> set;
    private final UnaryOperator<String> get;

    ClusterWork(String name, BiConsumer<String, String> set, UnaryOperator<String> get) {
        this.name = name;
        this.set = set;
        this.get = get;
    }

    private String key(int i) {
        return name + ":" + i;
    }

    void commands() {
        for (int i = 0; i < KEYS; i++) {
            set.accept(key(i), "" + i);
        }
        for (int i = 0; i < KEYS; i++) {
            Check.same(key(i), get.apply(key(i)), "" + i);
        }
    }

    /**
     * Says "at work", and is told when a front end was killed. A command may fail when its node dies; what was
     * answered is there, and soon all keys can be used again.
     */
    void survives() throws Exception {
        AtomicBoolean killed = new AtomicBoolean();
        Thread listener = new Thread(() -> {
            try {
                new BufferedReader(new InputStreamReader(System.in)).readLine();
            } catch (java.io.IOException e) {
                e.printStackTrace(System.out);
            }
            killed.set(true);
        });
        listener.setDaemon(true);
        listener.start();
        System.out.println("at work");
        long began = System.currentTimeMillis();
        int n = 0;
        int errors = 0;
        for (boolean over = false; !over;) {
            boolean last = killed.get();
            n++;
            int before = errors;
            for (int i = 0; i < KEYS; i++) {
                try {
                    set.accept(key(i), "" + n);
                    Check.same(key(i), get.apply(key(i)), "" + n);
                } catch (RuntimeException e) {
                    errors++;
                }
            }
            over = last && errors == before;
            if (System.currentTimeMillis() - began > 120_000) {
                throw new AssertionError("still no round without an error; " + errors + " so far");
            }
        }
        for (int i = 0; i < KEYS; i++) {
            Check.same(key(i), get.apply(key(i)), "" + n);
        }
        System.out.println(n + " rounds, " + errors + " errors, " + (System.currentTimeMillis() - began) / 1000.0 + " s");
    }
}

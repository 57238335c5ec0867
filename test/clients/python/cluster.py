"""Uses the front ends of a store as programs with redis-py's cluster client do, and
goes on when one of them is killed: the program says "at work", and is told when that
has happened. It exits with 1 when a result is not what it has to be."""

import sys
import threading
import time
import traceback

import redis
from redis.cluster import ClusterNode, RedisCluster

NODES = [ClusterNode(*a.rsplit(":", 1)) for a in sys.argv[1:]]
for n in NODES:
    n.port = int(n.port)
KEYS = [f"pyc:{i}" for i in range(64)]


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, want {want!r}")


def commands(r):
    same("the nodes", len(r.get_primaries()), len(NODES))
    for i, k in enumerate(KEYS):
        r.set(k, i)
    same("the values", [r.get(k) for k in KEYS], [str(i) for i in range(len(KEYS))])
    same("the values", r.mget_nonatomic(KEYS), [str(i) for i in range(len(KEYS))])
    same("the sum", r.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, "pyc:n", 5), 5)


def pipeline(r):
    p = r.pipeline()
    for k in KEYS:
        p.incr(k)
    same("the values", p.execute(), [i + 1 for i in range(len(KEYS))])
    with r.pipeline(transaction=True) as p:
        got = p.set("{pyc}a", 1).incr("{pyc}a").get("{pyc}a").execute()
    same("the transaction", got, ["OK", 2, "2"])


def waiting(r):
    got = []
    t = threading.Thread(target=lambda: got.append(r.blpop("pyc:list", timeout=20)))
    t.start()
    r.rpush("pyc:list", "element")
    t.join()
    same("the element", got, [("pyc:list", "element")])


def messages(r):
    for publish in (r, RedisCluster(startup_nodes=NODES, decode_responses=True)):
        with r.pubsub() as p:
            p.subscribe("pyc:news")
            same("the reply", p.get_message(timeout=20)["type"], "subscribe")
            publish.publish("pyc:news", "hello")
            end = time.monotonic() + 20
            while (m := p.get_message(timeout=1)) is None and time.monotonic() < end:
                pass
            same("the message", m["data"], "hello")


def survives(r):
    """Writes on and on. A command may fail when its node dies; what was answered is
    there, and soon all keys can be used again."""
    killed = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.readline(), killed.set()), daemon=True).start()
    print("at work", flush=True)
    n, errors, began = 0, 0, time.monotonic()
    while True:
        last = killed.is_set()
        n += 1
        clean = True
        for k in KEYS:
            try:
                r.set(k, n)
                same(k, r.get(k), str(n))
            except (redis.exceptions.RedisError, OSError):
                errors += 1
                clean = False
        if last and clean:
            break
        if time.monotonic() - began > 120:
            raise AssertionError(f"still no round without an error; {errors} so far")
    same("all", r.mget_nonatomic(KEYS), [str(n)] * len(KEYS))
    print(f"{n} rounds, {errors} errors, {time.monotonic() - began:.1f} s")


def main():
    r = RedisCluster(startup_nodes=NODES, decode_responses=True, socket_timeout=20)
    failed = 0
    for f in (commands, pipeline, waiting, messages, survives):
        try:
            f(r)
            print("ok", f.__name__)
        except Exception:
            failed += 1
            print("FAILED", f.__name__)
            traceback.print_exc(file=sys.stdout)
    print("client redis-py", redis.__version__)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

"""Uses a server as programs with redis-py do: pool, pipeline, transactions that
are tried again, scripts, messages, a consumer group, a cache on the client's
side. It exits with 1 when a result is not what it has to be."""

import json
import sys
import threading
import time
import traceback
import urllib.request

import redis
from redis.cache import CacheConfig

HOST, PORT = sys.argv[1].rsplit(":", 1)
OPTIONS = dict(host=HOST, port=int(PORT), decode_responses=True, socket_timeout=20)


def client(**more):
    return redis.Redis(**OPTIONS, **more)


def same(what, got, want):
    if got != want:
        raise AssertionError(f"{what} is {got!r}, want {want!r}")


def at_once(n, f):
    """Runs f(0) ... f(n-1) on threads, and raises what one of them raised."""
    errors = []

    def run(i):
        try:
            f(i)
        except Exception as e:  # told to whoever started the thread
            errors.append(e)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def pool():
    p = redis.BlockingConnectionPool(max_connections=8, **OPTIONS)
    r = redis.Redis(connection_pool=p)

    def user(i):
        for n in range(20):
            r.set(f"py:pool:{i}", n, ex=60)
            same("the value", r.get(f"py:pool:{i}"), str(n))

    at_once(50, user)
    p.disconnect()


def pipeline():
    r = client()
    with r.pipeline(transaction=False) as p:
        for _ in range(1000):
            p.incr("py:n")
        p.set("py:text", "abc").incr("py:text")
        got = p.execute(raise_on_error=False)
    same("the sum", got[999], 1000)
    same("the text", got[1000], True)
    if not isinstance(got[1001], redis.ResponseError):
        raise AssertionError(f"an increment of a text gives {got[1001]!r}")


def transaction():
    r = client()
    users, each = 6, 20

    def user(_):
        done = 0
        while done < each:
            with r.pipeline() as p:
                try:
                    p.watch("py:counter")
                    n = int(p.get("py:counter") or 0)
                    p.multi()
                    p.set("py:counter", n + 1)
                    p.rpush("py:log", n + 1)
                    p.execute()
                    done += 1
                except redis.WatchError:
                    pass  # somebody was quicker: again

    at_once(users, user)
    same("the log", r.lrange("py:log", 0, -1), [str(i + 1) for i in range(users * each)])
    # The library's own loop.
    r.transaction(lambda p: (p.multi(), p.incr("py:counter")), "py:counter")
    same("the counter", r.get("py:counter"), str(users * each + 1))


def script():
    r = client()
    r.script_flush()
    take = r.register_script("""
        local n = tonumber(redis.call('GET', KEYS[1]) or '0')
        if n < tonumber(ARGV[1]) then return redis.error_reply('EMPTY only ' .. n) end
        return {redis.call('DECRBY', KEYS[1], ARGV[1]), KEYS[1]}""")
    try:
        r.evalsha(take.sha, 1, "py:stock", 1)
        raise AssertionError("an unknown script is run")
    except redis.exceptions.NoScriptError:
        pass
    r.set("py:stock", 5)
    same("the reply", take(keys=["py:stock"], args=[2]), [3, "py:stock"])
    same("the reply", r.evalsha(take.sha, 1, "py:stock", 2), [1, "py:stock"])
    try:
        take(keys=["py:stock"], args=[2])
        raise AssertionError("the script's own error is not told")
    except redis.ResponseError as e:
        same("the error", str(e), "EMPTY only 1")
    lock = r.lock("py:lock", timeout=10)  # made of scripts by the library
    same("taken", lock.acquire(blocking=False), True)
    same("taken twice", r.lock("py:lock").acquire(blocking=False), False)
    lock.extend(5)
    lock.release()
    same("the lock", r.exists("py:lock"), 0)


def pubsub():
    r = client()
    with r.pubsub() as p:
        p.subscribe("py:news")
        p.psubscribe("py:log:*")
        got = []

        def until(n):
            end = time.monotonic() + 20
            while len(got) < n and time.monotonic() < end:
                m = p.get_message(timeout=1)
                if m:
                    got.append((m["type"], m["pattern"], m["channel"], m["data"]))

        until(2)
        same("receivers", r.publish("py:news", "hello"), 1)
        same("receivers", r.publish("py:log:disk", "full"), 1)
        until(4)
        same("the messages", got, [
            ("subscribe", None, "py:news", 1), ("psubscribe", None, "py:log:*", 2),
            ("message", None, "py:news", "hello"), ("pmessage", "py:log:*", "py:log:disk", "full"),
        ])
        same("subscribers", r.pubsub_numsub("py:news"), [("py:news", 1)])


def stream():
    r = client()
    key, group, entries = "py:stream", "workers", 20
    r.xgroup_create(key, group, id="0", mkstream=True)
    for i in range(entries):
        r.xadd(key, {"n": i})

    def read(consumer, count):
        got = r.xreadgroup(group, consumer, {key: ">"}, count=count, block=50)
        if not got:
            return []
        if isinstance(got, dict):  # with RESP3
            return got[key][0] if isinstance(got[key][0], list) else got[key]
        return got[0][1]

    same("of the dead", len(read("dead", 1)), 1)
    seen = set()
    while batch := read("alive", 7):
        for id, fields in batch:
            seen.add(fields["n"])
            same("acknowledged", r.xack(key, group, id), 1)
    same("pending", r.xpending(key, group)["pending"], 1)
    taken = r.xautoclaim(key, group, "alive", min_idle_time=0)[1]
    same("taken over", len(taken), 1)
    seen.add(taken[0][1]["n"])
    r.xack(key, group, taken[0][0])
    same("entries seen", len(seen), entries)
    same("pending", r.xpending(key, group)["pending"], 0)


class Skipped(Exception):
    """The library does not do it with this server."""


def cache():
    r = client()
    version = r.info("server")["redis_version"]
    if [int(n) for n in version.split(".")[:2]] < [7, 4]:
        raise Skipped(f"the library wants a server that calls itself 7.4 or later, not {version}")
    cached = client(protocol=3, cache_config=CacheConfig(max_size=100))
    for turn in range(3):
        want = f"value {turn}"
        r.set("py:cached", want)
        end = time.monotonic() + 20
        while cached.get("py:cached") != want:
            if time.monotonic() > end:
                raise AssertionError("the cache keeps an old value")
        for _ in range(100):
            same("the value", cached.get("py:cached"), want)
    same("what is cached", [k.redis_keys for k in cached.get_cache().collection], [("py:cached",)])


def channel():
    if len(sys.argv) < 3:
        raise Skipped("the server has no channels over HTTP")
    r = client(protocol=2)
    r.execute_command("CHSUBSCRIBE", "py-channel", "reader")
    same("the publish", r.execute_command("CHPUBLISH", "py-channel", "m1", '{"n":1}'), [1, 1])
    same("a retry", r.execute_command("CHPUBLISH", "py-channel", "m1", '{"n":1}'), [1, 0])

    def ask(method, path, body=None):
        url = f"http://{sys.argv[2]}/channel/py-channel{path}"
        with urllib.request.urlopen(urllib.request.Request(url, method=method, data=body), timeout=20) as res:
            return res.read()

    ask("PUT", "/message/m2", b'{"n":2}')
    messages, _, _ = r.execute_command("CHREAD", "py-channel", "reader", "BLOCK", 1000)
    same("what is read", messages, [[1, "m1", '{"n":1}'], [2, "m2", '{"n":2}']])
    polled = json.loads(ask("GET", "/subscription/polling/reader?timeout=1s"))  # nothing was acknowledged
    same("what is polled", [m["content"] for m in polled["messages"]], [{"n": 1}, {"n": 2}])
    ask("DELETE", "/subscription/polling/reader/message?ackHandle=" + polled["ackHandle"])
    same("after the acknowledgement", r.execute_command("CHREAD", "py-channel", "reader", "BLOCK", 10), None)


def main():
    client().flushall()
    failed = 0
    for f in (pool, pipeline, transaction, script, pubsub, stream, cache, channel):
        try:
            f()
            print("ok", f.__name__)
        except Skipped as e:
            print("skipped", f.__name__ + ":", e)
        except Exception:
            failed += 1
            print("FAILED", f.__name__)
            traceback.print_exc(file=sys.stdout)
    print("client redis-py", redis.__version__)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

//! Uses a server as programs with redis-rs do: pool, pipeline, transactions that
//! are tried again, scripts, messages, a consumer group, a cache on the client's
//! side. It exits with 1 when a result is not what it has to be.

use redis::streams::{StreamAutoClaimOptions, StreamAutoClaimReply, StreamPendingReply, StreamReadOptions, StreamReadReply};
use redis::{AsyncCommands, Client, Commands, Connection, ErrorKind, RedisResult, Script, ServerErrorKind};
use std::collections::HashSet;
use std::error::Error;
use std::fmt::Debug;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

type Outcome = Result<(), Box<dyn Error + Send + Sync>>;

fn main() {
    let address = std::env::args().nth(1).expect("usage: redoubt-clients HOST:PORT");
    let client = Client::open(format!("redis://{address}/?protocol=resp3")).expect("the address");
    let mut first = client.get_connection().expect("a connection");
    redis::cmd("FLUSHALL").exec(&mut first).expect("flush");
    let tests: [(&str, fn(&Client) -> Outcome); 8] = [
        ("pool", pool),
        ("pipeline", pipeline),
        ("transaction", transaction),
        ("script", script),
        ("pubsub", pubsub),
        ("stream", stream),
        ("cache", cache),
        ("channel", channel),
    ];
    let mut failed = false;
    for (name, test) in tests {
        match test(&client) {
            Ok(()) => println!("ok {name}"),
            Err(e) => {
                println!("FAILED {name}: {e}");
                failed = true;
            }
        }
    }
    println!("client redis-rs 1.8.1");
    std::process::exit(failed as i32);
}

fn same<T: PartialEq + Debug>(what: &str, got: T, want: T) -> Outcome {
    if got == want {
        return Ok(());
    }
    Err(format!("{what} is {got:?}, want {want:?}").into())
}

/// Runs f(0) ... f(n-1) on threads.
fn at_once(n: usize, f: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    std::thread::scope(|s| {
        let all: Vec<_> = (0..n).map(|i| s.spawn({ let f = &f; move || f(i) })).collect();
        all.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked")?)
    })
}

fn pool(client: &Client) -> Outcome {
    let pool = r2d2::Pool::builder().max_size(8).build(client.clone())?;
    at_once(50, |i| {
        for n in 0..20 {
            let key = format!("rs:pool:{i}");
            let mut c = pool.get()?;
            let () = c.set_ex(&key, n, 60)?;
            same("the value", c.get::<_, i32>(&key)?, n)?;
        }
        Ok(())
    })
}

fn pipeline(client: &Client) -> Outcome {
    let mut c = client.get_connection()?;
    let mut pipe = redis::pipe();
    for _ in 0..1000 {
        pipe.incr("rs:n", 1);
    }
    let sums: Vec<i64> = pipe.query(&mut c)?;
    same("the sum", sums[999], 1000)?;
    let got: (String, i64) = redis::pipe().set("rs:text", "abc").ignore().get("rs:text").strlen("rs:text").query(&mut c)?;
    same("the replies", got, ("abc".to_string(), 3))?;
    let wrong: RedisResult<i64> = c.incr("rs:text", 1);
    same("an increment of a text fails", wrong.is_err(), true)
}

fn transaction(client: &Client) -> Outcome {
    const USERS: usize = 6;
    const EACH: usize = 20;
    at_once(USERS, |_| {
        let mut c = client.get_connection()?;
        for _ in 0..EACH {
            // The library watches, and calls this again when somebody was quicker.
            let _: (i64,) = redis::transaction(&mut c, &["rs:counter"], |c: &mut Connection, pipe| {
                let n: Option<i64> = c.get("rs:counter")?;
                let next = n.unwrap_or(0) + 1;
                pipe.set("rs:counter", next).ignore().rpush("rs:log", next).query(c)
            })?;
        }
        Ok(())
    })?;
    let log: Vec<usize> = client.get_connection()?.lrange("rs:log", 0, -1)?;
    same("the log", log, (1..=USERS * EACH).collect())
}

fn script(client: &Client) -> Outcome {
    let mut c = client.get_connection()?;
    redis::cmd("SCRIPT").arg("FLUSH").exec(&mut c)?;
    let take = Script::new(
        r"local n = tonumber(redis.call('GET', KEYS[1]) or '0')
        if n < tonumber(ARGV[1]) then return redis.error_reply('EMPTY only ' .. n) end
        return {redis.call('DECRBY', KEYS[1], ARGV[1]), KEYS[1]}",
    );
    let unknown: RedisResult<i64> = redis::cmd("EVALSHA").arg(take.get_hash()).arg(0).query(&mut c);
    let kind = unknown.err().map(|e| e.kind());
    same("an unknown script", kind, Some(ErrorKind::Server(ServerErrorKind::NoScript)))?;
    let () = c.set("rs:stock", 5)?;
    for left in [3, 1] {
        let got: (i64, String) = take.key("rs:stock").arg(2).invoke(&mut c)?;
        same("the reply", got, (left, "rs:stock".to_string()))?;
    }
    let empty: RedisResult<i64> = take.key("rs:stock").arg(2).invoke(&mut c);
    same("the error", empty.err().and_then(|e| e.code().map(str::to_string)), Some("EMPTY".to_string()))
}

fn pubsub(client: &Client) -> Outcome {
    let (mut subscriber, mut c) = (client.get_connection()?, client.get_connection()?);
    let mut sub = subscriber.as_pubsub();
    sub.set_read_timeout(Some(Duration::from_secs(20)))?;
    sub.subscribe("rs:news")?;
    sub.psubscribe("rs:log:*")?;
    same("receivers", c.publish::<_, _, i64>("rs:news", "hello")?, 1)?;
    same("receivers", c.publish::<_, _, i64>("rs:log:disk", "full")?, 1)?;
    for want in [("rs:news", None, "hello"), ("rs:log:disk", Some("rs:log:*"), "full")] {
        let m = sub.get_message()?;
        let pattern: Option<String> = m.get_pattern()?;
        same("the channel", m.get_channel_name(), want.0)?;
        same("the pattern", pattern.as_deref(), want.1)?;
        same("the message", m.get_payload::<String>()?.as_str(), want.2)?;
    }
    Ok(())
}

fn stream(client: &Client) -> Outcome {
    const KEY: &str = "rs:stream";
    const ENTRIES: usize = 20;
    let mut c = client.get_connection()?;
    let () = c.xgroup_create_mkstream(KEY, "workers", "0")?;
    for i in 0..ENTRIES {
        let () = c.xadd(KEY, "*", &[("n", i)])?;
    }
    let read = |consumer: &str, count: usize| -> RedisResult<Vec<(String, usize)>> {
        let options = StreamReadOptions::default().group("workers", consumer).count(count).block(50);
        let got: Option<StreamReadReply> = client.get_connection()?.xread_options(&[KEY], &[">"], &options)?;
        let ids = got.into_iter().flat_map(|r| r.keys).flat_map(|k| k.ids);
        Ok(ids.map(|e| (e.id.clone(), e.get("n").expect("a field"))).collect())
    };
    same("of the dead", read("dead", 1)?.len(), 1)?;
    let mut seen = HashSet::new();
    loop {
        let batch = read("alive", 7)?;
        if batch.is_empty() {
            break;
        }
        for (id, n) in batch {
            seen.insert(n);
            same("acknowledged", c.xack::<_, _, _, i64>(KEY, "workers", &[id])?, 1)?;
        }
    }
    let pending = |c: &mut Connection| -> RedisResult<usize> { Ok(c.xpending::<_, _, StreamPendingReply>(KEY, "workers")?.count()) };
    same("pending", pending(&mut c)?, 1)?;
    let taken: StreamAutoClaimReply = c.xautoclaim_options(KEY, "workers", "alive", 0, "0", StreamAutoClaimOptions::default())?;
    same("taken over", taken.claimed.len(), 1)?;
    seen.insert(taken.claimed[0].get("n").expect("a field"));
    let () = c.xack(KEY, "workers", &[&taken.claimed[0].id])?;
    same("entries seen", seen.len(), ENTRIES)?;
    same("pending", pending(&mut c)?, 0)
}

fn cache(client: &Client) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    runtime.block_on(async {
        let config = redis::AsyncConnectionConfig::new().set_cache_config(redis::caching::CacheConfig::default());
        let mut cached = client.get_multiplexed_async_connection_with_config(&config).await?;
        let mut c = client.get_multiplexed_async_connection().await?;
        for turn in 0..3 {
            let want = format!("value {turn}");
            let () = c.set("rs:cached", &want).await?;
            let end = Instant::now() + Duration::from_secs(20);
            while cached.get::<_, Option<String>>("rs:cached").await?.as_ref() != Some(&want) {
                if Instant::now() > end {
                    return Err("the cache keeps an old value".into());
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            for _ in 0..100 {
                same("the value", cached.get::<_, String>("rs:cached").await?, want.clone())?;
            }
        }
        let hits = cached.get_cache_statistics().map_or(0, |s| s.hit);
        same("the cache was used", hits >= 300, true)
    })
}

/// A durable channel by commands and over HTTP.
fn channel(client: &Client) -> Outcome {
    let Some(http) = std::env::args().nth(2) else {
        println!("skipped channel: the server has no channels over HTTP");
        return Ok(());
    };
    let plain = Client::open(client.get_connection_info().clone().set_redis_settings(Default::default()))?; // RESP2
    let mut c = plain.get_connection()?;
    let reader = |words: &[&str]| {
        let mut cmd = redis::cmd(words[0]);
        cmd.arg("rs-channel").arg(&words[1..]);
        cmd
    };
    reader(&["CHSUBSCRIBE", "reader"]).exec(&mut c)?;
    for new in [1, 0] {
        // the second one is a retry
        let got: (i64, i64) = reader(&["CHPUBLISH", "m1", "{\"n\":1}"]).query(&mut c)?;
        same("the publish", got, (1, new))?;
    }
    let ask = |method: &str, path: &str, body: &str| -> Result<String, Box<dyn Error + Send + Sync>> {
        let mut conn = TcpStream::connect(&http)?;
        conn.set_read_timeout(Some(Duration::from_secs(20)))?;
        let size = body.len();
        write!(conn, "{method} /channel/rs-channel{path} HTTP/1.1\r\nHost: {http}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n{body}")?;
        let mut answer = String::new();
        conn.read_to_string(&mut answer)?;
        if !answer.starts_with("HTTP/1.1 20") {
            return Err(format!("{method} {path}: {answer}").into());
        }
        Ok(answer)
    };
    ask("PUT", "/message/m2", "{\"n\":2}")?;
    type Fetched = Option<(Vec<(i64, String, String)>, i64, Option<String>)>;
    let (messages, ..) = reader(&["CHREAD", "reader", "BLOCK", "1000"]).query::<Fetched>(&mut c)?.ok_or("nothing is read")?;
    let of = |clock: i64| (clock, format!("m{clock}"), format!("{{\"n\":{clock}}}"));
    same("what is read", messages, vec![of(1), of(2)])?;
    let polled = ask("GET", "/subscription/polling/reader?timeout=1s", "")?; // nothing was acknowledged
    let want = r#""messages":[{"messageID":"m1","content":{"n":1}},{"messageID":"m2","content":{"n":2}}]"#;
    same(&polled, polled.contains(want), true)?;
    let handle = polled.split("\"ackHandle\":\"").nth(1).and_then(|rest| rest.split('"').next()).ok_or("there is no handle")?;
    ask("DELETE", &format!("/subscription/polling/reader/message?ackHandle={handle}"), "")?;
    same("after the acknowledgement", reader(&["CHREAD", "reader", "BLOCK", "10"]).query::<Fetched>(&mut c)?, None)
}

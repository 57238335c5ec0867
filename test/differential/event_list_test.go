package differential

import (
	"strings"
	"testing"

	"redoubt/internal/testserver"
)

// eventCommands has every way in which a command makes events, or makes none. The
// random sequences seldom come to some of them.
const eventCommands = `
SET a 1; SET a 1 XX; SET a 1 EX 100; SET a 2 KEEPTTL; SET a 3 GET; SET a 4 NX; SETNX a 1; SETNX b 1; SETEX a 100 1; PSETEX a 100000 1
GETSET a 5; GETSET new 1; GETDEL new; GETDEL new; GETEX a; GETEX a EX 100; GETEX a PERSIST; GETEX a PERSIST; GETEX a PXAT 1; GETEX missing
APPEND a x; APPEND a2 x; SETRANGE a 1 y; SETRANGE a 1 ""; SETRANGE a3 0 ""; SETRANGE a3 2 x; INCR n; DECR n; INCRBY n 5; DECRBY n 2; INCRBYFLOAT n 1.5
MSET m1 1 m2 2; MSETNX m1 1 m3 3; MSETNX m3 1 m4 1; GET missing; MGET a missing; STRLEN missing; EXISTS missing; TYPE missing; TTL missing
SETBIT bm 7 1; SETBIT bm 7 1; GETBIT missing 1; BITOP AND bd bm bm; BITOP AND bd missing missing; BITOP AND bd missing missing; BITFIELD bm SET u8 0 1
BITFIELD bm GET u8 0; BITFIELD bm INCRBY u8 0 1 SET u8 8 1; BITFIELD bm OVERFLOW FAIL INCRBY u8 0 255; BITFIELD_RO bm GET u8 0
PFADD hll a b; PFADD hll a; PFADD hll; PFADD hll2; PFMERGE hll3 hll hll2; PFMERGE hll; PFCOUNT hll; PFCOUNT hll hll2
DEL a b; DEL a b missing; UNLINK m1 m2 missing; SET a 1; EXPIRE a 100; EXPIRE a 100 NX; PEXPIRE a 100000; EXPIREAT a 99999999999; PEXPIREAT a 99999999999999
PERSIST a; PERSIST a; EXPIRE a -1; EXPIRE missing 1; SET a 1; EXPIREAT a 1; SET a 1; RENAME a b; RENAME b b; SET c 1; RENAME b c; RENAMENX c d; SET e 1; RENAMENX d e
COPY d f; COPY d f; COPY d f REPLACE; COPY d d2 DB 2; MOVE d 3; MOVE d 3; SET d 1; MOVE d 3; TOUCH d; TOUCH missing; OBJECT ENCODING missing; DUMP missing
SET s1 1 EX 100; SET s2 2; RENAME s2 s1; COPY s1 s3; EXPIRE s1 100; RENAME s1 s4; PERSIST s4
LPUSH l 1 2 3; RPUSH l 4; LPUSHX l 0; LPUSHX lm 0; RPUSHX lm 0; LINSERT l BEFORE 4 x; LINSERT l AFTER nope x; LINSERT lm AFTER a b; LSET l 0 z; LREM l 1 z; LREM l 1 nope
LPOP l; RPOP l; LPOP l 2; LPOP l 0; LPOP missing; LPOP missing 1; RPUSH l a b c d; LTRIM l 1 2; LTRIM l 5 6; LTRIM missing 0 1; RPUSH l a; LREM l 0 a
RPUSH l a b c; RPOPLPUSH l l2; LMOVE l l2 LEFT RIGHT; LMOVE l2 l2 LEFT RIGHT; LMOVE l l2 LEFT LEFT; LMOVE l l2 LEFT LEFT; LMPOP 2 l l2 LEFT; LMPOP 1 l2 RIGHT COUNT 10
LMPOP 1 l2 LEFT; RPUSH l a b c d; BLPOP l 1; BRPOP l 1; BRPOPLPUSH l l2 1; BLMOVE l l2 LEFT RIGHT 1; RPUSH l 1 2; BLMPOP 1 1 l LEFT COUNT 5; LRANGE missing 0 -1; LPOS missing 1
SADD s a b c; SADD s a; SREM s a; SREM s nope; SREM missing a; SMOVE s t b; SMOVE s t nope; SMOVE s t c; SMOVE missing t x; SADD s a; SPOP s; SPOP s; SADD s a b; SPOP s 5
SADD s a b; SPOP s 0; SADD s1x a b; SADD s2x b c; SINTERSTORE d s1x s2x; SUNIONSTORE d s1x s2x; SDIFFSTORE d s1x s2x; SINTERSTORE d s1x missing; SINTERSTORE d s1x missing
SUNIONSTORE d missing; SDIFFSTORE d missing s1x; SREM s a b; SRANDMEMBER missing; SMEMBERS missing; SINTER s1x missing; SINTERCARD 1 missing
HSET h a 1 b 2; HSET h a 1; HMSET h a 1; HSETNX h a 1; HSETNX h c 1; HINCRBY h n 1; HINCRBYFLOAT h n 1.5; HDEL h a; HDEL h nope; HDEL missing a; HDEL h b c n; HGET missing a
HGETALL missing; HRANDFIELD missing; HSTRLEN missing a
ZADD z 1 a 2 b; ZADD z 1 a; ZADD z 5 a; ZADD z XX 1 nope; ZADD z INCR 1 a; ZADD z NX INCR 1 a; ZINCRBY z 1 a; ZINCRBY z 1 c; ZREM z a; ZREM z nope; ZREM missing a
ZPOPMIN z; ZPOPMAX z; ZPOPMIN z; ZPOPMIN missing; ZADD z 1 a 2 b 3 c; ZPOPMIN z 0; ZPOPMIN z 2; BZPOPMIN z 1; ZADD z 1 a 2 b; BZPOPMAX z 1; ZMPOP 1 z MIN; ZMPOP 1 z MIN
ZADD z 1 a 2 b 3 c; BZMPOP 1 1 z MIN COUNT 2; ZREMRANGEBYRANK z 0 0; ZADD z 1 a 2 b 3 c; ZREMRANGEBYSCORE z 1 1; ZREMRANGEBYSCORE z 100 200; ZREMRANGEBYLEX z - [b; ZREMRANGEBYLEX z - +
ZREMRANGEBYLEX z - +; ZADD z1 1 a 2 b; ZADD z2 1 b 2 c; ZUNIONSTORE zd 2 z1 z2; ZINTERSTORE zd 2 z1 z2; ZDIFFSTORE zd 2 z1 z2; ZINTERSTORE zd 2 z1 missing; ZINTERSTORE zd 2 z1 missing
ZRANGESTORE zd z1 0 -1; ZRANGESTORE zd z1 5 6; ZRANGESTORE zd missing 0 -1; ZRANGESTORE zd z1 0 0; ZRANGESTORE zd missing 0 -1; ZSCORE missing a; ZRANGE missing 0 -1; ZUNION 1 missing
GEOADD g 13 38 p 15 37 q; GEOADD g 13 38 p; GEOADD g CH 13 38.1 p; GEOSEARCHSTORE gd g FROMMEMBER p BYRADIUS 500 km ASC; GEOSEARCHSTORE gd g FROMLONLAT 0 0 BYRADIUS 1 m ASC
GEORADIUS g 13 38 500 km STORE gd; GEORADIUSBYMEMBER g p 500 km STOREDIST gd; GEORADIUS g 0 0 1 m STORE gd; GEORADIUS g 0 0 1 m STORE gd; GEOPOS missing a; GEODIST missing a b
RPUSH sl 3 1 2; SORT sl STORE sd; SORT missing STORE sd; SORT missing STORE sd; SORT missing; SORT_RO missing
XADD x 1-1 a b; XADD x MAXLEN = 1 2-1 a b; XADD x NOMKSTREAM 3-1 a b; XADD xm NOMKSTREAM 3-1 a b; XTRIM x MAXLEN = 1; XTRIM x MAXLEN = 1; XDEL x 3-1; XDEL x 3-1; XSETID x 9-9
XGROUP CREATE x g $; XGROUP CREATE xn g $ MKSTREAM; XGROUP SETID x g 0; XGROUP CREATECONSUMER x g c; XGROUP CREATECONSUMER x g c; XADD x 10-1 a b; XREADGROUP GROUP g c STREAMS x >
XREADGROUP GROUP g d STREAMS x >; XREADGROUP GROUP g d STREAMS x 0; XACK x g 10-1; XADD x 11-1 a b; XREADGROUP GROUP g c STREAMS x >; XCLAIM x g e 0 11-1; XCLAIM x g e 0 11-1 JUSTID
XAUTOCLAIM x g f 0 0; XAUTOCLAIM x g f2 0 0 JUSTID; XGROUP DELCONSUMER x g f; XGROUP DELCONSUMER x g nope; XGROUP DESTROY x g; XGROUP DESTROY x g; XREAD STREAMS missing 0; XLEN missing
XADD x MINID = 11 12-1 a b; XDEL x 11-1 12-1; XRANGE missing - +
SET r1 v; RESTORE r2 0 x; DEBUG JMAP; FLUSHDB; SET a 1; SWAPDB 0 5; SWAPDB 0 5; FLUSHALL; SET a 1; SELECT 3; SET b 1; MOVE b 0; SELECT 0; RANDOMKEY; KEYS *; SCAN 0; DBSIZE
MULTI; SET t1 1; RPUSH tl a; DEL t1; RPOP tl; GET t1; EXEC; WATCH a; MULTI; INCR a; EXEC
SET e2 1; PEXPIREAT e2 1; RESTORE e1 0 bad; OBJECT FREQ a; GETRANGE missing 0 1; SUBSTR missing 0 1; LCS missing missing2; HSCAN missing 0
`

// TestEventsOfEachCommand compares the events of the commands above with those of a
// real Redis.
func TestEventsOfEachCommand(t *testing.T) {
	testserver.Oracle(t)
	var ops []op
	for line := range strings.Lines(eventCommands) {
		for cmd := range strings.SplitSeq(line, ";") {
			if args := strings.Fields(cmd); len(args) > 0 {
				for i, a := range args {
					args[i] = strings.ReplaceAll(a, `""`, "")
				}
				ops = append(ops, op{args: args})
			}
		}
	}
	redis := redisTarget(t)
	theirs, err := (&eventTarget{*redis}).run(ops, 2)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []testserver.Options{{Engine: "mem"}, {Engine: "mem", Pipes: true}, {Engine: "local"}, {Engine: "cold"}} {
		target := &eventTarget{*redoubtTarget(t, o, true, 1)}
		ours, err := target.run(ops, 2)
		if err != nil {
			t.Fatal(err)
		}
		for i := range ops {
			if ours[i] != theirs[i] {
				t.Errorf("%s\n%s: %s\n%s: %s", show(ops[i]), redis.label, theirs[i], target.label, ours[i])
			}
		}
	}
}

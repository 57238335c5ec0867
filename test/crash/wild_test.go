package crash

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"

	"redoubt/internal/respclient"
)

// Wild clients use commands whose outcome nobody can foretell, on keys of their
// own that they share: random members, approximate trims, keys that die, values
// that become others. What they leave is held to nothing but `redoubt check`, and
// can be read.

const wildDB = "5"

// wild are commands; %h, %l, %s, %z, %x name a key of a type, %n is a number, %m a
// member, %v a value, %d the ID of an entry, %c a consumer.
var wild = strings.Split(strings.TrimSpace(`
HSET %h %m %v %m %v %m %v
HSET %h %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v %m %v
HPEXPIRE %h %n FIELDS 3 %m %m %m
HPEXPIRE %h 1 FIELDS 2 %m %m
HGETDEL %h FIELDS 2 %m %m
HGETEX %h PX %n FIELDS 2 %m %m
HINCRBYFLOAT %h %m 1.5
HSETNX %h %m 1
RPUSH %l %v %v %v
LPUSH %l %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v %v
LREM %l 0 %v
LTRIM %l %n -1
LMPOP 2 %l %l LEFT COUNT 5
RPOPLPUSH %l %l
SORT %l BY nosort STORE %l
SADD %s %m %m %m %m %m
SADD %s %n %n %n
SADD %s %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m %m
SPOP %s
SPOP %s 7
SPOP %s %n
SINTERSTORE %s %s %s
SDIFFSTORE %s %s %s
ZADD %z GT %n %m %n %m
ZADD %z %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m %n %m
ZUNIONSTORE %z 3 %z %z %s
ZINTERSTORE %z 2 %z %z
ZDIFFSTORE %z 2 %z %z
ZRANGESTORE %z %z %n -1
ZREMRANGEBYSCORE %z %n +inf
ZREMRANGEBYRANK %z %n 300
ZPOPMAX %z %n
ZMPOP 2 %z %z MIN COUNT 20
GEOADD %z 13.36 38.11 %m 15.08 37.5 %m
XADD %x * %m %v
XADD %x * %m %v %m %v
XADD %x MAXLEN ~ 50 * %m %v
XADD %x MINID ~ %d * %m %v
XTRIM %x MAXLEN ~ %n
XTRIM %x MAXLEN ~ %n LIMIT 20
XDEL %x %d %d
XGROUP CREATE %x g $ MKSTREAM
XGROUP CREATE %x h 0
XGROUP SETID %x g 0
XGROUP DELCONSUMER %x g %c
XGROUP DESTROY %x h
XREADGROUP GROUP g %c COUNT 10 STREAMS %x >
XREADGROUP GROUP h %c COUNT 30 STREAMS %x >
XREADGROUP GROUP g %c COUNT 5 STREAMS %x 0
XAUTOCLAIM %x g %c 0 0 COUNT 10
XCLAIM %x g %c 0 %d FORCE
XACK %x g %d %d
XSETID %x 99999999999999-0
DEL %h %l
UNLINK %s %z %x
RENAME %h %h
RENAME %z %z
RENAME %x %x
COPY %h %h REPLACE
COPY %z %z REPLACE
COPY %x %x REPLACE
SET %s %v
DEL %s
PEXPIRE %h %n
PEXPIRE %z %n
PEXPIRE %x %n
MOVE %l 6
MOVE %z 6
FLUSHDB
`), "\n")

// runWild sends wild commands until the connection breaks.
func runWild(addr string, rng *rand.Rand) error {
	conn, err := respclient.Dial(addr)
	if err != nil {
		return nil
	}
	defer conn.Close()
	if _, err := conn.Do("SELECT", wildDB); err != nil {
		return nil
	}
	for {
		line := wild[rng.IntN(len(wild))]
		if line == "FLUSHDB" && rng.IntN(20) > 0 {
			continue
		}
		args := strings.Fields(line)
		for i, a := range args {
			if len(a) == 2 && a[0] == '%' {
				args[i] = wildWord(rng, a[1])
			}
		}
		v, err := conn.Do(args...)
		if err != nil {
			return nil
		}
		if text := v.String(); v.IsError() && (strings.Contains(text, "corrupt") || strings.Contains(text, "unknown command") ||
			strings.Contains(text, "syntax error")) {
			return fmt.Errorf("%q answers %s", args, text)
		}
	}
}

func wildWord(rng *rand.Rand, what byte) string {
	switch what {
	case 'n':
		return strconv.Itoa(rng.IntN(100))
	case 'm':
		return fmt.Sprintf("member%d", rng.IntN(800))
	case 'v':
		return strings.Repeat("v", 1+rng.IntN(70)) + strconv.Itoa(rng.IntN(10))
	case 'd':
		return fmt.Sprintf("99999999999999-%d", rng.IntN(200))
	case 'c':
		return string('a' + byte(rng.IntN(4)))
	}
	return fmt.Sprintf("wild:%c:%d", what, rng.IntN(3))
}

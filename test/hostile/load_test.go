package hostile

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"redoubt/internal/respclient"
)

// Scenarios of plain load with much more data than memory.
var loadScenarios = []scenario{
	{name: "mixed-64mb", memory: 64 << 20, run: mixedFor(2*time.Minute, 10*time.Second)},
	{name: "mixed-128mb", memory: 128 << 20, run: mixedFor(10*time.Minute, 20*time.Second)},
	{name: "mixed-256mb", memory: 256 << 20, full: true, run: mixedFor(2*time.Minute, 0)},
	{name: "kill-64mb", memory: 64 << 20, run: killed},
}

// mix is a load of all types on four times as much data as there is memory. Its keys
// are numbers: the number says which type a key has and how large it is. Most are
// small; one of a thousand is a string of up to a megabyte, and vast is a hash and a
// sorted set with a tenth of the data.
type mix struct {
	keys  int
	vast  int
	value []byte
}

// meanSize is what a key of the mix takes, about, vastSize a field of the vast hash
// together with a member of the vast sorted set.
const (
	meanSize = 1900
	vastSize = 250
)

func newMix(memory int64) *mix {
	m := &mix{keys: int(4 * memory / meanSize * 9 / 10), vast: int(4 * memory / 10 / vastSize), value: make([]byte, megabyte)}
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range m.value { // half as large when it is compressed
		m.value[i] = "0123456789abcdef"[rng.IntN(16)]
	}
	return m
}

// text is some text of a length that is random, at most most and mostly much smaller.
func (m *mix) text(rng *rand.Rand, most int) string {
	n := most >> rng.IntN(8)
	n = n/2 + rng.IntN(n/2+1)
	at := rng.IntN(len(m.value) - n + 1)
	return string(m.value[at : at+n])
}

// write appends a command that writes a key: one that is new in part, if it is a
// collection.
func (m *mix) write(rng *rand.Rand, b []byte, key int) []byte {
	name := "key:" + strconv.Itoa(key)
	switch kind := key % 100; {
	case key%1000 == 999: // a few strings are large
		return respclient.AppendCommand(b, "SET", name, string(m.value[:rng.IntN(megabyte)]))
	case kind < 60:
		return respclient.AppendCommand(b, "SET", name, m.text(rng, 8<<10))
	case kind < 70:
		args := []string{"HSET", name}
		for range 20 {
			args = append(args, "field:"+strconv.Itoa(rng.IntN(200)), m.text(rng, 256))
		}
		return respclient.AppendCommand(b, args...)
	case kind < 80:
		args := []string{"ZADD", name}
		for range 20 {
			args = append(args, strconv.Itoa(rng.IntN(1000)), "member:"+strconv.Itoa(rng.IntN(200)))
		}
		return respclient.AppendCommand(b, args...)
	case kind < 90:
		args := []string{"SADD", name}
		for range 20 {
			args = append(args, "member:"+strconv.Itoa(rng.IntN(400)))
		}
		return respclient.AppendCommand(b, args...)
	}
	return respclient.AppendCommand(b, "RPUSH", name, m.text(rng, 2<<10), m.text(rng, 2<<10))
}

// read appends a command that reads a key.
func (m *mix) read(b []byte, key int) []byte {
	name := "key:" + strconv.Itoa(key)
	switch kind := key % 100; {
	case kind < 60 || key%1000 == 999:
		return respclient.AppendCommand(b, "GET", name)
	case kind < 70:
		return respclient.AppendCommand(b, "HGETALL", name)
	case kind < 80:
		return respclient.AppendCommand(b, "ZRANGE", name, "0", "50", "WITHSCORES")
	case kind < 90:
		return respclient.AppendCommand(b, "SMEMBERS", name)
	}
	return respclient.AppendCommand(b, "LRANGE", name, "0", "20")
}

// wide appends a command on what is large.
func (m *mix) wide(rng *rand.Rand, b []byte) []byte {
	key := rng.IntN(m.keys/1000+1)*1000 + 999
	switch n := rng.IntN(1000); {
	case n < 150:
		return m.read(b, key)
	case n < 300:
		return m.write(rng, b, key)
	case n < 304:
		return respclient.AppendCommand(b, "HGETALL", "vast:hash")
	case n < 308:
		return respclient.AppendCommand(b, "ZRANGE", "vast:zset", "0", "-1")
	case n < 400:
		return respclient.AppendCommand(b, "ZRANGE", "vast:zset", strconv.Itoa(rng.IntN(m.vast)), "+inf", "BYSCORE", "LIMIT", "0", "1000")
	case n < 600:
		return m.widen(rng, b, 20)
	case n < 800:
		return respclient.AppendCommand(b, "HMGET", "vast:hash", m.field(rng), m.field(rng), m.field(rng))
	}
	return respclient.AppendCommand(b, "ZADD", "vast:zset", strconv.Itoa(rng.IntN(m.vast)), m.field(rng))
}

func (m *mix) field(rng *rand.Rand) string { return "field:" + strconv.Itoa(rng.IntN(m.vast)) }

// widen appends a command that adds fields to the vast hash.
func (m *mix) widen(rng *rand.Rand, b []byte, n int) []byte {
	args := []string{"HSET", "vast:hash"}
	for range n {
		args = append(args, m.field(rng), m.text(rng, 512))
	}
	return respclient.AppendCommand(b, args...)
}

// next appends some command.
func (m *mix) next(rng *rand.Rand, b []byte) []byte {
	if rng.IntN(50) == 0 {
		return m.wide(rng, b)
	}
	key := rng.IntN(m.keys)
	if rng.IntN(2) == 0 {
		key = rng.IntN(m.keys/20 + 1) // half of all goes to few keys
	}
	name := "key:" + strconv.Itoa(key)
	switch n := rng.IntN(100); {
	case n < 50:
		return m.read(b, key)
	case n < 90:
		return m.write(rng, b, key)
	case n < 92:
		return respclient.AppendCommand(b, "DEL", name)
	case n < 94:
		return respclient.AppendCommand(b, "EXPIRE", name, strconv.Itoa(1+rng.IntN(60)))
	case n < 96:
		return respclient.AppendCommand(b, "SCAN", strconv.FormatUint(rng.Uint64()>>16, 10), "COUNT", "20")
	case n < 98 && key%100 >= 90 && key%1000 != 999:
		return respclient.AppendCommand(b, "LTRIM", name, "-10", "-1")
	}
	args := []string{"MGET"}
	for range 10 {
		args = append(args, "key:"+strconv.Itoa(rng.IntN(m.keys)))
	}
	return respclient.AppendCommand(b, args...)
}

// fill writes every key once.
func (m *mix) fill(s *site, clients int) {
	s.Helper()
	s.fill(m.vast, "ZADD", "vast:zset", func(i int) []string { return []string{strconv.Itoa(i), "field:" + strconv.Itoa(i)} })
	rng := rand.New(rand.NewPCG(1, 3))
	s.fill(m.vast, "HSET", "vast:hash", func(i int) []string { return []string{"field:" + strconv.Itoa(i), m.text(rng, 512)} })
	var next atomic.Int64
	var all sync.WaitGroup
	for i := range clients {
		conn, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		all.Go(func() {
			rng, r := rand.New(rand.NewPCG(uint64(i), 3)), reader(conn)
			for {
				var b []byte
				from := int(next.Add(16)) - 16
				if from >= m.keys {
					return
				}
				for key := from; key < from+16; key++ {
					b = m.write(rng, b, key)
				}
				if err := exchange(conn, r, b, 16); err != nil {
					s.Errorf("filling: %v", err)
					return
				}
			}
		})
	}
	all.Wait()
}

// exchange sends commands and reads as many replies. It fails if one is an error.
func exchange(conn net.Conn, r *bufio.Reader, b []byte, n int) error {
	end := time.Now().Add(exchangeLimit)
	if err := deadline(conn, end); err != nil {
		return err
	}
	if _, err := conn.Write(b); err != nil {
		return err
	}
	var first error
	for range n {
		if what := take(r); what == closed {
			if time.Now().After(end) {
				return fmt.Errorf("no reply within %s", exchangeLimit)
			}
			return errClosed
		} else if what != "OK" && first == nil {
			first = fmt.Errorf("a command got %s", what)
		}
	}
	return first
}

// errClosed: a reply broke off. A server short of memory may give up a reply of tens of
// megabytes whose rows are changed faster than its client reads it.
var errClosed = errors.New("the connection was closed")

// exchangeLimit is how long replies may take: some are tens of megabytes of rows on disk.
const exchangeLimit = 5 * time.Minute

// mixers is how many clients a mix has. Half of them send one command at a time, the
// others 16.
const mixers = 32

// run runs the load until the end. It returns how many commands were answered, and how
// many replies broke off, which must be few.
func (m *mix) run(s *site, seed uint64, end time.Time, mayEnd func() bool) (answered, broken int64) {
	var count, closed atomic.Int64
	var all sync.WaitGroup
	for i := range mixers {
		conn, err := s.dial()
		if err != nil {
			s.Fatal(err)
		}
		all.Go(func() {
			rng, r := rand.New(rand.NewPCG(seed, uint64(i))), reader(conn)
			n := 1 + i%2*15
			for time.Now().Before(end) {
				var b []byte
				for range n {
					b = m.next(rng, b)
				}
				err := exchange(conn, r, b, n)
				if errors.Is(err, errClosed) && !mayEnd() {
					closed.Add(1)
					if conn, err = s.dial(); err == nil {
						r = reader(conn)
						continue
					}
				}
				if err != nil {
					if !mayEnd() {
						s.Errorf("mixed load: %v", err)
					}
					return
				}
				count.Add(int64(n))
			}
		})
	}
	all.Wait()
	if answered, broken = count.Load(), closed.Load(); broken > 2+answered/1000 {
		s.Errorf("mixed load: %d replies broke off of %d", broken, answered)
	}
	return answered, broken
}

// mixedFor is a mixed load on four times as much data as there is memory.
func mixedFor(full, short time.Duration) func(s *site) string {
	return func(s *site) string {
		seed := uint64(time.Now().UnixNano())
		s.Logf("seed %d", seed)
		m := newMix(s.memory)
		m.fill(s, mixers)
		begin := time.Now()
		count, broken := m.run(s, seed, begin.Add(pickTime(full, short)), func() bool { return false })
		return fmt.Sprintf("%d keys, %.0f commands a second, %d replies broke off", m.keys, float64(count)/time.Since(begin).Seconds(), broken)
	}
}

// killed: a mixed load whose server is killed and started again, many times.
func killed(s *site) string {
	seed := uint64(time.Now().UnixNano())
	s.Logf("seed %d", seed)
	m := newMix(s.memory)
	m.fill(s, mixers)
	rounds := pick(20, 3)
	rng := rand.New(rand.NewPCG(seed, 99))
	var worst time.Duration
	for round := range rounds {
		var dead atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			m.run(s, seed+uint64(round), time.Now().Add(time.Minute), dead.Load)
		}()
		time.Sleep(pickTime(2*time.Second, time.Second) + time.Duration(rng.IntN(1000))*time.Millisecond)
		dead.Store(true)
		s.door.Lock()
		s.kill()
		<-done
		s.hangUp()
		begin := time.Now()
		s.start()
		if err := s.loaded(); err != nil {
			s.Fatalf("after kill %d: %v", round+1, err)
		}
		worst = max(worst, time.Since(begin))
		s.door.Unlock()
	}
	return fmt.Sprintf("%d kills, back within %.1f s", rounds, worst.Seconds())
}

// loaded waits until the server answers for its data.
func (s *site) loaded() error {
	c := s.client()
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		v, err := c.Do("DBSIZE")
		if err != nil {
			return err
		}
		if !v.IsError() {
			return nil
		}
		if !strings.HasPrefix(v.Str, "LOADING") || time.Now().After(end) {
			return fmt.Errorf("DBSIZE: %s", v.Str)
		}
	}
}

package differential

import (
	"testing"
	"time"

	"redoubt/internal/testserver"
)

// redoubtTarget is a Redoubt in this process. Without a live clock its time
// stands still except where a sequence moves it.
func redoubtTarget(t *testing.T, o testserver.Options, live bool, burst int) *serverTarget {
	label := "Redoubt, engine " + o.Engine
	if o.Pipes {
		label += ", pipes"
	}
	s := &serverTarget{label: label, reset: func() {}, advance: time.Sleep, burst: burst}
	if !live {
		o.Clock = testserver.NewClock(time.UnixMilli(epoch))
		s.reset = func() { o.Clock.Set(time.UnixMilli(epoch)) }
		s.advance = o.Clock.Advance
	}
	s.addr = testserver.Start(t, o).Addr
	return s
}

// TestModel compares Redoubt on every engine with the model: on mem with one
// command at a time, with commands cut into pieces on their way, and with
// goroutines for carriers; on Pebble, and where rows are not in memory, with
// bursts.
func TestModel(t *testing.T) {
	t.Parallel()
	pieces := redoubtTarget(t, testserver.Options{Engine: "mem"}, false, 8)
	pieces.pieces = true
	each(t, 60, false, []target{
		modelTarget{},
		redoubtTarget(t, testserver.Options{Engine: "mem"}, false, 1),
		pieces,
		redoubtTarget(t, testserver.Options{Engine: "mem", Pipes: true}, false, 50),
		redoubtTarget(t, testserver.Options{Engine: "local"}, false, 50),
		redoubtTarget(t, testserver.Options{Engine: "tight"}, false, 50),
		redoubtTarget(t, testserver.Options{Engine: "cold"}, false, 50),
		redoubtTarget(t, testserver.Options{Engine: "contended"}, false, 50),
	})
}

// TestModelInMulti does the same inside transactions.
func TestModelInMulti(t *testing.T) {
	t.Parallel()
	list := []target{modelTarget{}}
	for i, o := range []testserver.Options{{Engine: "mem"}, {Engine: "mem", Pipes: true}, {Engine: "memory"}, {Engine: "local"}, {Engine: "cold"}, {Engine: "contended"}} {
		s := redoubtTarget(t, o, false, 1+i*i*5)
		s.multi = true
		list = append(list, s)
	}
	each(t, 40, false, list)
}

// TestRedis compares Redoubt with a real Redis.
func TestRedis(t *testing.T) {
	testserver.Oracle(t)
	each(t, 1000, true, []target{
		redisTarget(t),
		redoubtTarget(t, testserver.Options{Engine: "mem"}, true, 50),
		redoubtTarget(t, testserver.Options{Engine: "local"}, true, 50),
	})
}

//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// runLarge compares a Redoubt whose data is larger than its memory budget with a
// Redis that holds everything in memory.
func runLarge() error {
	s, err := startPair(server{args: []string{"--appendfsync", "everysec"}},
		server{args: []string{"--appendonly", "yes", "--appendfsync", "everysec"}})
	if err != nil {
		return err
	}
	var out document
	out.heading(s, loadText()+"all keys written before; Redis holds all of them in memory, its AOF was written while they were loaded; ZIPF is GET with keys by Zipf's law (s = 0.99); MIX is half GET, half SET; "+explained())
	start, err := s.fillAndSettle()
	if err != nil {
		return err
	}
	get, set := getSet()
	list := loadCases(
		loadCase{name: "GET", requests: mix{get}}, loadCase{name: "ZIPF", requests: mix{get}, skewed: true},
		loadCase{name: "SET", requests: mix{set}}, loadCase{name: "MIX", requests: mix{get, set}},
	)
	if err := s.compareAll(&out, list, nil); err != nil {
		return err
	}
	if err := s.standing(&out, start); err != nil {
		return err
	}
	if err := s.restarts(&out, set); err != nil {
		return err
	}
	return out.write()
}

// row writes one figure of both servers.
func (s pair) row(out *document, name string, figure func(*process) string) {
	out.printf("| %s | %s | %s |\n", name, figure(s.ours), figure(s.theirs))
}

// standing writes what both servers took of memory and disk.
func (s pair) standing(out *document, start map[*process]filled) error {
	raw := rawBytes(*keys)
	now, peak, disk := map[*process]int{}, map[*process]int{}, map[*process]int{}
	for _, p := range s.both() {
		var err error
		if now[p], peak[p], err = p.memory(); err != nil {
			return err
		}
		if _, _, err := p.settle(); err != nil {
			return err
		}
		if disk[p], _, err = p.disk(); err != nil {
			return err
		}
	}
	ratio := func(bytes int) string { return fmt.Sprintf("%s, %.2f of raw", mb(bytes), float64(bytes)/float64(raw)) }
	out.printf("\nRaw data (names and values): %s. Disk is the blocks of all files; Redis's children are in none of these figures.\n", mb(raw))
	out.printf("\n| | redoubt | redis |\n|---|---|---|\n")
	s.row(out, "loading, s", func(p *process) string { return fmt.Sprintf("%.1f", start[p].took.Seconds()) })
	s.row(out, fmt.Sprintf("until settled, %.0f s of rest included, s", calm().Seconds()), func(p *process) string {
		if !start[p].rest {
			return fmt.Sprintf("not within %.0f", start[p].settled.Seconds())
		}
		return fmt.Sprintf("%.0f", start[p].settled.Seconds())
	})
	s.row(out, "RSS after loading", func(p *process) string { return mb(start[p].rssLoaded) })
	s.row(out, "RSS settled", func(p *process) string { return mb(start[p].rss) })
	s.row(out, "RSS settled, per key", func(p *process) string { return fmt.Sprintf("%.0f bytes", float64(start[p].rss)/float64(*keys)) })
	s.row(out, "RSS after the cases", func(p *process) string { return mb(now[p]) })
	s.row(out, "RSS at its peak", func(p *process) string { return mb(peak[p]) })
	s.row(out, "disk settled", func(p *process) string { return ratio(start[p].disk) })
	s.row(out, "disk settled after the cases", func(p *process) string { return ratio(disk[p]) })
	return nil
}

// restarts kills both servers under way, in the middle of what a burst of
// writes has left to do, and measures how soon they serve again.
func (s pair) restarts(out *document, set *request) error {
	took := map[*process]time.Duration{}
	for _, p := range []**process{&s.ours, &s.theirs} {
		var again *process
		err := s.alone(*p, func(old *process) (err error) {
			var d time.Duration
			again, d, err = old.crash(mix{set})
			took[again] = d
			return err
		})
		if err != nil {
			return err
		}
		*p = again
	}
	s.row(out, "from exec after kill -9 to the first right GET, s", func(p *process) string { return fmt.Sprintf("%.2f", took[p].Seconds()) })
	out.printf("\nKilled right after %s of SET at P=16; what the operating system had cached stayed cached. Both had every key after that.\n", *duration)
	return nil
}

// restartLimit is how long a server may take to read its data again.
const restartLimit = 10 * time.Minute

// crash kills the server after a burst of writes and starts it again.
func (p *process) crash(burst mix) (*process, time.Duration, error) {
	if _, _, err := p.measure(p.load(loadCase{pipeline: 16, requests: burst})); err != nil {
		return nil, 0, err
	}
	known := uint64(*keys)
	if _, err := p.ask("SET", key(known), string(value(known, rand.NewPCG(seed, 1)))); err != nil {
		return nil, 0, err
	}
	p.kill()
	begin := time.Now()
	again, err := p.server.spawn()
	if err != nil {
		return nil, 0, err
	}
	err = again.await(restartLimit, func() error {
		if err := again.ping(); err != nil {
			return err
		}
		v, err := again.ask("GET", key(known))
		if err == nil && !belongs([]byte(v), known) {
			err = fmt.Errorf("GET %s answered %.40q", key(known), v)
		}
		return err
	})
	took := time.Since(begin)
	if err != nil {
		return nil, 0, err
	}
	if n, err := again.number("DBSIZE"); err != nil || n != *keys+1 {
		return nil, 0, fmt.Errorf("%s has %d of %d keys after kill -9 (%w)", p.name, n, *keys+1, err)
	}
	return again, took, nil
}

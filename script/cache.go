package script

import (
	"crypto/sha1"
	"encoding/hex"
	"sync"
	"sync/atomic"

	"redoubt/command"
	"redoubt/lua"
)

// The cache of compiled scripts. Like Redis 7.4 it keeps the scripts of SCRIPT LOAD
// until SCRIPT FLUSH, and of scripts that came by EVAL alone only the most recently used:
// an application that puts its arguments into the script's text would fill the cache.
//
// Recency costs a hit only an atomic load: a script stores the count of new scripts at the
// time of its last use, and the script with the lowest count is evicted.

// maxEvals is how many scripts that came by EVAL alone are kept.
const maxEvals = 500

type digest [sha1.Size]byte

// compiled is a script that any interpreter can run.
type compiled struct {
	program // its name is the digest in hexadecimal
	sha     digest
	bytes   int64
	loaded  atomic.Bool  // by SCRIPT LOAD: never evicted
	used    atomic.Int64 // cache.news at the last use
}

type cache struct {
	mu      sync.RWMutex
	scripts map[digest]*compiled
	evals   map[digest]*compiled // the scripts that may be evicted
	bytes   int64
	evicted int64
	news    atomic.Int64
	// flagged is how many scripts have the flag no-writes: digestReads looks nothing up
	// while there are none.
	flagged atomic.Int64
}

func (c *cache) init() {
	c.scripts, c.evals = make(map[digest]*compiled), make(map[digest]*compiled)
}

// get finds a script.
func (c *cache) get(sha *digest) *compiled {
	c.mu.RLock()
	s := c.scripts[*sha]
	c.mu.RUnlock()
	if s != nil {
		if n := c.news.Load(); s.used.Load() != n {
			s.used.Store(n)
		}
	}
	return s
}

// add puts a script into the cache, unless it is there, and returns the cached one.
func (c *cache) add(s *compiled, load bool) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.scripts[s.sha]; old != nil {
		if load {
			old.loaded.Store(true)
			delete(c.evals, old.sha)
		}
		return old
	}
	s.used.Store(c.news.Add(1))
	s.loaded.Store(load)
	if !load {
		if len(c.evals) >= maxEvals {
			c.evict()
		}
		c.evals[s.sha] = s
	}
	c.scripts[s.sha] = s
	c.bytes += s.bytes
	if s.flags&noWrites != 0 {
		c.flagged.Add(1)
	}
	return s
}

// evict drops the least recently used script. mu is held.
func (c *cache) evict() {
	var oldest *compiled
	for _, s := range c.evals {
		if oldest == nil || s.used.Load() < oldest.used.Load() {
			oldest = s
		}
	}
	delete(c.evals, oldest.sha)
	delete(c.scripts, oldest.sha)
	c.bytes -= oldest.bytes
	c.evicted++
	if oldest.flags&noWrites != 0 {
		c.flagged.Add(-1)
	}
}

// flush empties the cache.
func (c *cache) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.init()
	c.bytes = 0
	c.flagged.Store(0)
}

func (c *cache) figures() (scripts, bytes, evicted int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return int64(len(c.scripts)), c.bytes, c.evicted
}

// parseSHA reads a digest in hexadecimal, in any case.
func parseSHA(text []byte) (d digest, ok bool) {
	if len(text) != 2*len(d) {
		return d, false
	}
	_, err := hex.Decode(d[:], text)
	return d, err == nil
}

// compile compiles the text of a script. Errors are for the client.
func compile(body []byte, sha digest) (*compiled, error) {
	f, head, err := shebang(body)
	if err != nil {
		return nil, err
	}
	proto, err := lua.Compile(string(body[head:]), "user_script")
	if err != nil {
		return nil, command.Error("ERR Error compiling script (new function): " + err.Error())
	}
	return &compiled{
		program: program{name: hex.EncodeToString(sha[:]), eval: true, proto: proto, flags: f},
		sha:     sha, bytes: int64(len(body)) + compiledBytes,
	}, nil
}

// compiledBytes is about what a compiled script takes besides its text.
const compiledBytes = 512

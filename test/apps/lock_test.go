package apps

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/testserver"
)

// A lock is a key with a token that only its holder knows and a time after
// which it is free again. To release or to extend it is a script, since the key
// may have become somebody else's in the meantime.
type lock struct {
	db    *redis.Client
	key   string
	token string
}

// Removes the lock if it has this token. KEYS: lock. ARGV: token.
var releaseScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
`)

// Gives the lock more time if it has this token. KEYS: lock. ARGV: token, ms.
var extendScript = redis.NewScript(`
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return 0
`)

func (l lock) acquire(ctx context.Context, ttl time.Duration) (bool, error) {
	err := l.db.SetArgs(ctx, l.key, l.token, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	return err == nil, err
}

func (l lock) release(ctx context.Context) (bool, error) {
	n, err := releaseScript.Run(ctx, l.db, []string{l.key}, l.token).Int()
	return n == 1, err
}

func (l lock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	n, err := extendScript.Run(ctx, l.db, []string{l.key}, l.token, ttl.Milliseconds()).Int()
	return n == 1, err
}

func newToken() string { return rand.Text() }

// TestLock has many who want the same lock: there is one holder at a time, and
// a counter that only the holder changes, in steps, is complete at the end.
func TestLock(t *testing.T) {
	servers(t, func(t *testing.T, c *redis.Client) {
		const workers, rounds = 6, 15
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		defer cancel()
		var holders atomic.Int32
		var work sync.WaitGroup
		for range workers {
			work.Go(func() {
				for done := 0; done < rounds; {
					l := lock{c, "lock", newToken()}
					ok, err := l.acquire(ctx, time.Minute)
					if err != nil {
						t.Errorf("acquire: %v", err)
						return
					}
					if !ok {
						continue
					}
					if n := holders.Add(1); n != 1 {
						t.Errorf("%d hold the lock", n)
					}
					// Reads and writes apart: only the lock keeps them together.
					n, err := c.Get(ctx, "counter").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						t.Errorf("read the counter: %v", err)
					}
					if err := c.Set(ctx, "counter", n+1, 0).Err(); err != nil {
						t.Errorf("write the counter: %v", err)
					}
					holders.Add(-1)
					if ok, err := l.release(ctx); err != nil || !ok {
						t.Errorf("release: %v, %v", ok, err)
						return
					}
					done++
				}
			})
		}
		work.Wait()
		if n, err := c.Get(ctx, "counter").Int(); err != nil || n != workers*rounds {
			t.Errorf("counted %d, %v; want %d", n, err, workers*rounds)
		}
	})
}

// TestLockThatExpired: who was too slow has lost the lock, and cannot take it
// from the next one.
func TestLockThatExpired(t *testing.T) {
	t.Parallel()
	clock := testserver.NewClock(time.UnixMilli(1_700_000_000_000))
	c := connect(t, testserver.Start(t, testserver.Options{Clock: clock}).Addr)
	lockThatExpired(t, c, 10*time.Second, clock.Advance)
}

func TestLockThatExpiredOnRedis(t *testing.T) {
	testserver.Oracle(t)
	t.Parallel()
	lockThatExpired(t, connect(t, testserver.StartRedis(t).Addr), 2*time.Second, time.Sleep)
}

func lockThatExpired(t *testing.T, c *redis.Client, ttl time.Duration, pass func(time.Duration)) {
	ctx := t.Context()
	slow, next := lock{c, "lock", newToken()}, lock{c, "lock", newToken()}
	is := func(what string, want bool) func(got bool, err error) {
		return func(got bool, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("%s: %v, %v; want %v", what, got, err, want)
			}
		}
	}
	is("the first acquires", true)(slow.acquire(ctx, ttl))
	is("the second acquires", false)(next.acquire(ctx, ttl))
	is("the second releases", false)(next.release(ctx))
	pass(ttl / 2)
	is("the first extends", true)(slow.extend(ctx, ttl))
	pass(ttl * 2 / 3)
	is("the second acquires", false)(next.acquire(ctx, ttl))
	pass(ttl)
	is("the first extends what has expired", false)(slow.extend(ctx, ttl))
	is("the second acquires what has expired", true)(next.acquire(ctx, ttl))
	is("the first extends what is not its own", false)(slow.extend(ctx, ttl))
	is("the first releases what is not its own", false)(slow.release(ctx))
	is("the second releases", true)(next.release(ctx))
	is("the second releases again", false)(next.release(ctx))
}

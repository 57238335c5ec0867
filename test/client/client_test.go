package client

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"redoubt/internal/testserver"
)

// servers runs a test in both protocol versions, with both carriers.
func servers(t *testing.T, args []string, f func(t *testing.T, s *testserver.Server, connect func(change func(*redis.Options)) *redis.Client)) {
	for _, proto := range []int{2, 3} {
		for _, pipes := range []bool{false, true} {
			t.Run(fmt.Sprintf("resp%d-pipes=%v", proto, pipes), func(t *testing.T) {
				t.Parallel()
				s := testserver.Start(t, testserver.Options{Pipes: pipes, Args: args})
				f(t, s, func(change func(*redis.Options)) *redis.Client {
					o := &redis.Options{Addr: s.Addr, Protocol: proto, DialerRetries: 1, MaxRetries: -1}
					if change != nil {
						change(o)
					}
					c := redis.NewClient(o)
					t.Cleanup(func() { c.Close() })
					return c
				})
			})
		}
	}
}

// equal compares the result of a command.
func equal[T any](t *testing.T, what string, want T) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %#v, %v; want %#v", what, got, err, want)
		}
	}
}

func missing[T any](t *testing.T, what string) func(got T, err error) {
	return func(_ T, err error) {
		t.Helper()
		if !errors.Is(err, redis.Nil) {
			t.Errorf("%s: %v, want nil", what, err)
		}
	}
}

func failing[T any](t *testing.T, what, prefix string) func(got T, err error) {
	return func(_ T, err error) {
		t.Helper()
		var e redis.Error
		if err == nil || !errors.As(err, &e) || !strings.HasPrefix(err.Error(), prefix) {
			t.Errorf("%s: %v, want %s", what, err, prefix)
		}
	}
}

func TestConnect(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx := t.Context()
		c := connect(func(o *redis.Options) { o.ClientName, o.DB = "tester", 3 })
		equal(t, "ping", "PONG")(c.Ping(ctx).Result())
		equal(t, "echo", any("hi"))(c.Echo(ctx, "hi").Val(), nil)
		equal(t, "name", "tester")(c.ClientGetName(ctx).Result())
		info, err := c.ClientInfo(ctx).Result()
		if err != nil || info.DB != 3 || info.Name != "tester" || info.LastCmd != "client|info" || !strings.HasPrefix(info.LibName, "go-redis") {
			t.Errorf("%+v, %v", info, err)
		}
		list, err := c.ClientList(ctx).Result()
		if err != nil || !strings.Contains(list, "name=tester") {
			t.Errorf("%s, %v", list, err)
		}
		id, err := c.ClientID(ctx).Result()
		if err != nil || id != info.ID {
			t.Errorf("id %d, %v", id, err)
		}
		hello, err := c.Conn().Hello(ctx, 3, "", "", "").Result()
		if err != nil || hello["proto"] != int64(3) || hello["server"] != "redis" || hello["role"] != "master" {
			t.Errorf("%v, %v", hello, err)
		}
		equal(t, "unblock", int64(0))(c.ClientUnblock(ctx, 12345).Result())
		equal(t, "set in 3", "OK")(c.Set(ctx, "k", "v", 0).Result())
		missing[string](t, "get in 0")(connect(nil).Get(ctx, "k").Result())
		victim := connect(nil)
		vid := victim.ClientID(ctx).Val()
		equal(t, "kill", int64(1))(c.ClientKillByFilter(ctx, "ID", fmt.Sprint(vid)).Result())
		if again := victim.ClientID(ctx).Val(); again <= vid { // the library notices, and connects again
			t.Errorf("the killed connection %d is %d now", vid, again)
		}
	})
}

func TestPassword(t *testing.T) {
	servers(t, []string{"--requirepass", "secret"}, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx := t.Context()
		failing[string](t, "no password", "NOAUTH")(connect(nil).Ping(ctx).Result())
		failing[string](t, "wrong password", "WRONGPASS")(connect(func(o *redis.Options) { o.Password = "wrong" }).Ping(ctx).Result())
		equal(t, "password", "PONG")(connect(func(o *redis.Options) { o.Password = "secret" }).Ping(ctx).Result())
		equal(t, "user and password", "PONG")(connect(func(o *redis.Options) { o.Username, o.Password = "default", "secret" }).Ping(ctx).Result())
	})
}

func TestUsers(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, admin := t.Context(), connect(nil)
		equal(t, "make a user", "OK")(admin.ACLSetUser(ctx, "ann", "on", ">secret", "~ann:*", "&news", "+@read", "+set", "+multi", "+exec", "+eval", "+subscribe").Result())
		as := func(password string) *redis.Client {
			return connect(func(o *redis.Options) { o.Username, o.Password = "ann", password })
		}
		failing[string](t, "wrong password", "WRONGPASS")(as("wrong").Get(ctx, "ann:k").Result())
		c := as("secret")
		equal(t, "own key", "OK")(c.Set(ctx, "ann:k", "v", 0).Result())
		failing[string](t, "another key", "NOPERM")(c.Set(ctx, "k", "v", 0).Result())
		failing[int64](t, "another command", "NOPERM")(c.Del(ctx, "ann:k").Result())
		failing[any](t, "by a script", "ERR ACL failure in script: User ann has no permissions")(c.Eval(ctx, "return redis.call('DEL', KEYS[1])", []string{"ann:k"}).Result())
		_, err := c.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "ann:k", "w", 0)
			p.Del(ctx, "ann:k")
			return nil
		})
		failing[string](t, "in a transaction", "EXECABORT")("", err)
		equal(t, "still there", "v")(c.Get(ctx, "ann:k").Result())
		if n := len(admin.ACLLog(ctx, 10).Val()); n < 4 {
			t.Errorf("%d entries in the log of denials", n)
		}
		equal(t, "delete the user", int64(1))(admin.ACLDelUser(ctx, "ann").Result())
		failing[string](t, "a user that is gone", "WRONGPASS")(c.Get(ctx, "ann:k").Result())
	})
}

func TestStrings(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, c := t.Context(), connect(nil)
		equal(t, "set", "OK")(c.Set(ctx, "k", "v", 0).Result())
		equal(t, "get", "v")(c.Get(ctx, "k").Result())
		missing[string](t, "get nothing")(c.Get(ctx, "nosuch").Result())
		equal(t, "set with ttl", "OK")(c.Set(ctx, "t", "v", time.Hour).Result())
		if d := c.TTL(ctx, "t").Val(); d <= 59*time.Minute || d > time.Hour {
			t.Errorf("ttl %v", d)
		}
		equal(t, "keep ttl", "OK")(c.Set(ctx, "t", "w", redis.KeepTTL).Result())
		if d := c.PTTL(ctx, "t").Val(); d <= 59*time.Minute {
			t.Errorf("pttl %v", d)
		}
		equal(t, "setnx", false)(c.SetNX(ctx, "k", "x", 0).Result())
		equal(t, "setnx", true)(c.SetNX(ctx, "new", "x", time.Minute).Result())
		equal(t, "setxx", true)(c.SetXX(ctx, "k", "y", 0).Result())
		equal(t, "setxx", false)(c.SetXX(ctx, "nosuch", "y", 0).Result())
		//lint:ignore SA1019 SETEX is what is tested
		equal(t, "setex", "OK")(c.SetEx(ctx, "e", "v", time.Minute).Result())
		equal(t, "setargs", "y")(c.SetArgs(ctx, "k", "z", redis.SetArgs{Get: true, Mode: "XX", TTL: time.Minute}).Result())
		missing[string](t, "setargs")(c.SetArgs(ctx, "k", "z", redis.SetArgs{Mode: "NX"}).Result())
		equal(t, "setifeq", "OK")(c.SetIFEQ(ctx, "k", "a", "z", 0).Result())
		missing[string](t, "setifeq")(c.SetIFEQ(ctx, "k", "a", "z", 0).Result())
		equal(t, "setifne", "OK")(c.SetIFNE(ctx, "k", "v", "z", 0).Result())
		//lint:ignore SA1019 GETSET is what is tested
		equal(t, "getset", "v")(c.GetSet(ctx, "k", "hello").Result())
		equal(t, "getrange", "ell")(c.GetRange(ctx, "k", 1, -2).Result())
		equal(t, "setrange", int64(7))(c.SetRange(ctx, "k", 5, "!!").Result())
		equal(t, "append", int64(9))(c.Append(ctx, "k", "??").Result())
		equal(t, "strlen", int64(9))(c.StrLen(ctx, "k").Result())
		equal(t, "getex", "hello!!??")(c.GetEx(ctx, "k", time.Minute).Result())
		equal(t, "persist", true)(c.Persist(ctx, "k").Result())
		equal(t, "getdel", "hello!!??")(c.GetDel(ctx, "k").Result())
		equal(t, "exists", int64(0))(c.Exists(ctx, "k").Result())
		equal(t, "incr", int64(1))(c.Incr(ctx, "n").Result())
		equal(t, "incrby", int64(11))(c.IncrBy(ctx, "n", 10).Result())
		equal(t, "decr", int64(10))(c.Decr(ctx, "n").Result())
		equal(t, "decrby", int64(-5))(c.DecrBy(ctx, "n", 15).Result())
		equal(t, "incrbyfloat", -4.5)(c.IncrByFloat(ctx, "n", 0.5).Result())
		equal(t, "mset", "OK")(c.MSet(ctx, "a", "1", "b", "2").Result())
		equal(t, "msetnx", false)(c.MSetNX(ctx, "b", "3", "c", "3").Result())
		equal(t, "mget", []any{"1", "2", nil})(c.MGet(ctx, "a", "b", "c").Result())
		equal(t, "lcs", "OK")(c.MSet(ctx, "x", "ohmytext", "y", "mynewtext").Result())
		lcs, err := c.LCS(ctx, &redis.LCSQuery{Key1: "x", Key2: "y"}).Result()
		if err != nil || lcs.MatchString != "mytext" {
			t.Errorf("%+v, %v", lcs, err)
		}
		lcs, err = c.LCS(ctx, &redis.LCSQuery{Key1: "x", Key2: "y", Idx: true, WithMatchLen: true}).Result()
		if err != nil || lcs.Len != 6 || len(lcs.Matches) != 2 || lcs.Matches[0].MatchLen != 4 {
			t.Errorf("%+v, %v", lcs, err)
		}
		binary := string([]byte{0, 1, 2, '\r', '\n', 255})
		equal(t, "binary", "OK")(c.Set(ctx, binary, binary, 0).Result())
		equal(t, "binary", binary)(c.Get(ctx, binary).Result())
	})
}

func TestBitmaps(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, c := t.Context(), connect(nil)
		equal(t, "setbit", int64(0))(c.SetBit(ctx, "b", 7, 1).Result())
		equal(t, "getbit", int64(1))(c.GetBit(ctx, "b", 7).Result())
		equal(t, "bitcount", int64(1))(c.BitCount(ctx, "b", nil).Result())
		equal(t, "bitpos", int64(7))(c.BitPos(ctx, "b", 1).Result())
		equal(t, "bitop", int64(1))(c.BitOpNot(ctx, "d", "b").Result())
		equal(t, "bitop", int64(1))(c.BitOpOr(ctx, "e", "b", "d").Result())
		equal(t, "get", "\xff")(c.Get(ctx, "e").Result())
		equal(t, "bitfield", []int64{0, 255})(c.BitField(ctx, "f", "SET", "u8", "#0", "255", "GET", "u8", "#0").Result())
	})
}

func TestKeys(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, c := t.Context(), connect(nil)
		pipe := c.Pipeline()
		var want []string
		for i := range 2500 {
			k := fmt.Sprintf("key:%04d", i)
			want = append(want, k)
			pipe.Set(ctx, k, i, 0)
		}
		pipe.Set(ctx, "other", 1, 0)
		if _, err := pipe.Exec(ctx); err != nil {
			t.Fatal(err)
		}
		var got []string
		for it := c.Scan(ctx, 0, "key:*", 100).Iterator(); ; {
			if !it.Next(ctx) {
				if err := it.Err(); err != nil {
					t.Error(err)
				}
				break
			}
			got = append(got, it.Val())
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			t.Errorf("scanned %d keys, want %d", len(got), len(want))
		}
		it := c.ScanType(ctx, 0, "*", 1000, "list").Iterator()
		if it.Next(ctx) || it.Err() != nil {
			t.Errorf("%s, %v", it.Val(), it.Err())
		}
		equal(t, "dbsize", int64(2501))(c.DBSize(ctx).Result())
		equal(t, "type", "string")(c.Type(ctx, "other").Result())
		equal(t, "rename", "OK")(c.Rename(ctx, "other", "another").Result())
		failing[string](t, "rename", "ERR no such key")(c.Rename(ctx, "other", "another").Result())
		equal(t, "copy", int64(1))(c.Copy(ctx, "another", "copy", 0, false).Result())
		equal(t, "expire", true)(c.Expire(ctx, "copy", time.Hour).Result())
		equal(t, "expire", false)(c.ExpireNX(ctx, "copy", time.Hour).Result())
		equal(t, "touch", int64(2))(c.Touch(ctx, "copy", "another", "nosuch").Result())
		equal(t, "del", int64(2))(c.Del(ctx, "copy", "another", "nosuch").Result())
		equal(t, "ttl", time.Duration(-2))(c.TTL(ctx, "copy").Result())
		keys, err := c.Keys(ctx, "key:000?").Result()
		if slices.Sort(keys); err != nil || !slices.Equal(keys, want[:10]) {
			t.Errorf("%q, %v", keys, err)
		}
		equal(t, "flush", "OK")(c.FlushAll(ctx).Result())
		missing[string](t, "random")(c.RandomKey(ctx).Result())
	})
}

func TestPipeline(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, c := t.Context(), connect(nil)
		var first, last *redis.IntCmd
		var none *redis.StringCmd
		var wrong *redis.IntCmd
		cmds, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
			first = p.Incr(ctx, "n")
			none = p.Get(ctx, "nosuch")
			p.Set(ctx, "text", "abc", 0)
			wrong = p.Incr(ctx, "text")
			last = p.IncrBy(ctx, "n", 41)
			return nil
		})
		if len(cmds) != 5 || !errors.Is(err, redis.Nil) { // the first error is reported
			t.Errorf("%d commands, %v", len(cmds), err)
		}
		equal(t, "first", int64(1))(first.Result())
		missing[string](t, "none")(none.Result())
		failing[int64](t, "wrong", "ERR value is not an integer or out of range")(wrong.Result())
		equal(t, "last", int64(42))(last.Result())
	})
}

func TestErrors(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, c := t.Context(), connect(nil)
		failing[any](t, "unknown", "ERR unknown command 'nosuch', with args beginning with: 'x' ")(c.Do(ctx, "nosuch", "x").Result())
		failing[any](t, "arity", "ERR wrong number of arguments for 'get' command")(c.Do(ctx, "get").Result())
		failing[any](t, "syntax", "ERR syntax error")(c.Do(ctx, "set", "k", "v", "what").Result())
		failing[any](t, "range", "ERR DB index is out of range")(c.Do(ctx, "select", "99").Result())
		canceled, cancel := context.WithCancel(ctx)
		cancel()
		if err := c.Get(canceled, "k").Err(); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		// The pool survives all of that.
		for range 100 {
			equal(t, "ping", "PONG")(c.Ping(ctx).Result())
		}
		s.Shutdown(ctx)
		if err := c.Ping(ctx).Err(); err == nil {
			t.Error("a server that was shut down answers")
		}
	})
}

// Many users of one pool, each sees its own writes.
func TestConcurrentUse(t *testing.T) {
	servers(t, nil, func(t *testing.T, s *testserver.Server, connect func(func(*redis.Options)) *redis.Client) {
		ctx, c := t.Context(), connect(func(o *redis.Options) { o.PoolSize = 5 })
		done := make(chan error)
		const users, each = 20, 50
		for u := range users {
			go func() {
				key := fmt.Sprint("user", u)
				for i := range each {
					if err := c.Set(ctx, key, i, 0).Err(); err != nil {
						done <- err
						return
					}
					if n, err := c.Get(ctx, key).Int(); n != i || err != nil {
						done <- fmt.Errorf("%s is %d, want %d: %v", key, n, i, err)
						return
					}
					if err := c.Incr(ctx, "all").Err(); err != nil {
						done <- err
						return
					}
				}
				done <- nil
			}()
		}
		for range users {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		equal(t, "all", "1000")(c.Get(ctx, "all").Result())
	})
}

// Command go uses a server as programs with go-redis do: pool, pipeline,
// transactions that are tried again, scripts, messages, a consumer group, a
// cache on the client's side. It exits with 1 when a result is not what it has
// to be.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	if len(os.Args) != 2 && len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: go HOST:PORT [HOST:PORT of channels over HTTP]")
		os.Exit(2)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	client := redis.NewClient(&redis.Options{Addr: os.Args[1], PoolSize: 8})
	defer client.Close()
	if err := client.FlushAll(ctx).Err(); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED flush:", err)
		os.Exit(1)
	}
	failed := false
	for _, c := range []struct {
		name string
		run  func(context.Context, *redis.Client) error
	}{
		{"pool", pool}, {"pipeline", pipeline}, {"transaction", transaction}, {"script", script},
		{"pubsub", pubsub}, {"stream", stream}, {"cache", cache}, {"channel", channel},
	} {
		if err := c.run(ctx, client); err != nil {
			fmt.Println("FAILED", c.name+":", err)
			failed = true
			continue
		}
		fmt.Println("ok", c.name)
	}
	fmt.Println("client go-redis", version())
	if failed {
		os.Exit(1)
	}
}

func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			if d.Path == "github.com/redis/go-redis/v9" {
				return d.Version
			}
		}
	}
	return "?"
}

// same is an error unless the two are equal.
func same(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s is %#v, want %#v", what, got, want)
	}
	return nil
}

// each runs f n times at once and returns the first error.
func each(n int, f func(i int) error) error {
	var wait sync.WaitGroup
	errs := make([]error, n)
	for i := range n {
		wait.Go(func() { errs[i] = f(i) })
	}
	wait.Wait()
	return errors.Join(errs...)
}

// pool: many users share a few connections.
func pool(ctx context.Context, c *redis.Client) error {
	err := each(50, func(i int) error {
		key := fmt.Sprint("go:pool:", i)
		for n := range 20 {
			if err := c.Set(ctx, key, n, time.Minute).Err(); err != nil {
				return err
			}
			got, err := c.Get(ctx, key).Int()
			if err != nil || got != n {
				return fmt.Errorf("%s is %d, %v; want %d", key, got, err, n)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if n := c.PoolStats().TotalConns; n > 8 {
		return fmt.Errorf("%d connections", n)
	}
	return nil
}

func pipeline(ctx context.Context, c *redis.Client) error {
	var last *redis.IntCmd
	var wrong *redis.IntCmd
	_, err := c.Pipelined(ctx, func(p redis.Pipeliner) error {
		for range 1000 {
			last = p.Incr(ctx, "go:n")
		}
		p.Set(ctx, "go:text", "abc", 0)
		wrong = p.Incr(ctx, "go:text")
		return nil
	})
	if err == nil || wrong.Err() == nil {
		return errors.New("an increment of a text succeeds")
	}
	return same("the sum", last.Val(), int64(1000))
}

// transaction: WATCH, read, MULTI, write, EXEC; again when somebody was quicker.
func transaction(ctx context.Context, c *redis.Client) error {
	const users, times = 8, 25
	increment := func(tx *redis.Tx) error {
		n, err := tx.Get(ctx, "go:counter").Int()
		if err != nil && !errors.Is(err, redis.Nil) {
			return err
		}
		_, err = tx.TxPipelined(ctx, func(p redis.Pipeliner) error {
			p.Set(ctx, "go:counter", n+1, 0)
			p.RPush(ctx, "go:log", n+1)
			return nil
		})
		return err
	}
	err := each(users, func(int) error {
		for done := 0; done < times; {
			switch err := c.Watch(ctx, increment, "go:counter"); {
			case err == nil:
				done++
			case !errors.Is(err, redis.TxFailedErr):
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	log, err := c.LRange(ctx, "go:log", 0, -1).Result()
	if err != nil || len(log) != users*times {
		return fmt.Errorf("%d entries, %w", len(log), err)
	}
	for i, entry := range log {
		if entry != fmt.Sprint(i+1) {
			return fmt.Errorf("entry %d is %s", i, entry)
		}
	}
	_, err = c.TxPipelined(ctx, func(p redis.Pipeliner) error {
		p.Set(ctx, "go:counter", "text", 0)
		p.Incr(ctx, "go:counter") // fails; the other one counts all the same
		return nil
	})
	if err == nil {
		return errors.New("an error inside a transaction is not told")
	}
	return same("the counter", c.Get(ctx, "go:counter").Val(), "text")
}

// script: EVALSHA, and EVAL when the server does not know the script.
func script(ctx context.Context, c *redis.Client) error {
	take := redis.NewScript(`
		local n = tonumber(redis.call('GET', KEYS[1]) or '0')
		if n < tonumber(ARGV[1]) then return redis.error_reply('EMPTY only ' .. n) end
		return {redis.call('DECRBY', KEYS[1], ARGV[1]), KEYS[1], {ok = 'fine'}}`)
	if err := c.ScriptFlush(ctx).Err(); err != nil {
		return err
	}
	if err := c.EvalSha(ctx, take.Hash(), []string{"go:stock"}, 1).Err(); !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return fmt.Errorf("an unknown script: %v", err)
	}
	if err := c.Set(ctx, "go:stock", 5, 0).Err(); err != nil {
		return err
	}
	for _, left := range []int64{3, 1} {
		got, err := take.Run(ctx, c, []string{"go:stock"}, 2).Result()
		if err != nil {
			return err
		}
		if err := same("the reply", got, []any{left, "go:stock", "fine"}); err != nil {
			return err
		}
	}
	if err := take.Run(ctx, c, []string{"go:stock"}, 2).Err(); err == nil || err.Error() != "EMPTY only 1" {
		return fmt.Errorf("the script's own error: %v", err)
	}
	known, err := take.Exists(ctx, c).Result()
	if err != nil {
		return err
	}
	return same("known", known, []bool{true})
}

func pubsub(ctx context.Context, c *redis.Client) error {
	sub := c.Subscribe(ctx, "go:news")
	defer sub.Close()
	if err := sub.PSubscribe(ctx, "go:log:*"); err != nil {
		return err
	}
	for range 2 { // both subscriptions are confirmed
		if _, err := sub.Receive(ctx); err != nil {
			return err
		}
	}
	n, err := c.Publish(ctx, "go:news", "hello").Result()
	if err != nil || n != 1 {
		return fmt.Errorf("%d receivers, %w", n, err)
	}
	if err := c.Publish(ctx, "go:log:disk", "full").Err(); err != nil {
		return err
	}
	var got []string
	for range 2 {
		m, err := sub.ReceiveMessage(ctx)
		if err != nil {
			return err
		}
		got = append(got, m.Channel+" "+m.Pattern+" "+m.Payload)
	}
	if err := same("the messages", got, []string{"go:news  hello", "go:log:disk go:log:* full"}); err != nil {
		return err
	}
	if err := sub.Ping(ctx); err != nil {
		return err
	}
	return same("subscribers", c.PubSubNumSub(ctx, "go:news").Val(), map[string]int64{"go:news": 1})
}

// stream: two consumers of a group share the entries; one dies with an entry,
// and the other one takes that over.
func stream(ctx context.Context, c *redis.Client) error {
	const key, group, entries = "go:stream", "workers", 20
	if err := c.XGroupCreateMkStream(ctx, key, group, "0").Err(); err != nil {
		return err
	}
	for i := range entries {
		if err := c.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: map[string]any{"n": i}}).Err(); err != nil {
			return err
		}
	}
	read := func(consumer string, count int64) ([]redis.XMessage, error) {
		got, err := c.XReadGroup(ctx, &redis.XReadGroupArgs{
			Group: group, Consumer: consumer, Streams: []string{key, ">"}, Count: count, Block: 50 * time.Millisecond,
		}).Result()
		if errors.Is(err, redis.Nil) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return got[0].Messages, nil
	}
	if dead, err := read("dead", 1); err != nil || len(dead) != 1 {
		return fmt.Errorf("%v, %w", dead, err)
	}
	seen := make(map[string]bool)
	for {
		got, err := read("alive", 7)
		if err != nil {
			return err
		}
		if len(got) == 0 {
			break
		}
		for _, m := range got {
			seen[m.Values["n"].(string)] = true
			if err := c.XAck(ctx, key, group, m.ID).Err(); err != nil {
				return err
			}
		}
	}
	left, err := c.XPending(ctx, key, group).Result()
	if err != nil || left.Count != 1 || left.Consumers["dead"] != 1 {
		return fmt.Errorf("pending: %+v, %w", left, err)
	}
	taken, _, err := c.XAutoClaim(ctx, &redis.XAutoClaimArgs{Stream: key, Group: group, Consumer: "alive", Start: "0"}).Result()
	if err != nil || len(taken) != 1 {
		return fmt.Errorf("taken over: %v, %w", taken, err)
	}
	seen[taken[0].Values["n"].(string)] = true
	if err := c.XAck(ctx, key, group, taken[0].ID).Err(); err != nil {
		return err
	}
	if err := same("entries seen", len(seen), entries); err != nil {
		return err
	}
	return same("pending", c.XPending(ctx, key, group).Val().Count, int64(0))
}

// cache: values are kept by the client until the server says that they changed.
func cache(ctx context.Context, c *redis.Client) error {
	o := *c.Options()
	o.Protocol, o.ClientSideCacheConfig = 3, &redis.ClientSideCacheConfig{MaxEntries: 100}
	cached := redis.NewClient(&o)
	defer cached.Close()
	for round := range 3 {
		want := fmt.Sprint("value ", round)
		if err := c.Set(ctx, "go:cached", want, 0).Err(); err != nil {
			return err
		}
		for { // the message that it changed comes soon
			got, err := cached.Get(ctx, "go:cached").Result()
			if err != nil {
				return err
			}
			if got == want {
				break
			}
			time.Sleep(time.Millisecond)
		}
		for range 100 {
			if err := same("the value", cached.Get(ctx, "go:cached").Val(), want); err != nil {
				return err
			}
		}
	}
	if s := cached.CSCStats(); s.Hits < 200 {
		return fmt.Errorf("the cache was not used: %+v", s)
	}
	return nil
}

// channel: a durable channel by commands and over HTTP.
func channel(ctx context.Context, c *redis.Client) error {
	if len(os.Args) < 3 {
		return nil // a server without channels
	}
	c.Do(ctx, "CHSUBSCRIBE", "go-channel", "reader")
	for again := range int64(2) { // the second one is a retry
		reply, err := c.Do(ctx, "CHPUBLISH", "go-channel", "m1", `{"n":1}`).Int64Slice()
		if err == nil {
			err = same("the publish", reply, []int64{1, 1 - again})
		}
		if err != nil {
			return err
		}
	}
	base := "http://" + os.Args[2] + "/channel/go-channel"
	if _, err := ask(ctx, "PUT", base+"/message/m2", `{"n":2}`); err != nil {
		return err
	}
	reply, err := c.Do(ctx, "CHREAD", "go-channel", "reader", "BLOCK", 1000).Result()
	if err != nil {
		return err
	}
	messages, _ := reply.(map[any]any)["messages"].([]any)
	want := []any{[]any{int64(1), "m1", `{"n":1}`}, []any{int64(2), "m2", `{"n":2}`}}
	if err := same("what is read", messages, want); err != nil {
		return err
	}
	body, err := ask(ctx, "GET", base+"/subscription/polling/reader?timeout=1s", "") // nothing was acknowledged
	if err != nil {
		return err
	}
	var polled struct {
		AckHandle string
		Messages  []struct{ MessageID string }
	}
	if err := json.Unmarshal(body, &polled); err != nil {
		return err
	}
	if err := same("what is polled", polled.Messages, []struct{ MessageID string }{{"m1"}, {"m2"}}); err != nil {
		return err
	}
	if _, err := ask(ctx, "DELETE", base+"/subscription/polling/reader/message?ackHandle="+polled.AckHandle, ""); err != nil {
		return err
	}
	if err := c.Do(ctx, "CHREAD", "go-channel", "reader", "BLOCK", 10).Err(); !errors.Is(err, redis.Nil) {
		return fmt.Errorf("after the acknowledgement: %w", err)
	}
	return nil
}

// ask makes a request over HTTP, which must succeed.
func ask(ctx context.Context, method, url, body string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err == nil && res.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %d %s", method, url, res.StatusCode, text)
	}
	return text, err
}

// Package comparer compares the data of two servers that speak Redis, as clients see it: types,
// values and times to live of all keys, or of a sample. It walks with SCAN and reads values in
// pieces, so its memory is bounded whatever the servers hold, and each may be written to
// meanwhile: what differs is looked at again before it is reported.
//
// The package promises: a key that stays the same on both sides during the comparison is
// reported if and only if it differs; encodings, and the order of sets and hashes, are no
// differences.
package comparer

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"redoubt/client"
)

// Options of a comparison.
type Options struct {
	From, To client.Server
	// Databases is how many databases are compared; 0: those that either side says it has keys in.
	Databases int
	// Sample is how many random keys of each database of each side are compared; 0: all keys.
	Sample int
	// Skew is how much times to live may differ; replicas get them a little later.
	Skew time.Duration
	// Again is how often a key that differs is looked at again, a second apart: one side may
	// be a replica that is behind.
	Again int
	// Report is called with each difference.
	Report func(Difference)
	// Progress, if set, is called with the number of keys compared.
	Progress func(keys int64)
	// Pause waits before keys are looked at again; nil: time.Sleep.
	Pause func(time.Duration)
}

// Difference is a key that differs.
type Difference struct {
	DB   int
	Key  string
	What string
}

func (d Difference) String() string {
	return fmt.Sprintf("database %d, key %.200q: %s", d.DB, d.Key, d.What)
}

// Result is what was compared.
type Result struct{ Databases, Keys, Differences int64 }

// most is how many keys that differ are kept to be looked at again; those beyond are reported at
// once.
const most = 10_000

// batch is how many keys are compared with one round trip per side.
const batch = 256

type comparison struct {
	Options
	Result
	from, to *client.Client
	doubtful []Difference
	expiry   string // the command that tells when a key expires
}

// Compare compares the data of two servers.
func Compare(ctx context.Context, o Options) (r Result, err error) {
	c := &comparison{Options: o}
	if c.Pause == nil {
		c.Pause = time.Sleep
	}
	if c.from, err = client.Dial(ctx, o.From); err != nil {
		return r, fmt.Errorf("%s: %w", o.From, err)
	}
	defer c.from.Close()
	if c.to, err = client.Dial(ctx, o.To); err != nil {
		return r, fmt.Errorf("%s: %w", o.To, err)
	}
	defer c.to.Close()
	if c.expiry, err = expiryCommand(c.from, c.to); err != nil {
		return r, err
	}
	dbs, err := c.databases()
	for _, db := range dbs {
		if err == nil {
			err = c.database(ctx, db)
		}
		c.Result.Databases++
	}
	if err == nil {
		err = c.lookAgain(ctx)
	}
	return c.Result, err
}

// databases returns the databases that are to be compared.
func (c *comparison) databases() (list []int, err error) {
	if c.Options.Databases > 0 {
		for db := range c.Options.Databases {
			list = append(list, db)
		}
		return list, nil
	}
	have := make(map[int]bool)
	highest := -1
	for _, side := range []*client.Client{c.from, c.to} {
		dbs, err := databasesOf(side)
		if err != nil {
			return nil, err
		}
		for _, db := range dbs {
			have[db], highest = true, max(highest, db)
		}
	}
	for db := range highest + 1 {
		if have[db] {
			list = append(list, db)
		}
	}
	return list, nil
}

// database compares one database: the keys of the one side with the other, then those that
// only the other side has.
func (c *comparison) database(ctx context.Context, db int) error {
	for _, side := range []*client.Client{c.from, c.to} {
		if _, err := side.Do("SELECT", strconv.Itoa(db)); err != nil {
			return err
		}
	}
	err := c.walk(ctx, c.from, func(keys []string) error { return c.compare(db, keys, false) })
	if err == nil {
		err = c.walk(ctx, c.to, func(keys []string) error { return c.compare(db, keys, true) })
	}
	return err
}

// walk visits the keys of a side, or a sample of them.
func (c *comparison) walk(ctx context.Context, side *client.Client, visit func([]string) error) error {
	cursor, left := "0", c.Sample
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		var keys []string
		if c.Sample > 0 {
			n := min(left, batch)
			left -= n
			for range n {
				side.Send("RANDOMKEY")
			}
			for range n {
				v, err := side.Read()
				if err != nil {
					return err
				}
				if !v.Null {
					keys = append(keys, v.Text)
				}
			}
		} else {
			v, err := side.Do("SCAN", cursor, "COUNT", strconv.Itoa(batch))
			if err != nil {
				return err
			}
			if len(v.List) != 2 {
				return client.ErrReply
			}
			cursor, keys = v.List[0].Text, v.List[1].Texts()
		}
		for len(keys) > 0 {
			n := min(len(keys), batch)
			if err := visit(keys[:n]); err != nil {
				return err
			}
			keys = keys[n:]
		}
		if c.Sample > 0 && left <= 0 || c.Sample == 0 && cursor == "0" {
			return nil
		}
	}
}

// compare compares keys. With missing it looks only for keys that the first side does not have.
func (c *comparison) compare(db int, keys []string, missing bool) error {
	if missing {
		there, err := exist(c.from, keys)
		if err != nil {
			return err
		}
		for i, ok := range there {
			if !ok {
				c.doubt(Difference{db, keys[i], "only " + c.To.String() + " has it"})
			}
		}
		return nil
	}
	for _, side := range []*client.Client{c.from, c.to} {
		if err := askHeads(side, keys, c.expiry); err != nil {
			return err
		}
	}
	from, err := readHeads(c.from, keys)
	if err != nil {
		return fmt.Errorf("%s: %w", c.From, err)
	}
	to, err := readHeads(c.to, keys)
	if err != nil {
		return fmt.Errorf("%s: %w", c.To, err)
	}
	for i, key := range keys {
		what, err := c.key(key, from[i], to[i])
		if err != nil {
			return fmt.Errorf("key %.200q of database %d: %w", key, db, err)
		}
		if what != "" {
			c.doubt(Difference{db, key, what})
		}
	}
	c.Keys += int64(len(keys))
	if c.Progress != nil {
		c.Progress(c.Keys)
	}
	return nil
}

// doubt notes a key that seems to differ.
func (c *comparison) doubt(d Difference) {
	if c.Again == 0 || len(c.doubtful) >= most {
		c.report(d)
		return
	}
	c.doubtful = append(c.doubtful, d)
}

func (c *comparison) report(d Difference) {
	c.Differences++
	c.Report(d)
}

// lookAgain looks at doubtful keys again, and reports those that still differ.
func (c *comparison) lookAgain(ctx context.Context) error {
	for left := c.Again; left > 0 && len(c.doubtful) > 0; left-- {
		c.Pause(time.Second)
		list := c.doubtful
		c.doubtful = nil
		for _, d := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			now, err := c.again(d)
			if err != nil {
				return err
			}
			if now.What != "" {
				c.doubtful = append(c.doubtful, now)
			}
		}
	}
	for _, d := range c.doubtful {
		c.report(d)
	}
	return nil
}

func (c *comparison) again(d Difference) (Difference, error) {
	keys := []string{d.Key}
	var heads [2]head
	for i, side := range []*client.Client{c.from, c.to} {
		if _, err := side.Do("SELECT", strconv.Itoa(d.DB)); err != nil {
			return d, err
		}
		if err := askHeads(side, keys, c.expiry); err != nil {
			return d, err
		}
		h, err := readHeads(side, keys)
		if err != nil {
			return d, err
		}
		heads[i] = h[0]
	}
	var err error
	d.What, err = c.key(d.Key, heads[0], heads[1])
	return d, err
}

// databasesOf returns the databases that have keys.
func databasesOf(c *client.Client) (list []int, err error) {
	v, err := c.Do("INFO", "keyspace")
	if err != nil {
		return nil, err
	}
	for name := range client.ParseInfo(v.Text) {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "db")); err == nil && strings.HasPrefix(name, "db") {
			list = append(list, n)
		}
	}
	return list, nil
}

// exist reports which keys exist.
func exist(c *client.Client, keys []string) ([]bool, error) {
	for _, k := range keys {
		c.Send("EXISTS", k)
	}
	there := make([]bool, len(keys))
	for i := range keys {
		v, err := c.Read()
		if err != nil {
			return nil, err
		}
		there[i] = v.Text == "1"
	}
	return there, nil
}

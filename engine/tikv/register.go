package tikv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	tikverr "github.com/tikv/client-go/v2/error"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/tikv"
	"github.com/tikv/client-go/v2/txnkv/txnsnapshot"

	"redoubt/engine"
)

// This file registers the prefixes of a cluster's stores. Rows follow a prefix without a
// separator, so a store whose prefix is the beginning of another's would take the other's
// rows for its own. Open therefore registers each prefix in the cluster, once, and refuses
// a prefix that begins with another one, or is the beginning of another one.
//
// The rows: 00 "redoubt" 00 'p' and the prefix, one for each store; and 00 "redoubt" 00 'h',
// which is written with each of them, so that two registrations at the same time conflict,
// and the second one sees the first one's row. A value is the byte 01 and the version, as
// in any row.
//
// Stores of older versions are not registered, so Open looks for their rows before it
// registers a prefix: under shorter prefixes for rows of counters, which every store has
// that ever had a key, and under this prefix where this store never has rows
// (Options.Unused). The same ranges tell whether the rows of two nested stores lie apart,
// so that one of them can be moved away.

const (
	registry      = "\x00redoubt\x00"
	registeredRow = registry + "p"
	registryHead  = registry + "h"
	probesAtOnce  = 8
)

// ErrNested reports that the prefix of a store is the beginning of another's.
var ErrNested = errors.New("prefixes of stores overlap")

// checkPrefix returns an error if a store cannot have such a prefix.
func checkPrefix(prefix string) error {
	switch {
	case prefix == "":
		return errors.New("the prefix of rows is empty: give one (tikv-prefix)")
	case len(prefix) > maxPrefix:
		return fmt.Errorf("the prefix of rows has %d bytes, more than %d: give a shorter one (tikv-prefix)", len(prefix), maxPrefix)
	case strings.HasPrefix(registry, prefix), strings.HasPrefix(prefix, registry):
		return fmt.Errorf("the prefix %q holds the list of all prefixes of the cluster: give another one (tikv-prefix)", prefix)
	}
	return nil
}

// register registers the prefix unless it is registered, and returns ErrNested if it must
// not be. It retries on conflict until ctx ends.
func (e *Engine) register(ctx context.Context) error {
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := e.tryRegister(ctx)
		if !errors.Is(err, engine.ErrConflict) && !errors.Is(err, engine.ErrUnknownOutcome) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pause):
		}
	}
}

func (e *Engine) tryRegister(ctx context.Context) error {
	ts, err := e.timestamp(ctx)
	if err != nil {
		return err
	}
	p := &prober{e: e, snap: e.snapshotAt(ts), ts: ts}
	own := []byte(registeredRow + e.opt.Prefix)
	stored, err := e.getAny(ctx, p.snap, own)
	if err != nil || stored != nil {
		return err
	}
	outer, err := p.outer(ctx)
	switch {
	case err != nil:
		return err
	case outer != "" && !e.opt.Reader:
		return fmt.Errorf("%w: %q begins with %q, the prefix of another store of this cluster, which would take the rows of this store for its own: choose another one (tikv-prefix); what is stored there already can be moved by redoubt copy and removed by redoubt drop",
			ErrNested, e.opt.Prefix, outer)
	case outer != "" && !e.hasNoRowsBetween(outer):
		return fmt.Errorf("%w: %q begins with %q, the prefix of another store of this cluster, which has rows of its own among those of this store, so that they cannot be told apart: read the data by clients of a server of the version that has written it",
			ErrNested, e.opt.Prefix, outer)
	}
	if inner, err := p.inner(ctx); err != nil {
		return err
	} else if inner != "" {
		return fmt.Errorf("%w: %q is the beginning of %s, whose rows this store would take for its own: choose another one (tikv-prefix), or move the other store by redoubt copy and remove it by redoubt drop",
			ErrNested, e.opt.Prefix, inner)
	}
	if e.opt.Reader {
		return nil
	}
	txn, err := e.transaction(p.snap, ts)
	if err != nil {
		return err
	}
	for _, key := range [][]byte{own, []byte(registryHead)} {
		if err := txn.Set(key, appendValue(nil, []byte{1}, ts)); err != nil {
			return err
		}
	}
	return e.commit(ctx, txn, time.Now(), nil)
}

// prober looks for other stores in the cluster, as of one moment.
type prober struct {
	e    *Engine
	snap *txnsnapshot.KVSnapshot
	ts   uint64
}

// outer returns the prefix of another store with which this store's prefix begins, or "".
func (p *prober) outer(ctx context.Context) (string, error) {
	prefix := p.e.opt.Prefix
	var registered [][]byte
	var counters [][2][]byte
	for n := 1; n < len(prefix); n++ {
		registered = append(registered, []byte(registeredRow+prefix[:n]))
		rows := prefix[:n] + counterRows
		counters = append(counters, [2][]byte{[]byte(rows), successor([]byte(rows))})
	}
	if len(registered) == 0 {
		return "", nil
	}
	found, err := p.snap.BatchGet(ctx, registered)
	if err != nil {
		return "", p.e.readError(ctx, "get", err)
	}
	for _, key := range registered {
		if _, ok := found[string(key)]; ok {
			return string(key[len(registeredRow):]), nil
		}
	}
	key, err := p.any(ctx, counters)
	if key == nil || err != nil {
		return "", err
	}
	return string(key[:bytes.Index(key, []byte(counterRows))]), nil
}

// hasNoRowsBetween reports whether the store of an outer prefix has no rows of its own
// where this store has rows.
func (e *Engine) hasNoRowsBetween(outer string) bool {
	more := []byte(e.opt.Prefix[len(outer):])
	for _, r := range e.opt.Unused {
		if bytes.Compare(r[0], more) <= 0 && bytes.Compare(successor(more), r[1]) <= 0 {
			return true
		}
	}
	return false
}

// inner describes a store whose prefix begins with this store's, for an error text, or
// returns "".
func (p *prober) inner(ctx context.Context) (string, error) {
	row := []byte(registeredRow + p.e.opt.Prefix)
	key, err := p.first(ctx, row, successor(row))
	if err != nil {
		return "", err
	}
	if key != nil {
		return fmt.Sprintf("%q, the prefix of another store of this cluster", key[len(registeredRow):]), nil
	}
	prefix := []byte(p.e.opt.Prefix)
	if key, err = p.first(ctx, prefix, successor(prefix)); key == nil || err != nil {
		return "", err // the range is empty
	}
	ranges := make([][2][]byte, len(p.e.opt.Unused))
	for i, r := range p.e.opt.Unused {
		ranges[i] = [2][]byte{append(prefix[:len(prefix):len(prefix)], r[0]...), append(prefix[:len(prefix):len(prefix)], r[1]...)}
	}
	if key, err = p.any(ctx, ranges); key == nil || err != nil {
		return "", err
	}
	text := key[len(prefix):]
	if n := bytes.IndexFunc(text, func(r rune) bool { return !unicode.IsPrint(r) || r == unicode.ReplacementChar }); n > 0 {
		text = text[:n]
	}
	return fmt.Sprintf("%q, a key of another store of this cluster", string(prefix)+cut(text)), nil
}

// any returns the first key of one of the ranges, or nil if all are empty. It reads
// several ranges at a time.
func (p *prober) any(ctx context.Context, ranges [][2][]byte) ([]byte, error) {
	var next atomic.Int64
	var mu sync.Mutex
	var found []byte
	var failed error
	var all sync.WaitGroup
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return found != nil || failed != nil
	}
	for range min(probesAtOnce, len(ranges)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(ranges)) && !over(); i = next.Add(1) - 1 {
				key, err := p.first(ctx, ranges[i][0], ranges[i][1])
				mu.Lock()
				if key != nil {
					found = key
				}
				if err != nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if found != nil {
		return found, nil
	}
	return nil, failed
}

// first returns the first key of a range of stored keys, or nil.
func (p *prober) first(ctx context.Context, lo, hi []byte) ([]byte, error) {
	keys, err := p.keys(ctx, lo, hi, 1)
	if len(keys) == 0 {
		return nil, err
	}
	return keys[0], nil
}

// keys returns up to limit keys from the beginning of a range of stored keys, and none only
// if the range is empty.
func (p *prober) keys(ctx context.Context, lo, hi []byte, limit int) (keys [][]byte, err error) {
	s := p.e.scanner(p.snap, p.ts)
	bo := tikv.NewBackofferWithVars(ctx, maxBackoff, vars)
	for bytes.Compare(lo, hi) < 0 && len(keys) == 0 {
		found, pairs, err := s.ask(bo, lo, hi, false, limit)
		if err != nil {
			return nil, p.e.readError(ctx, "scan", err)
		}
		if pairs == nil {
			continue // it must be asked again
		}
		for _, pair := range pairs {
			key := keyOf(pair)
			if pair.GetError() != nil { // locked: getAny waits for the transaction that holds the lock
				if stored, err := p.e.getAny(ctx, p.snap, key); err != nil {
					return nil, err
				} else if stored == nil {
					continue
				}
			}
			keys = append(keys, key)
		}
		lo = found.lo
	}
	return keys, nil
}

// successor is the first key behind all keys that begin with key, which is not all ff.
func successor(key []byte) []byte { return kv.PrefixNextKey(key) }

// Drop removes all rows of the store and its registration, and calls progress with how many
// rows are gone. No other process may use the store, and afterwards the engine may only be
// closed. After an error Drop may be called again.
func (e *Engine) Drop(ctx context.Context, progress func(rows int64)) error {
	prefix := []byte(e.opt.Prefix)
	for total := int64(0); ; {
		n := 0
		err := e.dropSome(ctx, prefix, &n)
		if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrUnknownOutcome) {
			if ctx.Err() == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		total += int64(n)
		progress(total)
		if n == 0 {
			return nil
		}
	}
}

const dropStep = 256

// dropSome removes up to dropStep rows and sets n to their number; if there are none, it
// removes the registration.
func (e *Engine) dropSome(ctx context.Context, prefix []byte, n *int) error {
	ctx, cancel := context.WithTimeout(ctx, e.opt.Timeout)
	defer cancel()
	ts, err := e.timestamp(ctx)
	if err != nil {
		return err
	}
	p := &prober{e: e, snap: e.snapshotAt(ts), ts: ts}
	keys, err := p.keys(ctx, prefix, successor(prefix), dropStep)
	if err != nil {
		return err
	}
	if *n = len(keys); *n == 0 {
		keys = [][]byte{[]byte(registeredRow + e.opt.Prefix)}
	}
	txn, err := e.transaction(p.snap, ts)
	if err != nil {
		return err
	}
	for _, key := range keys {
		if err := txn.Delete(key); err != nil && !tikverr.IsErrNotFound(err) {
			return err
		}
	}
	return e.commit(ctx, txn, time.Now(), nil)
}

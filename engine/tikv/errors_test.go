package tikv

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pingcap/kvproto/pkg/kvrpcpb"
	tikverr "github.com/tikv/client-go/v2/error"

	"redoubt/engine"
)

func TestCommitError(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	e := &Engine{ctx: context.Background()}
	for _, c := range []struct {
		name string
		ctx  context.Context
		err  error
		want error // nil: an error that is none of the contract's
	}{
		{"write conflict", nil, &tikverr.ErrWriteConflict{WriteConflict: &kvrpcpb.WriteConflict{}}, engine.ErrConflict},
		{"write conflict when the time is over", over, &tikverr.ErrWriteConflict{WriteConflict: &kvrpcpb.WriteConflict{}}, engine.ErrConflict},
		{"retryable", nil, &tikverr.ErrRetryable{Retryable: "try again"}, engine.ErrConflict},
		{"locks gone", nil, &tikverr.ErrRetryable{Retryable: "lock not found"}, engine.ErrUnknownOutcome},
		{"locks gone, as TiKV says it", nil, &tikverr.ErrRetryable{Retryable: "Txn(Mvcc(TxnLockNotFound { start_ts: 1 }))"}, engine.ErrUnknownOutcome},
		{"too late", nil, errLate, engine.ErrConflict},
		{"transaction gone", nil, errors.New("txn 4711 not found"), engine.ErrUnknownOutcome},
		{"old", nil, errors.New("session 0 txn takes too much time, txnStartTS: 1, comm: 2"), engine.ErrConflict},
		{"undetermined", nil, tikverr.ErrResultUndetermined, engine.ErrUnknownOutcome},
		{"undetermined when the time is over", over, tikverr.ErrResultUndetermined, engine.ErrUnknownOutcome},
		{"deadline", nil, context.DeadlineExceeded, engine.ErrUnavailable},
		{"anything when the time is over", over, errors.New("region 2 is not there"), engine.ErrUnavailable},
		{"server timeout", nil, tikverr.ErrTiKVServerTimeout, engine.ErrUnavailable},
		{"region", nil, tikverr.ErrRegionUnavailable, engine.ErrUnavailable},
		{"PD", nil, tikverr.NewErrPDServerTimeout("no leader"), engine.ErrUnavailable},
		{"locks", nil, tikverr.ErrResolveLockTimeout, engine.ErrContended},
		{"locks when the time is over", over, tikverr.ErrResolveLockTimeout, engine.ErrContended},
		{"busy", nil, tikverr.ErrTiKVServerBusy, engine.ErrOverloaded},
		{"tokens", nil, &tikverr.ErrTokenLimit{StoreID: 1}, engine.ErrOverloaded},
		{"disk full", nil, errors.New(`message:"x" disk_full:<store_id:1 reason:"full" > `), engine.ErrFull},
		{"disk full, waited for", nil, tikverr.ErrTiKVDiskFull, engine.ErrFull},
		{"transaction too large", nil, &tikverr.ErrTxnTooLarge{Size: 1}, nil},
		{"row too large", nil, &tikverr.ErrEntryTooLarge{Limit: 1, Size: 2}, nil},
		{"key too large", nil, errors.New("tikv aborts txn: Error(Mvcc(KeyTooLarge))"), nil},
		{"something else", nil, errors.New("tikv aborts txn: whatever"), nil},
		{"one of ours", nil, fmt.Errorf("x: %w", engine.ErrCorrupt), engine.ErrCorrupt},
	} {
		for _, err := range []error{c.err, fmt.Errorf("outside: %w", c.err)} {
			if c.ctx == nil {
				c.ctx = context.Background()
			}
			got := e.commitError(c.ctx, err)
			if got == nil || c.want != nil && !errors.Is(got, c.want) || c.want == nil && known(got) {
				if c.name == "rolled back" && strings.HasPrefix(err.Error(), "outside") {
					continue // the client does not do that
				}
				t.Errorf("%s: %v, want %v", c.name, got, c.want)
			}
		}
	}
	if err := e.commitError(over, nil); err != nil {
		t.Errorf("no error: %v", err)
	}
}

func TestReadError(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	e := &Engine{ctx: ctx}
	for _, err := range []error{
		context.DeadlineExceeded, tikverr.ErrRegionUnavailable, &tikverr.ErrGCTooEarly{}, errors.New(strings.Repeat("long ", 1000)),
	} {
		got := e.readError(ctx, "get", err)
		if !errors.Is(got, engine.ErrUnavailable) || len(got.Error()) > 600 {
			t.Errorf("%v: %v", err, got)
		}
	}
	if err := e.readError(ctx, "get", engine.ErrCorrupt); err != engine.ErrCorrupt {
		t.Errorf("a known error became %v", err)
	}
	e.closed.Store(true)
	cancel()
	if err := e.readError(ctx, "get", context.Canceled); err != engine.ErrClosed {
		t.Errorf("after Close: %v", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	ok := Options{PD: []string{"127.0.0.1:1"}, Prefix: "p"}
	for name, change := range map[string]func(*Options){
		"tikv-pd":     func(o *Options) { o.PD = nil },
		"is empty in": func(o *Options) { o.PD = []string{"a:1", " "} },
		"tikv-prefix": func(o *Options) { o.Prefix = "" },
		"64":          func(o *Options) { o.Prefix = strings.Repeat("x", 65) },
		"tikv-ca":     func(o *Options) { o.Cert, o.Key = "a", "b" },
		"tikv-key":    func(o *Options) { o.CA, o.Cert = "errors_test.go", "errors_test.go" },
		"no such file": func(o *Options) {
			o.CA = "nosuchfile"
		},
		"ca certs": func(o *Options) { o.CA = "errors_test.go" },
	} {
		o := ok
		change(&o)
		if _, err := Open(o); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	stored := appendValue([]byte("x"), []byte("value"), 7)
	value, version, err := split(nil, stored[1:])
	if string(value) != "value" || version != 7 || err != nil {
		t.Errorf("%q %d %v", value, version, err)
	}
	if _, _, err := split([]byte("row"), []byte("1234567")); !errors.Is(err, engine.ErrCorrupt) {
		t.Errorf("seven bytes: %v", err)
	}
	s := newSpace("p:")
	for _, c := range []struct{ lo, hi, from, to string }{
		{"a", "b", "p:a", "p:b"},
		{"", "nil", "p:", "p:\xff\xff\xff\xff"},
		{"a", "\xff\xff\xff\xff\xff", "p:a", "p:\xff\xff\xff\xff"},
		{"a", "\xff\xff\xff", "p:a", "p:\xff\xff\xff"},
		{"\xff\xff\xff\xffx", "nil", "p:\xff\xff\xff\xffx", "p:\xff\xff\xff\xff"},
	} {
		hi := []byte(c.hi)
		if c.hi == "nil" {
			hi = nil
		}
		if from, to := s.bounds([]byte(c.lo), hi); string(from) != c.from || string(to) != c.to {
			t.Errorf("%q to %q is %q to %q", c.lo, c.hi, from, to)
		}
	}
}

package tikv

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/tikv/client-go/v2/testutils"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"

	"redoubt/engine"
	"redoubt/engine/enginetest"
)

// mock is a cluster inside the test: the client's own simulation, which knows neither
// one-phase nor asynchronous commits.
type mock struct {
	client  *testutils.MockClient
	cluster *testutils.MockCluster
	pd      pd.Client
}

func newMock(t testing.TB, splits ...string) *mock {
	t.Helper()
	client, cluster, pdc, err := testutils.NewMockTiKV("", nil)
	if err != nil {
		t.Fatal(err)
	}
	keys := make([][]byte, len(splits))
	for i, s := range splits {
		keys[i] = []byte(s)
	}
	testutils.BootstrapWithMultiRegions(cluster, keys...)
	t.Cleanup(func() { client.Close() })
	return &mock{client, cluster, pdc}
}

// lasting does not close what others still use.
type lasting struct{ tikv.Client }

func (lasting) Close() error { return nil }

type lastingPD struct{ pd.Client }

func (lastingPD) Close() {}

func (m *mock) open(t testing.TB, o Options) *Engine {
	t.Helper()
	o.PD = []string{"mock"}
	if o.every == 0 {
		o.every = 100 * time.Millisecond
	}
	if o.Prefix == "" {
		o.Prefix = "test:"
	}
	if o.Timeout == 0 {
		o.Timeout = 20 * time.Second
	}
	o.Logger = slog.New(slog.DiscardHandler)
	if err := o.fill(); err != nil {
		t.Fatal(err)
	}
	setGlobals(o.Logger)
	store, err := tikv.NewTestTiKVStore(lasting{m.client}, lastingPD{m.pd}, nil, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	e, err := newEngine(context.Background(), o, store, false)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

type mocked struct {
	*Engine
	m *mock
}

func TestEngineOnMock(t *testing.T) {
	t.Parallel()
	open := func(t *testing.T, m *mock) engine.Engine {
		return mocked{m.open(t, Options{}), m}
	}
	enginetest.Run(t,
		func(t *testing.T) engine.Engine {
			// Commits over several regions take long here: what writes much has one.
			if name := t.Name(); strings.Contains(name, "Random") || strings.Contains(name, "Atomic") || strings.Contains(name, "Consistent") || strings.HasSuffix(name, "/Long") {
				return open(t, newMock(t))
			}
			return open(t, newMock(t, "test:b", "test:k05", "test:z"))
		},
		enginetest.Reopen(func(t *testing.T, e engine.Engine) engine.Engine {
			if err := e.Close(); err != nil {
				t.Fatalf("Close: %v", err)
			}
			return open(t, e.(mocked).m)
		}),
		enginetest.Another(func(t *testing.T, e engine.Engine) engine.Engine { return open(t, e.(mocked).m) }))
}

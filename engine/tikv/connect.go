package tikv

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/tikv/client-go/v2/config"
	"github.com/tikv/client-go/v2/kv"
	"github.com/tikv/client-go/v2/oracle"
	"github.com/tikv/client-go/v2/tikv"
	pd "github.com/tikv/pd/client"
	"github.com/tikv/pd/client/opt"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	globalScope = oracle.GlobalTxnScope
	// maxBackoff is up to how many milliseconds the client may sleep in one call;
	// deadlines end calls much sooner.
	maxBackoff = 60_000
	// safeWindow is how far ahead of the client's time a commit may take effect whose
	// moment TiKV chooses; see lease.
	safeWindow = 250 * time.Millisecond
	// batchBytes is how many bytes of a region's rows one request writes. A commit that
	// needs more than one request cannot be committed in one phase; the client's default
	// is an eighth of it.
	batchBytes = 128 << 10
)

// vars are settings of the client. BackoffLockFast is how many milliseconds it first
// waits for the lock of another transaction.
var vars = &kv.Variables{BackoffLockFast: 4, BackOffWeight: 1, Killed: new(uint32)}

var globals sync.Once

// connect does what the client's own constructor does, with explicit settings, a context
// that ends the attempt, and no logger that writes to the standard error.
func connect(ctx context.Context, o Options, sec config.Security) (*tikv.KVStore, error) {
	cfg := config.GetGlobalConfig()
	alive := keepalive.ClientParameters{
		Time:    time.Duration(cfg.TiKVClient.GrpcKeepAliveTime) * time.Second,
		Timeout: cfg.TiKVClient.GetGrpcKeepAliveTimeout(),
	}
	pdc, err := pd.NewClientWithContext(ctx, o.PD,
		pd.SecurityOption{CAPath: sec.ClusterSSLCA, CertPath: sec.ClusterSSLCert, KeyPath: sec.ClusterSSLKey},
		opt.WithGRPCDialOptions(grpc.WithKeepaliveParams(alive)),
		opt.WithCustomTimeoutOption(min(o.Timeout, 3*time.Second)),
		opt.WithMaxErrorRetry(int(o.OpenTimeout/time.Second)+1),
	)
	if err != nil {
		return nil, fmt.Errorf("placement driver: %w", err)
	}
	tls, err := sec.ToTLSConfig()
	if err != nil {
		pdc.Close()
		return nil, err
	}
	points, err := newSafePoints(o.PD, tls)
	if err != nil {
		pdc.Close()
		return nil, err
	}
	codec := tikv.NewCodecPDClient(tikv.ModeTxn, pdc)
	rpc := tikv.NewRPCClient(tikv.WithSecurity(sec), tikv.WithCodec(codec.GetCodec()))
	store, err := tikv.NewKVStore(fmt.Sprint("tikv-", pdc.GetClusterID(ctx)), codec, points, rpc)
	if err != nil {
		pdc.Close()
		points.Close()
		rpc.Close()
		return nil, err
	}
	return store, nil
}

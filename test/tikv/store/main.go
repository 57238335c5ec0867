// Command store is a TiKV store for tests: unistore, TiDB's implementation of
// TiKV's service in Go, as a process that registers with a real PD. It has one
// copy of everything and no Raft.
//
// It differs from unistore's own server where tests would see what TiKV never
// shows: reads and commits in one phase keep their order (service.go), a store
// that is killed has its locks when it is back (writer.go), what has become of a
// transaction is not forgotten (memory.go), and PD, also one that was killed, hears of
// all regions (regions.go).
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/pingcap/badger"
	"github.com/pingcap/badger/options"
	"github.com/pingcap/kvproto/pkg/deadlock"
	"github.com/pingcap/kvproto/pkg/tikvpb"
	"github.com/pingcap/log"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/config"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/lockstore"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/pd"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv"
	"github.com/pingcap/tidb/pkg/store/mockstore/unistore/tikv/mvcc"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
)

var (
	pdAddr     = flag.String("pd", "127.0.0.1:2379", "address of PD")
	addr       = flag.String("addr", "127.0.0.1:20160", "address to listen on")
	advertise  = flag.String("advertise", "", "address that PD tells clients; that of -addr if empty")
	dir        = flag.String("dir", "", "directory of the data, made if it is not there")
	regionSize = flag.Int64("region-size", 64<<20, "bytes from which on regions are split")
)

func main() {
	flag.Parse()
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "store:", err)
		os.Exit(1)
	}
}

func run() error {
	if *dir == "" {
		return fmt.Errorf("-dir is missing")
	}
	if err := quiet(); err != nil {
		return err
	}
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, os.Interrupt)

	ln, err := net.Listen("tcp", *addr)
	if err != nil {
		return err
	}
	if *advertise == "" {
		*advertise = ln.Addr().String()
	}
	pdc, err := pd.NewClient([]string{*pdAddr}, "")
	if err != nil {
		return fmt.Errorf("connect to PD: %w", err)
	}
	s, err := open(pdc)
	if err != nil {
		return err
	}
	with, err := secure()
	if err != nil {
		return err
	}
	// client-go pings more often than grpc allows by itself.
	g := grpc.NewServer(append(with,
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 2 * time.Second, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(64<<20), grpc.MaxSendMsgSize(64<<20),
		grpc.UnaryInterceptor(func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			return s.server.single(ctx, request, next)
		}))...,
	)
	tikvpb.RegisterTikvServer(g, s.server)
	deadlock.RegisterDeadlockServer(g, s.server)
	// By this client-go finds that a store is back.
	grpc_health_v1.RegisterHealthServer(g, health.NewServer())
	failed := make(chan error, 1)
	go func() { failed <- g.Serve(ln) }()

	go s.report()
	go func() {
		if s.awaitPD() {
			fmt.Println("listening", ln.Addr())
		}
	}()

	select {
	case err := <-failed:
		return err
	case <-end:
	}
	g.Stop()
	s.close()
	return nil
}

// quiet has unistore log warnings only, on standard error.
func quiet() error {
	logger, props, err := log.InitLogger(&log.Config{Level: "warn"})
	if err != nil {
		return fmt.Errorf("set up the log: %w", err)
	}
	log.ReplaceGlobals(logger, props)
	return nil
}

// store is unistore and what this program must see of its inside.
type store struct {
	pdc       pd.Client
	placement *placement
	bundle    *mvcc.DBBundle
	server    *service

	mu     sync.Mutex // held while the database is read behind the server's back
	closed bool
}

// open puts together what unistore's server.New does, with our writer.
func open(pdc pd.Client) (*store, error) {
	physical, logical, err := pdc.GetTS(context.Background())
	if err != nil {
		return nil, fmt.Errorf("get a timestamp: %w", err)
	}
	now := uint64(physical)<<18 + uint64(logical)
	conf := config.DefaultConf
	conf.Server.Raft = false
	conf.Server.PDAddr = *pdAddr
	conf.Server.StoreAddr = *advertise
	conf.Server.RegionSize = *regionSize
	conf.Engine.DBPath = *dir

	safePoint := new(tikv.SafePoint)
	db, err := openDB(filepath.Join(*dir, "kv"), safePoint)
	if err != nil {
		return nil, err
	}
	s := &store{pdc: pdc, bundle: &mvcc.DBBundle{
		DB:        db,
		LockStore: lockstore.NewMemStore(8 << 20),
		StateTS:   now,
	}}
	if s.placement, err = connectPD(pdc.GetClusterID(context.Background())); err != nil {
		return nil, fmt.Errorf("connect to PD: %w", err)
	}
	if err := loadLocks(s.bundle); err != nil {
		return nil, fmt.Errorf("load the locks: %w", err)
	}
	if err := s.outbid(); err != nil {
		return nil, fmt.Errorf("raise the versions of regions: %w", err)
	}
	regions := tikv.NewStandAloneRegionManager(s.bundle, tikv.RegionOptions{
		StoreAddr: *advertise, PDAddr: *pdAddr, RegionSize: *regionSize,
	}, pdc)
	inner := tikv.NewStandAlongInnerServer(s.bundle)
	inner.Setup(pdc)
	m := &moments{Client: pdc, greatest: now, under: map[*prewrite]struct{}{}}
	data := tikv.NewMVCCStore(&conf, s.bundle, *dir, safePoint, newWriter(s.bundle), m)
	data.DeadlockDetectSvr.ChangeRole(tikv.Leader)
	if err := inner.Start(pdc); err != nil {
		return nil, fmt.Errorf("start unistore: %w", err)
	}
	data.StartDeadlockDetection(false)
	s.server = &service{tikv.NewServer(regions, data, inner), m, &memory{db: db, locks: s.bundle.LockStore}, regions}
	return s, nil
}

func openDB(path string, safePoint *tikv.SafePoint) (*badger.DB, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, err
	}
	o := badger.DefaultOptions
	o.Dir, o.ValueDir = path, path
	o.ManagedTxns = true
	// What was written survives the process, and tests do not crash the machine.
	o.SyncWrites = false
	o.CompactL0WhenClose = false
	o.ValueThreshold = 256
	o.NumMemtables = 3
	o.ValueLogMaxNumFiles = 3
	o.MaxBlockCacheSize, o.MaxIndexCacheSize = 0, 0 // tables are mapped
	o.TableBuilderOptions.CompressionPerLevel = make([]options.CompressionType, 7)
	o.CompactionFilterFactory = safePoint.CreateCompactionFilter
	db, err := badger.Open(o)
	if err != nil {
		return nil, fmt.Errorf("open the database: %w", err)
	}
	return db, nil
}

func (s *store) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.server.Stop()
	s.pdc.Close()
	log.Info("stopped", zap.String("dir", *dir))
}

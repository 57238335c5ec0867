package tikv

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/tikv/client-go/v2/tikv"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// safePoints implements tikv.SafePointKV: a few keys in PD's etcd, by which clients of TiKV
// share the cluster's safe point. The client's own implementation logs to the standard
// error.
type safePoints struct{ etcd *clientv3.Client }

var _ tikv.SafePointKV = (*safePoints)(nil)

const etcdTimeout = 5 * time.Second

func newSafePoints(pd []string, tls *tls.Config) (*safePoints, error) {
	c, err := clientv3.New(clientv3.Config{
		Endpoints: pd, TLS: tls, Logger: zap.NewNop(),
		AutoSyncInterval: 30 * time.Second, DialTimeout: etcdTimeout,
		DialKeepAliveTime: 10 * time.Second, DialKeepAliveTimeout: 3 * time.Second,
	})
	if err != nil {
		return nil, err
	}
	return &safePoints{c}, nil
}

func (s *safePoints) Put(k, v string) error {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	_, err := s.etcd.Put(ctx, k, v)
	return err
}

func (s *safePoints) Get(k string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	r, err := s.etcd.Get(ctx, k)
	if err != nil || len(r.Kvs) == 0 {
		return "", err
	}
	return string(r.Kvs[0].Value), nil
}

func (s *safePoints) GetWithPrefix(k string) ([]*mvccpb.KeyValue, error) {
	ctx, cancel := context.WithTimeout(context.Background(), etcdTimeout)
	defer cancel()
	r, err := s.etcd.Get(ctx, k, clientv3.WithPrefix())
	if err != nil {
		return nil, err
	}
	return r.Kvs, nil
}

func (s *safePoints) Close() error { return s.etcd.Close() }

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
)

// redoubt drop: removes a store from a cluster, so that its prefix is free again.

func dropStore(ctx context.Context, args []string, out, log io.Writer) (err error) {
	f := flags("drop", log)
	name := f.String("store", "", "the `store` to be removed: tikv://host:port,.../prefix")
	yes := f.Bool("yes", false, "do it; without, it is only said what there is")
	tls := securityFlags(f)
	if err := parse(f, args, "store"); err != nil {
		return err
	}
	if !strings.HasPrefix(*name, remoteScheme) {
		return fmt.Errorf("%s is no store of a cluster (%shost:port/prefix); a store in a directory is removed with the directory", *name, remoteScheme)
	}
	at, err := parseRemote(*name)
	if err != nil {
		return err
	}
	if strings.TrimPrefix(*name, remoteScheme) == strings.Join(at.pd, ",") {
		return fmt.Errorf("%s names no prefix: say which store is meant, such as %s/%s", *name, *name, defaultPrefix)
	}
	tls.reader = true
	eng, err := openRemote(ctx, *name, *tls)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, eng.Close()) }()
	store, ok := eng.(interface {
		Drop(context.Context, func(rows int64)) error
	})
	if !ok {
		return fmt.Errorf("%s cannot be removed", *name)
	}
	snap, err := eng.Snapshot()
	if err != nil {
		return err
	}
	it, rows := snap.Iter(nil, nil, false), int64(0)
	for it.Next() {
		rows++
	}
	if err := errors.Join(it.Close(), snap.Close()); err != nil {
		return err
	}
	if !*yes {
		fmt.Fprintf(out, "the store of prefix %q has %s; --yes removes them for good\n", at.prefix, number(rows, "row"))
		return nil
	}
	p := newProgress(log, 10*time.Second)
	err = store.Drop(ctx, func(gone int64) {
		p.begin("removed")
		p.show(number(gone, "row"))
	})
	p.end()
	if err != nil {
		return fmt.Errorf("%w\nThe store is not whole any more; the same command again removes the rest", err)
	}
	fmt.Fprintf(out, "removed the store of prefix %q: %s\n", at.prefix, number(rows, "row"))
	return nil
}

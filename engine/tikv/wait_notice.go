package tikv

import (
	"context"
	"crypto/tls"
	"strings"
	"time"
)

// waitNotice is when Open logs for the n-th time, from 0 on, that it waits: after 3, 10 and 30
// seconds and then every minute.
func waitNotice(n int) time.Duration {
	first := []time.Duration{3 * time.Second, 10 * time.Second, 30 * time.Second}
	if n < len(first) {
		return first[n]
	}
	return first[len(first)-1] + time.Duration(n-len(first)+1)*time.Minute
}

const (
	checkPD    = "does PD run at these addresses, and are they right (tikv-pd)? Is a firewall in between? Does the cluster want TLS (tikv-ca)?"
	checkStore = "do TiKV's stores run, and can this machine reach the addresses that they announce to PD?"
)

// logWaiting logs now and then what Open waits for, until ctx ends.
func logWaiting(ctx context.Context, o Options, config *tls.Config) {
	begun := time.Now()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Until(begun.Add(o.late(n)))):
		}
		found, check := strings.TrimPrefix(probe(ctx, o.PD, config), "; "), checkPD
		if ctx.Err() != nil {
			return
		}
		if found == "" {
			found, check = "PD answers, but the cluster does not", checkStore
		}
		waited := time.Since(begun).Round(100 * time.Millisecond)
		o.Logger.Warn("TiKV does not answer; trying on", "pd", strings.Join(o.PD, ","), "error", found,
			"waited", waited, "gives_up_in", max(0, o.OpenTimeout-waited), "check", check)
	}
}

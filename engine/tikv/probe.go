package tikv

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// probeTime is how long a probe may take.
const probeTime = 3 * time.Second

// probe connects to each placement driver and returns what failed, for an error text. The
// client's own error says only that it has no cluster.
func probe(ctx context.Context, addrs []string, config *tls.Config) string {
	if ctx.Err() != nil {
		return "" // the caller has given up
	}
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	found := make([]string, len(addrs))
	var all sync.WaitGroup
	for i, addr := range addrs {
		all.Go(func() {
			if _, rest, ok := strings.Cut(addr, "://"); ok {
				addr = rest
			}
			err := reach(ctx, addr, config)
			if err != nil && ctx.Err() != nil {
				err = errors.New("no answer")
			}
			if err != nil {
				found[i] = fmt.Sprintf("; %s: %s", addr, brief(err))
			}
		})
	}
	all.Wait()
	return strings.Join(found, "")
}

// reach asks a placement driver for its version over HTTP.
func reach(ctx context.Context, addr string, config *tls.Config) error {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(time.Now()) })()
	if config != nil {
		config = config.Clone()
		if config.ServerName, _, err = net.SplitHostPort(addr); err != nil {
			return err
		}
		secure := tls.Client(conn, config)
		if err := secure.HandshakeContext(ctx); err != nil {
			return fmt.Errorf("TLS: %w", err)
		}
		conn = secure
	}
	if _, err := io.WriteString(conn, "GET /pd/api/v1/version HTTP/1.1\r\nHost: "+addr+"\r\nConnection: close\r\n\r\n"); err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	switch {
	case err == nil:
		return answer.Body.Close()
	case config != nil: // the server checks the client's certificate last
		return fmt.Errorf("TLS: %w", err)
	}
	return errors.New("no answer without TLS; does it need tikv-ca?")
}

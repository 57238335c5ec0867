package fleet

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Address returns the address under which the others reach this front end: the announced
// one; else the first in bind, unless that is a wildcard; else the local address of
// connections to the store, since the other machines reach the store, too.
//
// bind is as in the directive bind: an address with a leading "-" may be missing on this
// machine, and "*" and "::*" are all addresses. store is host:port.
func Address(announced string, bind []string, store string) (string, error) {
	if announced != "" {
		return announced, nil
	}
	for _, b := range bind {
		b = strings.TrimPrefix(b, "-")
		if ip := net.ParseIP(b); b == "*" || b == "::*" || ip != nil && ip.IsUnspecified() {
			return local(store)
		} else if b != "" {
			return b, nil
		}
	}
	return local(store)
}

// local returns the local address of connections to another machine. Nothing is sent.
func local(to string) (string, error) {
	if to == "" {
		return "", errors.New("no address to announce: set cluster-announce-ip")
	}
	conn, err := net.Dial("udp", to)
	if err != nil {
		return "", fmt.Errorf("address on the way to %s: %w", to, err)
	}
	defer conn.Close()
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	return host, err
}

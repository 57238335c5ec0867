package fleet

import (
	"errors"
	"fmt"
	"net"
	"strings"
)

// Address finds the address under which the others reach this front end: the one that
// the configuration announces; else the first that it listens on, if that is not any
// at all; else the one by which this machine reaches the store, since that is where
// the other machines are.
//
// Addresses are given as in the directive bind: those that begin with "-" may be
// missing on this machine, and "*" and "::*" are all. store is host:port.
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

// local is the address of this machine on the way to another. Nothing is sent.
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

//go:build !linux

package gateway

import (
	"errors"
	"net"
	"time"
)

// parking exists on Linux only. Elsewhere waiting requests keep their goroutines.
type parking struct{}

type place struct{}

const canPark = false

func newParking(time.Duration) (*parking, error) { return new(parking), nil }

func (*parking) watch(net.Conn, bool, func(bool)) (*place, error) { return nil, errors.ErrUnsupported }
func (*parking) leave(*place) bool                                { return false }
func (*parking) run()                                             {}
func (*parking) close()                                           {}
func (*parking) parked() int                                      { return 0 }

func tryWrite(net.Conn, []byte) int { return 0 }

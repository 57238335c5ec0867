//go:build !unix

package server

import "math"

func descriptorLimit() int64 { return math.MaxInt64 }

//go:build tools

// Package tools pins the PD server that TiKV tests run. It is a module of its
// own, so that nothing of it comes near the product's dependencies.
package tools

import _ "github.com/tikv/pd/cmd/pd-server"

// Package client holds tests that drive Redoubt with a client library that many
// people use, go-redis: what its users do must work as with Redis, down to the
// errors that the library recognises.
package client

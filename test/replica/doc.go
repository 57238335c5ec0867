// Package replica tests Redoubt as a replica of a real Redis: with random writes of all types,
// kill -9 of either side, and docs/moving.md followed to the letter while clients write. At the end
// the data of both sides is compared key by key. The tests need a redis-server.
package replica

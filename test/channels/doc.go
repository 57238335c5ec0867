// Package channels tests durable channels from outside: the examples of docs/channels.md as
// they stand there, a browser with EventSource, and many subscribers at many channels.
//
// What needs only curl and redis-cli is run by every test. Python, Node and the browser are
// run with REDOUBT_CLIENTS=1, and the load at its full size with -full: `make test-channels`
// does both.
package channels

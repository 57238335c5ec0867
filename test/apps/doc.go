// Package apps holds small applications as people build them on Redis, each
// with the promise that it makes to its users: a durable publish/subscribe
// server made of scripts, a lock, and a lock over five servers of which some
// are killed. They run on Redoubt and, with REDOUBT_ORACLE=1, on a real Redis
// (REDIS_SERVER or the one in PATH), which shows that the tests ask for nothing
// that Redis does not give.
package apps

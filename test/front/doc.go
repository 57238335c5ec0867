// Package front tests what front ends of one store are to each other: no write is
// lost or done twice, nobody who waits, watches, caches or listens is forgotten, and
// what one of them was told to forget the others do not bring back. Each test runs on
// a store in memory, and on TiKV if there is one.
package front

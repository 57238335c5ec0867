// Package hostile has a real server meet clients that mean it no good: each
// scenario is a process of its own with a small maxmemory, whose memory is
// measured while newcomers ask it for a PING.
//
//	make hostile          all of them, half an hour; prints two tables
//	make hostile-short    the same with smaller counts, two minutes
//	HOSTILE=full go test -count=1 -v -run TestHostile/sort ./test/hostile
//
// A scenario passes if the process stayed within its bound (rss.Bound), served
// every newcomer, and was still there at the end. Whether the hostile clients got
// what they asked for does not matter: an error or a closed connection is as good
// as a reply, and the table says which it was.
//
// Full disks have a table of their own behind it (TestFullDisk, as root): real file systems
// of which another process takes every block, and which the store fills by itself. What is
// measured there are times, each with the bound diskBound. A scenario that cannot be run is
// in its table all the same, as not run.
//
// HOSTILE_BINARY names a program to be measured instead of the one built from
// this tree.
package hostile

package keyspace

// What replicas of Redis's kind are told. A replica never lets anything expire by itself, so
// each removal of something that is past its time is told, before the command that caused it.
// Channels are left out: no Redis has them.

// Propagates reports whether replicas are told of what the execution does.
func (t *Tx) Propagates() bool { return t.FX.Feed.On && t.err == nil }

// Propagate notes a command that replicas run in place of the command under way. A handler may
// note several; one that notes none has its own arguments propagated if it has changed anything.
func (t *Tx) Propagate(args ...[]byte) {
	if t.Propagates() {
		t.FX.Feed.Own++
		t.FX.Feed.Add(t.DB, args...)
	}
}

var (
	delName  = []byte("DEL")
	hdelName = []byte("HDEL")
)

// propagateDeath notes that a key is gone since it was past its time.
func (t *Tx) propagateDeath(key []byte, old Meta) {
	if t.Propagates() && old.Type != Channel {
		t.FX.Feed.Add(t.DB, delName, key)
	}
}

// PropagateFieldDeath notes that a field of a hash is gone since it was past its time.
func (t *Tx) PropagateFieldDeath(key, field []byte) {
	if t.Propagates() {
		t.FX.Feed.Add(t.DB, hdelName, key, field)
	}
}

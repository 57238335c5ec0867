package script

import (
	"fmt"
	"testing"

	"redoubt/keyspace"
)

// An interpreter forgets libraries that were replaced.
func TestReplacedLibrariesGo(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for i := range 50 {
		source := fmt.Sprintf("#!lua name=lib\nredis.register_function('f', function() return %d end)", i)
		if _, err := b.prepare(source); err != nil {
			t.Fatal(err)
		}
		b.publish([]keyspace.LibraryChange{{Name: "lib", Source: source}})
		reply, err := b.call(2, "fcall", "F", "0")
		b.want(reply, fmt.Sprintf(":%d\r\n", i))
		if err != nil {
			t.Fatal(err)
		}
	}
	st := b.functions.get()
	if n := len(st.loaded); n > 2 {
		t.Errorf("%d libraries are kept", n)
	}
	if f := b.Figures(); f.Libraries != 1 || f.Functions != 1 || f.FunctionStates != 1 {
		t.Errorf("%+v", f)
	}
}

// A library that cannot be loaded is told in the log, and the others are there.
func TestUnloadableLibrary(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.publish([]keyspace.LibraryChange{
		{Name: "bad", Source: "#!lua name=bad\nerror('x')"},
		{Name: "good", Source: "#!lua name=good\nredis.register_function('f', function() return 1 end)"},
	})
	reply, err := b.call(2, "fcall", "f", "0")
	if err != nil || reply != ":1\r\n" || b.log.Len() == 0 {
		t.Error(reply, err, b.log.String())
	}
}

// What a batch has done to libraries is seen by what comes behind it, and by nobody
// else until it is committed.
func TestOwnChangesAreSeen(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.tx.Writable = true
	b.tx.PutLibrary("lib", "#!lua name=lib\nredis.register_function('f', function() return 1 end)")
	reply, err := b.call(2, "fcall", "f", "0")
	if err != nil || reply != ":1\r\n" {
		t.Error(reply, err)
	}
	b.tx.FX.Reset()
	if _, err := b.call(2, "fcall", "f", "0"); err != errNoFunction {
		t.Error(err)
	}
}

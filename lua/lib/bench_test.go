package lib_test

import (
	"strings"
	"testing"

	"redoubt/lua"
)

// sample is a document as an application might keep it, of about 10 kB.
var sample = "[" + strings.Repeat(`{"id":12345,"name":"someone","tags":["a","b","c"],"score":1.5,"address":{"street":"a road \"of some\" length","zip":null},"ok":true},`, 75) + "1]"

func BenchmarkDecode(b *testing.B) {
	l := open(b)
	b.SetBytes(int64(len(sample)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.call("cjson.decode", lua.String(sample)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	l := open(b)
	v, err := l.call("cjson.decode", lua.String(sample))
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(sample)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.call("cjson.encode", v...); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkUnpack(b *testing.B) {
	l := open(b)
	v, err := l.call("cjson.decode", lua.String(sample))
	if err != nil {
		b.Fatal(err)
	}
	packed, err := l.call("cmsgpack.pack", v...)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(packed[0].Str())))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := l.call("cmsgpack.unpack", packed...); err != nil {
			b.Fatal(err)
		}
	}
}

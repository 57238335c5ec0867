package lib_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// server runs snippets with EVAL, on a real Redis or on Redoubt.
type server struct {
	t      testing.TB
	client *respclient.Client
	show   string
}

func newRedis(t testing.TB) *server {
	t.Helper()
	s := testserver.StartRedis(t)
	s.Needs(t, "7.2")
	return newServer(t, s.Addr)
}

func newServer(t testing.TB, addr string) *server {
	t.Helper()
	text, err := os.ReadFile("testdata/show.lua")
	if err != nil {
		t.Fatal(err)
	}
	c, err := respclient.Dial(addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &server{t: t, client: c, show: string(text)}
}

func (r *server) run(code string) string {
	r.t.Helper()
	v, err := r.client.Do("EVAL", r.show, "0", code)
	if err != nil {
		r.t.Fatalf("%s: %v", code, err)
	}
	if v.IsError() {
		return "aborted: " + v.Str
	}
	return v.Str
}

// TestRecord writes what a real Redis answers into the corpus.
func TestRecord(t *testing.T) {
	if !*record {
		t.Skip("records only when told to: -record")
	}
	for _, file := range corpus(t) {
		r := newRedis(t)
		_, text := parse(t, file, r.run)
		if err := os.WriteFile(filepath.Clean(file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCorpusOnRedis says whether the corpus is what this Redis answers.
func TestCorpusOnRedis(t *testing.T) {
	testserver.Oracle(t)
	for _, file := range corpus(t) {
		r := newRedis(t)
		all, _ := parse(t, file, nil)
		for _, s := range all {
			if got := r.run(s.code); got != s.want {
				t.Errorf("%s:%d: %s\nRedis says %s\nrecorded   %s", file, s.line, s.code, got, s.want)
			}
		}
	}
}

// TestCorpusOnRedoubt runs the corpus through EVAL. Settings that a script
// changes are its own there, so the snippets about them are not compared.
func TestCorpusOnRedoubt(t *testing.T) {
	t.Parallel()
	r := newServer(t, testserver.Start(t, testserver.Options{}).Addr)
	for _, file := range corpus(t) {
		if strings.Contains(file, "cjson_config") {
			continue
		}
		all, _ := parse(t, file, nil)
		for _, s := range all {
			if got := r.run(s.code); got != s.want {
				t.Errorf("%s:%d: %s\ngot  %s\nwant %s", file, s.line, s.code, got, s.want)
			}
		}
	}
}

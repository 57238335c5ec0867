package channels

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/testserver"
)

// report has the page of docs/channels.md tell the test what is in its list, in order.
const report = `<script>
  let told = Promise.resolve();
  new MutationObserver((changes) => {
    const text = changes.flatMap((c) => [...c.addedNodes]).map((n) => n.textContent).join('\n');
    told = told.then(() => fetch('/seen', { method: 'POST', body: text }));
  }).observe(document.getElementById('list'), { childList: true });
</script>`

// screen is what a page has shown.
type screen struct {
	mu   sync.Mutex
	seen []string
}

func (s *screen) add(text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, strings.Split(text, "\n")...)
}

func (s *screen) all() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.seen...)
}

// The page with EventSource gets every message at least once and in order, through ends of
// streams, which acknowledge, and through a kill of the server.
func TestEventSourceInABrowser(t *testing.T) {
	t.Parallel()
	needs(t, false, "chromium")
	var shown screen
	var html string // set before the browser comes
	pages := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/":
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, html)
		case "/seen":
			b, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			shown.add(string(b))
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(pages.Close)
	dir := t.TempDir()
	args := []string{"--http-cors-origins", pages.URL, "--appendfsync", "always", "--http-access-log", "yes", "--loglevel", "notice"}
	p := start(t, dir, args...)
	html = "<!doctype html>" + here(examples(t, "html")[0], placeOf(p)) + report
	browse(t, pages.URL)

	const turns, each = 3, 300 // more than a stream has until it ends
	published := 0
	for turn := range turns {
		c := dial(t, p)
		wait(t, "the page subscribes", func() bool { v, err := c.Do("CHLIST", "chat"); return err == nil && len(v.Elems) == 1 })
		for range each {
			v, err := c.Do("CHPUBLISH", "chat", "m-"+strconv.Itoa(published), fmt.Sprintf(`{"text":"text %d"}`, published))
			if err != nil || v.IsError() {
				t.Fatal(v, err)
			}
			published++
		}
		if turn == turns-1 {
			break
		}
		p.Kill()
		again := append([]string{"--http-addr", p.HTTP}, args...)
		p = start(t, dir, again...) // which overrides the free port of start
	}
	last := fmt.Sprintf("text %d", published-1)
	wait(t, "the page shows "+last, func() bool { all := shown.all(); return len(all) > 0 && all[len(all)-1] == last })
	next := 0
	for i, text := range shown.all() {
		number, err := strconv.Atoi(strings.TrimPrefix(text, "text "))
		if err != nil || number > next {
			t.Fatalf("item %d of the page is %q; %d comes next", i, text, next)
		}
		next = max(next, number+1)
	}
	t.Logf("%d messages were shown %d times", published, len(shown.all()))
	if len(shown.all()) > 2*published {
		t.Error("the browser does not acknowledge: what it has comes again and again")
	}
	testBacklog(t, p, published)
}

// testBacklog demands that the page has acknowledged what it got before its last stream.
func testBacklog(t *testing.T, p *testserver.Process, published int) {
	t.Helper()
	v, err := dial(t, p).Do("CHINFO", "chat", "FULL")
	if err != nil || v.IsError() {
		t.Fatal(v, err)
	}
	text := v.String()
	_, after, ok := strings.Cut(text, `"backlog"`)
	if !ok {
		t.Fatal(text)
	}
	var backlog int
	if _, err := fmt.Sscanf(after[strings.Index(after, "(integer)"):], "(integer) %d", &backlog); err != nil || backlog >= published {
		t.Errorf("%d of %d messages are not acknowledged (%v)", backlog, published, err)
	}
}

// browse opens a page in Chromium until the test ends.
func browse(t *testing.T, url string) {
	t.Helper()
	cmd := exec.Command("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--user-data-dir="+t.TempDir(), url)
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = 10 * time.Second // its children hold the pipe
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // fails only if it has exited
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("chromium:\n%s", said.String())
		}
	})
}

// wait polls.
func wait(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(60 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain: " + what)
		}
	}
}

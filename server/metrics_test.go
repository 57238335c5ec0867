package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"redoubt/config"
	"redoubt/engine"
	"redoubt/engine/mem"
	"redoubt/internal/testserver"
	"redoubt/server"
)

func scrape(t *testing.T, s *testserver.Server) string {
	t.Helper()
	return scrapeURL(t, s.MetricsAddr().String())
}

func scrapeURL(t *testing.T, addr string) string {
	t.Helper()
	resp, err := http.Get("http://" + addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("status %s, %v: %s", resp.Status, err, b)
	}
	return string(b)
}

// request asks the metrics server for a path, with what edit does to the request.
func request(t *testing.T, s *testserver.Server, path string, edit func(*http.Request)) (status int, body string) {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://"+s.Server.MetricsAddr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(req)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

// Profiles are served beside the metrics, if somebody wants them.
func TestProfiles(t *testing.T) {
	t.Parallel()
	const path = "/debug/pprof/goroutine?debug=1"
	s := testserver.Start(t, testserver.Options{Args: []string{"--metrics-addr", "127.0.0.1:0", "--metrics-pprof", "yes"}})
	if status, text := request(t, s, path, nil); status != http.StatusOK || !strings.Contains(text, "goroutine profile: total") {
		t.Errorf("%d: %.200s", status, text)
	}
	s = testserver.Start(t, testserver.Options{Args: []string{"--metrics-addr", "127.0.0.1:0"}})
	if status, text := request(t, s, path, nil); status != http.StatusNotFound {
		t.Errorf("%d: %.200s", status, text)
	}
}

// Profiles on an address that other machines reach need a password: the server does not
// start without, and nobody can turn them on later.
func TestProfilesNeedPassword(t *testing.T) {
	t.Parallel()
	run := func(args ...string) (*front, error) {
		cfg := config.New()
		if err := cfg.Args(append([]string{"--port", "0", "--bind", "127.0.0.1", "--dir", t.TempDir(), "--metrics-addr"}, args...)); err != nil {
			t.Fatal(err)
		}
		f := &front{t: t, log: &logBook{}}
		srv, err := server.New(server.Options{Engine: mem.New(), Config: cfg, Logger: slog.New(slog.NewTextHandler(f.log, nil))})
		if err != nil {
			t.Fatal(err)
		}
		f.Server, f.addr = srv, srv.Addr().String()
		t.Cleanup(f.stop)
		return f, srv.Start()
	}
	for _, addr := range []string{"0.0.0.0:0", ":0"} {
		f, err := run(addr, "--metrics-pprof", "yes")
		if err == nil || !strings.Contains(err.Error(), "metrics-password") || !strings.Contains(err.Error(), "metrics-pprof") {
			t.Errorf("%s: %v", addr, err)
		}
		if a := f.MetricsAddr(); a != nil {
			t.Errorf("%s: profiles are served on %s", addr, a)
		}
	}
	const warning = "everybody who reaches metrics-addr can read the metrics"
	if f, err := run("0.0.0.0:0", "--metrics-pprof", "yes", "--metrics-password", "p"); err != nil || strings.Contains(f.log.String(), warning) {
		t.Errorf("with a password: %v\n%s", err, f.log)
	}
	f, err := run("0.0.0.0:0")
	if err != nil || !strings.Contains(f.log.String(), warning) {
		t.Fatalf("metrics alone: %v\n%s", err, f.log)
	}
	for _, set := range [][]string{{"metrics-pprof", "yes"}, {"metrics-password", "x"}, {"metrics-addr", ":0"}} {
		if got := f.dial().do("CONFIG", "SET", set[0], set[1]); !strings.Contains(got, "can't set immutable config") {
			t.Errorf("CONFIG SET %s: %s", set[0], got)
		}
	}
}

// With a password metrics and profiles are for those who have it.
func TestMetricsPassword(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--metrics-addr", "127.0.0.1:0", "--metrics-pprof", "yes", "--metrics-password", "right"}})
	for name, c := range map[string]struct {
		edit func(*http.Request)
		want int
	}{
		"none":         {nil, http.StatusUnauthorized},
		"basic":        {func(r *http.Request) { r.SetBasicAuth("any", "right") }, http.StatusOK},
		"wrong basic":  {func(r *http.Request) { r.SetBasicAuth("right", "wrong") }, http.StatusUnauthorized},
		"empty basic":  {func(r *http.Request) { r.SetBasicAuth("", "") }, http.StatusUnauthorized},
		"bearer":       {func(r *http.Request) { r.Header.Set("Authorization", "Bearer right") }, http.StatusOK},
		"wrong bearer": {func(r *http.Request) { r.Header.Set("Authorization", "Bearer wrong") }, http.StatusUnauthorized},
	} {
		for _, path := range []string{"/metrics", "/debug/pprof/goroutine?debug=1"} {
			if status, text := request(t, s, path, c.edit); status != c.want {
				t.Errorf("%s of %s: %d, not %d: %.200s", path, name, status, c.want, text)
			}
		}
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	for _, engine := range []string{"mem", "local"} {
		s := testserver.Start(t, testserver.Options{Engine: engine, Args: []string{"--metrics-addr", "127.0.0.1:0"}})
		c := dial(t, s.Addr)
		must(t, c, "SET a 1")
		must(t, c, "SET b 1 EX 1000")
		must(t, c, "GET a")
		must(t, c, "GET nosuch")
		ask(t, c, "GET")
		must(t, c, "CLIENT ID")
		must(t, c, "SELECT 3")
		must(t, c, "SET c 1")
		text := scrape(t, s)
		for _, want := range []string{
			`redoubt_info{durability="\w+",engine="` + engine + `",redis_version="7\.4\.1",version=".+"} 1`,
			`redoubt_commands_total{command="set"} 3`,
			`redoubt_commands_total{command="get"} 2`,
			`redoubt_commands_total{command="client\|id"} 1`,
			`redoubt_commands_rejected_total{command="get"} 1`,
			`redoubt_command_duration_seconds_bucket{command="set",le="\+Inf"} 3`,
			`redoubt_command_duration_seconds_bucket{command="set",le="4\.294967296"} 3`,
			`redoubt_command_duration_seconds_count{command="set"} 3`,
			`redoubt_errors_total{code="ERR"} 1`,
			`redoubt_connected_clients 1`,
			`redoubt_connections_total 1`,
			`redoubt_net_input_bytes_total [1-9]\d+`,
			`redoubt_net_output_bytes_total [1-9]\d+`,
			`redoubt_keys{db="0"} 2`,
			`redoubt_keys{db="3"} 1`,
			`redoubt_keys_with_expiry{db="0"} 1`,
			`redoubt_keyspace_hits_total 1`,
			`redoubt_keyspace_misses_total 1`,
			`redoubt_expired_keys_total 0`,
			`redoubt_changes_total 3`,
			`redoubt_engine_ok 1`,
			`redoubt_engine_commits_total [1-9]\d*`,
			`redoubt_engine_memory_bytes [1-9].*`,
			`redoubt_durability_lag_commits \d+`,
			`redoubt_engine_detail{name="\w+"} \d.*`,
			`redoubt_memory_used_bytes [1-9].*`,
			`go_goroutines \d+`,
			`process_cpu_seconds_total .*`,
		} {
			if !regexp.MustCompile("(?m)^" + want + "$").MatchString(text) {
				t.Errorf("%s: there is no line %s", engine, want)
			}
		}
		for l := range strings.SplitSeq(text, "\n") {
			if strings.HasPrefix(l, "# HELP redoubt_") && len(strings.Fields(l)) < 5 {
				t.Errorf("%s: no help: %s", engine, l)
			}
		}
		if t.Failed() {
			t.Log(text)
		}
	}
}

// What only an engine knows is shown by INFO and by the metrics, all of it.
func TestEngineDetail(t *testing.T) {
	t.Parallel()
	f := startOn(t, detailed{mem.New()}, false, "--metrics-addr", "127.0.0.1:0")
	c, text := f.dial(), scrapeURL(t, f.MetricsAddr().String())
	for i, name := range []string{"resident_rows", "dirty_bytes", "level_0_files"} {
		value := strconv.Itoa(7 + i)
		if got := c.info("redoubt", "engine_"+name); got != value {
			t.Errorf("INFO: %s is %q", name, got)
		}
		if !strings.Contains(text, `redoubt_engine_detail{name="`+name+`"} `+value+"\n") {
			t.Errorf("the metrics lack %s", name)
		}
	}
}

type detailed struct{ engine.Engine }

func (detailed) Stats() engine.Stats {
	return engine.Stats{Detail: []engine.Stat{{Name: "resident_rows", Value: 7}, {Name: "dirty_bytes", Value: 8}, {Name: "level_0_files", Value: 9}}}
}

// A scrape beside clients that come and go never shows bytes that go down.
func TestMetricsWhileClientsLeave(t *testing.T) {
	t.Parallel()
	s := testserver.Start(t, testserver.Options{Args: []string{"--metrics-addr", "127.0.0.1:0"}})
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			c := dial(t, s.Addr)
			if _, err := c.Do("PING"); err != nil {
				t.Error(err)
				return
			}
			c.Close()
		}
	}()
	line := regexp.MustCompile(`(?m)^redoubt_net_input_bytes_total (.+)$`)
	last := 0.0
	for range 50 {
		m := line.FindStringSubmatch(scrape(t, s))
		if m == nil {
			t.Fatal("no bytes")
		}
		n := parse(t, m[1])
		if n < last {
			t.Errorf("%v follows %v", n, last)
		}
		last = n
	}
	close(stop)
	<-done
}

func TestNoMetricsByDefault(t *testing.T) {
	t.Parallel()
	if a := testserver.Start(t, testserver.Options{}).MetricsAddr(); a != nil {
		t.Errorf("metrics are served on %s", a)
	}
}

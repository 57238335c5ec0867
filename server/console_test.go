package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"redoubt/engine/mem"
)

// visitor is a browser at the console.
type visitor struct {
	*web
	cookie, token string
}

// visit logs in.
func (w *web) visit(user, password string) *visitor {
	w.t.Helper()
	v := &visitor{web: w}
	got, head := w.ask("POST", "/console/api/login", fmt.Sprintf(`{"user":%q,"password":%q}`, user, password), "Content-Type: application/json")
	var state struct{ Token string }
	if text, ok := strings.CutPrefix(got, "200 "); !ok || json.Unmarshal([]byte(text), &state) != nil || state.Token == "" {
		w.t.Fatalf("log-in of %s: %s", user, got)
	}
	v.token = state.Token
	v.cookie, _, _ = strings.Cut(head.Get("Set-Cookie"), ";")
	return v
}

// api makes a request as the page does.
func (v *visitor) api(method, path, body string) string {
	v.t.Helper()
	got, _ := v.ask(method, "/console/api/"+path, body, "Cookie: "+v.cookie, "X-Redoubt-Token: "+v.token, "Content-Type: application/json")
	return got
}

// run runs a command, and returns its replies as JSON.
func (v *visitor) run(commands string) string {
	v.t.Helper()
	got := v.api("POST", "run", `{"commands":[`+commands+`]}`)
	var result struct {
		Replies json.RawMessage
		Error   string
	}
	text, ok := strings.CutPrefix(got, "200 ")
	if !ok {
		return got
	}
	if err := json.Unmarshal([]byte(text), &result); err != nil {
		v.t.Fatal(err)
	}
	return string(result.Replies) + result.Error
}

func (v *visitor) wantRun(want, commands string) {
	v.t.Helper()
	if got := v.run(commands); !strings.HasPrefix(got, want) {
		v.t.Errorf("%s: %s, want %s", commands, got, want)
	}
}

func (v *visitor) wantAPI(want, method, path, body string) {
	v.t.Helper()
	if got := v.api(method, path, body); !strings.HasPrefix(got, want) {
		v.t.Errorf("%s %s %s: %.300s, want %s", method, path, body, got, want)
	}
}

// tell sends a command to the port.
func (w *web) tell(line string) string { return w.dial().do(strings.Fields(line)...) }

func consoleServer(t testing.TB, args ...string) *web {
	t.Helper()
	return startWeb(t, mem.New(), args...)
}

func TestConsoleRunsCommandsAsTheUser(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--requirepass", "master")
	boss := w.visit("default", "master")
	boss.wantRun(`[{"status":"OK"},"v",null]`, `["SET","k","v"],["GET","k"],["GET","none"]`)
	boss.wantRun(`[{"status":"OK"}]`, `["ACL","SETUSER","reader","on",">pw","~r:*","+get","+acl|whoami"]`)
	boss.wantRun(`["default"]`, `["ACL","WHOAMI"]`)

	reader := w.visit("reader", "pw")
	reader.wantRun(`["reader",null]`, `["ACL","WHOAMI"],["GET","r:1"]`)
	reader.wantRun(`[{"error":"NOPERM No permissions to access a key`, `["GET","k"]`)
	reader.wantRun(`[{"error":"NOPERM User reader has no permissions to run the 'set' command`, `["SET","r:1","x"]`)
	reader.wantRun(`[{"error":"NOPERM User reader has no permissions to run the 'eval' command`, `["EVAL","return 1","0"]`)
	for _, path := range []string{"history", "live", "directives"} {
		reader.wantAPI("403", "GET", path, "")
	}
	if log := boss.run(`["ACL","LOG"]`); !strings.Contains(log, "reader") || !strings.Contains(log, "redoubt-console") {
		t.Errorf("ACL LOG does not show the denials: %s", log)
	}
	// Rights are those of now, not of the log-in.
	boss.wantRun(`[{"status":"OK"}]`, `["ACL","SETUSER","reader","+set"]`)
	reader.wantRun(`[{"status":"OK"}]`, `["SET","r:1","x"]`)
	boss.wantRun(`[1]`, `["ACL","DELUSER","reader"]`)
	reader.wantAPI("401", "POST", "run", `{"commands":[["PING"]]}`)
}

func TestConsoleLogIn(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--requirepass", "master")
	asJSON := "Content-Type: application/json"
	w.want(`401 {"error":"WRONGPASS`, "POST", "/console/api/login", `{"user":"default","password":"no"}`, asJSON)
	w.want("401", "POST", "/console/api/login", `{"user":"nobody","password":"master"}`, asJSON)
	w.want("400", "POST", "/console/api/login", `{"user":"default","password":"master"}`) // a form of another site
	w.want("400", "POST", "/console/api/login", `{"user":`, asJSON)
	w.want("400", "POST", "/console/api/login", `{"user":"default","admin":true}`, asJSON)
	w.want("403", "POST", "/console/api/login", `{"user":"default","password":"master"}`, asJSON, "Origin: https://example.com", "Sec-Fetch-Site: cross-site")
	w.want("401", "POST", "/console/api/run", `{"commands":[["PING"]]}`, asJSON)
	if got, _ := w.ask("GET", "/console/api/login", ""); strings.Contains(got, "token") || strings.Contains(got, "version") {
		t.Errorf("a stranger is told %s", got)
	}

	v := w.visit("", "master")
	_, head := w.ask("POST", "/console/api/login", `{"password":"master"}`, asJSON)
	if c := head.Get("Set-Cookie"); !strings.Contains(c, "HttpOnly") || !strings.Contains(c, "SameSite=Strict") || strings.Contains(c, "Secure") {
		t.Errorf("the cookie is %q", c)
	}
	w.want("401", "POST", "/console/api/run", `{"commands":[["PING"]]}`, asJSON, "X-Redoubt-Token: "+v.token)
	w.want("403", "POST", "/console/api/run", `{"commands":[["PING"]]}`, asJSON, "Cookie: "+v.cookie)
	w.want("403", "POST", "/console/api/run", `{"commands":[["PING"]]}`, asJSON, "Cookie: "+v.cookie, "X-Redoubt-Token: "+v.token+"x")
	w.want("403", "POST", "/console/api/run", `{"commands":[["PING"]]}`, asJSON, "Cookie: "+v.cookie, "X-Redoubt-Token: "+v.token, "Origin: http://example.com")
	v.wantRun(`[{"status":"PONG"}]`, `["PING"]`)
	v.wantAPI("204", "DELETE", "login", "")
	v.wantAPI("401", "POST", "run", `{"commands":[["PING"]]}`)
}

// The server slows failed log-ins down by address: those at the console count with those at
// the port.
func TestConsoleLogInsAreLimited(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--requirepass", "master")
	for range 20 {
		w.want("401", "POST", "/console/api/login", `{"password":"no"}`, "Content-Type: application/json")
	}
	list := w.visit("default", "master").run(`["ACL","LOG","1"]`) // the right password is not delayed
	if !strings.Contains(list, "auth") {
		t.Errorf("ACL LOG does not show failed log-ins: %s", list)
	}
}

func TestConsoleWithoutPassword(t *testing.T) {
	t.Parallel()
	w := consoleServer(t)
	v := w.visit("default", "")
	v.wantRun(`[{"status":"PONG"}]`, `["PING"]`)
	// A proxy, and a name that somebody has pointed at this machine.
	w.want("403", "GET", "/console/", "", "X-Forwarded-For: 1.2.3.4")
	w.want("403", "GET", "/console/api/login", "", "Forwarded: for=1.2.3.4")
	req, err := http.NewRequest("GET", w.url+"/console/", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = "evil.example"
	res, err := w.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusForbidden {
		t.Errorf("a foreign Host: %d", res.StatusCode)
	}
}

func TestConsoleReadOnly(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--console-read-only", "yes")
	v := w.visit("default", "")
	refused := `[{"error":"NOPERM the console is read-only`
	for _, command := range []string{
		`["SET","k","v"]`, `["DEL","k"]`, `["CONFIG","SET","console-read-only","no"]`, `["FLUSHALL"]`, `["CLIENT","KILL","ID","1"]`,
		`["ACL","SETUSER","x","on"]`, `["ACL","LOG","RESET"]`, `["PUBLISH","c","m"]`, `["SLOWLOG","RESET"]`, `["SHUTDOWN"]`, `["DEBUG","SLEEP","0"]`,
		`["SCRIPT","FLUSH"]`, `["FUNCTION","FLUSH"]`, `["CHPUBLISH","c","m","{}"]`, `["LATENCY","RESET"]`, `["SWAPDB","0","1"]`, `["SORT","k","STORE","l"]`,
		`["CONFIG","RESETSTAT"]`, `["CONFIG","REWRITE"]`, `["CLIENT","PAUSE","1"]`, `["CLIENT","UNBLOCK","1"]`, `["MEMORY","PURGE"]`, `["SAVE"]`,
		`["EVAL","return redis.call('SET','k','v')","1","k"]`, `["GETEX","k","EX","1"]`, `["SPUBLISH","c","m"]`, `["BGSAVE"]`, `["CLIENT","NO-EVICT","on"]`,
	} {
		v.wantRun(refused, command)
	}
	if got := v.api("POST", "run", `{"atomic":true,"commands":[["SET","k","v"]]}`); !strings.Contains(got, "read-only") {
		t.Errorf("in a transaction: %s", got)
	}
	for _, command := range []string{
		`["GET","k"]`, `["SCAN","0"]`, `["CONFIG","GET","maxmemory"]`, `["CLIENT","LIST"]`, `["ACL","LIST"]`, `["ACL","LOG"]`, `["SLOWLOG","GET"]`, `["INFO"]`,
		`["COMMAND","DOCS","get"]`, `["MEMORY","USAGE","k"]`, `["LATENCY","LATEST"]`, `["PUBSUB","CHANNELS"]`, `["DBSIZE"]`, `["OBJECT","HELP"]`,
		`["EVAL_RO","return redis.call('GET','k')","1","k"]`, `["ROLE"]`,
	} {
		if got := v.run(command); strings.HasPrefix(got, `[{"error"`) {
			t.Errorf("%s: %s", command, got)
		}
	}
	w.tell("SET k v") // clients on the port are not concerned
	v.wantRun(`["v"]`, `["GET","k"]`)
}

func TestConsoleOff(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--console", "no")
	for _, path := range []string{"/console/", "/console/api/login", "/metrics", "/debug/pprof/", "/"} {
		w.want("404", "GET", path, "")
	}
}

func TestConsoleBelowPrefix(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--http-prefix", "/db")
	w.url += "/db"
	w.want("200 <!doctype html>", "GET", "/console/", "")
	w.visit("default", "").wantRun(`[{"status":"PONG"}]`, `["PING"]`)
	w.want("200 # HELP", "GET", "/metrics", "")
	if got, _ := w.ask("GET", "/debug/pprof/", ""); !strings.Contains(got, "goroutine") {
		t.Errorf("profiles: %.200s", got)
	}
}

func TestMetricsAndProfilesBehindTheConsole(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--requirepass", "master", "--metrics-addr", "127.0.0.1:0")
	boss := w.visit("default", "master")
	boss.run(`["ACL","SETUSER","watcher","on",">pw","+info"],["ACL","SETUSER","other","on",">pw","+get"]`)
	basic := func(user string) string {
		req := http.Request{Header: http.Header{}}
		req.SetBasicAuth(user, "pw")
		return "Authorization: " + req.Header.Get("Authorization")
	}
	for _, path := range []string{"/metrics", "/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/cmdline"} {
		w.want("401", "GET", path, "")
		w.want("401", "GET", path, "", basic("nobody"))
		w.want("403", "GET", path, "", basic("other"))
	}
	w.want("200 # HELP", "GET", "/metrics", "", basic("watcher"))
	w.want("403", "GET", "/debug/pprof/", "", basic("watcher"))
	w.want("200", "GET", "/debug/pprof/", "", "Cookie: "+boss.cookie)
	w.want("200 # HELP", "GET", "/metrics", "", "Cookie: "+boss.cookie)
}

func TestConsoleTerminalKeepsItsState(t *testing.T) {
	t.Parallel()
	v := consoleServer(t).visit("default", "")
	term := func(command string) string {
		return v.api("POST", "run", `{"terminal":"a","commands":[`+command+`]}`)
	}
	for _, step := range [][2]string{
		{`["SELECT","3"]`, `{"status":"OK"}`}, {`["SET","k","v"]`, `{"status":"OK"}`}, {`["MULTI"]`, `{"status":"OK"}`},
		{`["GET","k"]`, `{"status":"QUEUED"}`}, {`["EXEC"]`, `[["v"]]`}, {`["SUBSCRIBE","c"]`, "400 "}, {`["MONITOR"]`, "400 "},
		{`["CLIENT","REPLY","OFF"]`, "400 "}, {`["QUIT"]`, `{"status":"OK"}`}, {`["GET","k"]`, "closed the connection"}, {`["GET","k"]`, "null"},
	} {
		if got := term(step[0]); !strings.Contains(got, step[1]) {
			t.Errorf("%s: %s, want %s", step[0], got, step[1])
		}
	}
	v.wantRun(`[null]`, `["GET","k"]`) // another connection, database 0
	for i := range 10 {
		got := v.api("POST", "run", fmt.Sprintf(`{"terminal":"t%d","commands":[["PING"]]}`, i))
		if ok := strings.HasPrefix(got, "200"); ok != (i < 7) {
			t.Errorf("terminal %d: %s", i, got)
		}
	}
	v.wantAPI("204", "DELETE", "terminal/t1", "")
	v.wantAPI("200", "POST", "run", `{"terminal":"t8","commands":[["PING"]]}`)
}

func TestConsoleHostileInput(t *testing.T) {
	t.Parallel()
	v := consoleServer(t).visit("default", "")
	for _, body := range []string{
		``, `null`, `[]`, `{`, `{"commands":[]}`, `{"commands":[[]]}`, `{"commands":"PING"}`, `{"commands":[[1]]}`, `{"commands":[[{"bytes":"!"}]]}`,
		`{"commands":[["PING"]]}{}`, `{"commands":[["PING"]],"as":"root"}`, `{"commands":[[{}]]}`, `{"commands":[["GET",null]]}`,
		`{"commands":[` + strings.Repeat(`["PING"],`, 2048) + `["PING"]]}`,
	} {
		v.wantAPI("400", "POST", "run", body)
	}
	v.wantAPI("400", "POST", "tree", `{"cursor":"x"}`)
	v.wantAPI("400", "GET", "listen", "")
	v.wantAPI("404", "GET", "nothing", "")
	v.wantAPI("503", "POST", "run", `{"db":99,"commands":[["PING"]]}`)
	v.wantAPI("503", "POST", "run", `{"db":-1,"commands":[["PING"]]}`)
	v.wantRun(`[{"error":"ERR unknown command 'PING  SET'`, `["PING\r\nSET","a"]`) // an argument is no line
	v.wantRun(`[{"status":"OK"},{"bytes":"/wCAAA=="}]`, `["SET",{"bytes":"/wA="},{"bytes":"/wCAAA=="}],["GET",{"bytes":"/wA="}]`)
	v.wantRun(`[{"int":"9223372036854775807"},9007199254740992]`, `["INCRBY","n","9223372036854775807"],["EVAL","return 9007199254740992","0"]`)
	v.wantRun(`[{"map":["a","1"]},{"set":["m"]},{"double":"1.5"}]`,
		`["EVAL","redis.call('HSET','h','a','1') redis.call('SADD','s','m') redis.call('ZADD','z',1.5,'m')  redis.setresp(3) return redis.call('HGETALL','h')","0"],["SMEMBERS","s"],["ZSCORE","z","m"]`)
	// A reply that is too large ends the request, not the server.
	v.wantRun(`[{"status":"OK"}]The reply has more than 16 MB`, `["SET","big","x"],["EVAL","return string.rep('x', 20000000)","0"]`)
	v.wantRun(`[]The reply has more`, `["EVAL","local t = {} for i = 1, 1100000 do t[i] = 1 end return t","0"]`)
	v.wantRun(`[{"status":"PONG"}]`, `["PING"]`)
	for _, path := range []string{"/console/../../etc/passwd", "/console/assets/../index.html", "/console/assets/", "/console/none.js"} {
		if got, _ := v.ask("GET", path, ""); strings.Contains(got, "root:") {
			t.Errorf("%s: %s", path, got)
		}
	}
	v.want("405", "POST", "/console/", "")
}

func TestConsolePage(t *testing.T) {
	t.Parallel()
	w := consoleServer(t, "--requirepass", "x")
	got, head := w.ask("GET", "/console/", "")
	if !strings.HasPrefix(got, "200 <!doctype html>") {
		t.Fatalf("the page is %.200s", got)
	}
	policy := head.Get("Content-Security-Policy")
	if policy == "" || strings.Contains(policy, "unsafe") || strings.Contains(policy, "*") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %q", policy)
	}
	for _, bad := range []string{"<script>", " style=", " onclick="} {
		if strings.Contains(got, bad) {
			t.Errorf("the page has %s, which its policy forbids", bad)
		}
	}
	n := 0
	for _, word := range strings.FieldsFunc(got, func(r rune) bool { return r == '"' }) {
		if file, ok := strings.CutPrefix(word, "./assets/"); ok {
			n++
			if got, head := w.ask("GET", "/console/assets/"+file, ""); !strings.HasPrefix(got, "200") || !strings.Contains(head.Get("Cache-Control"), "immutable") {
				t.Errorf("%s: %.100s", file, got)
			}
		}
	}
	if n < 2 {
		t.Errorf("the page has %d files", n)
	}
}

func TestConsoleTree(t *testing.T) {
	t.Parallel()
	w := consoleServer(t)
	v := w.visit("default", "")
	v.run(`["MSET","a:1","x","a:2","x","a:b:1","x","b:1","x","top","x","*","x"],["SELECT","1"]`)
	v.run(`["RPUSH","a:list","1"],["EXPIRE","a:1","100"],["SETRANGE","a:2","9999","x"]`)
	tree := func(body string) string {
		text, ok := strings.CutPrefix(v.api("POST", "tree", body), "200 ")
		var r struct {
			Cursor string
			Found  int
			Groups []struct {
				Name  string
				Count int
			}
			Keys []string
		}
		if !ok || json.Unmarshal([]byte(text), &r) != nil || r.Cursor != "0" {
			t.Fatalf("%s: %s", body, text)
		}
		groups := make(map[string]int)
		for _, g := range r.Groups {
			groups[g.Name] = g.Count
		}
		keys := make(map[string]int)
		for _, k := range r.Keys {
			keys[k]++
		}
		return fmt.Sprint(r.Found, groups, keys)
	}
	for body, want := range map[string]string{
		`{"separator":":","keys":10}`:                                 "7 map[a::4 b::1] map[*:1 top:1]",
		`{"separator":":","keys":10,"prefix":"a:"}`:                   "4 map[b::1] map[a:1:1 a:2:1 a:list:1]",
		`{"separator":":","keys":10,"prefix":"a:","type":"list"}`:     "1 map[] map[a:list:1]",
		`{"separator":":","keys":10,"prefix":"a:","ttl":"expires"}`:   "1 map[] map[a:1:1]",
		`{"separator":":","keys":10,"prefix":"a:","ttlBelow":200000}`: "1 map[] map[a:1:1]",
		`{"separator":":","keys":10,"ttlBelow":1000}`:                 "0 map[] map[]",
		`{"separator":":","keys":10,"prefix":"a:","minSize":5000}`:    "1 map[] map[a:2:1]",
		`{"separator":"","keys":10,"match":"*1"}`:                     "3 map[] map[a:1:1 a:b:1:1 b:1:1]",
		`{"separator":":","keys":10,"prefix":"*"}`:                    "1 map[] map[*:1]",
		`{"separator":":","keys":0,"db":1}`:                           "0 map[] map[]",
	} {
		if got := tree(body); got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
	}
}

// stream reads events of one name.
func (v *visitor) stream(path string, each func(event, data string) (more bool)) {
	v.t.Helper()
	req, err := http.NewRequest("GET", v.url+"/console/api/"+path, nil)
	if err != nil {
		v.t.Fatal(err)
	}
	req.Header.Set("Cookie", v.cookie)
	res, err := v.client.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		v.t.Fatalf("%s: %d", path, res.StatusCode)
	}
	lines, event := bufio.NewScanner(res.Body), ""
	for lines.Scan() {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		}
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && !each(event, data) {
			return
		}
	}
	v.t.Fatalf("%s ended: %v", path, lines.Err())
}

func TestConsoleFigures(t *testing.T) {
	t.Parallel()
	v := consoleServer(t).visit("default", "")
	seconds := 0
	v.stream("live", func(event, data string) bool {
		var s struct {
			T      int64
			Values map[string]*float64
		}
		if event != "sample" || json.Unmarshal([]byte(data), &s) != nil || s.T == 0 || s.Values["memory_rss"] == nil {
			t.Fatalf("%s: %s", event, data)
		}
		seconds++
		return seconds < 2
	})
	got := v.api("GET", "history", "")
	head, columns, _ := strings.Cut(strings.TrimPrefix(got, "200 "), "\n")
	var h struct {
		From, Count int64
		Names       []string
	}
	if err := json.Unmarshal([]byte(head), &h); err != nil || h.Count < 2 || len(h.Names) < 40 || len(columns) < int(h.Count)*len(h.Names)*4-8 {
		t.Fatalf("history: %v %.300s, %d bytes", err, head, len(columns))
	}
}

func TestConsoleListens(t *testing.T) {
	t.Parallel()
	w := consoleServer(t)
	v := w.visit("default", "")
	published := false
	v.stream("listen?channel=news&pattern=n%2A", func(event, data string) bool {
		if !published {
			published = true
			w.tell("PUBLISH news hello")
		}
		return !strings.Contains(data, `{"push":["message","news","hello"]}`)
	})
	v.stream("listen?monitor=1", func(_, data string) bool {
		w.tell("SET watched 1")
		return !strings.Contains(data, "watched")
	})
	w.tell("ACL SETUSER silent on nopass +subscribe")
	silent := w.visit("silent", "")
	silent.stream("listen?channel=news", func(event, data string) bool {
		if event != "end" || !strings.Contains(data, "NOPERM") {
			t.Errorf("%s: %s", event, data)
		}
		return false
	})
	w.tell("ACL SETUSER silent resetchannels &news")
	left := false
	silent.stream("listen?channel=news", func(event, _ string) bool { // its user's end is the end of the stream
		if !left {
			left = true
			w.tell("ACL DELUSER silent")
		}
		return event != "end"
	})
}

// A server that shuts down ends the streams of its console.
func TestConsoleEndsWithTheServer(t *testing.T) {
	t.Parallel()
	v := consoleServer(t).visit("default", "")
	req, err := http.NewRequest("GET", v.url+"/console/api/live", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Cookie", v.cookie)
	res, err := v.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if err := v.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(res.Body); err != nil {
		t.Logf("the stream ended with %v", err)
	}
}

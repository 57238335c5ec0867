package hostile

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/rss"
	"redoubt/internal/testserver"
)

const (
	polls = 10_000
	// pollsBound is what the whole process may take while they wait.
	pollsBound = 150 * megabyte
)

// Ten thousand long polls that wait take little memory, and so do their answers: a hundred
// channels with a hundred polls each, and then all of them on one channel, which one publish
// answers.
func TestHostilePolls(t *testing.T) {
	p := testserver.StartProcess(t, program(t), t.TempDir(), "--maxmemory", "100mb", "--maxmemory-clients", "95mb", "--http-addr", "127.0.0.1:0", "--maxclients", "500",
		"--http-max-connections", "11000")
	c, err := respclient.Dial(p.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	info := func(section string) string {
		v, err := c.Do("INFO", section)
		if err != nil {
			t.Fatal(err)
		}
		return v.Str
	}
	port := regexp.MustCompile(`listener3:name=http,bind=127.0.0.1,port=(\d+)`).FindStringSubmatch(info("server"))
	if port == nil {
		t.Fatalf("HTTP is not served: %s", info("server"))
	}
	addr := "127.0.0.1:" + port[1]
	conns := make([]net.Conn, polls)
	for i := range conns {
		if conns[i], err = net.Dial("tcp", addr); err != nil {
			t.Fatal(err)
		}
		defer conns[i].Close()
	}
	round := func(what string, channel func(i int) string, channels int) {
		for i := range channels {
			if v, err := c.Do("CHSUBSCRIBE", channel(i), "s"); err != nil || v.IsError() {
				t.Fatal(v, err)
			}
		}
		for i, conn := range conns {
			if _, err := fmt.Fprintf(conn, "GET /channel/%s/subscription/polling/s?timeout=30s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", channel(i)); err != nil {
				t.Fatal(err)
			}
		}
		for begin := time.Now(); !strings.Contains(info("channels"), fmt.Sprintf("\r\nhttp_waiting:%d\r\n", polls)); {
			if time.Since(begin) > 25*time.Second {
				t.Fatalf("not all polls wait: %s", info("channels"))
			}
			time.Sleep(20 * time.Millisecond)
		}
		waiting, _, err := rss.Of(p.Pid())
		if err != nil {
			t.Fatal(err)
		}
		began, slowest := time.Now(), time.Duration(0)
		for i := range channels {
			at := time.Now()
			if v, err := c.Do("CHPUBLISH", channel(i), "m"+what, `"`+strings.Repeat("x", 100)+`"`); err != nil || v.IsError() {
				t.Fatal(v, err)
			}
			slowest = max(slowest, time.Since(at))
		}
		var all sync.WaitGroup
		for part := range 8 {
			all.Go(func() {
				for i := part; i < polls; i += 8 {
					if err := answered(conns[i], "m"+what); err != nil {
						t.Errorf("poll %d: %v", i, err)
						return
					}
				}
			})
		}
		all.Wait()
		took := time.Since(began)
		now, peak, err := rss.Of(p.Pid())
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d polls wait in %d MB; answered within %v, the slowest publish took %v; %d MB then, %d MB at most",
			what, polls, waiting/megabyte, took.Round(time.Millisecond), slowest.Round(time.Microsecond), now/megabyte, peak/megabyte)
		if peak > pollsBound {
			t.Errorf("%s: the process took %d MB, it may take %d MB", what, peak/megabyte, pollsBound/megabyte)
		}
		if slowest > 250*time.Millisecond {
			t.Errorf("%s: a publish took %v", what, slowest)
		}
	}
	round("hundred", func(i int) string { return fmt.Sprint("c", i%100) }, 100)
	round("one", func(int) string { return "one" }, 1)
}

// answered reads the answer of a poll.
func answered(conn net.Conn, id string) error {
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return err
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	body := make([]byte, 1024)
	n, _ := res.Body.Read(body)
	if res.StatusCode != http.StatusOK || !strings.Contains(string(body[:n]), `"messageID":"`+id+`"`) {
		return fmt.Errorf("%s: %s", res.Status, body[:n])
	}
	return nil
}

package wire_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"redoubt/internal/testserver"
)

var record = flag.Bool("record", false, "rewrite testdata/malformed.json from a real Redis")

const malformedFile = "testdata/malformed.json"

type malformedRow struct {
	In    string `json:"in"`
	Reply string `json:"reply"`
	Why   string `json:"why,omitempty"`
	Ours  string `json:"ours,omitempty"`
}

type malformedTable struct {
	Redis string         `json:"redis"`
	Rows  []malformedRow `json:"rows"`
}

// The recorded replies to malformed input are those of a real Redis.
func TestOracle(t *testing.T) {
	if !*record {
		testserver.Oracle(t)
	}
	text, err := os.ReadFile(malformedFile)
	if err != nil {
		t.Fatal(err)
	}
	var table malformedTable
	if err := json.Unmarshal(text, &table); err != nil {
		t.Fatal(err)
	}
	r := testserver.StartRedis(t)
	for i := range table.Rows {
		row := &table.Rows[i]
		got := ""
		if reply := tell(t, r.Addr, repeat(t, row.In)); len(reply) > 0 {
			got = fmt.Sprintf("%+q", strings.TrimSuffix(string(reply), "\r\n"))
		}
		if *record {
			row.Reply = got
		} else if got != row.Reply {
			t.Errorf("%s: Redis %s says %s, Redis %s said %s", row.In, r.Version, got, table.Redis, row.Reply)
		}
	}
	if !*record {
		return
	}
	table.Redis = r.Version
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	fmt.Fprintf(&out, "{\"redis\": %q, \"rows\": [\n", table.Redis)
	for i, row := range table.Rows {
		if err := enc.Encode(row); err != nil {
			t.Fatal(err)
		}
		if i < len(table.Rows)-1 {
			out.Truncate(out.Len() - 1)
			out.WriteString(",\n")
		}
	}
	out.WriteString("]}\n")
	if err := os.WriteFile(malformedFile, out.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// tell sends bytes and returns what the server answers until the connection
// ends.
func tell(t *testing.T, addr string, in []byte) []byte {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(in); err != nil {
		t.Fatal(err)
	}
	// Redis has read what was sent when it sees this end. The error does not
	// matter: it may have hung up already.
	_ = conn.(*net.TCPConn).CloseWrite()
	out, err := io.ReadAll(conn)
	if err != nil && len(out) == 0 {
		t.Fatal(err)
	}
	return out
}

var repeated = regexp.MustCompile(`(.)\{(\d+)\}`)

// repeat reads a row's input; see TestMalformed.
func repeat(t *testing.T, s string) []byte {
	t.Helper()
	s = repeated.ReplaceAllStringFunc(s, func(m string) string {
		n, _ := strconv.Atoi(m[2 : len(m)-1])
		return strings.Repeat(m[:1], n)
	})
	text, err := strconv.Unquote(s)
	if err != nil {
		t.Fatal(err)
	}
	return []byte(text)
}

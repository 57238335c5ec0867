package server_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"redoubt/budget"
	"redoubt/engine/mem"
	"redoubt/server"
)

// Messages that nobody reads are held once for all subscribers, and each is shown and
// limited by what it has yet to take. Who reads after all gets everything, in order and
// between its replies.
func TestUnreadMessagesAreHeldOnce(t *testing.T) {
	carriers(t, func(t *testing.T, pipes bool) {
		var b budget.Budget
		f := startWith(t, server.Options{Engine: mem.New(), Pipes: pipes, Budget: &b})
		publisher := f.dial()
		const subscribers, unread = 16, 2 << 20
		var all []*client
		var ids []string
		for range subscribers {
			c := f.deafDial()
			ids = append(ids, c.id())
			c.do("HELLO", "3")
			c.do("SUBSCRIBE", "news")
			all = append(all, c)
		}
		body := func(i int) string { return fmt.Sprintf("%d %s", i, strings.Repeat("x", i%3000)) }
		published := 0
		// A pipeline has several messages in one turn; the first subscriber has commands of its own.
		batch := func(n int) {
			var text strings.Builder
			for i := range n {
				text.WriteString(frame("PUBLISH", "news", body(published+i)))
			}
			publisher.raw(text.String())
			for range n {
				if got := publisher.read(); got != fmt.Sprintf("(integer) %d", subscribers) {
					t.Fatal(got)
				}
			}
			published += n
			all[0].send("ECHO", fmt.Sprint(published))
		}
		takes := func(id string) bool { return publisher.number(id, "omem") < unread } // their sockets do not take the same
		for i := 0; slices.ContainsFunc(ids, takes); i++ {
			batch(1 + i%20)
		}
		sum := int64(0)
		for _, id := range ids {
			if publisher.number(id, "oll") == 0 || publisher.number(id, "tot-mem") < unread/2 { // their sockets took more or less
				t.Errorf("%s %s", publisher.field(id, "oll"), publisher.field(id, "tot-mem"))
			}
			sum += int64(publisher.number(id, "tot-mem"))
		}
		if n := b.Clients.Used(); n > sum/4 || n < unread {
			t.Errorf("%d bytes are charged, while clients have %d to take", n, sum)
		}
		if err := all[0].Conn().(*net.TCPConn).SetReadBuffer(1 << 20); err != nil {
			t.Fatal(err)
		}
		echo, next := 0, 0
		for next < published {
			v, err := all[0].Read()
			if err != nil {
				t.Fatal(err)
			}
			if len(v.Elems) == 0 {
				fmt.Sscan(v.Str, &echo)
				if echo > next {
					t.Fatalf("the reply to ECHO %d came before message %d", echo, next)
				}
				continue
			}
			if got := v.Elems[2].Str; got != body(next) {
				t.Fatalf("%.20q instead of message %d", got, next)
			}
			next++
		}
		for _, c := range append(all, publisher) {
			c.Close()
		}
		until(t, "nothing is charged", func() bool { return b.Clients.Used() == 0 })
	})
}

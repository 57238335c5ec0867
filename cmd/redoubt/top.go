package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"redoubt/client"
	"redoubt/top"
)

// redoubt top: package top makes frames of what INFO says; this file asks, and puts them on the
// terminal.

// Of a terminal: the other screen, which leaves what was there before, and the cursor.
const (
	enterScreen = "\x1b[?1049h\x1b[?25l\x1b[2J"
	leaveScreen = "\x1b[?25h\x1b[?1049l"
	cursorHome  = "\x1b[H"
	clearLine   = "\x1b[K"
	clearBelow  = "\x1b[J"
)

func topServer(ctx context.Context, args []string, out, log io.Writer) error {
	f := flags("top", log)
	at := f.String("server", defaultServer, "the `server`: redis://user:password@host:port, or rediss:// for TLS")
	every := f.Duration("every", time.Second, "the time between two looks")
	looks := f.Int("count", 0, "end after so `many` looks; 0 is at Ctrl-C")
	secure := tlsFlags(f)
	if err := parse(f, args); err != nil {
		return failed(err)
	}
	if *every < 10*time.Millisecond {
		return failed(errors.New("--every is 10ms or more"))
	}
	config, err := secure()
	if err != nil {
		return failed(err)
	}
	server, err := parseServer(*at, config)
	if err != nil {
		return failed(err)
	}
	server.Patience = max(5*(*every), 5*time.Second)
	file, _ := out.(*os.File)
	width, height, terminal := windowSize(file)
	if terminal {
		fmt.Fprint(out, enterScreen)
		defer fmt.Fprint(out, leaveScreen)
	}
	view := &top.View{Server: server.String()}
	asker := &asker{server: server}
	defer asker.close()
	tick := time.NewTicker(*every)
	defer tick.Stop()
	for n := 1; ; n++ {
		info, err := asker.ask(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			view.Fail(err)
		} else {
			view.Add(top.Sample{At: time.Now(), Info: info})
		}
		if terminal {
			if w, h, ok := windowSize(file); ok {
				width, height = w, h
			}
			fmt.Fprint(out, cursorHome, strings.Join(view.Frame(width, height, true), clearLine+"\r\n"), clearLine, clearBelow)
		} else {
			fmt.Fprintln(out, time.Now().Format(time.TimeOnly), view.Line())
		}
		if n == *looks {
			if err != nil {
				return failed(err)
			}
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// asker asks a server for INFO, and connects again after a failure.
type asker struct {
	server client.Server
	conn   *client.Client
}

func (a *asker) close() {
	if a.conn != nil {
		a.conn.Close()
		a.conn = nil
	}
}

func (a *asker) ask(ctx context.Context) (map[string]string, error) {
	if a.conn == nil {
		conn, err := client.Dial(ctx, a.server)
		if err != nil {
			return nil, err
		}
		a.conn = conn
	}
	v, err := a.conn.Do("INFO", "all")
	if err != nil {
		a.close()
		return nil, err
	}
	info := client.ParseInfo(v.Text)
	if info["redis_version"] == "" {
		return nil, client.ErrReply
	}
	return info, nil
}

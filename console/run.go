package console

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// runRequest asks to run commands, one after the other, on a new connection, or on that of a
// terminal, which keeps its state between requests.
type runRequest struct {
	DB       int    `json:"db"`
	Commands []Args `json:"commands"`
	// Atomic has the commands run in a transaction. There is one reply: EXEC's.
	Atomic   bool   `json:"atomic"`
	Terminal string `json:"terminal"`
}

// runResult has as many replies as the request has commands, unless Error says why not.
type runResult struct {
	Replies []Value `json:"replies"`
	Pushes  []Value `json:"pushes,omitempty"`
	Error   string  `json:"error,omitempty"`
	Micros  int64   `json:"micros"`
}

const (
	maxCommands  = 2048
	maxTerminals = 8
	runTime      = 30 * time.Second
	terminalTime = 10 * time.Minute // a command at a terminal may block
	terminalIdle = 15 * time.Minute
)

// terminal is the connection of a prompt.
type terminal struct {
	mu   sync.Mutex // held while commands run
	talk *talk
	used time.Time
}

func (t *terminal) close() { t.talk.conn.Close() }

// enter takes a place for a request, and returns how to leave it.
func (c *Console) enter(w http.ResponseWriter, limit time.Duration) (leave func(), err error) {
	select {
	case c.places <- struct{}{}:
	default:
		return nil, errors.New("The console is busy. Try again in a moment.") //nolint:staticcheck // people read it
	}
	control := http.NewResponseController(w)
	// The limits of channels are too short for a command that takes long.
	for _, err := range []error{control.SetWriteDeadline(time.Now().Add(limit + 30*time.Second)), control.SetReadDeadline(time.Time{})} {
		if err != nil && !errors.Is(err, http.ErrNotSupported) {
			<-c.places
			return nil, err
		}
	}
	return func() { <-c.places }, nil
}

func (c *Console) run(w http.ResponseWriter, r *http.Request, l *login) error {
	var q runRequest
	if err := decode(r, &q); err != nil {
		return err
	}
	if n := len(q.Commands); n == 0 || n > maxCommands {
		return badRequest{fmt.Errorf("a request has 1 to %d commands", maxCommands)}
	}
	limit := runTime
	if q.Terminal != "" {
		limit = terminalTime
		if err := forTerminal(q.Commands); err != nil {
			return err
		}
	}
	if q.Atomic {
		q.Commands = append(append([]Args{{[]byte("MULTI")}}, q.Commands...), Args{[]byte("EXEC")})
	}
	leave, err := c.enter(w, limit)
	if err != nil {
		return err
	}
	defer leave()
	talk, before, done, err := c.open(r, l, &q)
	if err != nil {
		return err
	}
	defer done()
	ctx, cancel := l.within(r.Context(), limit)
	defer cancel()
	var result runResult
	begin := time.Now()
	result.Replies, err = talk.askWith(ctx, append(before, q.Commands...), func(v Value) { result.Pushes = append(result.Pushes, v) })
	result.Micros = time.Since(begin).Microseconds()
	if err != nil {
		result.Error = err.Error()
		if q.Terminal != "" {
			l.forget(q.Terminal)
		}
	}
	if n := min(len(before), len(result.Replies)); n > 0 {
		if result.Replies[0].Kind == '-' { // SELECT was refused: what follows ran elsewhere
			return errors.New(string(result.Replies[0].Text))
		}
		result.Replies = result.Replies[n:]
	}
	if q.Atomic && len(result.Replies) == len(q.Commands) {
		result.Replies = outcome(result.Replies)
	}
	var held int64
	for _, v := range result.Replies {
		held += v.size()
	}
	c.o.Host.Charge(held)
	defer c.o.Host.Charge(-held)
	answer(w, result)
	return nil
}

// outcome returns the reply of EXEC, or the error of the command that made it fail.
func outcome(replies []Value) []Value {
	last := replies[len(replies)-1]
	if last.Kind == '-' {
		for _, v := range replies {
			if v.Kind == '-' {
				return []Value{v}
			}
		}
	}
	return []Value{last}
}

// forTerminal refuses commands after which a connection is no longer one of questions and
// answers.
func forTerminal(commands []Args) error {
	for _, args := range commands {
		switch name := strings.ToLower(string(args[0])); {
		case name == "subscribe", name == "psubscribe", name == "ssubscribe", name == "monitor":
			return badRequest{fmt.Errorf("%s: the page Messages shows what comes without being asked for", strings.ToUpper(name))}
		case name == "sync", name == "psync", name == "client" && len(args) > 1 && strings.EqualFold(string(args[1]), "reply"):
			return badRequest{errors.New("this command is not answered, which the terminal cannot show")}
		}
	}
	return nil
}

// open returns a connection for a request, the commands that must come first, and how to
// release it.
func (c *Console) open(r *http.Request, l *login, q *runRequest) (t *talk, before []Args, done func(), err error) {
	if q.Terminal != "" {
		term, err := c.terminal(r, l, q.Terminal)
		if err != nil {
			return nil, nil, nil, err
		}
		return term.talk, nil, term.mu.Unlock, nil
	}
	conn, err := c.o.Host.Dial(r.RemoteAddr, l.user)
	if err != nil {
		return nil, nil, nil, err
	}
	if q.DB != 0 {
		before = []Args{selectDB(q.DB)}
	}
	return newTalk(conn), before, func() { conn.Close() }, nil
}

func selectDB(db int) Args { return Args{[]byte("SELECT"), []byte(strconv.Itoa(db))} }

// terminal returns the terminal of a name with its mu held, a new one if there is none.
func (c *Console) terminal(r *http.Request, l *login, name string) (*terminal, error) {
	now := c.o.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended {
		return nil, errNoAnswer
	}
	t := l.terminals[name]
	if t == nil {
		for other, o := range l.terminals {
			if now.Sub(o.used) > terminalIdle && o.mu.TryLock() {
				o.close()
				o.mu.Unlock()
				delete(l.terminals, other)
			}
		}
		if len(l.terminals) >= maxTerminals {
			return nil, fmt.Errorf("There are %d terminals already. Close one of them.", maxTerminals) //nolint:staticcheck // people read it
		}
		conn, err := c.o.Host.Dial(r.RemoteAddr, l.user)
		if err != nil {
			return nil, err
		}
		t = &terminal{talk: newTalk(conn)}
		l.terminals[name] = t
	}
	if !t.mu.TryLock() {
		return nil, errors.New("The terminal still runs a command.") //nolint:staticcheck // people read it
	}
	t.used = now
	return t, nil
}

// forget closes a terminal.
func (l *login) forget(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.terminals[name]; t != nil {
		t.close()
		delete(l.terminals, name)
	}
}

// endTerminal closes a terminal, whatever it runs.
func (c *Console) endTerminal(w http.ResponseWriter, r *http.Request, l *login) error {
	l.forget(r.PathValue("id"))
	w.WriteHeader(http.StatusNoContent)
	return nil
}

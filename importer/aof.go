package importer

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"redoubt/command"
	"redoubt/number"
	"redoubt/wire"
)

// The commands of an append-only file: RESP, and lines that begin with # between them. MULTI
// and EXEC only delimit a transaction, since an import becomes visible as a whole; a
// transaction without EXEC is left out.

// CommandError says which command of a file failed, and where the command begins.
type CommandError struct {
	Offset  int64
	Command string
	Err     error
}

func (e *CommandError) Error() string {
	if e.Command == "" {
		return fmt.Sprintf("at byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("at byte %d, the command %s: %v", e.Offset, e.Command, e.Err)
}

func (e *CommandError) Unwrap() error { return e.Err }

// ErrTruncated: a file ends within a command or a transaction.
var ErrTruncated = errors.New("the file ends within a command or a transaction")

// errProtocol: the next bytes are not a command.
var errProtocol = errors.New("no command in the format of Redis begins here")

// maxCommand is the largest size of a command or a transaction in bytes.
const maxCommand = 1 << 30

// AOF executes the commands of a stream, up to its end. offset is the stream's place in the
// file. last says that the file is the last of its directory, which a crash may have
// truncated: see Options.Truncated.
func (i *Import) AOF(in io.Reader, offset int64, last bool) error {
	p := parser{in: in, base: offset, r: wire.Reader{MaxBulk: i.limit.MaxBulk, Authenticated: true}}
	i.tx.DB = 0
	var multi []queued // nil: not in a transaction
	var inMulti bool
	var began int64
	held := 0
	for {
		args, at, err := p.next()
		if err == io.EOF && inMulti {
			err, at = ErrTruncated, began
		}
		switch {
		case err == io.EOF:
			return i.commit()
		case errors.Is(err, ErrTruncated) && last && i.o.Truncated:
			if i.o.Skipped != nil {
				i.o.Skipped(fmt.Sprintf("at byte %d: %v: it is left out", at, err))
			}
			return i.commit()
		case errors.Is(err, ErrTruncated) && last:
			return &CommandError{Offset: at, Err: fmt.Errorf("%w; if a crash has cut it off, --truncated leaves that one out", err)}
		case err != nil:
			return &CommandError{Offset: at, Err: err}
		}
		if p.time > i.clock { // "#TS:seconds"
			i.clock = p.time
		}
		switch name := strings.ToLower(string(args[0])); {
		case name == "multi" && !inMulti:
			inMulti, began, multi, held = true, at, multi[:0], 0
			continue
		case name == "exec" && inMulti:
			inMulti = false
			for _, q := range multi {
				if err := i.do(q.args, q.at); err != nil {
					return err
				}
			}
			multi = nil
		case inMulti:
			for n, a := range args {
				args[n] = bytes.Clone(a)
				held += len(a) + 24
			}
			if held > maxCommand {
				return &CommandError{Offset: began, Err: errors.New("a transaction of more than a gigabyte")}
			}
			multi = append(multi, queued{append([][]byte(nil), args...), at})
			continue
		default:
			if err := i.do(args, at); err != nil {
				return err
			}
		}
		if err := i.full(); err != nil {
			return err
		}
	}
}

// queued is a command of a transaction.
type queued struct {
	args [][]byte
	at   int64
}

// do executes a command.
func (i *Import) do(args [][]byte, at int64) error {
	name := strings.ToLower(string(args[0]))
	err := i.execute(name, args, at)
	i.Commands++
	if err == nil {
		return nil
	}
	return &CommandError{Offset: at, Command: fmt.Sprintf("%.32s", name), Err: err}
}

func (i *Import) execute(name string, args [][]byte, at int64) error {
	switch name {
	case "select":
		db, ok := int64(0), false
		if len(args) == 2 {
			db, ok = number.ParseInt(args[1])
		}
		if !ok || db < 0 || db >= int64(len(i.numbers)) {
			return fmt.Errorf("%w: it has %d", ErrDatabases, len(i.numbers))
		}
		i.tx.DB = int(db)
		return nil
	case "flushall":
		for db, ks := range i.numbers {
			if ks != 0 {
				if err := i.newKeyspace(db); err != nil {
					return err
				}
			}
		}
		return nil
	case "flushdb":
		return i.newKeyspace(i.tx.DB)
	case "swapdb":
		return i.swap(args)
	case "function":
		return i.function(args)
	case "script", "publish", "spublish", "ping", "multi", "exec", "discard": // they leave no data
		return nil
	case "eval", "evalsha", "fcall":
		return errors.New("Redis before 7.0 wrote scripts into the file: have it rewrite the file (BGREWRITEAOF), and import that")
	}
	cmd := i.table.Find(args)
	if cmd == nil || cmd.Run == nil {
		return i.unknown(fmt.Errorf("the command %.32q", name), at)
	}
	if !cmd.ArityOK(len(args)) {
		return errors.New("it has a wrong number of arguments")
	}
	return i.run(cmd, args)
}

func (i *Import) swap(args [][]byte) error {
	var n [2]int64
	for k := range n {
		ok := len(args) == 3
		if ok {
			n[k], ok = number.ParseInt(args[1+k])
		}
		if !ok || n[k] < 0 || n[k] >= int64(len(i.numbers)) {
			return fmt.Errorf("%w: it has %d", ErrDatabases, len(i.numbers))
		}
	}
	a, b := int(n[0]), int(n[1])
	i.numbers[a], i.numbers[b] = i.numbers[b], i.numbers[a]
	return nil
}

// run executes a command by its handler.
func (i *Import) run(cmd *command.Command, args [][]byte) error {
	// Commands on two databases name the other one by its number.
	var err error
	db := i.tx.DB
	for _, other := range databases(cmd.FullName, args) {
		if other >= 0 && other < int64(len(i.numbers)) && err == nil {
			err = i.selectDB(int(other))
		}
	}
	if err == nil {
		err = i.selectDB(db)
	}
	if err == nil {
		err = i.begin()
	}
	if err != nil {
		return err
	}
	tx := &i.tx
	tx.Now, tx.NowMicros = max(i.clock, claimed(cmd.FullName, args)), i.o.Now*1000
	mark := tx.Start()
	i.call.Reset()
	i.seed++
	i.call.Cmd, i.call.Args, i.call.Seed = cmd, args, i.seed
	i.reply.Buf = i.reply.Buf[:0]
	err = cmd.Run(&i.call)
	if failed := tx.Err(); failed != nil {
		err = failed
	}
	if err != nil {
		tx.Rollback(mark)
		return fmt.Errorf("it is refused here: %s", command.Text(err))
	}
	return nil
}

// databases returns the databases that a command names besides the selected one.
func databases(name string, args [][]byte) (list []int64) {
	switch {
	case name == "move" && len(args) == 3:
		if n, ok := number.ParseInt(args[2]); ok {
			list = append(list, n)
		}
	case name == "copy":
		for k := 3; k+1 < len(args); k++ {
			if n, ok := number.ParseInt(args[k+1]); ok && strings.EqualFold(string(args[k]), "db") {
				list = append(list, n)
			}
		}
	}
	return list
}

// claimed returns the delivery time that an XCLAIM names, 0 if none: Redis writes every
// delivery as XCLAIM, and the command is executed at that time or later, since it would not
// accept a delivery in the future.
func claimed(name string, args [][]byte) (ms int64) {
	if name != "xclaim" {
		return 0
	}
	for k := 5; k+1 < len(args); k++ {
		if strings.EqualFold(string(args[k]), "time") {
			ms, _ = number.ParseInt(args[k+1])
		}
	}
	return ms
}

// parser cuts commands out of a stream.
type parser struct {
	in   io.Reader
	r    wire.Reader
	buf  []byte // bytes read; those from at on are not parsed yet
	at   int
	base int64 // offset of buf[0]
	eof  bool
	time int64 // of the last #TS line, in Unix milliseconds
}

func (p *parser) offset() int64 { return p.base + int64(p.at) }

// next returns a command, valid until the next call, and where it begins.
func (p *parser) next() (args [][]byte, at int64, err error) {
	for {
		at = p.offset()
		rest := p.buf[p.at:]
		switch {
		case len(rest) > 0 && rest[0] == '#':
			if n := bytes.IndexByte(rest, '\n'); n >= 0 {
				p.annotation(rest[:n])
				p.at += n + 1
				continue
			} else if len(rest) > 1024 {
				return nil, at, errProtocol
			}
		case len(rest) > 0 && rest[0] != '*':
			return nil, at, errProtocol
		case len(rest) > 0:
			args, n, err := p.r.Next(rest)
			if err != nil {
				return nil, at, fmt.Errorf("%w: %v", errProtocol, err)
			}
			if p.at += n; n > 0 && len(args) > 0 {
				return args, at, nil
			} else if n > 0 {
				return nil, at, errProtocol
			}
		}
		if err := p.more(); err == io.EOF && len(rest) > 0 {
			return nil, at, ErrTruncated
		} else if err != nil {
			return nil, at, err
		}
	}
}

// annotation reads a # line; it may hold the time of the commands that follow.
func (p *parser) annotation(line []byte) {
	if text, ok := bytes.CutPrefix(line, []byte("#TS:")); ok {
		if s, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 44); err == nil {
			p.time = s * 1000
		}
	}
}

// more reads more of the stream. The buffer grows with the bytes received, not with the
// lengths announced.
func (p *parser) more() error {
	if p.eof {
		return io.EOF
	}
	if p.at > 0 {
		p.base += int64(p.at)
		p.buf = p.buf[:copy(p.buf, p.buf[p.at:])]
		p.at = 0
	}
	if cap(p.buf)-len(p.buf) < parseBytes/2 {
		if len(p.buf) > maxCommand {
			return errors.New("a command of more than a gigabyte")
		}
		p.buf = append(make([]byte, 0, 2*len(p.buf)+parseBytes), p.buf...)
	}
	n, err := p.in.Read(p.buf[len(p.buf):cap(p.buf)])
	p.buf = p.buf[:len(p.buf)+n]
	if err == io.EOF {
		p.eof = true
		if n > 0 {
			return nil
		}
	}
	return err
}

const parseBytes = 128 << 10

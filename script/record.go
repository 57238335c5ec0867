package script

import (
	"time"

	"redoubt/command"
)

// Record is what scripts of one client have run, for statistics. It counts once
// their execution is over: one that is rolled back and run again counts from
// the start.
type Record struct {
	Commands []Ran
	// Errors are the texts of errors that commands gave.
	Errors []string
	// Lines are the commands with their arguments, for monitors, if Verbose is
	// set.
	Lines   []Line
	Verbose bool
	// Known: the error that a script ended with is among Errors.
	Known bool
}

// Ran is a command that was run.
type Ran struct {
	Cmd                     *command.Command
	Calls, Failed, Rejected int64
	Took                    time.Duration
}

// Line is a call for monitors.
type Line struct {
	Cmd  *command.Command
	DB   int
	Args [][]byte
}

// Recorder is a command.Caller that wants a record. It returns the place for it,
// and sets Verbose.
type Recorder interface{ Recording() *Record }

// Reset forgets all, and keeps the memory.
func (r *Record) Reset() {
	clear(r.Commands)
	clear(r.Errors)
	clear(r.Lines)
	*r = Record{Commands: r.Commands[:0], Errors: r.Errors[:0], Lines: r.Lines[:0]}
}

// maxRecorded is how many errors and lines are kept of one script.
const maxRecorded = 1024

func (r *Record) of(cmd *command.Command) *Ran {
	for i := range r.Commands {
		if r.Commands[i].Cmd == cmd {
			return &r.Commands[i]
		}
	}
	r.Commands = append(r.Commands, Ran{Cmd: cmd})
	return &r.Commands[len(r.Commands)-1]
}

func (r *Record) ran(cmd *command.Command, took time.Duration) {
	c := r.of(cmd)
	c.Calls++
	c.Took += took
}

// failed notes an error; cmd is nil if there is no such command.
func (r *Record) failed(cmd *command.Command, rejected bool, text string) {
	if cmd != nil {
		if rejected {
			r.of(cmd).Rejected++
		} else {
			r.of(cmd).Failed++
		}
	}
	if len(r.Errors) < maxRecorded {
		r.Errors = append(r.Errors, text)
	}
}

func (r *Record) line(cmd *command.Command, db int, args [][]byte) {
	if len(r.Lines) >= maxRecorded {
		return
	}
	l := Line{Cmd: cmd, DB: db, Args: make([][]byte, len(args))}
	for i, a := range args {
		l.Args[i] = append([]byte(nil), a[:min(len(a), 1<<10)]...)
	}
	r.Lines = append(r.Lines, l)
}

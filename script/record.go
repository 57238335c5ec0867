package script

import (
	"time"

	"redoubt/command"
)

// Record lists the commands that scripts of one client have run, for statistics. It is valid
// once the execution is over: an execution that is rolled back and run again starts anew.
type Record struct {
	Commands []Ran
	// Errors are the texts of the commands' errors.
	Errors []string
	// Lines are the commands with their arguments, for MONITOR, if Verbose is set.
	Lines   []Line
	Verbose bool
	// Known reports that the error with which a script ended is among Errors.
	Known bool
}

// Ran is a command that was run.
type Ran struct {
	Cmd                     *command.Command
	Calls, Failed, Rejected int64
	Took                    time.Duration
}

// Line is a call, for MONITOR.
type Line struct {
	Cmd  *command.Command
	DB   int
	Args [][]byte
}

// Recorder is a command.Caller that wants a record: Recording returns the Record to fill,
// with Verbose set by the caller.
type Recorder interface{ Recording() *Record }

// Reset empties the record, and keeps its memory.
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

// failed notes an error of a command; cmd is nil if the command is unknown.
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

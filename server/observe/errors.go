package observe

import (
	"bytes"
	"strings"
	"sync"

	"redoubt/command"
)

// Errors counts error replies by their code.
type Errors struct {
	mu    sync.Mutex
	total int64
	codes map[string]int64
}

// Count counts the reply that an error becomes.
func (e *Errors) Count(err error) { e.Add(command.Text(err)) }

// CountReply counts the error at the end of a reply buffer, if there is one. An error is
// one line, so it begins after the last but one line break.
func (e *Errors) CountReply(buf []byte) {
	line := bytes.TrimSuffix(buf, []byte("\r\n"))
	line = line[bytes.LastIndexByte(line, '\n')+1:]
	if len(line) > 0 && line[0] == '-' {
		e.Add(string(line[1:]))
	}
}

// maxErrorCodes bounds the number of codes in INFO, since scripts can make up codes.
const maxErrorCodes = 128

// Add counts an error by its text, of which the first word is the code.
func (e *Errors) Add(text string) {
	code, _, ok := strings.Cut(text[:min(len(text), 32)], " ")
	if !ok {
		code = "ERR"
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total++
	if e.codes == nil {
		e.codes = make(map[string]int64)
	}
	if _, known := e.codes[code]; known || len(e.codes) < maxErrorCodes {
		e.codes[code]++
	}
}

func (e *Errors) reset() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.total, e.codes = 0, nil
}

// Counts returns a copy of the figures.
func (e *Errors) Counts() (total int64, codes map[string]int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	codes = make(map[string]int64, len(e.codes))
	for c, n := range e.codes {
		codes[c] = n
	}
	return e.total, codes
}

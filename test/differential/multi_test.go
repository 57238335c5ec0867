package differential

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"redoubt/internal/respclient"
)

// inMulti sends operations as one transaction and returns their replies. Those that
// are refused while they are queued abort it; the others are then sent in
// transactions of their own.
func (t *serverTarget) inMulti(c *respclient.Client, ops []op) ([]string, error) {
	out := respclient.AppendCommand(nil, "MULTI")
	for _, o := range ops {
		out = respclient.AppendCommand(out, o.args...)
	}
	if err := t.send(c, respclient.AppendCommand(out, "EXEC")); err != nil {
		return nil, err
	}
	if v, err := c.Read(); err != nil || v.Str != "OK" {
		return nil, fmt.Errorf("MULTI: %v, %w", v, err)
	}
	replies, refused := make([]string, len(ops)), 0
	for i := range ops {
		v, err := c.Read()
		if err != nil {
			return nil, err
		}
		if v.IsError() {
			replies[i] = string(c.Raw())
			refused++
		} else if v.Str != "QUEUED" {
			return nil, fmt.Errorf("%s in MULTI: %s", show(ops[i]), v)
		}
	}
	v, err := c.Read()
	switch {
	case err != nil:
		return nil, err
	case refused == 0:
		return split(string(c.Raw()), len(ops))
	case !strings.HasPrefix(v.Str, "EXECABORT"):
		return nil, fmt.Errorf("EXEC after an error: %s", v)
	}
	for i := range ops {
		if replies[i] == "" {
			one, err := t.inMulti(c, ops[i:i+1])
			if err != nil {
				return nil, err
			}
			replies[i] = one[0]
		}
	}
	return replies, nil
}

// split cuts the bytes of an array into those of its elements.
func split(raw string, n int) (list []string, err error) {
	head, rest, _ := strings.Cut(raw, "\r\n")
	if head != "*"+strconv.Itoa(n) {
		return nil, fmt.Errorf("EXEC of %d commands: %q", n, raw)
	}
	for range n {
		size, err := replySize(rest)
		if err != nil {
			return nil, err
		}
		list, rest = append(list, rest[:size]), rest[size:]
	}
	return list, nil
}

// replySize is how many bytes the first reply has.
func replySize(s string) (int, error) {
	head, _, ok := strings.Cut(s, "\r\n")
	if !ok || head == "" {
		return 0, errors.New("a reply ends early")
	}
	size := len(head) + 2
	n, _ := strconv.Atoi(head[1:])
	switch head[0] {
	case '$', '=', '!':
		if n >= 0 {
			size += n + 2
		}
	case '%':
		n *= 2
		fallthrough
	case '*', '~', '>':
		for range n {
			more, err := replySize(s[size:])
			if err != nil {
				return 0, err
			}
			size += more
		}
	}
	return size, nil
}

package importer

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"redoubt/wire"
)

// Part is a file of an append-only directory, as listed in its manifest.
type Part struct {
	Name string
	Seq  int64
	Base bool // the state to which the commands of the other files apply
}

// Parts reads a manifest and returns the files to import, in order. A line is pairs of words:
// file, seq and type, which is b for the base, i for commands, h for files no longer needed.
func Parts(manifest string) (list []Part, err error) {
	n := 0
	for line := range strings.Lines(manifest) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		words, ok := wire.SplitWords([]byte(line))
		if !ok || len(words)%2 != 0 {
			return nil, fmt.Errorf("line %d of the manifest is not pairs of words", n)
		}
		var p Part
		kind := ""
		for ; len(words) > 0; words = words[2:] {
			switch value := string(words[1]); string(words[0]) {
			case "file":
				p.Name = value
			case "seq":
				if p.Seq, err = strconv.ParseInt(value, 10, 64); err != nil {
					return nil, fmt.Errorf("line %d of the manifest: seq: %w", n, err)
				}
			case "type":
				kind = value
			}
		}
		switch {
		case p.Name == "" || strings.ContainsAny(p.Name, "/\x00"):
			return nil, fmt.Errorf("line %d of the manifest names no file of the directory", n)
		case kind == "h":
			continue
		case kind != "b" && kind != "i":
			return nil, fmt.Errorf("line %d of the manifest has the unknown type %q", n, kind)
		}
		p.Base = kind == "b"
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b Part) int {
		if a.Base != b.Base {
			if a.Base {
				return -1
			}
			return 1
		}
		return int(a.Seq - b.Seq)
	})
	switch {
	case len(list) == 0:
		return nil, errors.New("the manifest names no files")
	case len(list) > 1 && list[1].Base:
		return nil, errors.New("the manifest names two bases")
	}
	return list, nil
}

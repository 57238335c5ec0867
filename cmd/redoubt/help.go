package main

import (
	"errors"
	"fmt"
	"io"

	"redoubt/config"
)

// usage prints what fits a screen.
func usage(out io.Writer) error {
	fmt.Fprint(out, `usage: redoubt [redis.conf] [--directive value ...]      start a server
       redoubt TOOL ...

  redoubt                                port 6379, data in ./redoubt-data
  redoubt --http-addr 127.0.0.1:3099     with the console, a page to look at it
  redoubt my.conf --appendfsync always   each write on disk before its reply

Tools:
`)
	for _, t := range tools() {
		fmt.Fprintf(out, "  %-8s %s\n", t.name, t.brief())
	}
	fmt.Fprint(out, `  version  which version this is

redoubt TOOL --help         the flags of a tool
redoubt --help directives   the directives that Redis lacks or has otherwise
redoubt --help DIRECTIVE    what a directive means
`)
	return nil
}

// brief is the first part of what the tool does, up to a semicolon.
func (t tool) brief() string {
	for i := range t.doc {
		if t.doc[i] == ';' {
			return t.doc[:i]
		}
	}
	return t.doc
}

// help prints about one thing.
func help(topic string, out io.Writer) error {
	cfg := config.New()
	if topic == "directives" {
		fmt.Fprint(out, "The directives are those of redis.conf. Redoubt's own, or those with another default:\n\n")
		for _, d := range cfg.Directives() {
			if d.Doc != "" {
				fmt.Fprintf(out, "  --%-14s %s\n", d.Name, d.Doc)
			}
		}
		return nil
	}
	if d := cfg.Lookup(topic); d != nil {
		fmt.Fprintf(out, "%s (%s, default %q)\n  %s\n", d.Name, d.Kind, d.Default, d.Meaning())
		return nil
	}
	for _, t := range tools() {
		if t.name == topic {
			fmt.Fprintf(out, "redoubt %s %s\n  %s\n", t.name, t.args, t.doc)
			return nil
		}
	}
	return fmt.Errorf("there is no directive and no tool %q: redoubt --help lists what there is", topic)
}

// withFix adds to an error of the start what to do, if the error does not say it.
func withFix(err error) error {
	var file *config.FileError
	if errors.As(err, &file) {
		return fmt.Errorf("%w\nredoubt --help DIRECTIVE says what a directive takes, redoubt --help directives which there are besides those of Redis", err)
	}
	return err
}

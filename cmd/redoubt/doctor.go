package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"redoubt/config"
	"redoubt/doctor"
	"redoubt/engine"
	"redoubt/version"
)

// redoubt doctor: package doctor examines; this file shows its findings.

// errUnwell: there is a warning or a fault.
var errUnwell = errors.New("not everything is in order")

// wellGrade is the worst grade with which the exit code is 0.
const wellGrade = doctor.Advice

func doctorReport(ctx context.Context, args []string, out, log io.Writer) error {
	f := flags("doctor", log)
	at := f.String("server", "", "the `server` to look at, if it is not where the configuration says: redis://user:password@host:port")
	secure := tlsFlags(f)
	f.Usage = func() {
		fmt.Fprint(log, "usage: redoubt doctor [flags] [redis.conf] [--directive value ...]\n\nThe arguments behind the flags are those that the server is started with.\n\n")
		f.PrintDefaults()
	}
	own, rest := ownFlags(args, "server", "tls-ca", "tls-insecure", "help", "h")
	if err := f.Parse(own); err != nil {
		return failed(err)
	}
	p := doctor.Patient{Config: config.New(), Version: version.Redoubt}
	p.Mistake = p.Config.Args(rest)
	if *at != "" {
		config, err := secure()
		if err != nil {
			return failed(err)
		}
		s, err := parseServer(*at, config)
		if err != nil {
			return failed(err)
		}
		p.Server = &s
	}
	m := doctor.Here()
	m.Store = storeAtRest
	worst := doctor.OK
	doctor.Examine(ctx, p, m, func(f doctor.Finding) {
		worst = max(worst, f.Grade)
		fmt.Fprintf(out, "%-8s %-8s %s\n", f.Grade, f.Area, strings.ReplaceAll(f.What, "\n", "\n                  "))
		if f.Why != "" {
			fmt.Fprintf(out, "%18swhy: %s\n%18sdo:  %s\n", "", f.Why, "", f.Do)
		}
	})
	if worst > wellGrade {
		return errUnwell
	}
	return nil
}

// ownFlags splits off the leading arguments that are flags of the tool: what follows are
// arguments of the server.
func ownFlags(args []string, names ...string) (own, rest []string) {
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		known := strings.HasPrefix(args[i], "-")
		if known {
			known = false
			for _, n := range names {
				known = known || n == name
			}
		}
		if !known {
			return args[:i], args[i:]
		}
		if !hasValue && value == "" && name != "tls-insecure" && name != "help" && name != "h" {
			i++
		}
	}
	return args, nil
}

// storeAtRest says how a store is that no server has open.
func storeAtRest(dir string) (about string, locked bool, err error) {
	i, err := inspect(dir)
	if err != nil {
		return "", errors.Is(err, engine.ErrLocked), err
	}
	defer func() { err = errors.Join(err, i.Close()) }()
	j, err := i.Journal(nil)
	if err != nil {
		return "", false, err
	}
	for _, wrong := range j.Wrong {
		return "", false, fmt.Errorf("%s", wrong)
	}
	return fmt.Sprintf("the store is at rest and its journal whole: %s in %s", count(j.Records, "record"), count(j.Segments, "segment")), false, nil
}

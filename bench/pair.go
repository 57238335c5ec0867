//go:build linux

package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// pair is the two servers that are compared.
type pair struct{ ours, theirs *process }

func (s pair) both() []*process { return []*process{s.ours, s.theirs} }

// startPair starts both servers with empty directories.
func startPair(ours, theirs server) (pair, error) {
	dir, binary, err := prepare()
	if err != nil {
		return pair{}, err
	}
	ours.name, ours.binary, ours.dir = "redoubt", binary, filepath.Join(dir, "ours")
	ours.args = append(ours.args, "--loglevel", "warning")
	if *maxmemory != "" {
		ours.args = append(ours.args, "--maxmemory", *maxmemory)
	}
	ours.args = append(ours.args, strings.Fields(*args)...)
	theirs.name, theirs.binary, theirs.dir = "redis", *redis, filepath.Join(dir, "theirs")
	theirs.args = append(theirs.args, "--save", "")
	var s pair
	if s.ours, err = ours.start(); err != nil {
		return pair{}, err
	}
	if s.theirs, err = theirs.start(); err != nil {
		return pair{}, err
	}
	return s, nil
}

// alone runs work on one server while the other is stopped: what a server does
// behind its commands (compaction, rewriting of the AOF) then takes from its own
// figures, never from the other's.
func (s pair) alone(p *process, work func(*process) error) error {
	other := s.ours
	if p == s.ours {
		other = s.theirs
	}
	if err := other.pause(); err != nil {
		return err
	}
	err := work(p)
	if err2 := other.resume(); err == nil {
		err = err2
	}
	return err
}

// turns measures both servers in turns.
func (s pair) turns(measure func(*process) (result, error)) (ours, theirs result, err error) {
	all := map[*process][]result{}
	for i := range *rounds {
		order := s.both()
		if i%2 == 1 {
			slices.Reverse(order)
		}
		for _, p := range order {
			err := s.alone(p, func(p *process) error {
				r, err := measure(p)
				all[p] = append(all[p], r)
				return err
			})
			if err != nil {
				return result{}, result{}, err
			}
		}
	}
	return median(all[s.ours]), median(all[s.theirs]), nil
}

//go:build linux

package main

import (
	"strings"
	"testing"
	"time"
)

func TestMedianTakesEveryFigureByItself(t *testing.T) {
	t.Parallel()
	m := median([]result{{rps: 1, p99: 9, most: 5}, {rps: 3, p99: 2, most: 80}, {rps: 2, p99: 4, most: 6}, {rps: 10, p99: 3, most: 7}})
	if m[rps] != 2.5 || m[p99] != 3.5 || m[most] != 80 {
		t.Errorf("%v", m)
	}
}

func TestCollectorReadsTraces(t *testing.T) {
	t.Parallel()
	var rest strings.Builder
	c := &collector{rest: &rest}
	text := "level=WARN msg=hello\n" +
		"gc 1 @0.012s 2%: 0.018+1.3+0.076 ms clock, 0.5+1/2/3+0.25 ms cpu, 4->5->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P\n" +
		"gc 2 @0.1s 2%: 0.018+1.3+0.076 ms clock, 1+0/0/0+0.25 ms cpu, 4->5->1 MB, 4 MB goal, 0 MB stacks, 0 MB globals, 2 P (forced)\n" +
		"gc is a word\n"
	for i := range len(text) {
		if _, err := c.Write([]byte{text[i]}); err != nil {
			t.Fatal(err)
		}
	}
	if n, d := c.total(); n != 2 || d != 8*time.Millisecond {
		t.Errorf("%d collections, %s", n, d)
	}
	if rest.String() != "level=WARN msg=hello\ngc is a word\n" {
		t.Errorf("the rest is %q", rest.String())
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	steady := func(change func(i int, s *sample)) (all []sample) {
		for i := range 20 {
			s := sample{goroutines: 20 + i%3, descriptors: 80 + i%7, files: 30 + i%9, disk: 200, raw: 100}
			change(i, &s)
			all = append(all, s)
		}
		return all
	}
	for _, c := range []struct {
		change func(i int, s *sample)
		peak   int
		want   string // part of the error
	}{
		{func(int, *sample) {}, 119 << 20, ""},
		{func(int, *sample) {}, 121 << 20, "RSS"},
		{func(i int, s *sample) { s.goroutines += 5 * i }, 1, "goroutines"},
		{func(i int, s *sample) { s.descriptors += 9 * i }, 1, "descriptors"},
		{func(i int, s *sample) { s.files += 7 * i }, 1, "files grew"},
		{func(i int, s *sample) { s.disk += 10 * i }, 1, "with"},
		{func(i int, s *sample) {
			if i == 1 {
				s.disk = 1000
			}
		}, 1, ""},
	} {
		err := judge(steady(c.change), c.peak, 64<<20)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, not %q", err, c.want)
		}
	}
}

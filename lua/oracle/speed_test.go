package oracle

import (
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"redoubt/lua"
)

// programs are what a slow interpreter would be slow at.
var programs = []struct{ name, source string }{
	{"loop", "local s = 0 for i = 1, 1e7 do s = s + i end return s"},
	{"fib", "local function fib(n) if n < 2 then return n end return fib(n-1) + fib(n-2) end return fib(27)"},
	{"insert", "local t = {} for i = 1, 1e6 do t[i] = i end return #t"},
	{"append", "local t = {} for i = 1, 1e6 do t[#t+1] = i end return #t"},
	{"tinsert", "local t = {} for i = 1, 3e5 do table.insert(t, i) end return #t"},
	{"fields", "local t = {x=1, y=2} for i = 1, 2e6 do t.x = t.x + t.y end return t.x"},
	{"hash", "local t = {} for i = 1, 2e5 do t['k' .. i] = i end local s = 0 for k, v in pairs(t) do s = s + v end return s"},
	{"concat", "local t = {} for i = 1, 2e5 do t[#t+1] = 'x' .. i end return #table.concat(t, ',')"},
	{"format", "local n = 0 for i = 1, 2e5 do n = n + #string.format('%d:%s:%.2f', i, 'abc', i) end return n"},
	{"gsub", "local s = ('hello world '):rep(1000) local n = 0 for i = 1, 20 do s:gsub('%w+', function(w) n = n + 1 end) end return n"},
	{"method", "local C = {} C.__index = C function C:inc() self.n = self.n + 1 end local o = setmetatable({n=0}, C) for i = 1, 1e6 do o:inc() end return o.n"},
	{"closure", "local s = 0 for i = 1, 5e5 do local f = function() return i end s = s + f() end return s"},
	{"sort", "local t = {} for i = 1, 1e5 do t[i] = (i * 7919) % 100003 end table.sort(t) return t[1]"},
	{"sortfn", "local t = {} for i = 1, 5e4 do t[i] = (i * 7919) % 100003 end table.sort(t, function(a, b) return a > b end) return t[1]"},
	{"pcall", "local n = 0 for i = 1, 3e5 do if pcall(function() n = n + 1 end) then end end return n"},
}

// How the speed compares, in CPU time, the best of five rounds. The loop may
// take three times what Redis takes; the others are shown with -v.
func TestSpeed(t *testing.T) {
	r := start(t)
	for _, p := range programs {
		proto, err := lua.Compile(p.source, "speed")
		if err != nil {
			t.Fatal(err)
		}
		s := lua.New()
		s.SetLimit(1 << 30)
		s.SetBudget(1000, func() error { return nil })
		ours, theirs := time.Hour, time.Hour
		for range 5 {
			before := r.cpu(t)
			if v, err := r.conn.Do("EVAL", p.source, "0"); err != nil || v.IsError() {
				t.Fatal(v, err)
			}
			theirs = min(theirs, r.cpu(t)-before)
			before = cpu(t)
			if _, err := s.Call(s.Load(proto)); err != nil {
				t.Fatal(err)
			}
			ours = min(ours, cpu(t)-before)
			s.Reset()
		}
		ratio := float64(ours) / float64(theirs)
		t.Logf("%-8s %8.2f ms, Redis %8.2f ms: %.2f", p.name, ms(ours), ms(theirs), ratio)
		if p.name == "loop" && ratio > 3 {
			t.Errorf("the loop takes %.1f times what Redis takes", ratio)
		}
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// cpu gives what this process has used.
func cpu(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// cpu gives what Redis has used.
func (r *redis) cpu(t *testing.T) time.Duration {
	t.Helper()
	v, err := r.conn.Do("INFO", "cpu")
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, line := range strings.Split(v.Str, "\r\n") {
		name, value, _ := strings.Cut(line, ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			total += f
		}
	}
	return time.Duration(total * float64(time.Second))
}

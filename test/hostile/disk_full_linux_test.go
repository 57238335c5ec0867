package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"redoubt/internal/respclient"
	"redoubt/internal/testserver"
)

// fullDisks are the file systems that are filled, by another process and by the store.
var fullDisks = []struct {
	name  string
	fsync string
	mount func(d *fullDisk)
}{
	{"ext4", "everysec", func(d *fullDisk) { d.full, d.own = d.loop("data", 300, 150), true; d.dir = d.full }},
	{"tmpfs", "always", func(d *fullDisk) { d.full, d.own = d.tmpfs("data", 140, 30), true; d.dir = d.full }},
	{"journal elsewhere", "everysec", func(d *fullDisk) {
		d.full = d.tmpfs("journal", 70, 20)
		d.dir = filepath.Join(d.at, "data")
		d.link(d.full)
	}},
	{"store elsewhere", "no", func(d *fullDisk) {
		d.full, d.own = d.tmpfs("data", 140, 60), true
		d.dir = d.full
		journal := filepath.Join(d.at, "journal")
		d.ok(os.Mkdir(journal, 0o755))
		d.link(journal)
	}},
}

// TestFullDisk fills real file systems. It needs the right to mount them.
func TestFullDisk(t *testing.T) {
	program := os.Getenv("HOSTILE_BINARY")
	if program == "" && os.Getuid() == 0 {
		path, err := testserver.Build()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(filepath.Dir(path)) })
		program = path
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, c := range fullDisks {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d := &fullDisk{T: t, program: program, at: t.TempDir(), fsync: c.fsync, seed: seed, has: make(map[int]bool)}
			d.name = c.name
			defer d.report()
			if os.Getuid() != 0 {
				d.skip("only root can mount the file systems that are filled")
			}
			c.mount(d)
			d.live()
		})
	}
}

// fullDisk is a server whose disk is filled.
type fullDisk struct {
	*testing.T
	program, at, dir string
	full             string // the mount that is filled
	own              bool   // the store can fill it by itself
	fsync            string
	seed             uint64

	p    *testserver.Process
	c    *respclient.Client
	next int          // number of the next key
	has  map[int]bool // the keys that were acknowledged; those in doubt are false
	diskResult
}

// report adds the figures to the table, also when the test has failed or was skipped.
func (d *fullDisk) report() {
	switch {
	case d.Skipped():
		d.verdict = notRun
	case d.Failed():
		d.verdict = failed
	default:
		d.verdict = passed
	}
	reportDisk(d.diskResult)
}

// skip ends a scenario that cannot be run here.
func (d *fullDisk) skip(why string) {
	d.Helper()
	d.events = append(d.events, strings.Join(strings.Fields(why), " ")) // in one line
	d.Skip(why)
}

// within notes how long something took, and that it must not take longer than its bound.
func (d *fullDisk) within(w *worst, what string, took time.Duration) time.Duration {
	d.Helper()
	w.add(took)
	if took > diskBound {
		d.Errorf("%s took %v, %v is the most", what, took, diskBound)
	}
	return took.Round(100 * time.Millisecond)
}

// tell notes what happened.
func (d *fullDisk) tell(format string, args ...any) {
	d.Helper()
	d.events = append(d.events, fmt.Sprintf(format, args...))
	d.Log(d.events[len(d.events)-1])
}

// live is the life of the store: everything acknowledged is there at each of its turns.
func (d *fullDisk) live() {
	d.start()
	d.fill(200)
	release := d.glutton()
	d.refuses()
	d.p.Kill()
	d.start()
	d.compare("after kill -9 on a full disk")
	d.refuses()
	d.free(9)
	d.terminate()
	d.start()
	d.compare("after SIGTERM on a full disk")
	d.refuses()
	release()
	d.tell("writes again %v after another process gave space back", d.recovers("another process gave space back"))
	d.compare("when there is space")
	if d.own {
		d.fills()
	}
	d.terminate()
	d.start()
	d.compare("after all")
	d.tell("%d keys written", d.next)
}

// fills has the server itself fill its disk, and get out of that by itself.
func (d *fullDisk) fills() {
	d.fill(30_000)
	d.p.Kill()
	d.start()
	d.compare("after kill -9 on a disk that the store has filled")
	// What is left of a table is written before the table goes, so it takes some deletes.
	for _, nth := range []int{4, 3, 2, 1} {
		d.fill(30_000)
		d.free(nth)
		if took, ok := d.works(10 * time.Second); ok {
			d.tell("%v after one key in %d was deleted", took.Round(100*time.Millisecond), nth)
			break
		}
	}
	d.recovers("keys are deleted")
	d.compare("after deletes")
	d.fill(30_000)
	d.want("OK", "FLUSHALL")
	clear(d.has)
	d.tell("%v after FLUSHALL", d.recovers("FLUSHALL"))
	d.fill(30_000)
	d.ok(os.Remove(filepath.Join(d.full, "ballast")))
	d.tell("%v after a file had gone", d.recovers("the ballast is gone"))
}

func (d *fullDisk) start() {
	d.Helper()
	d.p = testserver.StartProcess(d.T, d.program, d.dir, "--maxmemory", "64mb", "--appendfsync", d.fsync)
	c, err := respclient.Dial(d.p.Addr)
	d.ok(err)
	d.Cleanup(func() { c.Close() })
	d.c = c
	d.await("the store to be open", func() bool { return d.do("PING").String() == "PONG" })
}

// fill writes so many keys at most, until that is refused.
func (d *fullDisk) fill(most int) {
	d.Helper()
	for range most {
		d.next++
		d.has[d.next] = false
		v := d.do("SET", d.key(d.next), d.value(d.next))
		if v.IsError() {
			d.misconf(v)
			return
		}
		d.has[d.next] = true
	}
	if most > 1000 {
		d.Fatal("the disk does not get full")
	}
}

// misconf fails the test unless a reply is the refusal, with cause and remedy.
func (d *fullDisk) misconf(v respclient.Value) {
	d.Helper()
	if s := v.String(); !strings.HasPrefix(s, "(error) MISCONF ") || !strings.Contains(s, " is full (") || !strings.Contains(s, "free space there or delete keys") {
		d.Fatalf("a write on a full disk: %s", s)
	}
}

// refuses expects a full disk to be told everywhere, by the first error, and reads to work.
func (d *fullDisk) refuses() {
	d.Helper()
	began := time.Now()
	var first respclient.Value
	d.await("a full disk", func() bool { first = d.do("SET", "probe", "x"); return first.IsError() })
	d.misconf(first)
	d.within(&d.refused, "the first refusal", time.Since(began))
	if v := d.do("DEL", "probe"); v.IsError() {
		d.Fatalf("DEL on a full disk: %s", v)
	}
	for _, command := range [][]string{{"SET", "probe", "x"}, {"LPUSH", "l", "x"}, {"EVAL", "return redis.call('SET', 'probe', 'x')", "0"}, {"COPY", d.key(1), "probe"}} {
		d.misconf(d.do(command...))
	}
	d.want("OK", "MULTI")
	d.want("QUEUED", "PING")
	d.misconf(d.do("SET", "probe", "x"))
	if v := d.do("EXEC").String(); !strings.HasPrefix(v, "(error) EXECABORT") {
		d.Fatalf("EXEC: %s", v)
	}
	for n := range d.has {
		d.check(n, "on a full disk")
		break
	}
	info := d.do("INFO", "everything").Str
	for _, want := range []string{"\nstore_error:store refuses writes", "\naof_last_write_status:err", "\nengine_disk_full:1", "\nrdb_last_bgsave_status:ok"} {
		if !strings.Contains(info, want) {
			d.Fatalf("INFO has no %q", want)
		}
	}
	log := d.p.Log()
	if n := strings.Count(log, "the disk is full, writes are refused"); n == 0 || n > 4 || strings.Contains(log, "stack trace") {
		d.Fatalf("the log tells of the full disk %d times", n)
	}
	if lines := strings.Count(log, "\n"); lines > 60 {
		d.Fatalf("the log has %d lines", lines)
	}
}

// free deletes every nth key, by commands of several kinds.
func (d *fullDisk) free(nth int) {
	d.Helper()
	for n := range d.next + 1 {
		if !d.has[n] || n%nth != 0 {
			continue
		}
		v := d.do([][]string{{"DEL", d.key(n)}, {"UNLINK", d.key(n)}, {"GETDEL", d.key(n)}, {"PEXPIRE", d.key(n), "1"}, {"EVAL", "return redis.call('DEL', KEYS[1])", "1", d.key(n)}}[n/nth%5]...)
		if v.IsError() {
			d.Fatalf("deleting key %d: %s", n, v)
		}
		delete(d.has, n)
	}
}

// recovers waits until writes work, and says how long that took.
func (d *fullDisk) recovers(why string) time.Duration {
	d.Helper()
	took, ok := d.works(time.Minute)
	if !ok {
		d.Fatalf("no writes, though %s: %s", why, d.do("SET", "probe", "x"))
	}
	return d.within(&d.again, "until writes worked, though "+why+",", took)
}

// works says whether writes work within a time.
func (d *fullDisk) works(patience time.Duration) (took time.Duration, ok bool) {
	d.Helper()
	for began := time.Now(); time.Since(began) < patience; time.Sleep(20 * time.Millisecond) {
		if !d.do("SET", "probe", "x").IsError() {
			d.want("1", "DEL", "probe")
			return time.Since(began), true
		}
	}
	return 0, false
}

// compare expects every key that was acknowledged, and no other.
func (d *fullDisk) compare(when string) {
	d.Helper()
	low, high := 0, 0
	for n, sure := range d.has {
		if sure {
			d.check(n, when)
			low++
		}
		high++
	}
	d.await(fmt.Sprintf("%d to %d keys %s", low, high, when), func() bool { // some expire
		n := int(d.do("DBSIZE").Int())
		return low <= n && n <= high
	})
}

func (d *fullDisk) check(n int, when string) {
	d.Helper()
	v := d.do("GET", d.key(n))
	if v.Str != d.value(n) && (d.has[n] || v.Str != "") {
		d.Fatalf("%s key %d has %.40q", when, n, v.Str)
	}
}

func (d *fullDisk) key(n int) string { return fmt.Sprintf("key:%d", n) }

// value is 20,000 bytes that cannot be compressed.
func (d *fullDisk) value(n int) string {
	b := make([]byte, 20_000)
	rng := rand.New(rand.NewPCG(d.seed, uint64(n)))
	for i := 0; i < len(b); i += 8 {
		x := rng.Uint64()
		for j := range 8 {
			b[i+j] = byte(x >> (8 * j))
		}
	}
	return string(b)
}

func (d *fullDisk) do(args ...string) respclient.Value {
	d.Helper()
	began := time.Now()
	d.ok(d.c.Conn().SetDeadline(began.Add(30 * time.Second))) // nobody hangs
	v, err := d.c.Do(args...)
	if err != nil {
		d.Fatalf("%.60q: %v", args, err)
	}
	d.within(&d.slowest, args[0], time.Since(began))
	return v
}

func (d *fullDisk) want(want string, args ...string) {
	d.Helper()
	if got := d.do(args...); got.Str != want {
		d.Fatalf("%q: %s, want %s", args, got, want)
	}
}

func (d *fullDisk) await(what string, ok func() bool) {
	d.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			d.Fatalf("waited in vain for %s", what)
		}
	}
}

func (d *fullDisk) ok(err error) {
	d.Helper()
	if err != nil {
		d.Fatal(err)
	}
}

// loop mounts an ext4 of so many megabytes, some of them taken.
func (d *fullDisk) loop(name string, size, ballast int) string {
	image, dir := filepath.Join(d.at, name+".img"), filepath.Join(d.at, name)
	d.ok(os.WriteFile(image, nil, 0o644))
	d.ok(os.Truncate(image, int64(size)<<20))
	d.ok(os.Mkdir(dir, 0o755))
	for _, command := range [][]string{{"mkfs.ext4", "-q", "-F", image}, {"mount", "-o", "loop", image, dir}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			d.skip(fmt.Sprintf("no file system can be mounted here: %v: %v: %s", command, err, out))
		}
	}
	return d.mounted(dir, ballast)
}

// tmpfs mounts one.
func (d *fullDisk) tmpfs(name string, size, ballast int) string {
	dir := filepath.Join(d.at, name)
	d.ok(os.Mkdir(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, fmt.Sprintf("size=%dm", size)); err != nil {
		d.skip(fmt.Sprintf("no file system can be mounted here: %v", err))
	}
	return d.mounted(dir, ballast)
}

func (d *fullDisk) mounted(dir string, ballast int) string {
	d.Cleanup(func() {
		if d.p != nil {
			d.p.Kill()
		}
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			d.Errorf("unmounting %s: %v", dir, err)
		}
	})
	f, err := os.Create(filepath.Join(dir, "ballast"))
	d.ok(err)
	d.ok(syscall.Fallocate(int(f.Fd()), 0, 0, int64(ballast)<<20))
	d.ok(f.Close())
	return dir
}

// link puts the journal of a new store elsewhere.
func (d *fullDisk) link(elsewhere string) {
	d.start()
	d.terminate()
	journal := filepath.Join(d.dir, "local", "journal")
	if out, err := exec.Command("sh", "-c", `cp -a "$1/." "$2" && rm -r "$1"`, "sh", journal, elsewhere).CombinedOutput(); err != nil {
		d.Fatalf("moving the journal: %v: %s", err, out)
	}
	d.ok(os.Symlink(elsewhere, journal))
}

// glutton takes all space of the disk, at once and as soon as there is some, until it is
// released.
func (d *fullDisk) glutton() (release func()) {
	d.Helper()
	name := filepath.Join(d.full, "glutton")
	f, err := os.Create(name)
	d.ok(err)
	stop, done := make(chan struct{}), make(chan error, 1)
	eat := func() error {
		for size := 1 << 20; size >= 512; size /= 2 {
			var err error
			for b := make([]byte, size); err == nil; {
				_, err = f.Write(b)
			}
			if !errors.Is(err, syscall.ENOSPC) {
				return err
			}
		}
		return nil
	}
	d.ok(eat())
	go func() {
		var err error
		for err == nil {
			select {
			case <-stop:
				done <- nil
				return
			case <-time.After(10 * time.Millisecond):
				err = eat()
			}
		}
		done <- err
	}()
	released := false
	release = func() {
		if released {
			return
		}
		released = true
		close(stop)
		if err := errors.Join(<-done, f.Close(), os.Remove(name)); err != nil {
			d.Error(err)
		}
	}
	d.Cleanup(release)
	return release
}

func (d *fullDisk) terminate() {
	d.Helper()
	began := time.Now()
	code, err := d.p.Terminate(time.Minute)
	if d.code = max(d.code, code); err != nil || code != 0 {
		d.Fatalf("SIGTERM: exit code %d, %v", code, err)
	}
	d.within(&d.ended, "SIGTERM", time.Since(began))
}

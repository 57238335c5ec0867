package rss

import (
	"os"
	"runtime"
	"testing"
)

func TestBound(t *testing.T) {
	t.Parallel()
	const mb = 1 << 20
	for maxmemory, want := range map[int64]int64{64 * mb: 120 * mb, 128 * mb: 200 * mb, 255 * mb: 255*mb + 255*mb/4 + 40*mb, 256 * mb: 320 * mb, 1024 * mb: 1280 * mb} {
		if got := Bound(maxmemory); got != want {
			t.Errorf("maxmemory %d: %d, want %d", maxmemory, got, want)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	now, peak, err := Of(os.Getpid())
	if err != nil || now < 1<<20 || peak < now/2 {
		t.Errorf("%d now, %d at its peak, %v", now, peak, err)
	}
	if _, _, err := Of(1 << 30); err == nil {
		t.Error("a process that is not there has memory")
	}
}

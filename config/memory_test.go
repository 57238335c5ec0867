package config

import (
	"testing"
	"testing/fstest"
)

func TestMachineMemory(t *testing.T) {
	const gib = 1 << 30
	meminfo := "MemTotal:       16777216 kB\nMemFree: 1 kB\n"
	for _, test := range []struct {
		name  string
		files map[string]string
		want  uint64
	}{
		{"nothing to read", nil, fallbackMemory},
		{"no container", map[string]string{"proc/meminfo": meminfo}, 16 * gib},
		{"version 2", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": "4294967296\n"}, 4 * gib},
		{"version 2, seen from inside", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "0::/../..\n",
			"sys/fs/cgroup/memory.max": "2147483648\n"}, 2 * gib},
		{"version 1", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1073741824\n"}, 1 * gib},
		{"version 1 without a limit", map[string]string{"proc/meminfo": meminfo, "proc/self/cgroup": "4:memory:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n"}, 16 * gib},
		{"nonsense", map[string]string{"proc/meminfo": "MemTotal: x kB\n"}, fallbackMemory},
	} {
		fsys := fstest.MapFS{}
		for name, text := range test.files {
			fsys[name] = &fstest.MapFile{Data: []byte(text)}
		}
		if got := memoryOf(fsys); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
}

package testcql

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Up starts a node that outlives this process, with its data in dir, and returns its address.
// One that runs already is left alone.
func Up(dir string, progress io.Writer) (addr string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", err
	}
	if pid := running(dir); pid != 0 {
		text, err := os.ReadFile(filepath.Join(dir, "address"))
		return string(text), err
	}
	java, err := exec.LookPath("java")
	if err != nil {
		return "", errors.New("Java is missing: Cassandra runs on it; install Java 17")
	}
	lib, err := Install(progress)
	if err != nil {
		return "", err
	}
	n := node{dir: dir, lib: lib, heap: "384M"}
	if n.port, n.storage, err = n.ports(); err != nil {
		return "", err
	}
	if err := n.write(); err != nil {
		return "", err
	}
	addr = "127.0.0.1:" + strconv.Itoa(n.port)
	fmt.Fprintf(progress, "starting Cassandra on %s; its log is %s\n", addr, n.log())
	cmd, err := n.start(java)
	if err != nil {
		return "", err
	}
	pid := cmd.Process.Pid
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	if err := errors.Join(os.WriteFile(n.pidFile(), []byte(strconv.Itoa(pid)), 0o644), os.WriteFile(filepath.Join(dir, "address"), []byte(addr), 0o644), n.await(ended)); err != nil {
		return "", errors.Join(err, Down(dir))
	}
	return addr, nil
}

// Down stops the node that has its data in dir, if it runs.
func Down(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	pid := running(dir)
	if pid == 0 {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop process %d: %w", pid, err)
	}
	for end := time.Now().Add(15 * time.Second); running(dir) != 0; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("process %d does not end", pid)
		}
	}
	return os.Remove(filepath.Join(dir, "pid"))
}

// running returns the process id of the node that has its data in a directory, 0 if there is
// none. An id may have been reused: the node has the directory on its command line.
func running(dir string) int {
	text, err := os.ReadFile(filepath.Join(dir, "pid"))
	if err != nil {
		return 0
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return 0
	}
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil || !bytes.Contains(line, []byte(dir)) {
		return 0
	}
	return pid
}

// node is a node to be started.
type node struct {
	dir, lib, heap string
	port, storage  int
}

func (n *node) log() string     { return filepath.Join(n.dir, "system.log") }
func (n *node) pidFile() string { return filepath.Join(n.dir, "pid") }

// ports returns two free ports, or those that the node had.
func (n *node) ports() (port, storage int, err error) {
	if text, err := os.ReadFile(filepath.Join(n.dir, "ports")); err == nil {
		_, err = fmt.Sscan(string(text), &port, &storage)
		return port, storage, err
	}
	for _, p := range []*int{&port, &storage} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, 0, err
		}
		defer l.Close()
		*p = l.Addr().(*net.TCPAddr).Port
	}
	return port, storage, nil
}

// write writes the node's configuration.
func (n *node) write() error {
	for _, dir := range []string{"conf", "data", "tmp"} {
		if err := os.MkdirAll(filepath.Join(n.dir, dir), 0o755); err != nil {
			return err
		}
	}
	data := filepath.Join(n.dir, "data")
	var yaml strings.Builder
	for _, line := range [][2]string{
		{"cluster_name", "redoubt-test"}, {"num_tokens", "1"}, {"partitioner", "org.apache.cassandra.dht.Murmur3Partitioner"},
		{"endpoint_snitch", "SimpleSnitch"}, {"listen_address", "127.0.0.1"}, {"rpc_address", "127.0.0.1"},
		{"storage_port", strconv.Itoa(n.storage)}, {"native_transport_port", strconv.Itoa(n.port)}, {"auto_bootstrap", "false"},
		{"data_file_directories", "[" + data + "/data]"}, {"commitlog_directory", data + "/commitlog"},
		{"saved_caches_directory", data + "/caches"}, {"hints_directory", data + "/hints"}, {"cdc_raw_directory", data + "/cdc"},
		{"commitlog_sync", "periodic"}, {"commitlog_sync_period", "10000ms"}, {"commitlog_segment_size", "32MiB"}, {"commitlog_disk_access_mode", "mmap"},
		{"disk_failure_policy", "stop"}, {"commit_failure_policy", "stop"}, {"auto_snapshot", "false"},
		{"concurrent_reads", "16"}, {"concurrent_writes", "16"}, {"memtable_heap_space", "128MiB"}, {"memtable_offheap_space", "128MiB"},
		{"key_cache_size", "8MiB"}, {"file_cache_size", "64MiB"}, {"paxos_variant", "v2"},
		{"seed_provider", fmt.Sprintf("[{class_name: org.apache.cassandra.locator.SimpleSeedProvider, parameters: [{seeds: \"127.0.0.1:%d\"}]}]", n.storage)},
	} {
		fmt.Fprintf(&yaml, "%s: %s\n", line[0], line[1])
	}
	logback := `<configuration><appender name="F" class="ch.qos.logback.core.FileAppender"><file>` + n.log() +
		`</file><encoder><pattern>%d{HH:mm:ss.SSS} %-5level %logger{20} - %msg%n</pattern></encoder></appender>` +
		`<root level="INFO"><appender-ref ref="F"/></root></configuration>`
	return errors.Join(
		os.WriteFile(filepath.Join(n.dir, "conf", "cassandra.yaml"), []byte(yaml.String()), 0o644),
		os.WriteFile(filepath.Join(n.dir, "conf", "logback.xml"), []byte(logback), 0o644),
		os.WriteFile(filepath.Join(n.dir, "ports"), fmt.Appendf(nil, "%d %d\n", n.port, n.storage), 0o644),
	)
}

// Parts of the Java runtime that Cassandra uses and Java 17 hides.
var (
	opened = map[string]string{
		"java.base": "java.io java.lang java.lang.module java.lang.reflect java.net java.nio java.nio.charset java.nio.file.spi java.util " +
			"java.util.concurrent java.util.concurrent.atomic jdk.internal.loader jdk.internal.math jdk.internal.module jdk.internal.ref " +
			"jdk.internal.reflect jdk.internal.util jdk.internal.util.jar sun.nio.ch",
		"java.management": "com.sun.jmx.remote.security", "java.management.rmi": "com.sun.jmx.remote.internal.rmi",
		"java.rmi": "sun.rmi.registry sun.rmi.server sun.rmi.transport.tcp", "java.sql": "java.sql",
		"jdk.management": "com.sun.management.internal", "jdk.naming.dns": "com.sun.jndi.dns",
	}
	exported = map[string]string{
		"java.base":           "jdk.internal.misc jdk.internal.perf jdk.internal.ref java.lang.ref sun.nio.ch sun.nio.fs",
		"java.management.rmi": "com.sun.jmx.remote.internal.rmi", "java.rmi": "sun.rmi.registry sun.rmi.server sun.rmi.transport.tcp",
		"java.sql": "java.sql", "jdk.unsupported": "sun.misc", "jdk.attach": "sun.tools.attach", "jdk.compiler": "com.sun.tools.javac.file",
	}
)

// start starts the node, detached from this process.
func (n *node) start(java string) (*exec.Cmd, error) {
	args := []string{
		"-Xms" + n.heap, "-Xmx" + n.heap, "-Xss512k", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:MaxDirectMemorySize=512m",
		"-XX:+ExitOnOutOfMemoryError", "-XX:-UsePerfData", "-Djdk.attach.allowAttachSelf=true", "-Dio.netty.tryReflectionSetAccessible=true",
	}
	for flag, modules := range map[string]map[string]string{"--add-opens": opened, "--add-exports": exported} {
		for module, packages := range modules {
			for _, p := range strings.Fields(packages) {
				args = append(args, flag, module+"/"+p+"=ALL-UNNAMED")
			}
		}
	}
	args = append(args,
		"-Djava.io.tmpdir="+filepath.Join(n.dir, "tmp"), "-Dlogback.configurationFile="+filepath.Join(n.dir, "conf", "logback.xml"),
		"-Dcassandra.config=file://"+filepath.Join(n.dir, "conf", "cassandra.yaml"), "-Dcassandra.storagedir="+filepath.Join(n.dir, "data"),
		"-Dcassandra-foreground=yes", "-Dcassandra.ring_delay_ms=30000", "-Dcassandra.skip_wait_for_gossip_to_settle=0",
		"-Dcassandra.superuser_setup_delay_ms=0", "-Dcassandra.consistent.rangemovement=false",
		"-cp", filepath.Join(n.dir, "conf")+":"+filepath.Join(n.lib, "*"), "org.apache.cassandra.service.CassandraDaemon")
	out, err := os.OpenFile(filepath.Join(n.dir, "out.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := os.Truncate(n.log(), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	cmd := exec.Command(java, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = n.dir, out, out, &syscall.SysProcAttr{Setsid: true}
	return cmd, cmd.Start()
}

// patience is how long a node may take to start.
const patience = 3 * time.Minute

// await waits until the node serves.
func (n *node) await(ended <-chan error) error {
	for end := time.Now().Add(patience); ; {
		if text, err := os.ReadFile(n.log()); err == nil && bytes.Contains(text, []byte("Starting listening for CQL")) {
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("Cassandra has ended: %w\n%s", err, n.tail())
		case <-time.After(100 * time.Millisecond):
		}
		if time.Now().After(end) {
			return fmt.Errorf("Cassandra does not serve after %s\n%s", patience, n.tail())
		}
	}
}

// tail returns the ends of the node's logs.
func (n *node) tail() string {
	var all strings.Builder
	for _, name := range []string{"out.log", "system.log"} {
		text, err := os.ReadFile(filepath.Join(n.dir, name))
		fmt.Fprintf(&all, "%s: %s %v\n", name, text[max(0, len(text)-4096):], err)
	}
	return all.String()
}

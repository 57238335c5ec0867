// Command redoubt is the server, and the tools for its store.
//
//	redoubt [redis.conf] [--directive value ...]
//	redoubt check|journal|backup|restore --dir D ...
//	redoubt copy --from S --to S
//	redoubt import FILE --to S
//	redoubt export --from S --to FILE
//	redoubt compare --from redis://A --to redis://B
//	redoubt drop --store S
//
//	redoubt doctor|top|bench --server redis://A
//
// The directives are Redis's and a few further ones, which redoubt --help directives lists.
// docs/operations.md and docs/tools.md describe the tools.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"redoubt/budget"
	"redoubt/config"
	"redoubt/server"
	"redoubt/version"
)

func main() {
	private()
	if err := withFix(run(os.Args[1:], os.Stdout)); err != nil {
		fmt.Fprintln(os.Stderr, "redoubt:", err)
		var exit exitError
		if errors.As(err, &exit) {
			os.Exit(exit.code)
		}
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	if len(args) == 1 {
		switch args[0] {
		case "version", "--version", "-v":
			fmt.Fprintf(out, "redoubt %s\ncommands of Redis %s\n", version.Current(), version.Redis)
			return nil
		case "--help", "-h":
			return usage(out)
		}
	}
	if len(args) == 2 && (args[0] == "--help" || args[0] == "-h") {
		return help(args[1], out)
	}
	if ran, err := runTool(args, out, os.Stderr); ran {
		return err
	}
	cfg := config.New()
	if err := cfg.Args(args); err != nil {
		return err
	}
	log, closeLog, err := openLog(cfg)
	if err != nil {
		return err
	}
	defer closeLog()
	log.Info("starting", "version", version.Current().String(), "process", os.Getpid())
	if !onCluster(cfg) {
		if err := os.MkdirAll(cfg.Str("dir"), 0o700); err != nil {
			return fmt.Errorf("dir: the data directory cannot be made: %w; see to the directories above it, or give another one with --dir", err)
		}
	}
	held := new(budget.Budget)
	limitWork := func() error { held.Work.SetLimit(budget.WorkLimit(cfg.Int("maxmemory"))); return nil }
	cfg.OnChange("maxmemory", limitWork)
	if err := limitWork(); err != nil {
		return err
	}
	again := make(chan struct{}, 1)
	srv, err := server.New(server.Options{
		Config: cfg, Open: opener(cfg, held, log, func() { again <- struct{}{} }), Budget: held, Logger: log, Seed: uint64(time.Now().UnixNano()),
	})
	if err != nil {
		return err
	}
	restarts, err := serve(srv, log, again, func() { banner(out, cfg, srv) })
	ctx, cancel := context.WithTimeout(context.Background(), shutdownTime)
	defer cancel()
	err = errors.Join(err, srv.Shutdown(ctx))
	if restarts {
		log.Info("starting again", "err", err) // the node had stopped already
		return restart()
	}
	if err != nil {
		return err
	}
	log.Info("bye")
	return nil
}

// shutdownTime bounds how long running commands are waited for.
const shutdownTime = 5 * time.Second

// serve serves until a signal or SHUTDOWN, or until opening the store has failed.
// It calls ready when clients are served. restarts says that the process is to be started again.
func serve(srv *server.Server, log *slog.Logger, again <-chan struct{}, ready func()) (restarts bool, err error) {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, syscall.SIGINT)
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	if err := srv.Start(); err != nil {
		return false, err
	}
	for loaded := srv.Loaded(); ; {
		select {
		case <-loaded:
			if err := srv.LoadError(); err != nil {
				return false, err
			}
			ready()
			loaded = nil
		case <-reload:
			if err := srv.Reload(); err != nil {
				log.Error("SIGHUP: the configuration of channels stays as it was", "err", err)
			}
		case sig := <-stop:
			log.Info("shutting down", "signal", sig.String())
			return false, nil
		case <-again:
			return true, nil
		case <-srv.Stopping():
			log.Info("shutting down", "reason", "SHUTDOWN command")
			return false, nil
		}
	}
}

// banner prints what a user must know: where to connect, where the data is, which failures
// the data survives, and the memory budget.
func banner(out io.Writer, cfg *config.Config, srv *server.Server) {
	data, durability := cfg.Str("dir"), map[string]string{
		"always":   "always: a write is on disk (fsync) before its reply",
		"everysec": "everysec: a write is with the operating system before its reply, on disk within a second",
		"no":       "no: a write is with the operating system before its reply",
	}[cfg.Enum("appendfsync")]
	switch cfg.Enum("engine") {
	case "memory":
		data, durability = "memory only (engine memory)", "none: everything is lost when the process ends"
	case "local":
		if cfg.Str("raft-peers") != "" {
			durability = "replicated: a majority of the nodes has a write before its reply; " + durability
		}
	case "tikv":
		data = fmt.Sprintf("the TiKV cluster of %s, keys that begin with %s", cfg.Str("tikv-pd"), cfg.Str("tikv-prefix"))
		durability = "replicated: TiKV has committed a write before its reply"
	case "cql":
		data = fmt.Sprintf("the cluster of %s, keyspace %s, store %s", cfg.Str("cql-hosts"), cfg.Str("cql-keyspace"), cfg.Str("cql-prefix"))
		durability = "replicated: a write is on replicas as cql-commit says (" + cfg.Enum("cql-commit") + ") before its reply"
	}
	fmt.Fprintf(out, "Redoubt %s\n", version.Current())
	fmt.Fprintf(out, "  process     %d\n", os.Getpid())
	fmt.Fprintf(out, "  listening   %s\n", srv.Addr())
	if tls := srv.TLSAddr(); tls != nil {
		fmt.Fprintf(out, "  with TLS    %s\n", tls)
	}
	if http := srv.HTTPAddr(); http != nil {
		fmt.Fprintf(out, "  channels    %s over HTTP\n", http)
	}
	if url := srv.ConsoleURL(); url != "" {
		fmt.Fprintf(out, "  console     %s\n", url)
	}
	fmt.Fprintf(out, "  data        %s\n", data)
	fmt.Fprintf(out, "  durability  %s\n", durability)
	if !onCluster(cfg) {
		fmt.Fprintf(out, "  memory      %d MiB (maxmemory)\n", cfg.Int("maxmemory")>>20)
	}
}

// openLog logs to logfile or to standard error. loglevel may change at run time.
func openLog(cfg *config.Config) (*slog.Logger, func() error, error) {
	var level slog.LevelVar
	set := func() error {
		switch cfg.Enum("loglevel") {
		case "debug", "verbose":
			level.Set(slog.LevelDebug)
		case "warning":
			level.Set(slog.LevelWarn)
		case "nothing":
			level.Set(slog.LevelError + 4)
		default:
			level.Set(slog.LevelInfo)
		}
		return nil
	}
	set()
	cfg.OnChange("loglevel", set)
	var out io.Writer = os.Stderr
	closeLog := func() error { return nil } // stderr stays open for main's last error
	if name := cfg.Str("logfile"); name != "" {
		f, err := os.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, nil, fmt.Errorf("logfile: it cannot be opened: %w; make its directory, see to its owner, or leave logfile empty for standard error", err)
		}
		out, closeLog = f, f.Close
	}
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: &level})), closeLog, nil
}

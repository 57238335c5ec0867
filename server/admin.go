package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"slices"
	"time"
	"unsafe"

	"redoubt/acl"
	"redoubt/command"
	"redoubt/config"
	"redoubt/executor"
	"redoubt/script"
	"redoubt/server/admin"
	"redoubt/server/checkpoint"
	"redoubt/server/cluster"
	"redoubt/server/debug"
	"redoubt/version"
)

// administrative wraps commands that see neither session nor server as local commands.
func administrative(list []*admin.Command) []*local {
	var all []*local
	for _, a := range list {
		l := &local{Command: a.Command, worker: a.Worker, subs: administrative(a.Subs)}
		if a.Run != nil {
			l.run = func(c *localCall) error {
				return a.Run(&admin.Call{Args: c.args, Reply: c.w, Client: adminClient{c}, Table: c.srv.table})
			}
		}
		all = append(all, l)
	}
	return all
}

// adminCommands are the commands that see neither session nor server.
func (srv *Server) adminCommands() []*admin.Command {
	return slices.Concat(admin.Commands(adminView{srv}), srv.debug.Commands(), srv.migrations.Commands(), srv.save.Commands(), srv.info.Commands(), srv.access.Commands(),
		srv.obs.Commands(), srv.role.Commands(), srv.pubsub.Commands(), srv.cluster.Commands())
}

// helpCommand is the HELP of a container.
func helpCommand(group command.Group, since string, cat command.Category) *local {
	return administrative([]*admin.Command{admin.Help(group, since, cat)})[0]
}

// adminClient implements admin.Client.
type adminClient struct{ c *localCall }

func (a adminClient) ID() int64           { return a.c.s.id }
func (a adminClient) Database() int       { return a.c.s.db }
func (a adminClient) User() *acl.User     { return a.c.s.user.Load() }
func (a adminClient) OnThisMachine() bool { return a.c.s.unix || loopback(a.c.s.addr) }

func (a adminClient) Reached() (host string, usesTLS bool) {
	s := a.c.s
	if p, ok := s.car.(*pipe); ok {
		_, usesTLS = p.conn.(*tls.Conn)
	}
	if !s.unix {
		if h, _, err := net.SplitHostPort(s.laddr); err == nil {
			host = h
		}
	}
	return host, usesTLS
}

func (a adminClient) CloseAfterReply() {
	s := a.c.s
	a.c.after = func() { s.closing = true }
}

// Execute implements admin.Client. In a transaction or script the command runs inside it,
// since its latches are taken; the command's error is then returned and not written.
func (a adminClient) Execute(cmd *command.Command, args [][]byte) error {
	c := a.c
	if !c.srv.ready.Load() {
		return command.ErrLoading
	}
	if c.within != nil {
		return c.within(cmd, args, c.w)
	}
	call := executor.Call{Cmd: cmd, Args: args, DB: c.s.db, Reply: c.w, NoTouch: true}
	return c.srv.waitDurable(c.srv.exec.RunOnWorker(&call))
}

// adminView is the server as administrative commands see it: admin.Server, debug.Server and
// checkpoint.Store.
type adminView struct{ srv *Server }

func (v adminView) Config() *config.Config            { return v.srv.cfg }
func (v adminView) Log() *slog.Logger                 { return v.srv.log }
func (v adminView) ClientLog() *slog.Logger           { return v.srv.clientLog }
func (v adminView) Versions() (redoubt, redis string) { return version.Redoubt, version.Redis }
func (v adminView) Scripts() *script.Engine           { return v.srv.scripts }
func (v adminView) Now() time.Time                    { return v.srv.clock() }
func (v adminView) Loading() bool                     { return v.srv.load.active.Load() }
func (v adminView) ResetStats()                       { v.srv.resetStats() }
func (v adminView) Stop()                             { v.srv.life.stopAsk.Do(func() { close(v.srv.life.stopReq) }) }
func (v adminView) MaxBulk() int64                    { return v.srv.set.maxBulk.Load() }
func (v adminView) Databases() int                    { return v.srv.databases }
func (v adminView) SessionSize() uintptr              { return unsafe.Sizeof(session{}) }
func (v adminView) NewReplicationID()                 { v.srv.role.Master.ChangeID() }
func (v adminView) ApplyLimits()                      { v.srv.limitCommands() }
func (v adminView) SetActiveExpire(on bool)           { v.srv.upkeep.SetActive(on) }
func (v adminView) Changes() int64                    { return v.srv.exec.Stats.Changes.Load() }
func (v adminView) Checkpoint(dir string) error       { return v.srv.eng.Checkpoint(dir) }

func (v adminView) Recount(db int) (int64, error) {
	if !v.srv.ready.Load() {
		return 0, command.ErrLoading
	}
	return v.srv.upkeep.Recount(db, v.srv.life.draining.Load)
}

func (v adminView) Save() error {
	if !v.srv.ready.Load() {
		return nil
	}
	return v.srv.save.SaveNext()
}

func (v adminView) Reload() error {
	if err := v.srv.waitDurable(v.srv.eng.Committed()); err != nil {
		return err
	}
	v.srv.upkeep.Sweep(context.Background())
	return nil
}

func (v adminView) CountKeys(db int) (keys, volatile int64, err error) {
	return v.srv.exec.Space().Count(db)
}

func (v adminView) Keys() (sum int64) {
	for db := range v.srv.databases {
		n, _, err := v.CountKeys(db)
		if err != nil {
			v.srv.log.Warn("counting keys failed", "err", err)
		}
		sum += n
	}
	return sum
}

func (v adminView) ClientMemory() (limit int64, held []int64) {
	for _, s := range v.srv.clients.list() {
		held = append(held, s.memory())
	}
	return v.srv.budget.Clients.Limit(), held
}

var (
	_ admin.Server     = adminView{}
	_ debug.Server     = adminView{}
	_ checkpoint.Store = adminView{}
	_ cluster.Source   = adminView{}
)

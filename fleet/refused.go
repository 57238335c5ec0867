package fleet

import (
	"bytes"
	"context"
	"fmt"
	"time"
)

// Members that are gone before their lease is over: their address refuses connections, or
// this process has it now.

// Refused reports that the address of a member refuses connections, or belongs to another
// member. The member is left out until it writes its row again. After that further reports
// are ignored until Reached: this process may be unable to reach the address.
func (f *Fleet) Refused(id ID) {
	f.report(id, true)
	f.Refresh()
}

// Reached reports that a member has answered at its address.
func (f *Fleet) Reached(id ID) { f.report(id, false) }

func (f *Fleet) report(id ID, refused bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reports[id] = refused
}

// takeReports returns the reports since the last call.
func (f *Fleet) takeReports() map[ID]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	reports := f.reports
	f.reports = make(map[ID]bool)
	return reports
}

// keepReports puts reports back, unless there are newer ones.
func (f *Fleet) keepReports(reports map[ID]bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, refused := range reports {
		if _, newer := f.reports[id]; !newer {
			f.reports[id] = refused
		}
	}
}

// heed applies a report about a member, if there is one.
func (p *peer) heed(reports map[ID]bool) {
	switch refused, ok := reports[p.ID]; {
	case !ok:
	case !refused:
		p.refused, p.refutedRefusal = false, false
	case !p.refutedRefusal:
		p.refused = true
	}
}

// livesOn notes that a refused member has written its row.
func (f *Fleet) livesOn(p *peer) {
	p.refused, p.refutedRefusal = false, true
	if p.sameAddress(f.self) {
		f.log.Error("two front ends announce the same address: clients and the others reach one of them only; give each its own (cluster-announce-ip, cluster-announce-bus-port)",
			"addr", p.Bus(), "id", f.self.ID.String(), "other", p.ID.String())
		return
	}
	f.log.Warn("a front end lives, although nobody listens at its address: is its bus port open to the others?", "id", p.ID.String(), "addr", p.Bus())
}

// sameAddress reports whether two members announce the same address.
func (m Member) sameAddress(o Member) bool {
	return m.BusPort != 0 && m.BusPort == o.BusPort && m.Host == o.Host
}

// replacePredecessor looks for rows of members with this process's address. A row that is not written
// any more is most likely that of this process's killed predecessor: its lease is not
// waited for. If the row is written, two processes announce the address, and replacePredecessor
// returns an error, since this process came later.
//
// A row counts as not written when it is older than one and a half beats.
func (f *Fleet) replacePredecessor(ctx context.Context) error {
	seen := make(map[ID]*peer)
	for {
		rows, err := readMembers(f.o.Engine)
		if err != nil {
			return err
		}
		young := false
		for id, row := range rows {
			m, err := decode(id, row)
			if err != nil || m.At == 0 || !m.sameAddress(f.self) {
				continue // list logs a bad row; other rows are left to their lease
			}
			now := f.o.Engine.Now()
			if p := seen[id]; p == nil {
				m.Seen = now
				seen[id] = &peer{Member: m, row: row, changed: f.now(), refused: true}
			} else if !bytes.Equal(p.row, row) {
				return fmt.Errorf("another front end, %s, lives and announces the same address, %s: give each front end its own port, or set cluster-announce-ip and cluster-announce-bus-port", id, m.Bus())
			}
			young = young || now.Sub(time.UnixMilli(m.At)) < f.o.Beat*3/2
		}
		if !young || f.now() >= f.o.Lease {
			f.peers = seen
			return nil
		}
		select {
		case <-f.o.Clock.After(f.o.Beat / 10):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

package metrics

import "strconv"

// A node of a replicated store.
var (
	mRaftLeads   = gauge("raft_leader", "1 if this node leads its cluster and serves.")
	mRaftKnown   = gauge("raft_leader_known", "1 if this node knows a leader; 0 on all nodes means that none serves.")
	mRaftFailed  = gauge("raft_failed", "1 if this node has stopped taking part: the log and INFO say why.")
	mRaftTerm    = gauge("raft_term", "The term, which grows with each election.")
	mRaftCommit  = gauge("raft_commit_index", "The newest entry that is agreed upon.")
	mRaftApplied = gauge("raft_applied_index", "The newest entry that this node has in its data.")
	mRaftLast    = gauge("raft_last_index", "The newest entry of this node's log.")
	mRaftLease   = gauge("raft_lease_seconds", "For how long this node may still answer reads without asking the others.")
	mRaftWon     = counter("raft_elections_won_total", "How often this node was elected leader.")
	mRaftRewinds = counter("raft_rewinds_total", "How often writes of this node were taken back, since another leader had not got them.")
	mRaftLag     = gauge("raft_member_lag_entries", "On the leader: entries that another node is not known to have.", "replica")
	mRaftActive  = gauge("raft_member_active", "On the leader: 1 if another node was heard of lately.", "replica")
)

func (c *collector) raft(send sender) {
	r, ok := c.Raft()
	if !ok {
		return
	}
	send(mRaftLeads, number(r.Leads))
	send(mRaftKnown, number(r.LeaderKnown))
	send(mRaftFailed, number(r.Failed))
	send(mRaftTerm, float64(r.Term))
	send(mRaftCommit, float64(r.Commit))
	send(mRaftApplied, float64(r.Applied))
	send(mRaftLast, float64(r.Last))
	send(mRaftLease, r.Lease.Seconds())
	send(mRaftWon, float64(r.Elections))
	send(mRaftRewinds, float64(r.Rewinds))
	for _, m := range r.Members {
		replica := strconv.FormatUint(m.Replica, 10)
		send(mRaftLag, float64(m.Lag), replica)
		send(mRaftActive, number(m.Active), replica)
	}
}

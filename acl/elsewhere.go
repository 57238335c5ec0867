package acl

import "strings"

// elsewhere are commands that Redis has and this server may not have. Rules about
// them are taken and shown again, so that the users of a Redis can be moved here;
// they have no effect. One that the server has is looked up before.
var elsewhere = func() map[string]bool {
	m := make(map[string]bool)
	for _, line := range strings.Split(elsewhereNames, "\n") {
		container, subs, _ := strings.Cut(strings.TrimSpace(line), ":")
		m[container] = true
		for _, s := range strings.Fields(subs) {
			m[container+"|"+s] = true
		}
	}
	delete(m, "")
	return m
}()

const elsewhereNames = `
cluster: addslots addslotsrange bumpepoch count-failure-reports countkeysinslot delslots delslotsrange failover flushslots forget getkeysinslot help info keyslot links meet myid myshardid nodes replicas replicate reset saveconfig set-config-epoch setslot shards slaves slot-stats slots
failover
module: help list load loadex unload
psync
replconf
sync
`

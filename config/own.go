package config

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// tikvPrefix refuses prefixes of keys that TiKV and TiDB use.
func tikvPrefix(v value, _ bool) error {
	switch s := v.text; {
	case s == "" || len(s) > 64:
		return errors.New("tikv-prefix must have 1 to 64 bytes")
	case s[0] == 'm' || s[0] == 't' || s[0] == 0xff:
		return errors.New("tikv-prefix must not begin with m or t, which are TiDB's, nor with byte ff")
	}
	return nil
}

// raftPeers refuses what is no list of addresses.
func raftPeers(v value, _ bool) error {
	if v.text == "" {
		return nil
	}
	for p := range strings.SplitSeq(v.text, ",") {
		if _, port, err := net.SplitHostPort(strings.TrimSpace(p)); err != nil || port == "" {
			return errors.New("raft-peers must be a list of host:port with commas between them")
		}
	}
	return nil
}

// httpPrefix refuses a prefix that is not a path.
func httpPrefix(v value, _ bool) error {
	s := v.text
	if s != "" && (s[0] != '/' || s[len(s)-1] == '/' || strings.ContainsAny(s, " ?#%{}") || strings.Contains(s, "//")) {
		return errors.New("http-prefix must be empty or a path such as /channels")
	}
	return nil
}

// ownDirectives are the directives that Redis does not have, or has with
// another default or meaning. Each says so in its doc.
func ownDirectives(memoryBytes uint64) []Directive {
	return []Directive{
		yesNo("appendonly", "yes").with(DenyLoading).
			doc("Redoubt always keeps a journal; the default is yes, where Redis has no. The value is remembered for tools that ask."),
		special("dir", absolute("./redoubt-data"), readDir).with(Protected | DenyLoading | AlwaysWritten).
			doc("The data directory, made if it does not exist. The default is ./redoubt-data, where Redis uses the working directory."),
		integer("auth-timeout", 30, 0, maxInt32).
			doc("After how many seconds a client is closed that has to authenticate and has not. 0 is never. Redis has no such limit."),
		yesNo("console", "yes").with(Immutable).
			doc("http-addr serves the console, a page to look at the server and its data, at /console/. Its users log in as users of the ACL."),
		yesNo("console-read-only", "no").
			doc("Commands from the console must not change anything, whatever the rights of their users."),
		integer("disk-free-warning", 5, 0, 100).
			doc("Engine local: the log and INFO warn when less than this percentage of the file system of the data is free. 0 never warns. Writes are refused when much less is free."),
		oneOf("engine", "local", "local", "memory", "tikv", "cql").with(Immutable).
			doc("What stores the data: local keeps it in memory and on disk, memory keeps it in memory only, where maxmemory bounds it and it is gone at the end of the process, tikv and cql keep it in a cluster of TiKV, or of Cassandra, that several processes use at once."),
		nullable("cql-ca").with(Immutable).
			doc("Engine cql: the file of the authority's certificate. With it all connections to the cluster use TLS."),
		nullable("cql-cert").with(Immutable).
			doc("Engine cql: the file of the certificate by which the cluster knows this process."),
		oneOf("cql-commit", "quorum", "quorum", "local_quorum", "each_quorum").with(Immutable).
			doc("Engine cql: how many replicas have a write before its reply."),
		yesNo("cql-cross-slot", "yes").with(Immutable).
			doc("Engine cql: no refuses commands, transactions and scripts on keys of several slots, as a Redis Cluster does, so that none needs a commit over several partitions."),
		nullable("cql-datacenter").with(Immutable).
			doc("Engine cql: the data centre whose nodes are asked; by default those of any."),
		nullable("cql-hosts").with(Immutable).
			doc("Engine cql: the addresses of some nodes of the cluster, host:port or host, with commas between them."),
		nullable("cql-key").with(Immutable).
			doc("Engine cql: the file of cql-cert's key."),
		text("cql-keyspace", "redoubt").with(Immutable).
			doc("Engine cql: the keyspace that has the table. It is made with cql-replication if it does not exist."),
		integer("cql-max-transactions", 1024, 1, 1<<20).with(Immutable).
			doc("Engine cql: how many transactions this process has under way at once. Further commands wait, up to cql-timeout."),
		nullable("cql-password").with(Immutable | Sensitive).
			doc("Engine cql: the password of cql-user."),
		text("cql-prefix", "redoubt").with(Immutable).
			doc("Engine cql: tells the stores apart that share a keyspace."),
		oneOf("cql-read", "serial", "serial", "quorum", "local_quorum", "one").with(Immutable).
			doc("Engine cql: the level of reads of one row. Below serial they may be stale: docs/cql.md."),
		text("cql-replication", "1").with(Immutable).
			doc("Engine cql: the replication of a new keyspace: a number of replicas, or dc:number for each data centre, with commas."),
		oneOf("cql-serial", "serial", "serial", "local_serial").with(Immutable).
			doc("Engine cql: the level at which writes agree: over all data centres, or inside of one. All processes of a store must have the same."),
		integer("cql-timeout", 5000, 50, 3600_000).with(Immutable).
			doc("Engine cql: after how many milliseconds a command gives up that waits for the cluster, or conflicts again and again. It answers an error that begins with TRYAGAIN."),
		nullable("cql-user").with(Immutable).
			doc("Engine cql: the user as whom this process logs in to the cluster."),
		integer("cql-width", 64, 1, 64).with(Immutable).
			doc("Engine cql: how many slots a partition of a new store has, a power of two. An existing store keeps what it was made with."),
		nullable("channels-file").with(Volatile | DenyLoading).
			doc("The file (YAML) with the rules of durable channels: a list channels of regex, expire, jwt and webhooks. It is read at the start, and again by SIGHUP and by CONFIG SET, also with the same name; a file with mistakes changes nothing."),
		yesNo("http-access-log", "no").
			doc("Each HTTP request is a line of the log."),
		nullable("http-addr").with(Immutable).
			doc("The host:port on which the console and durable channels are served over HTTP; nothing is served by default."),
		nullable("http-admin-token").with(Sensitive).
			doc("The bearer token of the administrative paths of http-addr (revoking tokens, level of the log); without one nobody may use them."),
		oneOf("http-anonymous", "loopback", "loopback", "yes", "no").
			doc("From where channels may be used over HTTP that no rule of channels-file guards with a jwt block: loopback is this machine, yes is everywhere, no is nowhere."),
		text("http-cors-origins", "").
			doc("The web origins, with spaces between them, whose pages may use http-addr from a browser; * is all."),
		yesNo("http-error-detail", "no").
			doc("A client of http-addr that is refused is told why. It helps those who write clients, and attackers."),
		memory("http-max-body", 1<<20, 1<<10, 512<<20).
			doc("The largest message that can be published over HTTP."),
		integer("http-max-connections", 20000, 1, 1<<20).
			doc("How many connections http-addr takes. If the limit on open files is too low for these and maxclients, each gets less."),
		integer("http-poll-limit", 30, 1, 3600).
			doc("For how many seconds a poll over HTTP waits at the most, whatever its timeout says."),
		text("http-prefix", "").with(Immutable).valid(httpPrefix).
			doc("What all paths of http-addr begin with, such as /channels."),
		integer("http-rate-limit", 0, 0, 1<<30).
			doc("How many HTTP requests one client's address may make in a second; more are answered with 429. 0 is no limit."),
		yesNo("http-tls", "no").with(Immutable).
			doc("http-addr speaks TLS, with the certificates of tls-cert-file, and offers HTTP/2."),
		oneOf("http-tls-auth-clients", "no", "no", "yes", "optional").
			doc("Whether clients of http-addr must have a certificate that tls-ca-cert-file or tls-ca-cert-dir has signed. The default is no, whatever tls-auth-clients says: browsers have none, and tokens say who a client is."),
		integer("io-threads", 0, 0, 128).with(Immutable).
			doc("The number of event loops that read, execute and write. 0 chooses by the number of processors. In Redis these threads only read and write, and the default is 1."),
		memory("lua-memory-limit", 128<<20, 1<<20, maxInt64).
			doc("How much memory one script or function may hold. One that wants more is ended, and what it wrote is undone. Redis has no such limit."),
		memory("maxmemory", int64(memoryBytes/2), 0, maxUint64).
			doc("The memory budget of the data that is held ready; more data than that lives on disk. The default is half of the machine's memory or of the container's limit, where Redis has no limit. Text " + strconv.Quote("0") + " means no limit."),
		Directive{Name: "maxmemory-clients", Kind: MemoryOrPercent, Default: "25%", low: -100, high: maxInt64}.
			doc("How much memory all clients together may take for what they sent and have not read, as in Redis: beyond it the largest are closed. A percentage is one of maxmemory. The default is 25%, where Redis has no limit; 0 is none."),
		nullable("metrics-addr").with(Immutable).
			doc("The host:port on which metrics are served over HTTP; nothing is served by default."),
		nullable("metrics-password").with(Immutable | Sensitive).
			doc("The password that HTTP requests at metrics-addr must bring, by basic authentication with any user or as a bearer token; none by default."),
		yesNo("metrics-pprof", "no").with(Immutable).
			doc("Go profiles are served at metrics-addr, too, on /debug/pprof/. On an address that is not the machine's own they need metrics-password."),
		nullable("cluster-secret-file").with(Immutable).
			doc("The file with the secret by which the nodes of raft-peers know each other: any 16 bytes or more, the same on all. Needed unless all of them are on this machine."),
		nullable("raft-peers").with(Immutable).valid(raftPeers).
			doc("Engine local: the host:port of each node of a replicated cluster of 3, 5 or 7, with commas between them, the same list on each: the addresses of cluster-port. The nodes hold the same data and agree upon each write."),
		nullable("tikv-ca").with(Immutable).
			doc("Engine tikv: the file of the authority's certificate. With it all connections to the cluster use TLS."),
		nullable("tikv-cert").with(Immutable).
			doc("Engine tikv: the file of the certificate by which the cluster knows this process."),
		nullable("tikv-key").with(Immutable).
			doc("Engine tikv: the file of that certificate's key."),
		integer("tikv-max-transactions", 1024, 1, 1<<20).
			doc("Engine tikv: how many transactions this process has under way at once. Further commands wait, up to tikv-timeout."),
		nullable("tikv-pd").with(Immutable).
			doc("Engine tikv: the addresses of the cluster's placement drivers, host:port each, with commas between them."),
		text("tikv-prefix", "redoubt:").with(Immutable).valid(tikvPrefix).
			doc("Engine tikv: what the keys of all rows begin with. Each of several databases in one cluster has its own, and none may be the beginning of another."),
		yesNo("tikv-replica-read", "no").
			doc("Engine tikv: reads go to any replica, not to the leader alone. They are still of a fresh moment."),
		integer("tikv-timeout", 5000, 50, 3600_000).with(Immutable).
			doc("Engine tikv: after how many milliseconds a command gives up that waits for the cluster, or conflicts again and again. It answers an error that begins with TRYAGAIN."),
		yesNo("webhook-private-addresses", "no").
			doc("Webhooks of channels-file may reach loopback, private and link-local addresses. By default only addresses of the Internet are allowed, so that a webhook cannot be used to get at what only this machine reaches."),
	}
}

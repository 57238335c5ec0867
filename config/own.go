package config

import "strconv"

// ownDirectives are the directives that Redis does not have, or has with
// another default or meaning. Each says so in its doc.
func ownDirectives(memoryBytes uint64) []Directive {
	return []Directive{
		yesNo("appendonly", "yes").with(DenyLoading).
			doc("Redoubt always keeps a journal; the default is yes, where Redis has no. The value is remembered for tools that ask."),
		special("dir", absolute("./redoubt-data"), readDir).with(Protected | DenyLoading | AlwaysWritten).
			doc("The data directory, made if it does not exist. The default is ./redoubt-data, where Redis uses the working directory."),
		oneOf("engine", "local", "local", "mem").with(Immutable).
			doc("What stores the data: local keeps it in memory and on disk, mem loses it at the end of the process."),
		integer("io-threads", 0, 0, 128).with(Immutable).
			doc("The number of event loops that read, execute and write. 0 chooses by the number of processors. In Redis these threads only read and write, and the default is 1."),
		memory("lua-memory-limit", 128<<20, 1<<20, maxInt64).
			doc("How much memory one script or function may hold. One that wants more is ended, and what it wrote is undone. Redis has no such limit."),
		memory("maxmemory", int64(memoryBytes/2), 0, maxUint64).
			doc("The memory budget of the data that is held ready; more data than that lives on disk. The default is half of the machine's memory or of the container's limit, where Redis has no limit. Text " + strconv.Quote("0") + " means no limit."),
		nullable("metrics-addr").with(Immutable).
			doc("The host:port on which metrics are served over HTTP; nothing is served by default."),
	}
}

# Everything a developer runs. `make help` lists it; `.ci/run` is what CI does, and
# consists of targets of this file.

GO ?= go
PKG := ./...

.PHONY: help run build dist test test-quick race check fmt vet fuzz sim oracle oracle-short crash bench bench-mem soak hostile hostile-short pgo tools tools-clients tools-console idle clients \
	clients-short console console-current console-program test-console pictures test-channels test-replicated tikv-build tikv-up tikv-down test-tikv cql-up cql-down test-cql settle

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

# What Pebble would use C for has a form in Go.
run build: export CGO_ENABLED = 0

run: ## run the server on port 6379 with its data in ./redoubt-data
	$(GO) run ./cmd/redoubt

# The commit, and the time of the build: now, or SOURCE_DATE_EPOCH for builds that are the same to the byte.
COMMIT = $(shell git describe --always --dirty --abbrev=40 --match '' 2>/dev/null)
BUILT = $(shell date -u $(if $(SOURCE_DATE_EPOCH),-d @$(SOURCE_DATE_EPOCH)) +%Y-%m-%dT%H:%M:%SZ)

build: ## build bin/redoubt
	$(GO) build -ldflags "-X redoubt/version.commit=$(COMMIT) -X redoubt/version.built=$(BUILT)" -o bin/redoubt ./cmd/redoubt

dist: ## static programs for Linux and macOS with checksums and lists of modules, in dist/ (TARGETS="linux/amd64")
	@TARGETS="$(TARGETS)" GO="$(GO)" LDFLAGS="-X redoubt/version.commit=$(COMMIT) -X redoubt/version.built=$(BUILT)" packaging/dist.sh

# test/ran is go test that fails when a test did not run. Tests may skip themselves
# only for a reason that is written here: ELSEWHERE are those that another target
# passes, NEVER those that have no place on this machine, or ask for a Redis that
# Debian does not have. With LEDGER=file `make settle` tells whether each was passed
# by some target.
NEVER := the engine is not shared|the engine has no moments|no IPv6 here|no symbolic links here|no size is impossible here|cannot read without waiting|descriptors are not enough|compares with Redis|lacks some of the commands|-record|not asked to record|would read files|no file system can be mounted|has no short form
ELSEWHERE := REDOUBT_ORACLE|make test-tikv|make test-cql|REDOUBT_CLIENTS=1|HOSTILE=short|opens 10,000 connections
RACE := race detector|takes long|slow with
# Programs that a developer may lack, and CI installs.
PROGRAMS := $(if $(CI),,|needs openssl|needs redis-cli|needs a redis-cli with TLS|needs curl)
RAN = $(GO) run ./test/ran $(if $(LEDGER),-ledger '$(LEDGER)') -never '$(NEVER)$(PROGRAMS)'

test: ## all tests that need only Go
	@$(RAN) -here '$(ELSEWHERE)' -- $(PKG)

# Three quarters of the time of all tests.
SLOW := test/(apps|clients|crash|differential|hostile|script|serial)|server|engine/local

test-quick: ## tests of a minute, for the hand: without those of whole servers
	@$(RAN) -here '$(ELSEWHERE)' -- $$($(GO) list $(PKG) | grep -vE '^redoubt/($(SLOW))$$')

# Those that start programs built without the detector find nothing more with it.
PROCESSES := test/(channels|clients|crash|fuzz|hostile|ran|serial|tikv)$$

race: ## all tests under the race detector, but those of other processes
	@$(RAN) -here '$(ELSEWHERE)|$(RACE)' -- -race -timeout 30m $$($(GO) list $(PKG) | grep -vE '^redoubt/$(PROCESSES)')

fmt: ## fail if a file is not formatted
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

vet: ## go vet and staticcheck (its version is in tool/go.mod)
	$(GO) vet $(PKG)
	$(GO) tool -modfile=tool/go.mod staticcheck $(PKG)

check: fmt vet test race ## what a change must pass

FUZZTIME ?= 30s

fuzz: ## fuzz the parsers and codecs for a while each (FUZZTIME=30s, FUZZ=regexp)
	$(GO) run ./test/fuzz -time $(FUZZTIME) -run '$(FUZZ)'

# install takes a list of program:package, and installs the packages of the programs that
# are missing. A mirror may fail for a moment.
APT := apt-get -o Acquire::Retries=5
define install
	@missing=$$(for t in $(1); do command -v $${t%%:*} >/dev/null || echo $${t#*:}; done); \
	[ -z "$$missing" ] || { $(APT) update && DEBIAN_FRONTEND=noninteractive $(APT) install -y --no-install-recommends $$missing; } || \
		{ echo "FAIL apt-get cannot install $$missing: install the programs in another way, or try again"; exit 1; }
	@for t in $(1); do command -v $${t%%:*} || { echo "FAIL $${t%%:*} is not in PATH"; exit 1; }; done
endef

tools: ## install what oracle, bench and some tests need (Debian: redis-server, redis-tools, openssl, curl, Java, Maven)
	$(call install,redis-server:redis-server redis-cli:redis-tools openssl:openssl curl:curl java:default-jdk-headless mvn:maven)

tools-console: ## install what test-console needs (Debian: Node, Chromium)
	$(call install,node:nodejs npm:npm chromium:chromium)

tools-clients: ## install what clients and test-channels need (Debian: Python, Node, Java, Maven, Rust, Chromium)
	$(call install,python3:python3-venv node:nodejs npm:npm java:default-jdk-headless mvn:maven cargo:cargo chromium:chromium)

# Where tests are that ask a real Redis, and what their names have in common.
ORACLE := ./test/apps ./test/differential ./test/master ./test/script ./command ./config ./lua/... ./rdb ./test/replica ./wire
ORACLE_TESTS := Redis|Oracle|Random|Corpus|Protocol|DumpTravels|EventsOfEachCommand|KilledScriptText|FunctionPayloads|MathFunctions|TestSpeed|TestLock|TestQueue|TestMov|TestMaster
ORACLE_RUN = REDOUBT_ORACLE=1 $(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 60m

oracle: ## command scripts and random sequences against a real redis-server
	@$(ORACLE_RUN) $(ORACLE)
	@$(ORACLE_RUN) -run '$(ORACLE_TESTS)' ./server

oracle-short: ## the same with fewer random steps, and without the tests beside: what CI runs
	@REDOUBT_STEPS=3000 REDOUBT_PROGRAMS=300 $(ORACLE_RUN) -run '$(ORACLE_TESTS)' $(ORACLE) ./server

CRASH_ROUNDS ?= 100
SERIAL_ROUNDS ?= 20

crash: ## many rounds of kill -9 and restart (CRASH_ROUNDS=100 SERIAL_ROUNDS=20)
	@REDOUBT_CRASH_ROUNDS=$(CRASH_ROUNDS) $(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 30m ./test/crash
	@$(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 30m ./test/serial -rounds $(SERIAL_ROUNDS)

SIM ?= 10m

sim: ## clusters of replicas with faults, simulated, each of two kinds for a while (SIM=10m)
	REDOUBT_SIM=$(SIM) $(GO) test -count=1 -timeout 24h -v -run 'TestSimulation($$|OnJournals)' ./replica

HISTORIES ?= 100

test-replicated: ## whole servers that agree upon their writes, with faults, checked for linearizability (HISTORIES=100), and processes with kill -9
	REDOUBT_HISTORIES=$(HISTORIES) $(GO) test -count=1 -timeout 24h -parallel 4 -v ./test/replicated

console: ## build console/dist, the page that is embedded in the program, from console/app; needs Node 20 or later
	cd console/app && npm ci --ignore-scripts --no-progress && npm run build

console-current: console ## fail if console/dist is not what console/app makes
	@test -z "$$(git status --porcelain console/dist)" || { git status --short console/dist; echo 'console/dist is not current: run make console and commit it'; exit 1; }

# The program is built without default.pgo, which would compile every package again.
KEYS ?= 1000000
CONSOLE_TEST = cd console/app && { [ -d node_modules ] || npm ci --ignore-scripts --no-progress; } && node browser/test.mjs ../../bin/redoubt-console

test-console: console-program ## the console: its own tests, and each page in Chromium with a million keys (KEYS=5000000); needs Node and chromium
	cd console/app && { [ -d node_modules ] || npm ci --ignore-scripts --no-progress; } && npm test
	$(CONSOLE_TEST) --keys $(KEYS) --failures ../../bin

pictures: console-program ## draw docs/images again; needs Node and chromium
	$(CONSOLE_TEST) --shots ../../docs/images

console-program:
	CGO_ENABLED=0 $(GO) build -pgo=off -o bin/redoubt-console ./cmd/redoubt

# What other targets skip: programs of other languages, also against a server that says
# something wrong; the examples of docs/channels.md in Python and JavaScript, and a browser.
# Front ends on TiKV, and load at its full size, are left to clients and test-channels.
clients-short: ## clients and test-channels in their short forms: what CI runs
	@REDOUBT_CLIENTS=1 $(RAN) -- -count=1 -timeout 15m -run 'Clients/./memory' ./test/clients
	@REDOUBT_CLIENTS=1 $(RAN) -- -count=1 -timeout 15m -run 'Python|JavaScript|Browser|WrongAnswer' ./test/channels

clients: ## programs with client libraries of Go, Python, Node, Java and Rust; needs those and package registries (make tools-clients)
	REDOUBT_CLIENTS=1 $(GO) test -count=1 -timeout 60m -v -run 'TestClients' ./test/clients

test-channels: ## docs/channels.md in all its languages, EventSource in Chromium, 1,000 subscribers x 100 channels; needs Python, Node, chromium
	REDOUBT_CLIENTS=1 $(GO) test -count=1 -timeout 60m -v ./test/channels -full

# Where the packages with tests on TiKV are, and those with some tests OnTiKV.
TIKV_PACKAGES ?= ./engine/tikv/... ./test/tikv/... ./test/front
TIKV_BESIDES ?= ./test/differential ./test/serial
TIKV_DIR ?= redoubt-tikv

tikv-build: ## build the programs of the TiKV test cluster: minutes, then kept in the user's cache directory
	$(GO) run ./test/tikv/cluster build

tikv-up: ## start a TiKV test cluster in the background (TIKV_DIR=redoubt-tikv has its data)
	@$(GO) run ./test/tikv/cluster up $(TIKV_DIR)

tikv-down: ## stop it; the data stays
	$(GO) run ./test/tikv/cluster down $(TIKV_DIR)

test-tikv: tikv-build ## tests on a TiKV test cluster (REDOUBT_TIKV_PD=host:port: also on that one)
	@$(RAN) -dir test/tikv/store -- -count=1 ./...
	@REDOUBT_TIKV=1 $(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 15m $(TIKV_PACKAGES)
	@REDOUBT_TIKV=1 $(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 15m -run OnTiKV $(TIKV_BESIDES)

# Where the tests on Cassandra are.
CQL_PACKAGES ?= ./engine/cql ./test/cql
CQL_BESIDES ?= ./test/differential ./test/serial
CQL_DIR ?= redoubt-cql

cql-up: ## start a Cassandra node in the background (CQL_DIR=redoubt-cql has its data); needs Java 17 and Maven
	@$(GO) run ./test/cql/cluster up $(CQL_DIR)

cql-down: ## stop it; the data stays
	$(GO) run ./test/cql/cluster down $(CQL_DIR)

CQL_TESTS = $(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 20m -p 1 $(CQL_PACKAGES) && \
	$(RAN) -here '$(ELSEWHERE)' -- -count=1 -timeout 10m -p 1 -run OnCQL $(CQL_BESIDES)

test-cql: ## tests on a Cassandra node of their own (REDOUBT_CQL=host:port: on that one); needs Java 17 and Maven
	@if [ -n "$$REDOUBT_CQL" ]; then $(CQL_TESTS); exit; fi; \
	dir=$$(mktemp -d); addr=$$($(GO) run ./test/cql/cluster up $$dir) && export REDOUBT_CQL=$$addr && $(CQL_TESTS); code=$$?; \
	$(GO) run ./test/cql/cluster down $$dir; rm -rf $$dir; exit $$code

idle: ## what 10,000 idle connections cost
	@REDOUBT_IDLE=10000 $(RAN) -- -count=1 -run Idle -v ./server

SUITES ?= everysec always types session channels large many sustained

bench: ## compare with redis-server, half an hour; writes docs/bench (SUITES="large many", BENCHFLAGS=-quick)
	@for suite in $(SUITES); do $(GO) run ./bench -suite $$suite $(BENCHFLAGS) || exit 1; done

bench-mem: ## the same without persistence on either side
	$(GO) run ./bench -suite mem $(BENCHFLAGS)

soak: ## ten minutes of load on little memory; fails if anything grows (SOAKTIME=1m)
	$(GO) run ./bench -suite soak $(if $(SOAKTIME),-t $(SOAKTIME)) $(BENCHFLAGS)

# A scenario alone: go test -run TestHostile/sort, see test/hostile/doc.go.
HOSTILE_TEST = $(RAN) $(if $(CI),,-here 'only root can mount') -- -count=1 -v -timeout 120m -run 'TestHostile|Disk' ./test/hostile

hostile: ## hostile clients and full disks against a real server, half an hour; prints two tables, fails if a bound does not hold
	@HOSTILE=full $(HOSTILE_TEST)

hostile-short: ## the same with smaller counts, in minutes: what CI runs
	@HOSTILE=short $(HOSTILE_TEST)

settle: ## with LEDGER=file: fail if a test that skipped itself in one target passed in none
	$(GO) run ./test/ran -settle '$(LEDGER)'

pgo: ## record cmd/redoubt/default.pgo, by which the compiler optimises
	$(GO) run ./bench -pgo cmd/redoubt/default.pgo -n 100000

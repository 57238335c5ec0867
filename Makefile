# Everything a developer runs. `make help` lists it; `make check` is what CI does.

GO ?= go
PKG := ./...

.PHONY: help run build test race check fmt vet lint fuzz oracle crash bench bench-mem soak hostile hostile-short pgo tools idle clients tikv-build tikv-up tikv-down test-tikv

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  %-13s %s\n", $$1, $$2}'

# What Pebble would use C for has a form in Go.
run build: export CGO_ENABLED = 0

run: ## run the server on port 6379 with its data in ./redoubt-data
	$(GO) run ./cmd/redoubt

build: ## build bin/redoubt
	$(GO) build -o bin/redoubt ./cmd/redoubt

test: ## all tests that need only Go
	$(GO) test $(PKG)

race: ## all tests under the race detector
	$(GO) test -race $(PKG)

fmt: ## fail if a file is not formatted
	@test -z "$$(gofmt -l .)" || { gofmt -l .; exit 1; }

vet: ## go vet
	$(GO) vet $(PKG)

check: fmt vet test race ## what CI runs

fuzz: ## fuzz the parsers and codecs for a while each (FUZZTIME=30s)
	@grep -rl --include='*_test.go' '^func Fuzz' . | while read -r file; do \
		grep -o '^func Fuzz[A-Za-z0-9]*' $$file | cut -c6- | while read -r name; do \
			echo "$$name"; $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(or $(FUZZTIME),30s) ./$$(dirname $$file) || exit 1; \
		done || exit 1; \
	done

tools: ## install what oracle and bench compare with (Debian: redis-server, redis-tools)
	apt-get update && apt-get install -y redis-server redis-tools

oracle: ## command scripts and random sequences against a real redis-server
	REDOUBT_ORACLE=1 $(GO) test -count=1 -timeout 60m ./test/... ./command ./wire ./lua/... ./script ./acl ./config

crash: ## many rounds of kill -9 and restart
	REDOUBT_CRASH_ROUNDS=100 $(GO) test -count=1 -timeout 30m ./test/crash
	$(GO) test -count=1 -timeout 30m ./test/serial -rounds 20

clients: ## programs with client libraries of Go, Python, Node, Java and Rust; needs those and package registries
	REDOUBT_CLIENTS=1 $(GO) test -count=1 -timeout 60m -v -run 'TestClients' ./test/clients

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
	REDOUBT_TIKV=1 $(GO) test -count=1 -timeout 10m $(TIKV_PACKAGES)
	REDOUBT_TIKV=1 $(GO) test -count=1 -timeout 10m -run OnTiKV $(TIKV_BESIDES)

idle: ## what 10,000 idle connections cost
	REDOUBT_IDLE=10000 $(GO) test -count=1 -run Idle -v ./server

SUITES ?= everysec always types session large many sustained

bench: ## compare with redis-server, half an hour; writes docs/bench (SUITES="large many", BENCHFLAGS=-quick)
	@for suite in $(SUITES); do $(GO) run ./bench -suite $$suite $(BENCHFLAGS) || exit 1; done

bench-mem: ## the same without persistence on either side
	$(GO) run ./bench -suite mem $(BENCHFLAGS)

soak: ## ten minutes of load on little memory; fails if anything grows (SOAKTIME=1m)
	$(GO) run ./bench -suite soak $(if $(SOAKTIME),-t $(SOAKTIME)) $(BENCHFLAGS)

# A scenario alone: go test -run TestHostile/sort, see test/hostile/doc.go.
HOSTILE_TEST = $(GO) test -count=1 -v -timeout 120m -run 'TestHostile|Disk' ./test/hostile

hostile: ## hostile clients and full disks against a real server, half an hour; prints two tables, fails if a bound does not hold
	HOSTILE=full $(HOSTILE_TEST)

hostile-short: ## the same with smaller counts, in minutes: what CI runs
	HOSTILE=short $(HOSTILE_TEST)

pgo: ## record cmd/redoubt/default.pgo, by which the compiler optimises
	$(GO) run ./bench -pgo cmd/redoubt/default.pgo -n 100000

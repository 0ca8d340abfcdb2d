# Targets:
#   make run     compile and run the tour: real sessions on the scripted model
#   make test    the tests, under the race detector where there is a C compiler
#   make check   what CI asks for besides: format, lint, vectors, a slice of the simulator,
#                the listing of the public packages, licences
#   make long    the suites that take minutes: kills, histories, stores, simulated worlds,
#                providers, clients of others, fuzzing
#   make clients the tests that speak to programs of others: Node, a browser, MCP servers
#   make pictures  the pictures of the console in docs, made by its tests
#   make fuzz    every fuzz target, FUZZTIME each (default 2000x: that many inputs), or those in FUZZIN
#   make sim     a million simulated turns under a fresh seed (SIMTURNS, SIMFLAGS)
#   make mutants break the code on purpose and see what the simulator notices (MUTANTFLAGS=-new goes on)
#   make bench   the benchmarks behind docs/benchmarks.md
#   make soak    a load over SOAKTIME (default 3m), and whether anything grows
#   make peers   stile beside other runtimes, by turns (PEERROUNDS): writes docs/benchmarks-peers.md; minutes
#   make crash-sweep  kill a reference set of turns at every point; minutes
#   make interleavings  a million interleavings of submits on the pure machine; minutes
#   make hosts   kill, freeze and part the hosts of a cluster (HOSTKILLS, HOSTFREEZES, HOSTFLAGS); minutes
#   make history histories of concurrent clients, checked for HISTORYTIME (default 5m)
#   make api     list what the public packages export in docs/api; make api-check compares
#   make api-compat  what changed against BASE, and what of it breaks its users (BASE=main)
#   make notice  write NOTICE, the licences of what is linked; make notice-check compares
#   make sbom    build the command as it is released, with its bill of materials beside it
#   make release  build both commands for every system, with checksums (SYSTEMS, RELEASE)
#   make image   the steps of deploy/Dockerfile, and the image where containers can be built
#   make weigh   compare the sizes of both commands with their bounds, and print what they are made of
#   make vulncheck  ask whether a known vulnerability is reached, where the database is
#   make outdated   which modules of docs/dependencies.md have a newer version
#   make clean   remove what the others made

GO         ?= go
PKGS       ?= ./...
DATA       ?= stile-data
# Counted, not timed: where a time runs out the Go tool may call that a failure.
FUZZTIME   ?= 2000x
FUZZIN     ?= '*_test.go' ':!examples/dialect'
# Of make long, which CI waits for: what reads the texts of models, programs and tokens.
LONGFUZZTIME ?= 300x
LONGFUZZIN ?= 'parse/*_test.go' 'crypto/*_test.go' 'internal/neuroscript/*_test.go' 'internal/expr/*_test.go'
BENCHTIME  ?= 1s
BENCHCOUNT ?= 5

# Named here so that the test cache knows when a PostgreSQL comes or goes.
export STILE_TEST_POSTGRES_BIN ?= $(lastword $(sort $(wildcard /usr/lib/postgresql/*/bin)))
# MCP servers of others, which tests speak to; npm puts them there.
export STILE_TEST_MCP_SERVERS ?= $(CURDIR)/bin/_mcp
MCPSERVERS  = @modelcontextprotocol/server-everything@2026.8.31 @modelcontextprotocol/server-filesystem@2026.8.31
# What tests in Node use: the clients of others, a driver of browsers, the TypeScript compiler.
export STILE_TEST_NODE_PACKAGES ?= $(CURDIR)/bin/_node
# What reads /openapi.json: the generator of types needs an older compiler than the tests of clients.
export STILE_TEST_OPENAPI_PACKAGES ?= $(CURDIR)/bin/_openapi
NODEPACKAGES = openai@7.57.0 @modelcontextprotocol/sdk@1.32.2 playwright-core@1.65.1 typescript@7.0.2 axe-core@4.14.1 \
               ai@6.0.326 @ai-sdk/openai@3.0.141 @ai-sdk/openai-compatible@2.0.92 @langchain/openai@1.5.8 @langchain/core@1.4.0 \
               @modelcontextprotocol/conformance@0.1.16 @modelcontextprotocol/inspector-cli@0.15.0 esbuild@0.28.2
OPENAPIPACKAGES = @redocly/cli@2.77.0 openapi-typescript@7.13.0 openapi-fetch@0.17.0 typescript@5.9.3
SIMTURNS   ?= 1000000
SIMFLAGS   ?=
MUTANTFLAGS ?=
HISTORYTIME ?= 5m
HOSTKILLS   ?= 300
HOSTFREEZES ?= 100
HOSTFLAGS   ?= -other
SOAKTIME   ?= 3m
PEERROUNDS ?= 5
INTERLEAVINGS ?= 1000000
INTERFLAGS ?=
BITFLAGS   ?=

APIDIFF     = golang.org/x/exp/cmd/apidiff@v0.0.0-20261014143641-f0251eb4aa3e
GOFUMPT     = mvdan.cc/gofumpt@v0.12.0
GOVULNCHECK = golang.org/x/vuln/cmd/govulncheck@v1.9.0
VULNFLAGS  ?=

# Every package is compiled and tested once, with the race detector but for the pure cores, and
# make check finds the results of make test in the cache. make test leaves out the vendors' SDKs (-tags
# lite). What is run as a command is compiled without cgo
# and without the vendors' SDKs, here and in the tests that build it.
RACE       ?= $(if $(shell command -v gcc),-race $(UNWATCHED:%=-gcflags=%=-race=false))
# The detector does not look into these: SQLite, translated from C, has its memory outside of
# Go's heap, where the detector sees nothing, and scrypt starts no goroutine. They have no
# generic code: the linker takes one copy of what packages instantiate, such as sync.Map's
# table, and one without the detector hides who waited for whom, which it calls a race.
UNWATCHED  ?= modernc.org/sqlite/lib golang.org/x/crypto/scrypt golang.org/x/crypto/salsa20/salsa
PLAIN       = CGO_ENABLED=0 $(GO)
LITE        = $(PLAIN) run -tags lite ./cmd/stile
# Suites that take minutes: kills, hosts that share a journal, histories, stores under power
# failures and damaged bits, simulated worlds, mutated vectors, the console in a browser.
# make long has them.
LONG        = ./tests/cluster ./tests/console ./tests/crash ./tests/history ./journal/sqlite ./journal/postgres ./internal/sim ./internal/conform
# These take longest, mostly on one processor each: they begin first, so that none of them is alone at
# the end.
FIRST       = ./tests ./cmd/stile . ./host
# Pure cores start no goroutine (tests/imports_test.go), so that the race detector finds nothing
# in them, and would make them take six times as long.
PURE        = ./parse/... ./internal/turn/... ./internal/plan ./internal/transform ./internal/prompt ./internal/neuroscript/... ./internal/expr/... ./crypto/token
# What needs the vendors' SDKs, which take minutes to compile; make long has it, too.
VENDORS     = ./llm/openai ./llm/anthropic ./llm/gemini
# Of these packages make long runs the tests of files that make test leaves out, or runs
# without Node where there is none.
CLIENTS     = ./cmd/stile ./host ./tests ./tools/mcp
CLIENTTESTS = $(shell grep -lE '^//go:build.*!lite|:= installed|"node"|STILE_TEST_MCP' $(addsuffix /*_test.go,$(CLIENTS)) | \
                xargs grep -hoE '^func (Test|Example)[A-Za-z0-9_]*' | cut -c6- | grep -v '^TestMain$$' | sort -u | paste -sd '|')
# make lint has all of vet, so go test need not run a part of it. A package has more than
# its ten minutes: on a machine that is busy with other things the slowest took them all.
PURETEST    = $(PLAIN) test -p $(PACKAGES) -vet=off -timeout 20m -tags lite
GOTEST      = $(GO) test -p $(PACKAGES) -vet=off -timeout 20m $(RACE)
# How many packages are tested at once: one more than there are processors, since some tests wait.
PACKAGES   ?= $(shell expr $$(nproc 2>/dev/null || echo 2) + 1)
# Tests read the listing of bin, and the cache of their results goes by it: the folder is
# there before they run, and the linter comes to lie in it later.
LINTER      = bin/_lint/lint

.PHONY: run test race allocs mcp-servers node-packages check format lint vectors soak peers sim sim-short mutants long clients kubecheck pictures crash-sweep bench fuzz fuzz-package history hosts interleavings api api-check api-compat notice notice-check outdated image release weigh sbom vulncheck clean

run:
	$(LITE) tour --dir $(DATA)

test: mcp-servers node-packages race

race: allocs
	@set -e; mkdir -p $(dir $(LINTER)); all="$$($(GO) list $(PKGS))"; first="$$($(GO) list $(FIRST) | grep -xF "$$all" || true)"; \
	pkgs="$$(printf '%s\n' "$$all" | grep -vxF "$$($(GO) list $(FIRST) $(LONG) $(VENDORS) $(PURE))" || true)"; \
	echo "$(GOTEST) -tags lite $(PKGS), without $(LONG) $(VENDORS) $(PURE)"; $(GOTEST) -tags lite $$first $$pkgs
	$(PURETEST) $(PURE)
	cd examples/dialect && $(GOTEST) ./...

# What allocates is counted without the detector, which allocates itself.
allocs:
	$(PLAIN) test -vet=off -run Alloc ./journal ./parse/cortex

# Without npm or a network the tests run without them, and say so.
mcp-servers:
	@if [ -f $(STILE_TEST_MCP_SERVERS)/ready ] || ! command -v npm >/dev/null 2>&1; then exit 0; fi; \
	if npm install --silent --no-audit --no-fund --no-save --prefix $(STILE_TEST_MCP_SERVERS) $(MCPSERVERS) >/dev/null 2>&1; \
	then touch $(STILE_TEST_MCP_SERVERS)/ready; else echo "mcp-servers: npm could not install them"; fi

node-packages:
	@into() { dir=$$1; shift; if [ "$$(cat $$dir/ready 2>/dev/null)" = "$$*" ] || ! command -v npm >/dev/null 2>&1; then return; fi; \
	if npm install --silent --no-audit --no-fund --no-save --prefix $$dir "$$@" >/dev/null 2>&1; \
	then echo "$$*" >$$dir/ready; else echo "node-packages: npm could not install them in $$dir"; fi; }; \
	into $(STILE_TEST_NODE_PACKAGES) $(NODEPACKAGES); into $(STILE_TEST_OPENAPI_PACKAGES) $(OPENAPIPACKAGES)

check: format lint race vectors sim-short api-check notice-check

format:
	@out="$$($(PLAIN) run $(GOFUMPT) -l $$(git ls-files '*.go'))"; \
	if [ -n "$$out" ]; then echo "not formatted (gofumpt -w):"; echo "$$out"; exit 1; fi

# The linter reads what the tests were compiled to, so it is told of the race detector. The
# second run has the files that only the lite command or no race detector compiles.
lint: $(LINTER)
	GOFLAGS="$(RACE)" $(LINTER) $(PKGS)
	CGO_ENABLED=0 $(LINTER) -tags lite ./cmd/... ./journal ./parse/cortex
	cd examples/dialect && GOFLAGS="$(RACE)" $(CURDIR)/$(LINTER) ./...

$(LINTER): $(wildcard internal/lint/*)
	cd internal/lint && $(PLAIN) build -o $(CURDIR)/$@ .

vectors:
	$(LITE) conform tests/testdata/vectors

sim:
	$(LITE) sim --turns $(SIMTURNS) $(SIMFLAGS)

# Seeds of its own, so that what fails was broken by the change that is checked: make sim plays fresh ones.
sim-short:
	$(MAKE) sim SIMTURNS=30000 SIMFLAGS='--hosts 0 --seed 3000000'
	$(MAKE) sim SIMTURNS=3000 SIMFLAGS='--hosts 1 --seed 4000000'

soak:
	$(LITE) bench mix --rate 20 --for $(SOAKTIME) --soak --threshold 'errors <= 0' --threshold 'halts <= 0' --threshold 'different <= 0'

# Each peer is a module of its own, so that its dependencies are not ours; Node runs some.
peers:
	$(PLAIN) run -tags lite ./bench/peers -rounds $(PEERROUNDS)

mutants:
	$(GO) run ./docs/internal/mutate $(MUTANTFLAGS)

bench:
	$(GO) test -run '^$$' -bench . -benchtime $(BENCHTIME) -count $(BENCHCOUNT) ./bench ./internal/neuroscript ./parse/... ./crypto/... ./journal/... ./internal/turn ./feeds ./tools/catalog ./tools/workspace

long: clients
	$(MAKE) image IMAGETAGS=lite BUILDFLAGS=
	$(MAKE) kubecheck
	$(GOTEST) $(LONG) $(VENDORS)
	@$(GOTEST) -v -run '^TestServer$$' ./journal/postgres | sed -n 's/^ *[a-z_]*[.]go:[0-9]*: /journal\/postgres: /p'
	$(MAKE) soak SOAKTIME=25s
	$(MAKE) fuzz FUZZTIME=$(LONGFUZZTIME) FUZZIN="$(LONGFUZZIN)"

# The manifests for Kubernetes, in a module of its own: its types are no dependency of ours.
kubecheck:
	cd internal/kubecheck && $(PLAIN) test -vet=off ./...

# The last lines say with what of others the tests ran, or how to have that done.
clients: mcp-servers node-packages
	$(GOTEST) ./clients/js ./host/internal/page
	$(GOTEST) -run '^($(CLIENTTESTS))$$' $(CLIENTS)
	@$(GOTEST) -v -run '^TestNodeServers$$' ./tools/mcp | sed -n 's/^ *[a-z_]*[.]go:[0-9]*: /tools\/mcp: /p'

# Of docs/console.md and the README.
pictures: node-packages
	STILE_PICTURES=$(CURDIR)/docs $(PLAIN) test -count=1 -vet=off -tags lite -run '^TestConsole$$' ./tests/console

# One build for all targets of a package, and two packages at once. go test runs the seeds;
# here the inputs are new. What a package prints comes at its end, in one piece.
fuzz:
	@git grep -lE '^func Fuzz' -- $(FUZZIN) | xargs -n1 dirname | sort -u | xargs -P 2 -I% $(MAKE) -s fuzz-package PKG=%

fuzz-package:
	@bin="$$(mktemp -d)"; trap 'rm -rf "$$bin"' EXIT; cache="$$($(GO) env GOCACHE)/fuzz"; \
	if { $(PLAIN) test -vet=off -tags lite -c -fuzz . -o "$$bin/fuzz.test" ./$(PKG) && cd $(PKG) && \
		for f in $$("$$bin/fuzz.test" -test.list '^Fuzz'); do \
			echo "fuzz $(PKG) $$f"; \
			"$$bin/fuzz.test" -test.run '^$$' -test.fuzz "^$$f\$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 20x -test.fuzzcachedir "$$cache/$(PKG)" -test.parallel 1 || exit 1; \
		done; } >"$$bin/out" 2>&1; then cat "$$bin/out"; else cat "$$bin/out"; exit 1; fi

crash-sweep:
	$(GO) test -count=1 -timeout 60m -v ./tests/crash -args -full
	$(GO) test -count=1 -timeout 60m -v -run 'TestEveryBit|TestPowerFailure|TestFailedSync' ./journal/sqlite -args -exhaustive $(BITFLAGS)

history:
	$(GO) test ./tests/history -count=1 -v -run TestHistories -timeout 0 -for $(HISTORYTIME)

hosts:
	$(PLAIN) test -tags lite ./tests/cluster -count=1 -v -run '^TestCampaign$$' -timeout 0 -for 4h -kills $(HOSTKILLS) -freezes $(HOSTFREEZES) $(HOSTFLAGS)

interleavings:
	$(GO) test ./internal/turn -count=1 -v -run '^TestInterleavings$$' -timeout 0 -interleavings $(INTERLEAVINGS) $(INTERFLAGS)

# The listing is go doc's, without comments and alignment, so that a diff of it is a
# change of the interface. Which packages are public says ARCHITECTURE.md.
API  = docs/api
BASE = main

api:
	@set -e; mkdir -p $(API); rm -f $(API)/*.txt; \
	for pkg in $$(sed -n '/^## Public packages/,/^### No promise/s/^| `\([^`]*\)` .*/\1/p' ARCHITECTURE.md); do \
		dir=./$$pkg; if [ $$pkg = stile ]; then dir=.; fi; \
		text=$$($(GO) doc -all $$dir); \
		printf '%s\n' "$$text" | sed -E -e '2,/^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$$/{//!d}' -e '1!{/^    |^[[:blank:]]*\/\//d;s/[[:blank:]]+\/\/ .*//;s/([^[:blank:]]) +/\1 /g}' -e '/^$$/d' \
			>$(API)/$$(echo $$pkg | tr / -).txt; \
	done

api-check:
	@tmp=$$(mktemp -d); $(MAKE) -s api API=$$tmp && diff -ru $(API) $$tmp; same=$$?; rm -r $$tmp; \
	if [ $$same -ne 0 ]; then echo "$(API) is not what the packages export: make api, and review its diff"; exit 1; fi

api-compat:
	@set -e; tmp=$$(mktemp -d); trap 'git worktree remove --force $$tmp/base; rm -r $$tmp' EXIT; \
	git worktree add -q --detach $$tmp/base $(BASE); \
	(cd $$tmp/base && $(GO) run $(APIDIFF) -m -w $$tmp/export github.com/seed14be6753/stile); \
	$(GO) run $(APIDIFF) -m $$tmp/export github.com/seed14be6753/stile

# What is linked, under which licences. No network is asked but for modules that are not
# there yet, and for make outdated.
SUPPLY = $(PLAIN) run ./docs/internal/supply

notice:
	$(SUPPLY) -notice

notice-check:
	$(SUPPLY) -check

outdated:
	@$(SUPPLY) -outdated

# For this platform. With -trimpath one commit, version of Go and platform give the same
# bytes in every folder.
RELEASE    ?= bin/_release
BUILDFLAGS ?= -trimpath

# What a release is built with: without the tables of debuggers (a panic names functions and
# lines all the same), and without the page of grpc that shows its traffic, whose templates
# keep every method of every type.
RELEASETAGS  = grpcnotrace
RELEASELD    = -ldflags='-s -w'
SYSTEMS     ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

# stile-lite has no providers but the scripted one, no PostgreSQL and no export of traces.
release:
	@set -e; mkdir -p $(RELEASE); cp LICENSE NOTICE $(RELEASE); for s in $(SYSTEMS); do \
		os=$${s%/*} arch=$${s#*/}; end=; if [ $$os = windows ]; then end=.exe; fi; \
		for kind in stile stile-lite; do \
			tags=$(RELEASETAGS); if [ $$kind = stile-lite ]; then tags=$$tags,lite; fi; \
			bin=$(RELEASE)/$$kind-$$os-$$arch$$end; echo "release $$bin"; \
			GOOS=$$os GOARCH=$$arch $(PLAIN) build $(BUILDFLAGS) -tags $$tags $(RELEASELD) -o $$bin ./cmd/stile; \
			$(SUPPLY) -sbom $$bin >$$bin.cdx.json; \
		done; \
	done
	cd $(RELEASE) && rm -f SHA256SUMS && sha256sum * >SHA256SUMS.part && mv SHA256SUMS.part SHA256SUMS

# Bounds in MiB (docs/decisions/024-a-small-binary.md); what exceeds one is mostly a new dependency.
FULLMAX = 48
LITEMAX = 32

weigh:
	@set -e; tmp=$$(mktemp -d); trap 'rm -rf $$tmp' EXIT; export GOOS=linux GOARCH=amd64; \
	$(PLAIN) build $(BUILDFLAGS) -tags $(RELEASETAGS) $(RELEASELD) -o $$tmp/stile ./cmd/stile; \
	$(PLAIN) build $(BUILDFLAGS) -tags $(RELEASETAGS),lite $(RELEASELD) -o $$tmp/stile-lite ./cmd/stile; \
	unset GOOS GOARCH; $(PLAIN) build -o $$tmp/weigh ./docs/internal/weigh; \
	$$tmp/weigh -max $(FULLMAX) $$tmp/stile; echo; $$tmp/weigh -max $(LITEMAX) -rows 10 $$tmp/stile-lite

# The steps of deploy/Dockerfile, and the image itself where containers can be built.
IMAGETAGS ?= grpcnotrace
image:
	@set -e; out="$$(mktemp -d)"; trap 'chmod -R u+w "$$out"; rm -rf "$$out"' EXIT; \
	TAGS=$(IMAGETAGS) BUILDFLAGS="$(BUILDFLAGS)" deploy/image.sh "$$out/image"; \
	"$$out/image/bin/stile" version; grep -q CERTIFICATE "$$out/image/etc/ssl/certs/ca-certificates.crt"; \
	if docker info >/dev/null 2>&1; then docker build -f deploy/Dockerfile -t stile . && docker run --rm stile version; \
	else echo "image: no daemon of containers here, so the steps of deploy/Dockerfile ran as the script that it runs"; fi

sbom:
	@mkdir -p $(RELEASE)
	$(PLAIN) build $(BUILDFLAGS) -o $(RELEASE)/stile ./cmd/stile
	$(SUPPLY) -sbom $(RELEASE)/stile >$(RELEASE)/sbom.part
	@mv $(RELEASE)/sbom.part $(RELEASE)/stile.cdx.json && cp LICENSE NOTICE $(RELEASE)

# A vulnerability that the code reaches fails; one that is only in a module does not.
# The first, small package asks whether the database can be reached at all.
vulncheck:
	@out="$$($(PLAIN) run $(GOVULNCHECK) $(VULNFLAGS) ./internal/clip 2>&1)" || case "$$out" in \
	*"fetching vulnerabilities"*) echo "vulncheck: not done, the database of vulnerabilities cannot be reached"; exit 0 ;; \
	*) echo "$$out"; exit 1 ;; esac; \
	$(PLAIN) run $(GOVULNCHECK) $(VULNFLAGS) ./cmd/stile

clean:
	rm -rf $(DATA) bin
	$(GO) clean -testcache

# Everything people and machines run. `make demo` and `make test` are the two to know; `make` lists the rest.
GO       ?= go
# What loads all packages, or is over soon as most tests are, spends up to a third of its time collecting garbage, unless
# it seldom does. What is about memory sets it anew.
SELDOM   := GOGC=400
TOOL     := $(SELDOM) $(GO) tool -modfile=tools/go.mod
FUZZTIME ?= 10s

.PHONY: help build demo bench check test long rooms short stories worlds struck test-faults cluster-demo test-s3 test-kubernetes test-standards test-console release-check ui vet lint fmt fuzz clean

# What stands behind ## on a target's line is its help: at most 55 characters, so that a terminal of 80 columns has room.
help: ## this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

# Reproducible binaries: no path of the machine that built them, and what one clone built another finds in the cache.
export GOFLAGS := $(filter-out -trimpath,$(shell $(GO) env GOFLAGS)) -trimpath

# Without C, as releases are built; so linking takes a quarter less. The race detector alone needs C.
export CGO_ENABLED := 0
RACE := env CGO_ENABLED=1 $(GO) test -race

build: ## the binaries, in bin/
	$(GO) build -o bin/ ./cmd/...

# The tour: an embedded plane on temporary data, 10,000 nodes, a kill -9, a replay.
# KEEP=1 leaves the plane serving until it is interrupted, and ends with the link of its console.
demo: build ## the main job, narrated; KEEP=1 leaves the plane serving
	bin/edict demo $(if $(KEEP),--keep)

# The table of speed and size, each figure beside its floor, on a quiet machine. BENCH takes its
# flags: make bench BENCH="-only fold -json bench.json"; -quick is a tenth of the work.
bench: ## speed and size, each beside its floor; BENCH=-quick
	$(GO) run ./test/bench $(BENCH)

# What make test runs of a build with fault points and mutants in it: package test builds its binary alike, so that
# most of this is in the cache.
STRUCK := $(GO) test -tags faults

# Rooms run under the race detector. These drive a binary, which it would not look into, or a whole plane made of such
# rooms, or the tools of others, or have one goroutine, in which there is nothing to detect. They need a third of the time without;
# make test-faults runs them with it. RAPID_CHECKS is how many cases a property is tried at.
LONG := ./test
STORIES := ./cmd/edict
SHORT := ./internal/plane ./deploy ./cmd/retectl ./test/standards ./test/bench ./plane ./docs/examples/... ./cmd/edict-controller ./cmd/edict/demodata \
	./test/model ./test/worlds ./test/noted ./test/clock ./internal/test/gen ./internal/test/check ./internal/test/oracle ./internal/ui ./internal/rollout \
	./internal/compiler ./internal/compiler/kubernetes ./internal/compiler/lint ./internal/compiler/firstmatch ./internal/wire/dcz ./internal/enforce ./internal/archive \
	./cmd/edict/internal/bundle ./cmd/edict/internal/document ./cmd/edict/internal/doctor ./cmd/edict/internal/tracing
# What has fault points in it, and is linked once, with them. Without, they are nothing, as package fault tests.
STRIKES := ./test/faults
# What says nothing without an API server.
APART := ./test/kubernetes
DRIVERS := $(LONG) $(STORIES) $(SHORT) $(STRIKES) $(APART)

# What befalls workers of the built binary, of which packages try the same within one process: docs/faults.md. The
# campaign's piece trouble has them.
TROUBLE := TestNothingAcknowledgedIsLostOnACluster|TestAWorker(IsKilledInTheMiddleOfARound|SleepsThroughTheEndOfItsLease|ThatIsFarBehind)|TestTwoPublishersOfOnePartition|TestAHubThatCannotKeepUp

export RAPID_CHECKS ?= 30

# The fast loop: what does not compile or is not clean, and the tests of the packages that differ from main, or on main
# from the last commit. The whole plane's tests (./test) are left to make test.
BASE ?= $(shell git merge-base HEAD main 2>/dev/null || echo HEAD)
CHANGED = $(shell { git diff --name-only --diff-filter=d $(BASE) -- '*.go'; git ls-files -o --exclude-standard -- '*.go'; } | xargs -r -n1 dirname | sort -u | grep -vE '^test$$|testdata' | sed 's,^,./,')

check: build vet lint ## the fast loop: build, vet, lint, changed packages
	@if [ -n "$(CHANGED)" ]; then $(GO) test -vet=off $(CHANGED); else echo "no package differs from $(BASE)"; fi

# What enforce is tried with, in namespaces of its own. Nothing is installed: .ci/run does that where it may.
export PATH := $(PATH):/usr/sbin:/sbin

# Where what this machine cannot run is noted: go test shows nothing of what passes, so test/noted finds the notes in what it
# prints with -json, and prints the rest as go test does. Of a cached result it finds them as well.
LEFT_OUT := $(CURDIR)/bin/left-out
NOTED := $(GO) run ./test/noted -o $(LEFT_OUT)

# Packages whose tests are in two parts. Under the race detector those that try many worlds that a generator made try few of
# them: there a world takes ten times as long. Tests without goroutines of their own are left out there.
# All of these run again without it. test/worlds finds them in the source, by their use of rapid or of gen.Worlds,
# gen.Every and gen.Unraced, which is all that depends on the detector: so none can be forgotten.
WORLDS := ./artifact ./internal/compiler/rete ./internal/projector ./internal/snapshot ./internal/api ./internal/admission ./internal/streams \
	./internal/compiler/datapath ./cmd/edict/internal/agent ./cmd/tree

# A program under the race detector otherwise sleeps a second before it ends, and there are as many as packages.
export GORACE ?= atexit_sleep_ms=50

# What tests drive is built once for all of them, by a go run, which keeps what it linked. The file stays as it was where
# nothing changed: go's test cache goes by its time.
DRIVEN := $(CURDIR)/bin/driven/edict

# The parts share the machine: one waits for timers and disks while another computes. vet has seen every file before.
test: vet ## what a change must pass; prints what it leaves out
	@mkdir -p $(dir $(DRIVEN))
	@$(GO) run -exec 'sh -c '\''cmp -s "$$0" "$$1" || { rm -f "$$1" && cp "$$0" "$$1"; }'\' ./cmd/edict $(DRIVEN)
	@echo 'LEFT OUT: $(APART): make test-kubernetes tries edict-controller on a real API server' >$(LEFT_OUT)
	@echo 'LEFT OUT: $(TROUBLE): make test-faults does these to workers of the built binary' >>$(LEFT_OUT)
	@$(SELDOM) EDICT_TEST_BINARY=$(DRIVEN) $(MAKE) --no-print-directory -j3 long rooms lint short stories worlds struck
	@[ ! -s $(LEFT_OUT) ] || { echo "not all was tried here:"; sort -u $(LEFT_OUT); }

# Where rooms and stories of the command line write: into memory, if there is enough. What a disk does is tried by ./test, by
# disks that tests mount, and by the campaign, which is on a disk as a whole.
MEMORY = $(shell test/memory.sh)

# Those that take longest go first, so that no core idles beside the last.
rooms:
	$(MEMORY) $(NOTED) $(RACE) -json -vet=off ./internal/relay $$($(GO) list ./... | grep -vxF "$$($(GO) list $(DRIVERS) $(WORLDS))")
	unraced=$$($(GO) run ./test/worlds -unraced $(WORLDS)) && RAPID_CHECKS=$$((($(RAPID_CHECKS) + 7) / 8)) $(MEMORY) $(NOTED) $(RACE) -json -vet=off -skip "$$unraced" $(WORLDS)

# This, stories and struck begin when other parts have ended; they use both cores, where short goes package by package.
worlds:
	worlds=$$($(GO) run ./test/worlds $(WORLDS)) && RAPID_CHECKS=$$((($(RAPID_CHECKS) + 1) / 2)) $(MEMORY) $(NOTED) $(GO) test -json -vet=off -run "$$worlds" $(WORLDS)

long:
	$(NOTED) $(GO) test -json -p 1 -vet=off -skip '^($(TROUBLE))$$' $(LONG)

stories:
	$(MEMORY) $(NOTED) $(GO) test -json -vet=off $(STORIES)

short:
	$(MEMORY) $(NOTED) $(GO) test -json -p 1 -vet=off $(SHORT)

struck:
	$(NOTED) $(STRUCK) -json -vet=off -skip TestAnOrdinaryBinary ./internal/fault $(STRIKES)

# The long campaign, in pieces of some ten minutes. What passed is not run again: test/campaign/run.sh says how one goes on,
# and docs/faults.md what is injected. It takes hours: SEED=n is another one, PIECES='kills.*' a part of it, and PIECES=list says
# which parts there are.
test-faults: ## the long campaign of faults; goes on where it ended
	SEED='$(SEED)' PIECES='$(PIECES)' GO='$(GO)' DRIVERS='$(DRIVERS)' WORLDS='$(WORLDS)' test/campaign/run.sh

# Three NATS servers, three workers, NODES nodes and a rolling upgrade: deploy/cluster/run.sh says what is measured.
NODES ?= 1000000

cluster-demo: ## three NATS servers and workers, a million nodes
	NODES=$(NODES) deploy/cluster/run.sh

# Needs node, npm ci in ui, and chromium. SHOTS is a folder for pictures of the views.
SHOTS ?=

test-console: ## the console in a browser, kill -9, hostile text
	$(GO) test ./test -count 1 -v -run TestTheConsole -timeout 60m -console.long -console.shots "$(abspath $(SHOTS))"

# A store of other authors that speaks S3. Its modules are fetched once.
S3 := github.com/versity/versitygw/cmd/versitygw@v1.8.0

test-s3: ## archives in a bucket, on a store built into bin/
	@[ -x bin/versitygw ] || GOBIN=$(CURDIR)/bin $(GO) install $(S3)
	$(GO) test ./internal/archive -count 1 -v -run 'Bucket|StoreOfOthers'

# The API server that edict-controller is tried with, and its etcd, built from the modules of their authors into
# bin/kubernetes: once, and a quarter of an hour of CPU. KUBEBUILDER_ASSETS names a folder that has both already.
export KUBEBUILDER_ASSETS ?= $(CURDIR)/bin/kubernetes

bin/kubernetes/kube-apiserver: tools/kubernetes.mod
	$(GO) build -modfile=tools/kubernetes.mod -ldflags "-s -w -X k8s.io/component-base/version.gitVersion=$$(sed -n 's,^\tk8s.io/kubernetes ,,p' $<)" -o $@ k8s.io/kubernetes/cmd/kube-apiserver

bin/kubernetes/etcd: tools/etcd.mod
	$(GO) build -modfile=tools/etcd.mod -ldflags '-s -w' -o $@ go.etcd.io/etcd/server/v3

test-kubernetes: ## edict-controller on a real API server, 10,000 pods
	@[ "$(KUBEBUILDER_ASSETS)" != "$(CURDIR)/bin/kubernetes" ] || $(MAKE) --no-print-directory bin/kubernetes/etcd bin/kubernetes/kube-apiserver
	$(GO) test ./internal/compiler/kubernetes -count 1 -v -run 'Recipes|Conformance' -judges.all
	$(GO) test ./test/kubernetes -count 1 -v -kubernetes -timeout 30m

# Tools of other authors, pinned in test/standards. They are fetched once.
test-standards: ## the API's documents judged by tools of others
	cd test/standards && npm ci --no-audit --no-fund --ignore-scripts
	$(GO) test ./test/standards -count 1 -v -standards

# A release as it would be, in bin/dist, and nothing published: archives, deb, rpm, checksums and SBOMs, looked at by
# dpkg, rpm and sha256sum, and go install; for linux/amd64, with ALL=1 for every system. Both
# tools are fetched and built once. .goreleaser.yaml says what there is.
RELEASER := github.com/goreleaser/goreleaser/v2@v2.16.0
SBOMS    := github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.9.0

release-check: ## a release as it would be; ALL=1: for every system
	@[ -x bin/goreleaser ] || GOBIN=$(CURDIR)/bin $(GO) install $(RELEASER)
	@[ -x bin/cyclonedx-gomod ] || GOBIN=$(CURDIR)/bin $(GO) install $(SBOMS)
	@sed '$(if $(ALL),,/in a release alone/d)' .goreleaser.yaml >bin/goreleaser.yaml
	PATH="$(CURDIR)/bin:$$PATH" goreleaser release -f bin/goreleaser.yaml --snapshot --clean --timeout 60m
	$(GO) test ./deploy -count 1 -v -run 'Release|Package|RPM|Archive|BuiltOf' -release.dist "$(CURDIR)/bin/dist"

# What is built lies in the repository, so only a change in ui/ needs node and npm.
ui: ## the console's files, built anew from ui/
	cd ui && npm ci && npm run types && npm run check && npm run build

vet: ## go vet, with the tag faults too, and of tools/judges
	$(SELDOM) $(GO) vet ./...
	$(SELDOM) $(GO) vet -tags faults ./internal/fault ./test/faults
	cd tools/judges && $(SELDOM) $(GO) vet ./...

# The linters are pinned in tools/go.mod; the first run builds them, later runs take a second.
lint: ## gofumpt and staticcheck
	@out=$$(git ls-files -co --exclude-standard '*.go' | while read -r f; do [ -e "$$f" ] && echo "$$f"; done | $(SELDOM) xargs -r $(GO) tool -modfile=tools/go.mod gofumpt -l); \
	if [ -n "$$out" ]; then echo "not gofumpt-clean (run make fmt):"; echo "$$out"; exit 1; fi
	$(TOOL) staticcheck ./...

fmt: ## gofumpt, written
	git ls-files -co --exclude-standard '*.go' | $(SELDOM) xargs -r $(GO) tool -modfile=tools/go.mod gofumpt -w

# Each fuzz target for FUZZTIME; a finding is left under testdata/fuzz and fails make test from then on.
fuzz: ## every fuzz target for FUZZTIME (10s)
	@set -e; git grep -lE '^func Fuzz[A-Z]' -- '*_test.go' | while read -r f; do \
		sed -nE 's/^func (Fuzz[A-Za-z0-9_]*).*/\1/p' "$$f" | while read -r t; do \
			echo "$$(dirname $$f) $$t"; \
			$(GO) test "./$$(dirname $$f)" -run '^$$' -fuzz "^$$t\$$" -fuzztime $(FUZZTIME) </dev/null || exit 1; \
		done; \
	done

clean: ## removes bin/
	rm -rf bin

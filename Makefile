# The project's commands. `make check` runs most of what CI (.ci/run) runs.
GO      ?= go
FUZZ    ?= 5s
# Releases are built with this version of Go, which the go command downloads if another
# one is installed.
TOOLCHAIN ?= go1.26.8

.PHONY: check build dist packages test race lint fuzz release-check soak bench api module

check: lint fuzz ## everything CI asks, short of its cross-builds
	./tools/race.sh
	$(GO) test -C tools -short ./browser
	$(GO) test ./...

build: ## the static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o lockstep ./cmd/lockstep

dist: ## what a release consists of, in dist; the same commit gives the same bytes
	GOTOOLCHAIN=$(TOOLCHAIN) $(GO) run -C tools ./dist

packages: ## packages and image for this machine: built twice, installed, run, measured
	./tools/packages.sh

test:
	$(GO) test ./...

race: ## all tests, which takes long; tools/race.sh is shorter; both need a C compiler
	$(GO) test -race ./...
	$(GO) test -race -tags portable ./blob # what other systems than Linux do

lint: ## gofmt, vet, staticcheck, errorlint, bodyclose, sloglint
	./tools/lint.sh

fuzz: ## every fuzz target, FUZZ each
	FUZZ=$(FUZZ) ./tools/fuzz.sh

release-check: lint race ## before a release: what takes too long for each change
	GOOS=darwin GOARCH=arm64 $(GO) vet ./...
	GOOS=windows GOARCH=amd64 $(GO) vet ./...
	FUZZ=30s FUZZ_TOTAL=3600 ./tools/fuzz.sh
	$(GO) test -count=1 -timeout 1h ./destination -run '^(TestHistories|TestPushes|TestAt)$$' -histories 2000 -pushes 300 -pasts 200
	$(GO) test -count=1 -timeout 1h ./destination -fault.step 1 -follows 100 -kills 20 -kill.files 2500 -keep.lives 60 -swap.lives 100 -break.files 300 -rapid.checks 400
	$(GO) test -count=1 ./cmd/lockstep/internal/explorer/pages -run TestMillion -million
	$(GO) test -C tools -count=1 -timeout 1h ./browser
	$(GO) test -count=1 -timeout 1h ./source -source.full -source.atomrounds 30
	$(GO) test ./...

soak: ## before a release: kills, histories and power cuts in the numbers we promise
	$(GO) test -count=1 -timeout 2h ./destination -run 'TestHistories|TestFollow$$|TestPushes|TestKill$$' -histories 10000 -follows 2000 -pushes 2000 -kills 1000 -kill.files 5000
	$(GO) test -count=1 -timeout 2h ./destination -run 'Fault|Killed|OwnHistory|Convergence|Histories|TestAt$$|TestBreak$$' -fault.step 1 -pasts 500 -keep.lives 200 -swap.lives 300 -swap.files 5000 -swap.kills 20 -break.files 1000 -rapid.checks 1000
	$(GO) test -count=1 -timeout 2h ./blob -run TestPowerCuts -cut.steps 500
	$(GO) test -count=1 -timeout 2h ./bitstream -run TestKilled -kills 200
	$(GO) test -count=1 -timeout 2h ./vault -run TestKilled -kills 500
	$(GO) test -count=1 -timeout 2h ./cmd/lockstep -run 'TestTorture|TestHubKill|TestKillAnywhere|TestKillSwap|TestServeKilled|TestPublishKilled|TestDumpKilled|TestAtom.*Killed|TestKillHarvest|TestKillAggregator|TestPowerCut' -torture 200 -hub-kills 1000 -kills 200 -swap-files 5000 -swap-kills 20 -serve-kills 500 -publish-kills 200 -dump-kills 200 -atom-kills 100 -harvest-kills 100 -aggregate-kills 100 -cuts 200
	$(GO) test -count=1 -timeout 4h ./cmd/lockstep -run 'TestShared(Late|Versions|Aggregator)?$$' -shared-faults 200
	$(GO) test -count=1 -timeout 4h ./cmd/lockstep -run 'TestShared(Follow|Kill|Hub|Documents|Versions|Destinations|Aggregator|AggregatorHub)?$$|TestHubShared' -shared-faults 50 -shared-runs 50 -shared-clocks
	$(GO) test -count=1 -timeout 3h ./cmd/lockstep -run 'TestShared(Kill|Follow)$$' -shared-runs 200
	$(GO) test -count=1 -timeout 3h ./cmd/lockstep -run 'TestShared(Mirror)?(Troubles|Failover)$$' -shared-troubles 200
	$(GO) test -count=1 -timeout 2h ./aggregator -run 'TestHistories|TestKilledAtEachWrite' -histories 2000 -kill-step 1
	$(GO) test -count=1 -timeout 2h ./cmd/lockstep -run TestAggregatorsConverge -aggregate-histories 200
	$(GO) test -count=1 -timeout 2h ./cmd/lockstep -run 'TestMemory|TestFullDisk$$|TestConverge' -memory -each-room -converge-steps 1000
	$(GO) test -count=1 -timeout 2h ./source -run TestAtom -source.full -source.atom -source.atomrounds 600
	$(GO) test -count=1 -timeout 2h ./repository -run Convergence -histories 3000
	$(GO) test -count=1 -timeout 2h ./intake/jsonl -run TestChangedList -histories 1000
	$(GO) test -count=1 -timeout 2h ./bridge -run Converges -rounds 300

bench: ## figures beside yardsticks, in turn on this machine; see docs/performance.md
	$(GO) test -run "^$$" -bench "Document|Catalog|Publish|Republish|Steady|Dump|Scan|Feed|Harvest|Sync|CatchUp|Distance|Plan|Audit|Bitstream|API|Notify|Follow|Hub|Vault|TimeGate" -benchtime 1x -timeout 2h ./bench
	$(GO) test -run "^$$" -bench "Get|Serve" -timeout 1h ./bench

api: ## records the names that were added to stable packages (docs/api.md)
	$(GO) test . -run TestAPIOfStablePackages -update-api

# "make module PATH=…" replaces the variable by which programs are found: it is
# taken from the environment in which make was started, where that can be read.
MODULE ?=
ifeq ($(origin PATH),command line)
MODULE := $(PATH)
override PATH := $(or $(shell /usr/bin/tr '\0' '\n' </proc/$$PPID/environ 2>/dev/null | /usr/bin/sed -n 's/^PATH=//p'),/usr/local/go/bin:/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin)
endif

module: ## gives the module another path, in place: make module PATH=example.org/lockstep
	$(GO) run -C tools ./module -C .. "$(MODULE)"

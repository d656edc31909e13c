# The commands of the house. `make check` is the gate, here and in CI.
GO      ?= go
FUZZ    ?= 5s

.PHONY: check build test race lint fuzz bench

check: lint race fuzz ## everything CI asks, short of its cross-builds
	$(GO) test ./...

build: ## the static binary
	CGO_ENABLED=0 $(GO) build -trimpath -o lockstep ./cmd/lockstep

test:
	$(GO) test ./...

race: ## needs a C compiler
	$(GO) test -race ./...
	$(GO) test -race -tags portable ./blob # what other systems than Linux do

lint: ## gofmt, vet, staticcheck, errorlint, bodyclose, sloglint
	./tools/lint.sh

fuzz: ## every fuzz target, FUZZ each
	FUZZ=$(FUZZ) ./tools/fuzz.sh

bench: ## figures beside yardsticks, in turn on this machine; see docs/performance.md
	$(GO) test -run "^$$" -bench "Document|Catalog|Publish|Republish|Steady|Dump|Scan|Sync|Distance|Plan|Audit|Bitstream|API|Follow|Hub" -benchtime 1x -timeout 2h ./bench
	$(GO) test -run "^$$" -bench "Get|Serve" -timeout 1h ./bench

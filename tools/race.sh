#!/usr/bin/env bash
# Runs the tests with the race detector. Code is many times slower under it, so
# campaigns (random histories, kills) are shorter here than in `go test ./...`,
# and what other steps of CI cover anyway is left out: tests that kill processes,
# and the benchmarks. `make race` runs everything.
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log" "$log.apart"' EXIT

# SQLite, which is translated from C and has locks of its own, is not watched: it
# would take four times as long, and most of the time of these tests.
race() { # PACKAGE... [FLAG...]
	echo "race: $*"
	go test -race -gcflags='modernc.org/...=-race=false' -timeout 30m -p 2 "$@" | tee -a "$log"
}

# Packages with an invocation of their own below, or whose tests measure or run
# other programs, and those that start no goroutine of their own; the root's tests
# read the sources.
own='aggregator|bench|deploy/.*|destination|source|bridge|repository|cmd/lockstep|examples/.*'
serial='resourcesync|atompmh|oaipmh|oaipmh/oaipmhtest|patch|internal/(iri|xmlscan|weblink|negotiate|linkrel|nesting|private)'
module=$(go list -m)

# concurrent lists the packages with tests whose code or tests do several things at a
# time.
concurrent() {
	go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ./... | while read -r package dir; do
		! grep -qE '^\s*go |\.Go\(|"sync["/]|"net/http["/]' "$dir"/*.go || echo "$package"
	done
}

# Most of them keep one processor busy, so they run beside the rest.
apart() {
	race ./destination -skip 'Kill|PowerCut|Memory' -histories 15 -pasts 1 -follows 10 -pushes 6 -push-steps 30 -keep.lives 4 -break.files 60 -swap.lives 3 -fault.step 9 -rapid.checks 15
	race ./aggregator -histories 20
	race ./source -source.atomrounds 5 -skip 'ZIP64|ReadBy|IsWritten|AreWritten'
	race ./bridge -rounds 1
	race ./repository -histories 6
	# The whole program, by scripts: those in which most goes on at a time.
	race ./cmd/lockstep -run '^TestScript$/^(aggregatehub|aggregatereload|api|bucketmirror|bucketout|dumpsync|followevents|followhub|followpoll|harvestoai|hubserve|keepbucket|notify|streams|versions)$'
	race ./blob -tags portable -skip Kill # what other systems than Linux do
}
apart >"$log.apart" 2>&1 &
beside=$!
failed=0
race $(concurrent | grep -vxE "$module(/($own|$serial))?") -skip 'Kill|Large|Memory' || failed=1
wait "$beside" || failed=1
cat "$log.apart"
((failed == 0)) || exit 1

echo "race: the ten slowest runs"
# sed reads to the end: head would not, and its end can make sort, and CI, fail.
awk '$1 == "ok" && $3 ~ /s$/ { print $3, $2 }' "$log" | sort -rn | sed -n '1,10p'

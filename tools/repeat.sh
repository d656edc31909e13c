#!/usr/bin/env bash
# Runs the tests of each package RUNS times, to find tests that fail now and
# then: tools/repeat.sh RUNS [FILE]. What has passed is noted in FILE (default
# .repeat in the repository, ignored by git), so that an interrupted campaign
# continues; remove FILE to begin again. BUSY=1 keeps all processors busy
# meanwhile. Ends at the first failure, whose output it prints.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:?usage: tools/repeat.sh RUNS [FILE]}
file=${2:-.repeat}
touch "$file"

busy=()
out=$(mktemp -d)
trap 'rm -rf "$out"; ((${#busy[@]} == 0)) || kill "${busy[@]}"' EXIT
if [[ -n ${BUSY:-} ]]; then
	for _ in $(seq "$(getconf _NPROCESSORS_ONLN)"); do
		while :; do :; done &
		busy+=("$!")
	done
fi
commit=$(git rev-parse --short HEAD)
for pkg in $(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...); do
	for run in $(seq "$runs"); do
		key="$commit $pkg $run"
		grep -qxF "$key" "$file" && continue
		if ! go test -count=1 -timeout 30m "$pkg" >"$out/log" 2>&1; then
			cat "$out/log"
			echo "run $run of $pkg failed"
			exit 1
		fi
		echo "$key" >>"$file"
	done
	echo "ok  $pkg, $runs runs"
done

#!/usr/bin/env bash
# Runs the tests of each package RUNS times, to find tests that fail now and
# then: tools/repeat.sh RUNS [FILE]. FILE (default .repeat in the repository,
# ignored by git) records what has passed, by the contents of the test binary and
# of the package's folder, so that an interrupted campaign continues and a commit
# repeats only what it changes; remove FILE to begin again. As many packages run
# at a time as there are processors, or LANES. BUSY=1 keeps all processors busy
# meanwhile. PACKAGES (default ./...) selects packages. The output of runs that
# fail is printed; the campaign continues with the next package.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:?usage: tools/repeat.sh RUNS [FILE]}
file=$(realpath "${2:-.repeat}")
touch "$file"
processors=$(getconf _NPROCESSORS_ONLN)
lanes=${LANES:-$processors}

busy=()
out=$(mktemp -d)
trap 'rm -rf "$out"; ((${#busy[@]} == 0)) || kill "${busy[@]}"' EXIT
if [[ -n ${BUSY:-} ]]; then
	for _ in $(seq "$processors"); do
		while :; do :; done &
		busy+=("$!")
	done
fi

repeat() { # PACKAGE DIRECTORY NUMBER
	local pkg=$1 dir=$2 binary=$out/$3.test log=$out/$3.log key run started
	# Without the path and the commit, so that other clones build the same bytes.
	go test -c -trimpath -buildvcs=false -o "$binary" "$pkg" || return 1
	key="$pkg $(sha256sum <"$binary" | head -c 16) $(git rev-parse "HEAD:$(git -C "$dir" rev-parse --show-prefix)" | head -c 16)"
	started=$SECONDS
	for run in $(seq "$runs"); do
		grep -qxF "$key $run" "$file" && continue
		if ! (cd "$dir" && "$binary" -test.timeout 30m >"$log" 2>&1 </dev/null); then
			cat "$log"
			echo "FAIL  $pkg, run $run of $runs"
			return 1
		fi
		echo "$key $run" >>"$file"
	done
	rm -f "$binary"
	echo "ok  $pkg, $runs runs, $((SECONDS - started))s"
}

failed=0 running=0 number=0
while read -r pkg dir; do
	if ((running == lanes)); then
		wait -n || failed=1
		running=$((running - 1))
	fi
	number=$((number + 1))
	repeat "$pkg" "$dir" "$number" &
	running=$((running + 1))
# shellcheck disable=SC2086 # packages are words
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ${PACKAGES:-./...})
while ((running > 0)); do
	wait -n || failed=1
	running=$((running - 1))
done
exit "$failed"

#!/usr/bin/env bash
# Runs the tests of each package RUNS times, to find tests that fail now and
# then: tools/repeat.sh RUNS [FILE]. FILE (default .repeat in the repository,
# ignored by git) records what has passed, by the contents of the test binary and
# of the package's folder, so that an interrupted campaign continues and a commit
# repeats only what it changes; remove FILE to begin again. BUSY=1 keeps all
# processors busy meanwhile. PACKAGES (default ./...) selects packages. The output
# of runs that fail is printed; the campaign continues with the next package.
set -euo pipefail
cd "$(dirname "$0")/.."
runs=${1:?usage: tools/repeat.sh RUNS [FILE]}
file=$(realpath "${2:-.repeat}")
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

failed=0
# shellcheck disable=SC2086 # packages are words
while read -r pkg dir; do
	# Without the path and the commit, so that other clones build the same bytes.
	go test -c -trimpath -buildvcs=false -o "$out/test" "$pkg"
	key="$pkg $(sha256sum <"$out/test" | head -c 16) $(git rev-parse "HEAD:$(git -C "$dir" rev-parse --show-prefix)" | head -c 16)"
	for run in $(seq "$runs"); do
		grep -qxF "$key $run" "$file" && continue
		if ! (cd "$dir" && "$out/test" -test.timeout 30m >"$out/log" 2>&1 </dev/null); then
			cat "$out/log"
			echo "FAIL  $pkg, run $run of $runs"
			failed=1
			continue 2
		fi
		echo "$key $run" >>"$file"
	done
	echo "ok  $pkg, $runs runs"
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}} {{.Dir}}{{end}}' ${PACKAGES:-./...})
exit "$failed"

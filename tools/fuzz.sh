#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZ each (default 5s), one after
# the other, and stops at the first that finds something. FUZZ_TOTAL seconds
# (default 240) bound the whole: with many targets each runs for less time. The
# test binary of a package is built once for all its targets.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

targets=() # "directory name"
while IFS=: read -r file line; do
	name=${line#func }
	targets+=("$(dirname "$file") ${name%%(*}")
done < <(git grep -E --untracked '^func Fuzz[A-Z][A-Za-z0-9_]*\(' -- '*_test.go' | sort)
((${#targets[@]} > 0)) || { echo "no fuzz targets found"; exit 1; }

each=${FUZZ:-5s}
seconds=${each%s}
total=${FUZZ_TOTAL:-240}
# Building a package and starting a target take about a second as well.
if ((${#targets[@]} * (seconds + 1) > total)); then
	seconds=$((total / ${#targets[@]} - 1))
	((seconds >= 1)) || seconds=1
fi
echo "fuzz: ${#targets[@]} targets, ${seconds}s each"
cache=$(go env GOCACHE)/fuzz
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
built=
for t in "${targets[@]}"; do
	read -r dir name <<<"$t"
	if [[ $dir != "$built" ]]; then
		go test -c -fuzz=. -o "$out/fuzz.test" "./$dir"
		built=$dir
	fi
	# At the end of its time a run at times says "context deadline exceeded"
	# and fails though nothing was found: a finding has an input or a panic.
	if ! text=$(cd "$dir" && "$out/fuzz.test" -test.run '^$' -test.fuzz "^${name}\$" -test.fuzztime "${seconds}s" \
		-test.fuzzcachedir "$cache/lockstep/$dir" 2>&1) &&
		{ ! grep -q '^ *context deadline exceeded$' <<<"$text" || grep -q 'Failing input\|panic' <<<"$text"; }; then
		echo "$text"
		exit 1
	fi
	echo "$dir $name: $(grep -o 'execs: [0-9]*' <<<"$text" | tail -n 1)"
done
cd "$root"

#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZ each (default 5s), as many
# packages at a time as there are processors. It ends with 2 if the only failures
# are findings: inputs for which a target fails. Each is in the testdata of its
# package, or, with FINDINGS=DIR, moved to DIR.
# FUZZ_TOTAL seconds (default 240) bound the whole: with many targets each runs
# for less time, but for no less than a second. The test binary of a package is
# built once for all its targets.
# FUZZ_SHARE=N runs one package in N, every day others.
set -euo pipefail
cd "$(dirname "$0")/.."

declare -A targets=() numbers=() # of each directory
count=0
share=${FUZZ_SHARE:-1}
today=$(($(date +%s) / 86400 % share))
while IFS=: read -r file line; do
	name=${line#func }
	dir=$(dirname "$file")
	[[ -n "${numbers[$dir]:-}" ]] || numbers[$dir]=${#numbers[@]}
	((numbers[$dir] % share == today)) || continue
	targets[$dir]="${targets[$dir]:-} ${name%%(*}"
	count=$((count + 1))
done < <(git grep -E --untracked '^func Fuzz[A-Z][A-Za-z0-9_]*\(' -- '*_test.go' | sort)
((count > 0)) || { echo "no fuzz targets found"; exit 1; }

lanes=$(getconf _NPROCESSORS_ONLN)
each=${FUZZ:-5s}
seconds=${each%s}
total=${FUZZ_TOTAL:-240}
# Building a package and starting a target take about a second as well.
if ((count * (seconds + 1) > total * lanes)); then
	seconds=$((total * lanes / count - 1))
	((seconds >= 1)) || seconds=1
fi
echo "fuzz: $count targets, ${seconds}s each, $lanes at a time"
module=$(go list -m)
cache=$(go env GOCACHE)/fuzz
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# A finding has an input, a panic or a seed that fails, and so has a worker that
# crashes. At the end of its time a run at times says "context deadline exceeded"
# without one, and a worker that is slow or was killed is no finding either.
# Whatever else makes a run fail is a failure.
is_finding='Failing input|failure while testing seed corpus|panic:|fatal error:'
is_none='context deadline exceeded|fuzzing process (hung or )?terminated|fuzzing process hung'

fuzz() { # DIRECTORY NUMBER NAME...: runs the targets of a package
	local dir=$1 binary=$out/$2.test name text state input
	shift 2
	# As -fuzz does, but only for the module: instrumenting what it depends on, a
	# database among it, takes minutes and guides towards nothing of ours.
	go test -c "-gcflags=$module/...=-d=libfuzzer" -o "$binary" "./$dir" || return 1
	for name in "$@"; do
		state=
		if ! text=$(cd "$dir" && "$binary" -test.run '^$' -test.fuzz "^${name}\$" -test.fuzztime "${seconds}s" \
			-test.parallel 1 -test.fuzzminimizetime 100x -test.fuzzcachedir "$cache/$module/$dir" 2>&1); then
			if grep -qE "$is_finding" <<<"$text" || ! grep -qE "$is_none" <<<"$text"; then
				printf '%s %s: FAILED\n%s\n' "$dir" "$name" "$text"
				input=$(grep -m 1 -oE "testdata/fuzz/$name/[0-9a-f]+\$" <<<"$text") || return 1
				cat "$dir/$input"
				[[ -z "${FINDINGS:-}" ]] || mv "$dir/$input" "$FINDINGS/${dir//\//-}-$name"
				echo "$dir $name" >>"$out/found"
			fi
			state=" (not to the end)"
		fi
		echo "$dir $name: $(grep -o 'execs: [0-9]*' <<<"$text" | tail -n 1)$state"
		echo "$dir $name" >>"$out/ran"
	done
	rm -f "$binary"
}

touch "$out/ran" "$out/found"
failed=0 running=0 number=0
for dir in $(for d in "${!targets[@]}"; do echo "$(wc -w <<<"${targets[$d]}") $d"; done | sort -k1,1nr -k2 | cut -d ' ' -f 2); do # the longest first
	if ((running == lanes)); then
		wait -n || failed=1
		running=$((running - 1))
	fi
	((failed == 0)) || break
	number=$((number + 1))
	# shellcheck disable=SC2086 # names are words
	fuzz "$dir" "$number" ${targets[$dir]} &
	running=$((running + 1))
done
while ((running > 0)); do
	wait -n || failed=1
	running=$((running - 1))
done
echo "fuzz: $(wc -l <"$out/ran") of $count targets ran in ${SECONDS}s, $(wc -l <"$out/found") found an input that fails"
((failed == 0 && $(wc -l <"$out/ran") == count)) || exit 1
[[ ! -s "$out/found" ]] || exit 2

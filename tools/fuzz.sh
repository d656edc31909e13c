#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZ each (default 5s), one after
# the other, and stops at the first that finds something. FUZZ_TOTAL seconds
# (default 240) bound the whole: with many targets each gets less.
set -euo pipefail
cd "$(dirname "$0")/.."

targets=()
while read -r pkg; do
	while read -r name; do
		targets+=("$pkg $name")
	done < <(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true)
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...)

each=${FUZZ:-5s}
seconds=${each%s}
total=${FUZZ_TOTAL:-240}
# Starting a target (building it instrumented, reading its corpus) takes about
# as long again as a short run, so it counts as well.
if ((${#targets[@]} > 0 && ${#targets[@]} * (seconds + 4) > total)); then
	seconds=$((total / ${#targets[@]} - 4))
	((seconds >= 1)) || seconds=1
fi
echo "fuzz: ${#targets[@]} targets, ${seconds}s each"
for t in "${targets[@]}"; do
	read -r pkg name <<<"$t"
	# At the end of its time go test at times says "context deadline exceeded"
	# and fails though nothing was found: a finding has an input or a panic.
	if ! out=$(go test -run '^$' -fuzz "^${name}\$" -fuzztime "${seconds}s" "$pkg" 2>&1) &&
		{ ! grep -q '^ *context deadline exceeded$' <<<"$out" || grep -q 'Failing input\|panic' <<<"$out"; }; then
		echo "$out"
		exit 1
	fi
	tail -n 1 <<<"$out"
done

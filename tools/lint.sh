#!/usr/bin/env bash
# Runs gofmt, go vet and the linters over the module; any finding fails.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0

unformatted=$(git ls-files -z --cached --others --exclude-standard '*.go' | xargs -0 gofmt -l)
if [[ -n $unformatted ]]; then
	echo "not gofmt-ed:" $unformatted
	failed=1
fi
go vet ./... || failed=1
go tool staticcheck ./... || failed=1

tool() { go tool -modfile=tools/go.mod "$@"; }

# Errors of our own are asked for by errors.Is and As. Two things are not:
# type switches that look at one error on purpose (-asserts=false), and io.EOF.
# A reader returns it as it is; an error that wraps it is a transfer that broke
# off, and must never be taken for the end of a list.
while IFS=: read -r file line rest; do
	[[ $file == *.go ]] || { [[ -z $file ]] || echo "$file:$line:$rest"; continue; }
	if ! sed -n "${line}p" "$file" | grep -q 'io\.EOF'; then
		echo "$file:$line:$rest"
		failed=1
	fi
done < <(tool go-errorlint -asserts=false ./... 2>&1 || true)

# Tests close bodies in helpers, which bodyclose does not follow.
tool bodyclose -test=false ./... || failed=1
tool sloglint ./... || failed=1
exit "$failed"

#!/usr/bin/env bash
# Builds the archive, packages and image of a release for the processor of this
# machine, twice, and compares the bytes; installs the packages into clean roots, runs
# the commands of their units and the image, and measures the program against its
# budgets: tools/packages.sh [DIR], where DIR keeps the results. Installing needs root
# and Debian's dpkg; the output says what is skipped, and why.
set -euo pipefail
cd "$(dirname "$0")/.."

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
first=$(realpath -m "${1:-$out/first}")

go build -C tools -o "$out/dist" ./dist
platform=linux/$(go env GOHOSTARCH)
"$out/dist" -C . -only "$platform" -out "$first"
# Neither the time zone, the permissions of new files, nor the number of processors
# may get into the results.
(umask 077 && TZ=Asia/Tokyo GOMAXPROCS=1 "$out/dist" -C . -only "$platform" -out "$out/second")
diff -r "$first" "$out/second"
echo "both builds have the same bytes"

go test -C tools -count=1 ./dist
go test -C tools -count=1 -v ./distcheck -dist "$first" | { grep -vE '^ *=== |^PASS' || true; }

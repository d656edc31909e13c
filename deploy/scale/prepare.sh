#!/bin/sh
# Makes .env and secrets/ for compose.yaml, unless they are there. The image runs as user 65532.
set -eu
cd "$(dirname "$0")"
umask 077
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
if [ ! -e .env ]; then
	printf 'POSTGRES_PASSWORD=%s\nS3_ACCESS_KEY=%s\nS3_SECRET_KEY=%s\n' "$(random)" "lockstep" "$(random)" > .env
fi
mkdir -p secrets
for name in admin-tokens publish-tokens; do
	[ -e "secrets/$name" ] || random > "secrets/$name"
done
[ -e secrets/hub.key ] || od -An -N32 -tx1 /dev/urandom | tr -d ' \n' > secrets/hub.key
if [ "$(id -u)" -eq 0 ]; then
	chown -R 65532:65532 secrets
else
	echo 'let the user of the image read them: sudo chown -R 65532:65532 secrets'
fi

#!/bin/sh
# Before files are removed, but not before an upgrade: Debian passes "remove", RPM the
# number of versions that remain.
set -e
case "$1" in
remove | 0) ;;
*) exit 0 ;;
esac

if [ -d /run/systemd/system ]; then
	systemctl stop lockstep-serve.service lockstep-hub.service 'lockstep-follow@*.service' 'lockstep-sync@*.timer' 'lockstep-sync@*.service' || :
fi

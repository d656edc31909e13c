#!/bin/sh
# After files were installed: Debian passes "configure [OLD VERSION]", RPM the number
# of installed versions.
set -e
case "$1" in
configure) upgraded=$2 ;;
1) upgraded= ;;
[2-9]) upgraded=yes ;;
*) exit 0 ;;
esac

if ! id -u lockstep >/dev/null 2>&1; then
	if command -v systemd-sysusers >/dev/null; then
		systemd-sysusers lockstep.conf
	else
		useradd --system --user-group --comment Lockstep --home-dir /var/lib/lockstep --no-create-home --shell /usr/sbin/nologin lockstep
	fi
fi
for dir in /var/lib/lockstep /var/lib/lockstep/files; do
	if [ ! -d "$dir" ]; then
		mkdir -m 0755 "$dir"
		chown lockstep:lockstep "$dir"
	fi
done

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if [ -n "$upgraded" ]; then
		systemctl try-restart lockstep-serve.service lockstep-hub.service 'lockstep-follow@*.service' || :
	fi
fi

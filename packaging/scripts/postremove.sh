#!/bin/sh
# After files were removed: Debian passes "remove", then perhaps "purge", RPM the number
# of versions that remain. The state, the mirrors and the user that owns them stay.
set -e
case "$1" in
remove) ;;
purge | 0)
	# The units that were enabled.
	for link in /etc/systemd/system/*.wants/lockstep-serve.service /etc/systemd/system/*.wants/lockstep-hub.service \
		/etc/systemd/system/*.wants/lockstep-follow@*.service /etc/systemd/system/*.wants/lockstep-sync@*.timer; do
		if [ -L "$link" ]; then
			rm -f "$link"
		fi
	done
	if [ -d /var/lib/lockstep ]; then
		echo "/var/lib/lockstep has the state and the mirrors of lockstep; remove it if you do not need them any more"
	fi
	;;
*) exit 0 ;;
esac

if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi

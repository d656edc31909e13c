#!/bin/sh
# Boots systemd in the directory given, as the init process of a machine of its own:
# called with namespaces for mounts, processes, network, host name and IPC, and moves
# into a cgroup of its own. What it prints says why, if it cannot.
set -e
root=$1 cgroup=lockstep-distcheck-$2

if [ "$3" != inside ]; then
	mount --make-rprivate /
	mount --bind "$root" "$root"
	if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
		mount -t cgroup2 cgroup2 "$root/mnt"
	else
		mount -t cgroup -o none,name=systemd cgroup "$root/mnt"
	fi
	mkdir "$root/mnt/$cgroup"
	echo 0 >"$root/mnt/$cgroup/cgroup.procs"
	umount "$root/mnt"
	exec unshare --cgroup "$0" "$root" "$2" inside
fi

cd "$root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for d in null zero full random urandom tty; do
	touch dev/$d
	mount --bind /dev/$d dev/$d
done
mkdir dev/shm dev/pts
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
if [ "$(stat -fc %T /sys/fs/cgroup)" = cgroup2fs ]; then
	mount -t cgroup2 cgroup2 sys/fs/cgroup
else
	mount -t tmpfs tmpfs sys/fs/cgroup
	mkdir sys/fs/cgroup/systemd
	mount -t cgroup -o none,name=systemd cgroup sys/fs/cgroup/systemd
	mount -o remount,ro sys/fs/cgroup # systemd would mount the others
fi
exec chroot . /usr/bin/env -i container=lockstep-distcheck PATH=/usr/sbin:/usr/bin /lib/systemd/systemd --show-status=0 --log-target=console

package filestat

import (
	"time"

	"golang.org/x/sys/unix"
)

// kernelTick returns the resolution of the clock from which Linux takes the times of
// files: 1 to 10 ms, depending on how the kernel was configured.
func kernelTick() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_REALTIME_COARSE, &ts); err != nil {
		return slowTick
	}
	tick := time.Duration(ts.Nano())
	if tick <= 0 || tick > slowTick {
		return slowTick
	}
	return tick
}

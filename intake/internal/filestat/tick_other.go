//go:build !linux

package filestat

import "time"

// kernelTick returns the slowest clock that a kernel takes the times of files from.
func kernelTick() time.Duration { return slowTick }

//go:build !linux

package connlimit

import "net"

// received is not known on these systems.
func received(net.Conn) (int64, bool) { return 0, false }

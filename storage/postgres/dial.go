package postgres

import (
	"net"
	"time"
)

// silence is how long a server may acknowledge nothing until a connection to it is broken: one
// that has vanished, with its machine or the route to it, closes none. A server that is slow
// acknowledges at once.
const silence = 15 * time.Second

// dialer makes the connections.
func dialer(timeout time.Duration) *net.Dialer {
	const probes = 3
	return &net.Dialer{
		Timeout:         timeout,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: silence / probes, Interval: silence / probes, Count: probes - 1},
		Control:         limitSilence,
	}
}

package postgres

import (
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// limitSilence also breaks connections on which a request waits to be acknowledged, for which the
// kernel otherwise tries for 15 minutes.
func limitSilence(network, _ string, c syscall.RawConn) (err error) {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	cerr := c.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(silence.Milliseconds()))
	})
	if cerr != nil {
		return cerr
	}
	return err
}

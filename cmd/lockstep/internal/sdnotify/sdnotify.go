// Package sdnotify reports the state of a process to systemd, by the protocol of
// sd_notify(3): datagrams to the socket that NOTIFY_SOCKET names. Outside of a
// service of Type=notify the variable is not set, and nothing happens.
package sdnotify

import (
	"net"
	"strings"
)

// The reports of a service.
const (
	Ready    = "READY=1"    // requests are accepted: the unit is active
	Stopping = "STOPPING=1" // the service is ending
)

// Status is the report that `systemctl status` shows as text.
func Status(text string) string {
	return "STATUS=" + strings.ReplaceAll(text, "\n", " ")
}

// Send sends reports. A service must run whether or not its manager listens, so an
// error is dropped.
func Send(lookup func(string) (string, bool), reports ...string) {
	socket, ok := lookup("NOTIFY_SOCKET")
	if !ok || socket == "" {
		return
	}
	c, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		return
	}
	defer func() { _ = c.Close() }() // the datagram is sent
	_, _ = c.Write([]byte(strings.Join(reports, "\n")))
}

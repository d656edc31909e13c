//go:build !linux

package fetch

import "net"

func prompt(c net.Conn) net.Conn { return c }

func promptIfNeeded(c net.Conn) net.Conn { return c }

// Package freeport finds addresses for the servers that tests start as processes
// of their own and that have to be given a port.
package freeport

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync/atomic"
)

// Systems choose ports from 32768 (Linux) or 49152 on for listeners that ask for
// any, and for connections. A port below is taken by nothing else between the
// moment it is found free and the start of the server.
const first, count = 10_000, 22_000

// calls counts the calls in this process.
var calls atomic.Int64

// Address returns an address of this machine on which nothing listens, each time
// another. It may be called from several goroutines.
func Address(ctx context.Context) (string, error) {
	var err error
	for range 100 {
		// Tests of other packages run at the same time, in processes of their own.
		port := first + (int64(os.Getpid())*211+calls.Add(1))%count
		address := fmt.Sprintf("127.0.0.1:%d", port)
		var l net.Listener
		if l, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err == nil {
			return address, l.Close()
		}
	}
	return "", fmt.Errorf("find a free port: %w", err)
}

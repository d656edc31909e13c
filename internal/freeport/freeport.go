// Package freeport finds addresses for the servers that tests start as processes
// of their own and that have to be given a port.
package freeport

import (
	"context"
	"fmt"
	"net"
	"os"
	"sync"
)

// Systems choose ports from 32768 (Linux) or 49152 on for listeners that ask for
// any, and for connections. Below, they are divided into blocks. A process that
// listens on the first port of a block owns the others: tests of other packages,
// which run at the same time, take no port of it between the moment it is found
// free and the start of the server.
const first, size, count = 10_000, 100, 220

var block struct {
	sync.Mutex                // guards what follows
	owner      []net.Listener // on the first ports of the blocks that this process owns, until it ends
	next, end  int            // ports of the newest that no call has returned
}

// Address returns an address of this machine on which nothing listens, each time
// another. It may be called from several goroutines.
func Address(ctx context.Context) (string, error) {
	block.Lock()
	defer block.Unlock()
	for {
		for ; block.next < block.end; block.next++ {
			if l, err := listen(ctx, block.next); err == nil {
				address := l.Addr().String()
				block.next++
				return address, l.Close()
			}
		}
		if err := own(ctx); err != nil {
			return "", fmt.Errorf("find a free port: %w", err)
		}
	}
}

// own takes a block that no process owns. The caller holds block.
func own(ctx context.Context) error {
	var err error
	for i := range count {
		port := first + (os.Getpid()+len(block.owner)+i)%count*size
		var l net.Listener
		if l, err = listen(ctx, port); err == nil {
			block.owner, block.next, block.end = append(block.owner, l), port+1, port+size
			return nil
		}
	}
	return err
}

func listen(ctx context.Context, port int) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
}

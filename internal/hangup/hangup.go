// Package hangup detects that an HTTP client has disconnected while it was
// answered: that is no failure of the server, and must not be logged or counted
// as one.
package hangup

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
)

// Is reports whether err, which occurred while a request with the context ctx was
// read or answered, only means that its client has disconnected or has stopped
// reading or sending. The error may occur before the context ends.
func Is(ctx context.Context, err error) bool {
	if err == nil {
		return false
	}
	if ctx.Err() != nil {
		return true
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, http.ErrAbortHandler) {
		return true
	}
	op, ok := errors.AsType[*net.OpError](err)              // a store that is read may reset connections, too
	sent := ok && (op.Op == "write" || op.Op == "readfrom") // the latter sends a file
	return sent && (errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, net.ErrClosed))
}

// IsBody is [Is] for an error of reading the request's body.
func IsBody(ctx context.Context, err error) bool {
	for _, gone := range []error{io.ErrUnexpectedEOF, syscall.ECONNRESET, os.ErrDeadlineExceeded} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return Is(ctx, err)
}

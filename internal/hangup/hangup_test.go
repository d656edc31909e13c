package hangup_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"lockstep/internal/hangup"
)

func TestIs(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	write := &net.OpError{Op: "write", Net: "tcp", Err: os.NewSyscallError("write", syscall.EPIPE)}
	for _, tt := range []struct {
		name       string
		ctx        context.Context
		err        error
		want, body bool
	}{
		{"nothing", t.Context(), nil, false, false},
		{"nothing, client gone", ended, nil, false, false},
		{"any error, client gone", ended, errors.New("disk"), true, true},
		{"disk", t.Context(), syscall.EIO, false, false},
		{"write", t.Context(), fmt.Errorf("write list: %w", write), true, true},
		{"stopped sending", t.Context(), fmt.Errorf("x: %w", os.ErrDeadlineExceeded), false, true},
		{"stopped reading", t.Context(), &net.OpError{Op: "write", Err: os.ErrDeadlineExceeded}, true, true},
		{"closed for being slow", t.Context(), &net.OpError{Op: "readfrom", Err: net.ErrClosed}, true, true},
		{"a store's reset", t.Context(), &net.OpError{Op: "dial", Err: syscall.ECONNRESET}, false, true},
		{"half a body", t.Context(), io.ErrUnexpectedEOF, false, true},
	} {
		if got, body := hangup.Is(tt.ctx, tt.err), hangup.IsBody(tt.ctx, tt.err); got != tt.want || body != tt.body {
			t.Errorf("%s: Is = %t, IsBody = %t; want %t, %t", tt.name, got, body, tt.want, tt.body)
		}
	}
}

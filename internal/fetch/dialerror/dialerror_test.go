package dialerror_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"lockstep/internal/fetch/dialerror"
)

// TestNoAnswerIsNoCancellation: that a host, or a name server, does not answer in time is
// not an error that says that the caller's context has ended.
func TestNoAnswerIsNoCancellation(t *testing.T) {
	t.Parallel()
	_, dial := net.DialTimeout("tcp", "192.0.2.1:9", time.Nanosecond)
	lookup := &net.DNSError{Err: "i/o timeout", Name: "example.org", IsTimeout: true, UnwrapErr: context.DeadlineExceeded}
	for _, err := range []error{dial, lookup, &net.OpError{Op: "dial", Net: "tcp", Err: lookup}} {
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v: it is not the error that this is about", err)
		}
		got := dialerror.NotCanceled(t.Context(), err)
		var timeout net.Error
		if errors.Is(got, context.DeadlineExceeded) || got.Error() != err.Error() || !errors.As(got, &timeout) || !timeout.Timeout() {
			t.Errorf("%v became %v", err, got)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if got := dialerror.NotCanceled(ended, lookup); !errors.Is(got, context.DeadlineExceeded) {
		t.Errorf("the context has ended: %v", got)
	}
}

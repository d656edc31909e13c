// Package dialerror distinguishes timeouts of connections and responses from the end of the caller's context.
package dialerror

import (
	"context"
	"errors"
	"net"
)

// NotCanceled returns an error of connecting, or of a request, so that it is no
// [context.DeadlineExceeded] unless ctx has ended: those of package net are, if a host or a
// name server does not answer, and callers would take them for the end of their own run.
func NotCanceled(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var cause error = timeoutError(err.Error())
	op, connecting := errors.AsType[*net.OpError](err)
	if connecting {
		cause = timeoutError(op.Err.Error())
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		late := *dns
		late.UnwrapErr = nil
		cause = &late
	}
	if !connecting {
		return cause
	}
	late := *op
	late.Err = cause
	return &late
}

// A timeoutError is the text of an error that reports a timeout.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }
func (e timeoutError) Timeout() bool { return true }

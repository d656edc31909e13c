package failure_test

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/internal/failure"
	"lockstep/destination/report"
)

// TestErrorsOfTheStoreAndOfConsumers checks the class of each.
func TestErrorsOfTheStoreAndOfConsumers(t *testing.T) {
	t.Parallel()
	local := func(err error) error { return fmt.Errorf("write a: %w", &content.LocalError{Err: err}) }
	for _, tt := range []struct {
		name                             string
		err                              error
		full, fatal, passing, unreadable bool
	}{
		{"no space left", local(syscall.ENOSPC), true, false, false, false},
		{"the quota is used up", local(syscall.EDQUOT), true, false, false, false},
		{"read-only", local(syscall.EROFS), false, true, true, false},
		{"the disk fails", local(syscall.EIO), false, true, true, false},
		{"too many open files", local(syscall.EMFILE), false, true, true, true},
		{"the store is unavailable", local(blob.ErrUnavailable), false, false, true, true},
		{"the disk of a sink is full", &report.SinkError{Err: syscall.ENOSPC}, false, true, false, false},
		{"the disk of a consumer is full", &report.DeliveryError{Err: syscall.ENOSPC}, false, false, false, false},
		{"no memory", syscall.ENOMEM, false, false, false, true},
		{"another error", errors.New("not found"), false, false, false, false},
	} {
		if got := failure.IsFull(tt.err); got != tt.full {
			t.Errorf("%s: IsFull = %t", tt.name, got)
		}
		if got := failure.IsFatal(tt.err); got != tt.fatal {
			t.Errorf("%s: IsFatal = %t", tt.name, got)
		}
		if got := failure.IsPassing(tt.err); got != tt.passing {
			t.Errorf("%s: IsPassing = %t", tt.name, got)
		}
		if got := failure.IsUnreadable(tt.err); got != tt.unreadable {
			t.Errorf("%s: IsUnreadable = %t", tt.name, got)
		}
	}
}

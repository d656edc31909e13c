// Package failure classifies the errors of a run: whether they end it, and whether
// the same work may succeed later.
package failure

import (
	"errors"
	"syscall"

	"lockstep/blob"
	"lockstep/destination/internal/content"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// IsFull reports whether err says that there is no space left. The disk of a consumer
// of changes does not count.
func IsFull(err error) bool {
	if err == nil {
		return false
	}
	var delivery *report.DeliveryError
	var sink *report.SinkError
	return !errors.As(err, &delivery) && !errors.As(err, &sink) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// IsFatal reports whether err concerns the place where resources are stored, and not
// one of them. Lack of space is not fatal: a smaller resource may fit.
func IsFatal(err error) bool {
	var sink *report.SinkError
	if errors.As(err, &sink) {
		return true
	}
	if !content.IsLocal(err) {
		return false
	}
	for _, e := range []error{syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENODEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// IsPassing reports whether what failed with err is tried again at the end of the
// run: the network, the server or the store may have recovered. What found no space
// has been tried again already, after the others.
func IsPassing(err error) bool { return fetch.Passing(err) || content.IsLocal(err) && !IsFull(err) }

// IsUnreadable reports whether err says that the store cannot be read now, and not
// that one file is damaged.
func IsUnreadable(err error) bool { return errors.Is(err, blob.ErrUnavailable) || IsShortage(err) }

// IsShortage reports whether err is due to this process, not to a file.
func IsShortage(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOMEM)
}

package destination

import (
	"errors"
	"syscall"

	"lockstep/destination/internal/content"
)

// isFull reports whether err says that there is no space left.
func isFull(err error) bool {
	var delivery *DeliveryError // of others, whose disk is none of ours
	var sink *SinkError
	return !errors.As(err, &delivery) && !errors.As(err, &sink) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// isFatal reports whether err concerns the place where resources are kept, not
// one of them. Where there is no room for one, there may be for another.
func isFatal(err error) bool {
	var sink *SinkError
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

package apply

import (
	"context"
	"errors"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// What a blob.Store may implement besides, so that it can do without files.
type (
	// A forgetful store keeps nothing of what is committed to it: the Journal
	// alone knows.
	forgetful interface{ Forgetful() }

	// A descriptive store may take no content: only what the Source states of it.
	descriptive interface{ DescriptionsOnly() bool }

	// A described Writer receives a description of its content before it is
	// committed.
	described interface{ Describe(report.Change) }

	// A describer receives changes of resources whose content is the same, before
	// they are recorded.
	describer interface {
		Redescribe(context.Context, []report.Change) error
	}

	// A withdrawer receives the resources that are deleted, not only their
	// names.
	withdrawer interface {
		Withdraw(context.Context, []report.Change) error
	}
)

// IsForgetful reports whether a store keeps nothing of what is committed to it.
func IsForgetful(s blob.Store) bool {
	_, ok := s.(forgetful)
	return ok
}

// TakesNoContent reports whether nothing is fetched for a store: the Journal records what
// the Source states.
func TakesNoContent(s blob.Store) bool {
	d, ok := s.(descriptive)
	return ok && d.DescriptionsOnly()
}

// OnDisk returns a function that reports whether the file of a row exists in a store,
// with the recorded length: anything else at its path is not a file of the mirror,
// which in names in the middle of a sentence. Rows of a forgetful store have no files.
func OnDisk(s blob.Store, in string) func(context.Context, *journal.Held) (bool, error) {
	if IsForgetful(s) {
		return func(context.Context, *journal.Held) (bool, error) { return true, nil }
	}
	return func(ctx context.Context, h *journal.Held) (bool, error) {
		info, err := s.Stat(ctx, h.Path)
		switch {
		case err == nil:
			return info.Size == h.Length, nil
		case ctx.Err() != nil:
			return false, err
		case errors.Is(err, blob.ErrUnavailable): // the file may exist
			return false, fmt.Errorf("look at what is held%s: %w", in, err)
		}
		return false, nil // fetching it again reports the error
	}
}

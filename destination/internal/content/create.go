package content

import (
	"context"
	"errors"
	"syscall"
	"time"

	"lockstep/blob"
	"lockstep/internal/sleep"
)

const (
	// FileWait is how long to wait for open files to be closed when the process,
	// or the system, may open no more; MaxFileWaits is how often, without progress.
	FileWait     = 100 * time.Millisecond
	MaxFileWaits = 300
)

// isTooManyFiles reports whether err says that no further file can be opened.
func isTooManyFiles(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE)
}

// CommittedBefore reports whether a Commit of so many contents failed only because
// no further file could be opened, and how many are committed all the same.
func CommittedBefore(err error, contents int) (done int, again bool) {
	ce, ok := errors.AsType[*blob.CommitError](err)
	if !ok || !isTooManyFiles(err) || ce.Done >= contents {
		return 0, false
	}
	return ce.Done, true
}

// Create creates a content in the store, of which all bytes are at hand if it is whole.
// While no further file can be opened it waits: others are about to be closed.
func Create(ctx context.Context, store blob.Store, path string, whole bool) (w blob.Writer, err error) {
	create := store.Create
	if store, ok := store.(blob.WholeCreator); ok && whole {
		create = store.CreateWhole
	}
	for range MaxFileWaits {
		if w, err = create(ctx, path); err == nil || !isTooManyFiles(err) || sleep.For(ctx, FileWait) != nil {
			break
		}
	}
	return w, err
}

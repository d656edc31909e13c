package statedir_test

import (
	"context"
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/internal/statedir"
)

// forbidden is a store in which nothing may be created.
type forbidden struct{ blob.Store }

func (forbidden) Create(_ context.Context, key string) (blob.Writer, error) {
	return nil, &fs.PathError{Op: "create", Path: key, Err: syscall.EACCES}
}

// TestTakeNamesThePlace: the error about a place that may not be written says which place that is,
// and what to do.
func TestTakeNamesThePlace(t *testing.T) {
	t.Parallel()
	c, err := statedir.NewClaim(t.Context(), forbidden{&blob.Mem{}}, "www", statedir.In(t.TempDir()), false)
	if err != nil {
		t.Fatal(err)
	}
	err = c.Take(t.Context())
	if err == nil || err.Error() != "write to www: create .lockstep/owner/publisher.json: permission denied" {
		t.Errorf("Take: %v", err)
	}
	if hint, ok := errors.AsType[interface {
		error
		Hint() string
	}](err); !ok || hint.Hint() == "" {
		t.Errorf("no hint in %v", err)
	}
}

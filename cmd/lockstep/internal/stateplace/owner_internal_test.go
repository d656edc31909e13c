package stateplace

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/internal/statedir"
)

// A fakeOwner loses the database when it is closed.
type fakeOwner chan struct{}

var errTaken = errors.New("another process has taken it")

func (o fakeOwner) Lost() <-chan struct{} { return o }
func (o fakeOwner) Err() error            { return errTaken }
func (o fakeOwner) Close() error          { return nil }

func (o fakeOwner) Check(context.Context) error { return nil }
func (o fakeOwner) Since() time.Time            { return time.Time{} }

// TestWhileOwned: the context ends when the database is another process's, and its cause says so, which
// nothing else that ends it does.
func TestWhileOwned(t *testing.T) {
	t.Parallel()
	owner := make(fakeOwner)
	d := &Database{State: statedir.InDatabase(nil, "postgres://db/maps"), owner: owner}
	ctx, stop := d.WhileOwned(t.Context())
	if err := Cause(ctx, errTaken); isLost(err) {
		t.Errorf("while it is owned, an error becomes %v", err)
	}
	close(owner)
	<-ctx.Done()
	lost, ok := errors.AsType[*LostError](Cause(ctx, context.Canceled))
	if !ok || !errors.Is(lost, errTaken) || !strings.Contains(lost.Error(), "postgres://db/maps") || lost.Hint() == "" {
		t.Errorf("when it is lost, the error is %v", lost)
	}
	stop()

	parent, cancel := context.WithCancel(t.Context())
	d.owner = make(fakeOwner)
	ctx, stop = d.WhileOwned(parent)
	cancel()
	<-ctx.Done()
	if err := Cause(ctx, errTaken); isLost(err) {
		t.Errorf("when the process is stopped, an error becomes %v", err)
	}
	stop()
}

// isLost reports whether an error says that the database is another process's.
func isLost(err error) bool {
	_, ok := errors.AsType[*LostError](err)
	return ok
}

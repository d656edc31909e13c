package admin

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"lockstep/hub"
)

// errDatabase is all that readiness says of a database to the public.
var errDatabase = errors.New("the database does not work")

// A Readiness says whether a process can do its work. The cause of a failure
// names files or hosts: it is logged, once for each time it begins.
type Readiness struct {
	Check   func(context.Context) error
	Log     *slog.Logger
	failing atomic.Bool
}

// Ready returns nil, or why the process is not ready.
func (r *Readiness) Ready() error {
	err := r.Check(context.Background())
	switch {
	case errors.Is(err, hub.ErrNotReady):
		return err
	case err != nil && !r.failing.Swap(true):
		r.Log.Error("not ready", slog.String("err", err.Error()))
	case err == nil && r.failing.Swap(false):
		r.Log.Warn("ready again")
	}
	if err != nil {
		return errDatabase
	}
	return nil
}

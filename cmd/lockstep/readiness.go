package main

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"lockstep/hub"
)

// errDatabase is all that readiness says of a database to the public.
var errDatabase = errors.New("the database does not work")

// A readiness says whether a process can do what it is there for. The cause of a
// failure names files or hosts: it is logged, once for each time it begins.
type readiness struct {
	check   func(context.Context) error
	log     *slog.Logger
	failing atomic.Bool
}

// ready returns nil, or why the process is not ready.
func (r *readiness) ready() error {
	err := r.check(context.Background())
	switch {
	case errors.Is(err, hub.ErrNotReady):
		return err
	case err != nil && !r.failing.Swap(true):
		r.log.Error("not ready", slog.String("err", err.Error()))
	case err == nil && r.failing.Swap(false):
		r.log.Warn("ready again")
	}
	if err != nil {
		return errDatabase
	}
	return nil
}

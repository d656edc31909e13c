package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// runUnsubscribe ends the subscriptions that follow made for a mirror.
func runUnsubscribe(ctx context.Context, o *followOptions, io term.IO) error {
	do, err := o.sync.options()
	if err != nil {
		return err
	}
	if !mirror.IsBucket(o.sync.Dest) {
		state := filepath.Join(o.sync.Dest, filepath.FromSlash(destination.StateFile))
		if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unsubscribe: %s is no mirror: there is no %s", o.sync.Dest, state)
		}
	}
	do.Logger = o.sync.out.Logger(io)
	if o.TLS, err = o.tls.Open(do.Logger); err != nil {
		return err
	}
	r, err := mirror.Open(&o.sync.Selection, &o.sync.network, do, false, io)
	if err != nil {
		return mirror.Explain(err, o.sync.Dest)
	}
	defer r.Close()
	return following.EndSubscriptions(ctx, r, following.Options{Source: o.sync.Source, Dest: o.sync.Dest, Out: o.sync.out}, o.Callback, io)
}

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
	do, err := o.syncOptions.options()
	if err != nil {
		return err
	}
	if !mirror.IsBucket(o.Dest) {
		state := filepath.Join(o.Dest, filepath.FromSlash(destination.StateFile))
		if _, err := os.Stat(state); errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("unsubscribe: %s is no mirror: there is no %s", o.Dest, state)
		}
	}
	do.Logger = o.out.Logger(io)
	r, err := mirror.Open(&o.Selection, &o.network, do, false, io)
	if err != nil {
		return mirror.Explain(err, o.Dest)
	}
	defer r.Close()
	return following.EndSubscriptions(ctx, r, following.Options{Source: o.Source, Dest: o.Dest, Out: o.out}, o.Callback, io)
}

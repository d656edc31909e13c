package following

import (
	"context"
	"errors"
	"log/slog"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/sharing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// followShared follows together with other processes: one of them follows, the others fetch
// for it, and the next one follows when it ends.
func followShared(ctx context.Context, o *Flags, io term.IO) error {
	do, _, err := o.FollowOptions()
	if err != nil {
		return err
	}
	if err := o.Sync.CheckSource(false); err != nil {
		return err
	}
	do.Logger = o.Sync.Out.Logger(io)
	s, err := mirror.OpenShared(ctx, "follow", &o.Sync.Selection, &o.Sync.Network, do, io)
	if err != nil {
		return mirror.Explain(err, o.Sync.Dest)
	}
	defer func() {
		if err := s.Close(); err != nil {
			do.Logger.Warn("close the mirror", slog.Any("err", err))
		}
	}()
	run := &sharing.Run{Shared: s, Log: do.Logger}
	err = run.Follow(ctx, func(ctx context.Context, t *mirror.Turn) error {
		var r *mirror.Run
		err := followBy(ctx, o, io, func(do destination.Options) (_ *mirror.Run, err error) {
			r, err = t.Open(do)
			return r, err
		})
		if r != nil && err != nil && sharing.IsLost(r.Lost(err)) {
			return r.Lost(err)
		}
		return err
	})
	if mirror.Interrupted(ctx, err) && !errors.Is(err, term.ErrInterrupted) {
		err = io.Interrupted("") // while another process followed
	}
	return err
}

package syncing

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/sharing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/mirrordir"
)

// RefuseSharedConfig refuses --shared for the mirrors of a configuration file.
func (o *Flags) RefuseSharedConfig() error {
	if !o.Shared {
		return nil
	}
	return term.Usage(errors.New("--shared and --config: processes share one mirror"), "give SOURCE and DEST")
}

// syncShared brings a mirror into step together with other processes. The result is that of
// all of them.
func (o *Flags) syncShared(ctx context.Context, v View, do destination.Options, closeEvents func() error) error {
	if o.DryRun || o.at != "" {
		return errors.Join(term.Usage(errors.New("--shared is for bringing a mirror into step"), "leave it out with --dry-run and --at"), closeEvents())
	}
	s, err := mirror.OpenShared(ctx, "sync", &o.Selection, &o.Network, do, v.IO)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.Dest), closeEvents())
	}
	defer func() {
		if err := s.Close(); err != nil {
			do.Logger.Warn("close the mirror", slog.Any("err", err))
		}
	}()
	stop := v.Show(s.Client.Bytes)
	run := &sharing.Run{Shared: s, Log: do.Logger}
	result, err := run.Sync(ctx, func(ctx context.Context, t *mirror.Turn) (destination.Report, error) {
		began := time.Now()
		within, end := t.Run.Within(ctx)
		r, err := t.Run.Dest.Sync(within, o.Source)
		end()
		if err != nil && sharing.IsLost(t.Run.Lost(err)) {
			return r, t.Run.Lost(err) // another process continues
		}
		t.Add(&r)
		v.Watcher.SumUp()
		err = o.explain(ctx, err, v, &r)
		if rerr := mirrordir.RecordRun(t.Run.Note(), "sync", began, &r, err, term.HintOf(err), errors.Is(err, term.ErrInterrupted)); rerr != nil {
			do.Logger.Warn("the result of the run is not recorded", slog.Any("err", rerr))
		}
		return r, err
	})
	stop()
	if result.Shared != nil {
		result.Shared.Own = s.Fetched(result.Shared)
	}
	if mirror.Interrupted(ctx, err) {
		err = v.IO.Interrupted(v.Watcher.Meter.Done())
	}
	if cerr := closeEvents(); err == nil {
		err = cerr
	}
	d, derr := s.Destination() // reads what is pending
	if derr != nil {
		return errors.Join(err, derr)
	}
	if perr := v.Print(d, &result, err); err == nil {
		err = perr
	}
	return err
}

package syncing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/mirrordir"
)

// A View is where a run shows what it does.
type View struct {
	IO      term.IO // for what people read
	Log     *slog.Logger
	Watcher *mirror.Watcher

	// Show shows the progress until the function that it returns is called. fetched returns
	// the number of bytes that were received.
	Show func(fetched func() int64) (stop func())

	// Print prints the result. The mirror is open until it returns.
	Print func(d *destination.Destination, r *destination.Report, err error) error
}

// Run brings a mirror into step and prints the result.
func Run(ctx context.Context, o *Flags, io term.IO, outcome *alert.Outcome) error {
	w := &mirror.Watcher{Io: io, Quiet: o.Out.Quiet, Verbose: o.Out.Verbose}
	return o.Sync(ctx, View{
		IO: io, Log: o.Out.Logger(io), Watcher: w,
		Show: func(fetched func() int64) (stop func()) {
			w.Meter.Fetched = fetched
			return term.ShowFitting(io, o.Out.Quiet, w.Meter.Fit)
		},
		Print: func(d *destination.Destination, r *destination.Report, err error) error {
			out := io
			if o.Events == "-" {
				out = io.ResultOnErr() // stdout has events, and nothing else
			}
			outcome.Summary = func(io term.IO) { _ = report.PrintSync(ctx, io, &term.Options{}, nil, r, err) } // into memory
			outcome.Figures = alert.Sync(r)
			return report.PrintSync(ctx, out, o.Out, d, r, err)
		},
	})
}

// Sync brings a mirror into step. The result is printed if the mirror could be opened.
func (o *Flags) Sync(ctx context.Context, v View) error {
	began := time.Now()
	do, err := o.Options()
	if err != nil {
		return err
	}
	if err := o.CheckSource(o.at != ""); err != nil {
		return err
	}
	do.NamePlans, do.Logger = o.Out.Verbose, v.Log
	if do.Deliver, err = o.Deliver(v.IO); err != nil {
		return err
	}
	w := v.Watcher
	do.OnEvent = func(e destination.Event) { w.Event(ctx, e) }
	closeEvents, err := o.OpenEvents(w)
	if err != nil {
		return err
	}
	if o.Shared {
		return o.syncShared(ctx, v, do, closeEvents)
	}
	r, err := mirror.Open(ctx, "sync", &o.Selection, &o.Network, do, o.DryRun, v.IO)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.Dest), closeEvents())
	}
	defer r.Close()
	stop := v.Show(r.Client.Bytes)
	within, end := r.Within(ctx)
	result, err := o.bring(within, r, do, v.IO)
	end()
	stop()
	w.SumUp()
	if cerr := closeEvents(); err == nil {
		err = cerr
	}
	err = o.explain(ctx, r.Lost(err), v, &result)
	if last := r.Note(); last != nil && !o.DryRun {
		if rerr := mirrordir.RecordRun(last, "sync", began, &result, err, term.HintOf(err), errors.Is(err, term.ErrInterrupted)); rerr != nil {
			do.Logger.Warn("the result of the run is not recorded", slog.Any("err", rerr))
		}
	}
	if perr := v.Print(r.Dest, &result, err); err == nil {
		err = perr
	}
	return err
}

// explain adds remedies to the error of a run.
func (o *Flags) explain(ctx context.Context, err error, v View, r *destination.Report) error {
	err = o.explainAt(mirror.ExplainSource(err, o.Source, o.Dest))
	if hint := v.Watcher.Causes.Hint(o.Source); hint != "" && errors.Is(err, destination.ErrIncomplete) {
		err = term.WithHint(err, hint)
	}
	if t := r.NotBefore; err != nil && !t.IsZero() && !mirror.Interrupted(ctx, err) {
		err = term.WithHint(err, "run it again after "+t.Format(time.RFC3339)+", as the Source requests; to ask at once, use --ask-now")
	}
	if mirror.Interrupted(ctx, err) {
		err = v.IO.Interrupted(v.Watcher.Meter.Done())
		continueWith(r, term.CommandLine(v.IO.Args))
	}
	return err
}

// continueWith has the result of an interrupted run name the command line that continues it,
// with the flags of the run. It leaves the command as it is if command is empty, because a flag may be secret.
func continueWith(r *destination.Report, command string) {
	for i := range r.Unproven {
		if u := &r.Unproven[i]; u.IsFailure() {
			u.Needs, u.Command = "", cmp.Or(command, u.Command)
		}
	}
}

// Deliver returns what hands changes over to the command of --exec; nil if there is none.
func (o *Flags) Deliver(io term.IO) (func(context.Context, []destination.Change) error, error) {
	hook, err := mirror.NewExecHook(o.Exec, o.Source, o.Dest, io)
	if hook == nil || err != nil {
		return nil, err
	}
	return hook.Deliver, nil
}

// OpenEvents opens what --events names, and has the watcher write to it.
func (o *Flags) OpenEvents(w *mirror.Watcher) (closeEvents func() error, err error) {
	var out io.Writer
	closeEvents = func() error { return nil }
	switch o.Events {
	case "":
		return closeEvents, nil
	case "-":
		out = w.Io.Out
	default:
		f, err := os.OpenFile(o.Events, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
		if err != nil {
			return nil, term.Usagef("open --events: %w", err)
		}
		out, closeEvents = f, f.Close
	}
	var failed error
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	w.Stream = func(e destination.Event) {
		if failed == nil {
			failed = enc.Encode(e)
		}
	}
	closeFile := closeEvents
	return func() error {
		if err := errors.Join(failed, closeFile()); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		return nil
	}, nil
}

// bring brings the mirror of r into step, or back to a past state.
func (o *Flags) bring(ctx context.Context, r *mirror.Run, do destination.Options, io term.IO) (destination.Report, error) {
	if o.at == "" || !mirror.IsMirror(o.Source) {
		return r.Dest.Sync(ctx, o.Source)
	}
	if mirror.SameDir(o.Source, o.Dest) {
		return r.Dest.SyncPast(ctx, r.Dest, do.At)
	}
	sel := mirror.Selection{Dest: o.Source}
	text, err := os.ReadFile(filepath.Join(o.Source, filepath.Dir(filepath.FromSlash(destination.StateFile)), mirror.StateOf))
	if err == nil {
		sel.Dest, sel.State = strings.TrimSpace(string(text)), o.Source // it is the state of a mirror in a bucket
	}
	m, err := mirror.OpenState(ctx, &sel, false, mirror.BucketClient{LookupEnv: io.LookupEnv, Network: &o.Network, Log: do.Logger, Command: "sync"})
	if err != nil {
		return destination.Report{}, err
	}
	defer m.Close()
	from, err := destination.New(m.Store, m.Journal, r.Client, destination.Options{Dest: o.Source, Versions: m.Versions, Logger: do.Logger})
	if err != nil {
		return destination.Report{}, err
	}
	return r.Dest.SyncPast(ctx, from, do.At)
}

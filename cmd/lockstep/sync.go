package main

import (
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

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/garbage"
	"lockstep/internal/mirrordir"
)

// syncOptions are the flags of sync.
type syncOptions struct {
	mirror.Selection
	network     network.Options
	out         *term.Options
	via         string
	allVersions bool
	delete      string
	maxDelete   int
	at          string
	dryRun      bool
	baseline    bool
	askNow      bool
	adopt       bool
	replace     bool
	checkLocal  string
	verify      string
	keep        string
	events      string
	exec        string
}

func newSync(io term.IO, out *term.Options) *cobra.Command {
	o := &syncOptions{out: out}
	cmd := &cobra.Command{
		Use:   "sync SOURCE DEST [flags]",
		Short: "Bring DEST into step with SOURCE once, then exit",
		Long: `Bring DEST into step with SOURCE: everything the first time, then only changes.
Every file is verified before it gets its final name. The next run continues an
interrupted one.

SOURCE is any address of a Source: a site, one of its pages, its Source
Description, a Capability List, a Resource List or Dump, a Change List or Dump, a
plain Sitemap, or a local file that is one of these.

It can also be an Atom-PMH feed or an OAI-PMH repository, which is harvested. If
its address does not show which, write atom-pmh:URL or
oai-pmh:URL?metadataPrefix=PREFIX&set=SET (by default oai_dc, and all sets).

DEST is a directory, or a bucket (s3://BUCKET/PREFIX) with --state DIR for its
state.`,
		Example: `  lockstep sync https://example.org/ mirror
  lockstep sync https://example.org/sitemap.xml mirror --include '*.pdf'
  lockstep sync example.org mirror --dry-run
  lockstep sync example.org mirror --exec ./index-changes
  lockstep sync https://example.org/atom.xml mirror --prefer application/rdf+xml
  lockstep sync 'oai-pmh:https://example.org/oai?metadataPrefix=oai_dc' records
  lockstep sync example.org s3://bucket/mirror --state ~/mirror-state
  lockstep sync example.org then --at 2026-05-01T12:00:00Z`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Source, o.Dest = args[0], args[1]
			if err := refuseEmpty(cmd, "at"); err != nil {
				return err
			}
			return runSync(cmd.Context(), o, io)
		},
	}
	flags := cmd.Flags()
	o.declare(flags)
	flags.StringVar(&o.at, "at", "", "restore the collection in DEST as of `TIME`, a date or a time such as 2026-05-01T12:00:00Z, and name what is no longer available")
	flags.BoolVar(&o.askNow, "ask-now", false, "also request what a server asked in an earlier run not to request before a time")
	flags.BoolVarP(&o.dryRun, "dry-run", "n", false, "say what would be done, and do nothing")
	return cmd
}

// declare declares the flags that sync and follow share.
func (o *syncOptions) declare(flags *pflag.FlagSet) {
	o.Selection.Declare(flags)
	flags.StringVar(&o.via, "via", "auto", "get contents by this `WAY`: list (a request for each), dump (packages wherever there are any), auto (what costs least)")
	flags.BoolVar(&o.allVersions, "all-versions", false, "apply every version of what changed more than once, in order, where the Source still has it")
	flags.StringVar(&o.delete, "delete", "", "`WHAT` to do about resources the Source no longer has: apply deletes them, keep keeps them (default apply; for plain Sitemaps keep)")
	flags.IntVar(&o.maxDelete, "max-delete", destination.DefaultMaxDelete, "stop before deleting more than this `PERCENT` of the mirror; 100 consents")
	flags.BoolVar(&o.baseline, "baseline", false, "ignore saved progress: compare everything")
	flags.BoolVar(&o.adopt, "adopt", false, "adopt existing files whose content is correct: by a hash, or, if the Source states none, by length and time")
	flags.BoolVar(&o.replace, "replace", false, "with --adopt: replace existing files whose content is not correct")
	flags.StringVar(&o.checkLocal, "check-local", "", "look `WHEN` for files of DEST that are missing, or differ in size or time from what was written, and repair them: always, daily, never (default always; daily in mirrors of 100,000 resources and more)")
	mirror.DeclareVerify(flags, &o.verify)
	help.Grouped(flags, help.OutcomeGroup, func(flags *pflag.FlagSet) {
		mirror.DeclareKeep(flags, &o.keep)
		flags.StringVar(&o.events, "events", "", "append one JSON line for every applied change to `FILE`, or write them to stdout if it is -")
		flags.StringVar(&o.exec, "exec", "", "run `CMD` by sh for every batch of changes that is durable, with their JSON lines on its stdin; if it fails the run stops, and the next hands them over again")
	})
	o.network.Declare(flags, network.TheSource)
}

// options returns what the flags mean to a Destination.
func (o *syncOptions) options() (destination.Options, error) {
	do, err := o.Selection.Options()
	if err != nil {
		return do, err
	}
	switch {
	case o.via != destination.ViaAuto && o.via != destination.ViaList && o.via != destination.ViaDump:
		return do, term.Usagef("--via %q: want auto, list or dump", o.via)
	case o.delete != "" && o.delete != string(destination.DeleteApply) && o.delete != string(destination.DeleteKeep):
		return do, term.Usagef("--delete %q: want apply or keep", o.delete)
	case o.maxDelete < 1 || o.maxDelete > 100:
		return do, term.Usagef("--max-delete %d: want a share of 1 to 100 percent; to delete nothing, --delete keep", o.maxDelete)
	case o.checkLocal != "" && o.checkLocal != string(destination.CheckAlways) && o.checkLocal != string(destination.CheckDaily) && o.checkLocal != string(destination.CheckNever):
		return do, term.Usagef("--check-local %q: want always, daily or never", o.checkLocal)
	case o.replace && !o.adopt:
		return do, term.Usage(errors.New("--replace needs --adopt: it replaces files that --adopt finds"), "give both")
	case o.events == "-" && o.out.JSON:
		return do, term.Usage(errors.New("--json and --events - both write to stdout"), "give --events a file")
	}
	if do.VerifyAll, err = mirror.ParseVerify(o.verify); err != nil {
		return do, err
	}
	if do.Keep, err = mirror.ParseKeepVersions(o.keep); err != nil {
		return do, err
	}
	if o.at != "" {
		if do.At, err = o.instant(); err != nil {
			return do, err
		}
	}
	do.Via, do.AllVersions = o.via, o.allVersions
	do.CheckLocal = destination.CheckLocal(o.checkLocal)
	do.Delete, do.MaxDelete = destination.Delete(o.delete), o.maxDelete
	do.DryRun, do.Baseline, do.Adopt, do.Replace, do.AskNow = o.dryRun, o.baseline, o.adopt, o.replace, o.askNow
	return do, nil
}

// runSync brings a mirror into step and prints the result.
func runSync(ctx context.Context, o *syncOptions, io term.IO) error {
	garbage.TuneCopying()
	began := time.Now()
	do, err := o.options()
	if err != nil {
		return err
	}
	if err := o.CheckSource(o.at != ""); err != nil {
		return err
	}
	do.NamePlans, do.Logger = o.out.Verbose, o.out.Logger(io)
	hook, err := mirror.NewExecHook(o.exec, o.Source, o.Dest, io)
	if err != nil {
		return err
	}
	if hook != nil {
		do.Deliver = hook.Deliver
	}
	w := &mirror.Watcher{Io: io, Quiet: o.out.Quiet, Verbose: o.out.Verbose}
	do.OnEvent = func(e destination.Event) { w.Event(ctx, e) }
	closeEvents, err := o.openEvents(w)
	if err != nil {
		return err
	}
	r, err := mirror.Open(&o.Selection, &o.network, do, o.dryRun, io)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.Dest), closeEvents())
	}
	defer r.Close()
	w.Meter.Fetched = r.Client.Bytes
	stop := term.ShowFitting(io, o.out.Quiet, w.Meter.Fit)
	result, err := o.bring(ctx, r, do, io)
	stop()
	w.SumUp()
	if cerr := closeEvents(); err == nil {
		err = cerr
	}
	err = o.explainAt(mirror.Explain(err, o.Dest))
	if hint := w.Causes.Hint(); hint != "" && errors.Is(err, destination.ErrIncomplete) {
		err = term.WithHint(err, hint)
	}
	if t := result.NotBefore; err != nil && !t.IsZero() && !mirror.Interrupted(ctx, err) {
		err = term.WithHint(err, "run it again after "+t.Format(time.RFC3339)+", as the Source requests; to ask at once, use --ask-now")
	}
	if mirror.Interrupted(ctx, err) {
		err = io.Interrupted(w.Meter.Done())
	}
	if memory := r.Memory(); memory != "" && !o.dryRun {
		if rerr := mirrordir.RecordRun(memory, "sync", began, &result, err, term.HintOf(err), errors.Is(err, term.ErrInterrupted)); rerr != nil {
			do.Logger.Warn("the result of the run is not recorded", slog.Any("err", rerr))
		}
	}
	if o.events == "-" {
		io = io.ResultOnErr() // stdout has events, and nothing else
	}
	if perr := report.PrintSync(ctx, io, o.out, r.Dest, &result, err); err == nil {
		err = perr
	}
	return err
}

// openEvents opens what --events names, and has the watcher write to it.
func (o *syncOptions) openEvents(w *mirror.Watcher) (closeEvents func() error, err error) {
	var out io.Writer
	closeEvents = func() error { return nil }
	switch o.events {
	case "":
		return closeEvents, nil
	case "-":
		out = w.Io.Out
	default:
		f, err := os.OpenFile(o.events, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
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
func (o *syncOptions) bring(ctx context.Context, r *mirror.Run, do destination.Options, io term.IO) (destination.Report, error) {
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
	m, err := mirror.OpenState(&sel, false, mirror.BucketClient{LookupEnv: io.LookupEnv, Network: &o.network, Log: do.Logger})
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

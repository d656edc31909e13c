// Package auditing runs the command that compares a mirror with its Source, prints what
// differs and writes reports of it.
package auditing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	goio "io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/tracing"
	"lockstep/destination"
	"lockstep/internal/provenance"
)

// ErrDifferences reports that an audit found some.
var ErrDifferences = errors.New("not in step")

// Options are the flags of audit.
type Options struct {
	mirror.Selection
	Network   network.Options
	Out       *term.Options
	Content   bool
	Fix       bool
	Delete    string
	MaxDelete int
	Report    string
	Format    string
	Origin    bool // the copies are compared with their origins, too
	Verify    string
	Sample    string
	Seed      uint64

	OnReport func(*destination.AuditReport) // called with the result, before it is printed; may be nil
}

// DefaultSample is how many resources are compared with their origins: a tenth of all
// that is altered is almost certainly found, a hundredth in two of three cases.
const DefaultSample = 100

// DeclareRepair declares the flags that say what a repair deletes.
func (o *Options) DeclareRepair(flags *pflag.FlagSet) {
	flags.StringVar(&o.Delete, "delete", "", "`WHAT` --fix does about extra resources: apply deletes them, keep keeps them (default apply; for plain Sitemaps keep)")
	mirror.DeclareMaxDelete(flags, &o.MaxDelete, "stop before --fix deletes more than this `PERCENT` of the mirror; 100 consents")
}

// options returns what the flags mean to a Destination.
func (o *Options) options() (destination.Options, error) {
	do, err := o.Selection.Options()
	if err != nil {
		return do, err
	}
	switch {
	case o.Delete != "" && o.Delete != string(destination.DeleteApply) && o.Delete != string(destination.DeleteKeep):
		return do, term.Usagef("--delete %q: want apply or keep", o.Delete)
	case o.MaxDelete < 1 || o.MaxDelete > 100:
		return do, term.Usagef("--max-delete %d: want a share of 1 to 100 percent; to delete nothing, --delete keep", o.MaxDelete)
	case o.Report == "" && o.Format != "":
		return do, term.Usage(errors.New("--format is that of --report"), "for the result as JSON there is --json")
	case o.Report == "-" && o.Out.JSON:
		return do, term.Usage(errors.New("--json and --report - both write to stdout"), "give --report a file")
	}
	if do.VerifyAll, err = mirror.ParseVerify(o.Verify); err != nil {
		return do, err
	}
	if do.VerifyAll && !o.Content && o.IsMirror() {
		return do, term.Usage(errors.New("--verify all needs --content: without it, files are not read"), "give both")
	}
	if o.Origin {
		if n, err := tracing.ParseSample(o.Sample); err != nil {
			return do, err
		} else if n == 0 {
			return do, term.Usagef("--sample 0: --origin compares at least one resource, or all")
		}
	}
	do.Delete, do.MaxDelete = destination.Delete(o.Delete), o.MaxDelete
	return do, nil
}

// Run compares a mirror with its Source and prints what differs.
func Run(ctx context.Context, o *Options, io term.IO) error {
	do, err := o.options()
	if err != nil {
		return err
	}
	if err := o.CheckSource(false); err != nil {
		return err
	}
	if _, err := os.Stat(o.Dest); errors.Is(err, fs.ErrNotExist) && !mirror.IsBucket(o.Dest) {
		return term.Usage(fmt.Errorf("%s does not exist", o.Dest), "give the directory of the mirror; lockstep sync SOURCE DEST makes one")
	}
	do.Logger = o.Out.Logger(io)
	findings, err := openFindings(o.Report, o.Format, io)
	if err != nil {
		return err
	}
	w := &mirror.Watcher{Io: io, Quiet: o.Out.Quiet, Verbose: o.Out.Verbose}
	shown := &shownFindings{io: io, off: o.Out.JSON || o.Report == "-", all: o.Out.Verbose}
	do.OnEvent = func(e destination.Event) {
		if e.Kind == destination.EventFinding {
			shown.add(&e.Finding)
			findings.add(&e.Finding)
		}
		w.Event(ctx, e)
	}
	began := time.Now()
	r, err := mirror.Open(ctx, "audit", &o.Selection, &o.Network, do, !o.Fix || !o.IsMirror(), io)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.Dest), findings.drop())
	}
	defer r.Close()
	stop := term.ShowProgress(io, o.Out.Quiet, w.Meter.Line)
	within, end := r.Within(ctx)
	report, err := r.Dest.Audit(within, o.Source, destination.AuditOptions{Content: o.Content, Fix: o.Fix})
	end()
	err = r.Lost(err)
	stop()
	w.SumUp()
	shown.end()
	if report.Mended != nil && len(do.Sets) == 0 { // of the others nothing is known
		if rerr := r.RecordRepair(ctx, began, &report, mirror.ExplainSource(err, o.Source, o.Dest)); rerr != nil {
			do.Logger.Warn("the result of the repair is not recorded", slog.Any("err", rerr))
		}
	}
	whole := err == nil || errors.Is(err, destination.ErrIncomplete) || errors.Is(err, destination.ErrRefused)
	switch {
	case err == nil && !report.InSync, report.Mended != nil && errors.Is(err, destination.ErrIncomplete):
		err = fmt.Errorf("%w: %s", ErrDifferences, Differences(report))
	}
	err = mirror.ExplainSource(err, o.Source, o.Dest)
	out := &result{AuditReport: report, err: err}
	if o.Origin && whole {
		err = out.compareOrigins(ctx, o, r, findings, io)
	}
	if mirror.Interrupted(ctx, err) {
		err, whole = term.ErrInterrupted, false
	}
	out.Error = text(err)
	if o.OnReport != nil {
		o.OnReport(&out.AuditReport)
	}
	if rerr := findings.close(out, whole); rerr != nil {
		err = rerr
	}
	if o.Report == "-" {
		return err
	}
	if perr := out.print(io, o.Out); err == nil {
		err = perr
	}
	return err
}

// A result is the result of an audit. Its JSON is what --json prints.
type result struct {
	destination.AuditReport
	Origin *provenance.Report `json:"origin,omitempty"`
	Error  string             `json:"error,omitempty"`

	err error // of the comparison with the Source
}

// text returns an error as the result has it.
func text(err error) string { return report.ErrorText(err) }

// compareOrigins compares the resources of the mirror with their origins, and returns
// the error of the whole audit.
func (a *result) compareOrigins(ctx context.Context, o *Options, r *mirror.Run, findings *findings, io term.IO) error {
	client, err := o.Network.OriginClient(io.LookupEnv, o.Out.Logger(io))
	if err != nil {
		return err
	}
	defer client.Close()
	sample, err := tracing.ParseSample(o.Sample)
	if err != nil {
		return err // unreachable: the flags were checked
	}
	shown := &tracing.Lines{IO: io, Quiet: o.Out.JSON || o.Report == "-"}
	c := provenance.New(client, provenance.Options{Sample: sample, Seed: o.Seed, Jobs: o.Network.Jobs, OnFinding: func(f provenance.Finding) {
		shown.Add(&f)
		findings.add(findingOf(&f))
	}})
	stop := term.ShowProgress(io, o.Out.Quiet, func() string {
		return "comparing with the origins: " + term.Count(c.Report().Checked, "resource")
	})
	traced, err := c.Run(ctx, copies(ctx, r))
	stop()
	shown.End()
	a.Origin = &traced
	a.Requests += client.Requests()
	switch err = cmp.Or(err, tracing.Err(&traced)); {
	case a.err == nil:
		return err
	case errors.Is(err, tracing.ErrAltered) && errors.Is(a.err, ErrDifferences):
		return fmt.Errorf("%w; %w", a.err, err)
	case errors.Is(err, tracing.ErrAltered):
		return fmt.Errorf("%w; %w", err, a.err)
	}
	return a.err
}

// copies yields the selected resources of a mirror as copies of what is at their origins.
func copies(ctx context.Context, r *mirror.Run) iter.Seq2[provenance.Copy, error] {
	return func(yield func(provenance.Copy, error) bool) {
		for h, err := range r.Dest.Selected(ctx) {
			if err == nil && len(h.Hashes) == 0 {
				continue // it has to be fetched again
			}
			path := h.Path
			one := provenance.Copy{URI: h.URI, Via: aggregator.Origin(h.Links), Hashes: h.Hashes, Length: h.Length, Open: func(ctx context.Context) (goio.ReadCloser, error) {
				return r.State.Store.Open(ctx, path)
			}}
			if !yield(one, err) || err != nil {
				return
			}
		}
	}
}

// findingOf returns a finding in the form of those of an audit.
func findingOf(f *provenance.Finding) *destination.Finding {
	return &destination.Finding{
		Kind: destination.FindingKind(f.Verdict), URI: f.URI, Expected: factsOf(f.Stated), Found: factsOf(f.Copy),
		Cause: "origin " + f.Origin + ": " + f.Cause,
	}
}

func factsOf(f *provenance.Facts) *destination.Facts {
	if f == nil {
		return nil
	}
	return &destination.Facts{Hash: f.Hash, Length: f.Length, Lastmod: f.Modified}
}

// print prints the result.
func (a *result) print(io term.IO, out *term.Options) error {
	switch {
	case out.JSON:
		return io.PrintJSON(a)
	case out.Quiet:
		return nil
	}
	r, err := a.AuditReport, a.err
	if a.Origin != nil {
		defer tracing.Print(io, a.Origin)
	}
	if err != nil && !errors.Is(err, ErrDifferences) {
		return nil // the error says it
	}
	open := report.UnprovenText(r.Unproven)
	known := ""
	if open != "" && err == nil {
		known = ", as far as it can be known:"
	}
	switch found := found(r); {
	case err != nil:
		io.Printf("not in step with %s: %s\n", r.Source, Differences(r))
	case found != "":
		io.Printf("in step again with %s%s there were %s\n", r.Source, cmp.Or(known, ":"), found)
	default:
		io.Printf("in step with %s%s\n", r.Source, known)
	}
	if open != "" {
		io.Printf("  %s\n", open)
	}
	io.Printf("  %s listed", term.Count(r.Resources, "resource"))
	if r.Content || r.Verified > 0 {
		io.Printf(", %s verified byte by byte", term.Count(r.Verified, "file"))
	} else {
		io.Printf(", no file read (--content reads all)")
	}
	if r.Unverifiable > 0 {
		io.Printf(", %s of which the Source states nothing to compare", term.Thousands(r.Unverifiable))
	}
	if r.Foreign > 0 {
		io.Printf(", %s here that Lockstep did not make", term.Count(r.Foreign, "file"))
	}
	io.Printf("\n")
	if m := r.Mended; m != nil {
		text := term.Thousands(m.Fetched) + " fetched, " + term.Thousands(m.Deleted) + " deleted"
		if m.Failed > 0 {
			text += ", " + term.Thousands(m.Failed) + " failed"
		}
		io.Printf("  repaired: %s\n", text)
	}
	io.Printf("  %s, %s\n", term.Count(r.Requests, "request"), term.Elapsed(time.Duration(r.Elapsed*float64(time.Second))))
	return nil
}

// maxShown is how many findings are printed for people; the report has all of
// them.
const maxShown = 1000

// A shownFindings prints findings as they arrive.
type shownFindings struct {
	io  term.IO
	off bool
	all bool // also those beyond maxShown, and resources of which the Source states nothing to compare
	n   int64
}

func (s *shownFindings) add(f *destination.Finding) {
	if f.Kind == destination.Unverifiable && !s.all {
		return // counted at the end
	}
	if s.n++; s.off || s.n > maxShown && !s.all {
		return
	}
	name := f.Path
	if name == "" {
		name = f.URI
	}
	s.io.Printf("%s: %s: %s\n", f.Kind, name, f.Cause)
}

func (s *shownFindings) end() {
	if s.n > maxShown && !s.off && !s.all {
		s.io.Printf("… and %s more; --report FILE has them all\n", term.Thousands(s.n-maxShown))
	}
}

// found returns the counts of an audit as text.
func found(r destination.AuditReport) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{r.Missing, "missing"}, {r.Stale, "stale"}, {r.Corrupt, "corrupt"}, {r.Extra, "extra"}} {
		if p.n > 0 {
			parts = append(parts, term.Thousands(p.n)+" "+p.what)
		}
	}
	return strings.Join(parts, ", ")
}

// Differences returns as text what still differs.
func Differences(r destination.AuditReport) string {
	if m := r.Mended; m != nil && m.Failed > 0 {
		return found(r) + "; " + term.Thousands(m.Failed) + " could not be repaired"
	}
	return found(r)
}

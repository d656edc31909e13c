package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// errDifferences reports that an audit found some.
var errDifferences = errors.New("not in step")

// auditOptions are the flags of audit.
type auditOptions struct {
	mirror.Selection
	network   network.Options
	out       *term.Options
	content   bool
	fix       bool
	delete    string
	maxDelete int
	report    string
	format    string
}

// options returns what the flags mean to a Destination.
func (o *auditOptions) options() (destination.Options, error) {
	do, err := o.Selection.Options()
	if err != nil {
		return do, err
	}
	switch {
	case o.delete != "" && o.delete != string(destination.DeleteApply) && o.delete != string(destination.DeleteKeep):
		return do, term.Usagef("--delete %q: want apply or keep", o.delete)
	case o.maxDelete < 1 || o.maxDelete > 100:
		return do, term.Usagef("--max-delete %d: want a share of 1 to 100 percent; to delete nothing, --delete keep", o.maxDelete)
	case o.report == "" && o.format != "":
		return do, term.Usage(errors.New("--format is that of --report"), "for the result as JSON there is --json")
	case o.report == "-" && o.out.JSON:
		return do, term.Usage(errors.New("--json and --report - both write to stdout"), "give --report a file")
	}
	do.Delete, do.MaxDelete = destination.Delete(o.delete), o.maxDelete
	return do, nil
}

// runAudit compares a mirror with its Source and prints what differs.
func runAudit(ctx context.Context, o *auditOptions, io term.IO) error {
	do, err := o.options()
	if err != nil {
		return err
	}
	if err := o.CheckSource(false); err != nil {
		return err
	}
	do.Logger = o.out.Logger(io)
	findings, err := openFindings(o.report, o.format, io)
	if err != nil {
		return err
	}
	w := &mirror.Watcher{Ctx: ctx, Io: io}
	shown := &shownFindings{io: io, off: o.out.JSON || o.report == "-"}
	do.OnEvent = func(e destination.Event) {
		if e.Kind == destination.EventFinding {
			shown.add(&e.Finding)
			findings.add(&e.Finding)
		}
		w.Event(e)
	}
	r, err := mirror.Open(&o.Selection, &o.network, do, !o.fix || !o.IsMirror(), io)
	if err != nil {
		return errors.Join(mirror.Explain(err, o.Dest), findings.drop())
	}
	defer r.Close()
	stop := term.ShowProgress(io, o.out.Quiet, w.Meter.Line)
	report, err := r.Dest.Audit(ctx, o.Source, destination.AuditOptions{Content: o.content, Fix: o.fix})
	stop()
	w.SumUp()
	shown.end()
	whole := err == nil || errors.Is(err, destination.ErrIncomplete) || errors.Is(err, destination.ErrRefused)
	switch {
	case err == nil && !report.InSync, report.Mended != nil && errors.Is(err, destination.ErrIncomplete):
		err = fmt.Errorf("%w: %s", errDifferences, differences(report))
	}
	err = mirror.Explain(err, o.Dest)
	if mirror.Interrupted(ctx, err) {
		err = term.ErrInterrupted
	}
	if rerr := findings.close(&report, err, whole); rerr != nil {
		err = rerr
	}
	if o.report == "-" {
		return err
	}
	if perr := printAudit(io, o.out, report, err); err == nil {
		err = perr
	}
	return err
}

// printAudit prints what an audit came to.
func printAudit(io term.IO, out *term.Options, r destination.AuditReport, err error) error {
	if out.JSON {
		return io.PrintJSON(struct {
			destination.AuditReport
			Error string `json:"error,omitempty"`
		}{r, report.ErrorText(err)})
	}
	if err != nil && !errors.Is(err, errDifferences) {
		return nil // the error says it
	}
	open := report.UnprovenText(r.Unproven)
	known := ""
	if open != "" && err == nil {
		known = ", as far as it can be known:"
	}
	switch found := found(r); {
	case err != nil:
		io.Printf("not in step with %s: %s\n", r.Source, differences(r))
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
		io.Printf("  mended: %s fetched, %s deleted, %s failed\n", term.Thousands(m.Fetched), term.Thousands(m.Deleted), term.Thousands(m.Failed))
	}
	io.Printf("  %s, %s\n", term.Count(r.Requests, "request"), term.Elapsed(time.Duration(r.Elapsed*float64(time.Second))))
	return nil
}

// maxShown is how many findings are printed for people: who has more wants the
// report.
const maxShown = 1000

// A shownFindings prints findings as they come.
type shownFindings struct {
	io  term.IO
	off bool
	n   int64
}

func (s *shownFindings) add(f *destination.Finding) {
	if f.Kind == destination.Unverifiable {
		return // counted at the end
	}
	if s.n++; s.off || s.n > maxShown {
		return
	}
	name := f.Path
	if name == "" {
		name = f.URI
	}
	s.io.Printf("%s: %s: %s\n", f.Kind, name, f.Cause)
}

func (s *shownFindings) end() {
	if s.n > maxShown && !s.off {
		s.io.Printf("… and %s more; --report FILE has them all\n", term.Thousands(s.n-maxShown))
	}
}

// found says in words what an audit counted.
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

// differences says in words what is wrong still.
func differences(r destination.AuditReport) string {
	if m := r.Mended; m != nil && m.Failed > 0 {
		return found(r) + "; " + term.Thousands(m.Failed) + " could not be mended"
	}
	return found(r)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"lockstep/destination"
)

// errDifferences reports that an audit found some.
var errDifferences = errors.New("not in step")

// auditOptions are the flags of audit.
type auditOptions struct {
	selectOptions
	network networkOptions
	out     *outputOptions
}

func newAudit(io stdio, out *outputOptions) *cobra.Command {
	o := &auditOptions{out: out}
	cmd := &cobra.Command{
		Use:   "audit SOURCE DEST [flags]",
		Short: "Compare DEST with SOURCE; report; change nothing",
		Long: `Compare the mirror in DEST with what SOURCE says it has: what is missing, stale,
corrupt (not the bytes that were written) or extra. Every file is read; nothing
is changed, neither files nor saved progress.`,
		Example: `  lockstep audit https://example.org/ mirror
  lockstep audit https://example.org/ mirror --json`,
		Args: arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.source, o.dest = args[0], args[1]
			return runAudit(cmd.Context(), o, io)
		},
	}
	o.selectOptions.declare(cmd.Flags())
	o.network.declare(cmd.Flags(), theSource)
	return cmd
}

// runAudit compares a mirror with its Source and prints what differs.
func runAudit(ctx context.Context, o *auditOptions, io stdio) error {
	do, err := o.options()
	if err != nil {
		return err
	}
	do.Logger = o.out.logger(io)
	w := &watcher{ctx: ctx, io: io}
	do.OnEvent = func(e destination.Event) {
		if e.Kind == destination.EventFinding && !o.out.json {
			printFinding(io, e.Finding)
		}
		w.event(e)
	}
	r, err := openRun(&o.selectOptions, &o.network, do, true, io)
	if err != nil {
		return err
	}
	defer r.Close()
	stop := showProgress(io, o.out.quiet, w.meter.line)
	report, err := r.dest.Audit(ctx, o.source, destination.AuditOptions{})
	stop()
	if err == nil && !report.InSync {
		err = fmt.Errorf("%w: %s", errDifferences, differences(report))
	}
	err = explain(err, o.dest)
	if interrupted(ctx, err) {
		err = errInterrupted
	}
	if perr := printAudit(io, o.out, report, err); err == nil {
		err = perr
	}
	return err
}

func printFinding(io stdio, f destination.Finding) {
	name := f.Path
	if name == "" {
		name = f.URI
	}
	io.printf("%s: %s: %s\n", f.Kind, name, f.Cause)
}

// printAudit prints what an audit came to.
func printAudit(io stdio, out *outputOptions, r destination.AuditReport, err error) error {
	if out.json {
		return io.printJSON(struct {
			destination.AuditReport
			Error string `json:"error,omitempty"`
		}{r, errorText(err)})
	}
	if err != nil && !errors.Is(err, errDifferences) {
		return nil // the error says it
	}
	if err == nil {
		io.printf("in step with %s\n", r.Source)
	} else {
		io.printf("not in step with %s: %s\n", r.Source, differences(r))
	}
	io.printf("  %s listed, %s verified byte by byte", count(r.Resources, "resource"), count(r.Verified, "file"))
	if r.Unverifiable > 0 {
		io.printf(", %s of which the Source states nothing to compare", thousands(r.Unverifiable))
	}
	if r.Foreign > 0 {
		io.printf(", %s here that Lockstep did not make", count(r.Foreign, "file"))
	}
	io.printf("\n  %s, %s\n", count(r.Requests, "request"), elapsed(time.Duration(r.Elapsed*float64(time.Second))))
	return nil
}

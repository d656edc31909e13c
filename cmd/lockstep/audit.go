package main

import (
	"strconv"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/mirrors"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/garbage"
)

func newAudit(io term.IO, out *term.Options) *cobra.Command {
	o, many := &auditing.Options{Out: out}, &mirrors.Flags{}
	var alerts alert.Flags
	cmd := &cobra.Command{
		Use:   "audit SOURCE DEST [flags]",
		Short: "Compare DEST with SOURCE and report differences; --fix repairs them",
		Long: `Compare the mirror in DEST with the documents of SOURCE and report files that are
missing, stale, corrupt (not the bytes that were written) or extra. All files are
read with --content; without it, only those that seem changed since they were
written. Neither files nor saved progress are changed unless --fix is given.

A DEST that was never synced can be audited, too: the contents of its files are
compared with what SOURCE states about the resources at these paths.

If SOURCE is an Aggregator, --origin compares a sample of the resources with their
origins, to which their via links lead: a copy is identical, or the origin has
changed since, or nothing is there any more (gone), or the copy was altered on the
way (exit code 3).

With --config FILE [NAME...], all mirrors that FILE describes are audited, or those
that are named, several at a time: exit code 3 if some differ and all could be
compared.`,
		Example: `  lockstep audit https://example.org/ mirror
  lockstep audit https://example.org/ mirror --content --fix
  lockstep audit https://example.org/ mirror --content --report findings.csv
  lockstep audit https://aggregator.example.org/ mirror --origin --sample all
  lockstep audit --config mirrors.yaml --content`,
		Args: oneOrMany(many),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := many.Check(cmd.Flags(), io.LookupEnv, "sample origin", "seed origin", "delete fix", "max-delete fix"); err != nil {
				return err
			}
			if many.Are() {
				return alerts.Watch(cmd.Context(), alert.Run{Command: cmd.Name(), Source: many.Config(), Roots: o.Network.Certificates}, io, exitCode, func(io term.IO, out *alert.Outcome) error {
					return mirrors.Audit(cmd.Context(), many, o, cmd.Flags(), args, io, out)
				})
			}
			o.Source, o.Dest = args[0], args[1]
			garbage.TuneCopying()
			return alerts.Watch(cmd.Context(), alert.Run{Command: cmd.Name(), Source: o.Source, Dest: o.Dest, Roots: o.Network.Certificates}, io, exitCode, func(io term.IO, out *alert.Outcome) error {
				o.OnReport = func(r *destination.AuditReport) { out.Figures = alert.Audit(r) }
				return auditing.Run(cmd.Context(), o, io)
			})
		},
	}
	flags := cmd.Flags()
	o.Selection.Declare(flags)
	many.Declare(flags)
	flags.BoolVar(&o.Content, "content", false, "read every file and compare it with what was written")
	mirror.DeclareVerify(flags, &o.Verify)
	flags.BoolVar(&o.Fix, "fix", false, "fetch again what is missing, stale or corrupt; delete what is extra")
	o.DeclareRepair(flags)
	flags.StringVar(&o.Report, "report", "", "write all findings to `FILE`, or to stdout if -")
	flags.StringVar(&o.Format, "format", "", "`FORM` of the report: json, jsonl, csv (default: what FILE ends in; jsonl for -)")
	flags.BoolVar(&o.Origin, "origin", false, "compare resources with their origins, to which via links lead; those at private and loopback addresses only with --allow-private")
	flags.StringVar(&o.Sample, "sample", strconv.Itoa(auditing.DefaultSample), "with --origin: compare `N` resources, chosen at random, or all")
	flags.Uint64Var(&o.Seed, "seed", 0, "with --origin: choose the same sample as the run that printed this `NUMBER`")
	alerts.DeclareRun(flags)
	o.Network.Declare(flags, network.TheSource)
	return cmd
}

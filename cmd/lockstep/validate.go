package main

import (
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/validation"
	"lockstep/validate"
	"lockstep/validate/finding"
)

func newValidate(io term.IO, out *term.Options) *cobra.Command {
	o := &validation.Options{Out: out}
	var alerts alert.Flags
	cmd := &cobra.Command{
		Use:   "validate SOURCE|FILE... [flags]",
		Short: "Check documents, packages and Sources against the specification",
		Long: `Check what a Source publishes against the requirements of ResourceSync: one line
per finding, with the ID of the rule, its level, the document, the place in it,
what is wrong, and the section of the standard that says so. What a standard
forbids is an error, what it advises against a warning. With --advice the rules
of this project are checked, too.

A SOURCE is whatever you have at hand, as for sync: from there all documents of
the Source, or of the set, are read and compared with each other, packages are
looked into, and a sample of resources is compared with what is said of them.
A FILE is a document or a ZIP package, checked by itself, or a directory that
publish has written: the whole Source, without a network.

With --origin the sample is also compared with the origins, to which the via links
of an Aggregator lead; a resource that was altered on the way is an error.

A feed of Atom-PMH is checked along its archives, whether a Source names it or it
is the SOURCE itself, and so is what the entries of a sample link to. Of an OAI-PMH
repository (oai-pmh:URL, or its address) the answers to a few requests are checked.`,
		Example: `  lockstep validate https://example.org/
  lockstep validate https://example.org/resourcesync/main/changelist.xml --alone
  lockstep validate resourcelist.xml resourcedump.zip
  lockstep validate /var/www --sample all
  lockstep validate https://example.org/resourcesync/main/atom.xml
  lockstep validate oai-pmh:https://example.org/oai
  lockstep validate https://aggregator.example.org/ --origin --sample 100
  lockstep validate --rules`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.Rules {
				return term.Usage(errors.New("validate: SOURCE or FILE is missing"), "usage: "+cmd.UseLine())
			}
			if err := config.RefuseUnmet(config.OnCommandLine(cmd.Flags(), io.LookupEnv), config.Need{Flags: []string{"seed"}, Not: "--sample 0", Met: o.Sample != "0"}); err != nil {
				return err
			}
			o.Targets = args
			return alerts.Watch(cmd.Context(), alert.Run{Command: cmd.Name(), Source: strings.Join(o.Sources(), " "), Roots: o.Network.Certificates}, io, exitCode, func(io term.IO, out *alert.Outcome) error {
				o.OnReport = func(r *finding.Report) { out.Figures = alert.Validate(r) }
				return validation.Run(cmd.Context(), o, io)
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.Sample, "sample", strconv.Itoa(validate.DefaultSample), "compare `N` resources, chosen at random, with what is said of them; 0 none, all")
	flags.Uint64Var(&o.Seed, "seed", 0, "choose the same sample as the run that printed this `NUMBER`")
	flags.BoolVar(&o.Origin, "origin", false, "compare the sample with the origins, to which via links lead; those at private and loopback addresses only with --allow-private")
	flags.BoolVar(&o.Strict, "strict", false, "count warnings as errors")
	flags.BoolVar(&o.Advice, "advice", false, "also print advice: findings that no standard forbids or advises against")
	flags.BoolVar(&o.Alone, "alone", false, "check only the documents named, not what they name")
	flags.BoolVar(&o.Rules, "rules", false, "list the rules")
	flags.StringVar(&o.BaseURL, "base-url", "", "the `URL` a directory is served at (default: the one in its Source Description)")
	alerts.DeclareRun(flags)
	o.Network.Declare(flags, network.TheSource)
	return cmd
}

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/validate"
	"lockstep/validate/finding"
	"lockstep/validate/opener"
)

// errFindings reports that documents break rules.
var errFindings = errors.New("not valid")

// validateOptions are the flags of validate.
type validateOptions struct {
	targets []string
	network network.Options
	out     *term.Options
	sample  string
	seed    uint64
	strict  bool
	advice  bool
	alone   bool
	rules   bool
	baseURL string
}

func newValidate(io term.IO, out *term.Options) *cobra.Command {
	o := &validateOptions{out: out}
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

A feed of Atom-PMH is checked along its archives, whether a Source names it or it
is the SOURCE itself, and so is what the entries of a sample link to. Of an OAI-PMH
repository (oai-pmh:URL, or its address) the answers to a few requests are checked.`,
		Example: `  lockstep validate https://example.org/
  lockstep validate https://example.org/resourcesync/main/changelist.xml --alone
  lockstep validate resourcelist.xml resourcedump.zip
  lockstep validate /var/www --sample all
  lockstep validate https://example.org/resourcesync/main/atom.xml
  lockstep validate oai-pmh:https://example.org/oai
  lockstep validate --rules`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 && !o.rules {
				return term.Usage(errors.New("validate: SOURCE or FILE is missing"), "usage: "+cmd.UseLine())
			}
			o.targets = args
			return runValidate(cmd.Context(), o, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.sample, "sample", strconv.Itoa(validate.DefaultSample), "compare `N` resources, chosen at random, with what is said of them; 0 none, all")
	flags.Uint64Var(&o.seed, "seed", 0, "choose the same sample as the run that printed this `NUMBER`")
	flags.BoolVar(&o.strict, "strict", false, "count warnings as errors")
	flags.BoolVar(&o.advice, "advice", false, "also print advice: findings that no standard forbids or advises against")
	flags.BoolVar(&o.alone, "alone", false, "check only the documents named, not what they name")
	flags.BoolVar(&o.rules, "rules", false, "list the rules")
	flags.StringVar(&o.baseURL, "base-url", "", "the `URL` a directory is served at (default: the one in its Source Description)")
	o.network.Declare(flags, network.TheSource)
	return cmd
}

// validation is what validate prints with --json.
type validation struct {
	Sources []string `json:"sources"`
	finding.Report
	Requests int64   `json:"requests"`
	Elapsed  float64 `json:"elapsed_seconds"`
	Error    string  `json:"error,omitempty"`

	advice bool // it was asked for
}

// runValidate checks every target and prints what was found.
func runValidate(ctx context.Context, o *validateOptions, io term.IO) error {
	if o.rules {
		return printRules(o, io)
	}
	sample, err := parseSample(o.sample)
	if err != nil {
		return err
	}
	start := time.Now()
	result := validation{advice: o.advice}
	for _, target := range o.targets {
		result.Sources = append(result.Sources, fetch.WithoutUser(target))
	}
	result.Findings = finding.Findings{}
	var current atomic.Pointer[string]
	vo := validate.Options{
		Sample: sample, Seed: o.seed, Strict: o.strict, Advice: o.advice, Single: o.alone, Jobs: o.network.Jobs,
		OnDocument: func(uri string) { current.Store(&uri) },
		OnFinding: func(f finding.Finding) {
			if !o.out.JSON {
				io.Printf("%s\n", f)
			}
		},
	}
	stop := term.ShowProgress(io, o.out.Quiet, func() string {
		if uri := current.Load(); uri != nil {
			return "reading " + *uri
		}
		return "looking for documents"
	})
	for _, target := range o.targets {
		var r *finding.Report
		if r, err = validateTarget(ctx, o, vo, target, &result, io); r != nil {
			result.add(r)
			vo.Seed = r.Seed // one for all
		}
		if err != nil {
			break
		}
	}
	stop()
	if mirror.Interrupted(ctx, err) {
		err = term.ErrInterrupted
	}
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%w: %s", errFindings, term.Count(result.Errors, "error"))
	}
	result.Elapsed = time.Since(start).Seconds()
	if perr := printValidation(io, o.out, &result, err); err == nil {
		err = perr
	}
	return mirror.Explain(err, "")
}

// parseSample reads the value of --sample.
func parseSample(s string) (int, error) {
	if s == "all" {
		return validate.SampleAll, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 0 {
		return 0, term.Usagef("--sample %q: want a number, or all", s)
	}
	return n, nil
}

// add adds the report about one target.
func (v *validation) add(r *finding.Report) {
	v.Documents += r.Documents
	v.Entries += r.Entries
	v.Packages += r.Packages
	v.Resources += r.Resources
	v.Links += r.Links
	v.Unseen += r.Unseen
	v.Seed = r.Seed
	v.Errors += r.Errors
	v.Warnings += r.Warnings
	v.Advice += r.Advice
	v.Omitted += r.Omitted
	v.Findings = append(v.Findings, r.Findings...)
}

// validateTarget checks what one argument names.
func validateTarget(ctx context.Context, o *validateOptions, vo validate.Options, target string, result *validation, io term.IO) (*finding.Report, error) {
	info, err := os.Stat(target)
	switch {
	case err == nil && info.IsDir():
		return validateDir(ctx, o, vo, target)
	case err == nil:
		return validateFile(ctx, vo, target)
	}
	client, err := o.network.Client(target, io.LookupEnv, o.out.Logger(io))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	defer func() { result.Requests += client.Requests() }()
	open := openerOf(client)
	starts, err := startsOf(ctx, client, open, target, o.alone)
	if err != nil {
		return nil, err
	}
	var all validation
	var sources []string
	for _, start := range starts {
		check, uri := validate.Feed, start.uri
		switch start.kind {
		case discover.AtomPMH:
		case discover.OAIPMH:
			check = validate.Repository
		default:
			sources = append(sources, uri)
			continue
		}
		r, err := check(ctx, open, uri, vo)
		all.add(r)
		if err != nil {
			return &all.Report, fmt.Errorf("validate %s: %w", fetch.Printable(uri), err)
		}
	}
	if len(sources) == 0 {
		return &all.Report, nil
	}
	r, err := validate.Sources(ctx, open, sources, vo) // in one run: what they have in common is reported once
	all.add(r)
	if err != nil {
		err = fmt.Errorf("validate %s: %w", fetch.Printable(strings.Join(sources, ", ")), err)
	}
	return &all.Report, err
}

// validateDir checks a Source whose files are in a directory.
func validateDir(ctx context.Context, o *validateOptions, vo validate.Options, dir string) (*finding.Report, error) {
	base := o.baseURL
	if base == "" {
		var err error
		if base, err = opener.DirBase(dir); err != nil {
			return nil, term.WithHint(err, "name the documents in it, or say by --base-url at which URL the directory is served")
		}
	}
	base = strings.TrimSuffix(base, "/")
	vo.Settle = time.Nanosecond // files do not tell later what they do not tell now
	return validate.Source(ctx, opener.Dir(base, dir), base+discover.WellKnown, vo)
}

// validateFile checks a document or a package in a file.
func validateFile(ctx context.Context, vo validate.Options, name string) (*finding.Report, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close() // opened for reading only
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("read %s: not a regular file", name)
	}
	if err != nil {
		return nil, err
	}
	r := bufio.NewReader(f)
	head, _ := r.Peek(4) // what is shorter is no package
	if bytes.HasPrefix(head, []byte("PK\x03\x04")) || bytes.HasPrefix(head, []byte("PK\x05\x06")) || strings.EqualFold(filepath.Ext(name), ".zip") {
		return validate.Package(ctx, f, info.Size(), filepath.ToSlash(name), vo)
	}
	return validate.Document(ctx, r, filepath.ToSlash(name), vo)
}

// printValidation prints what all came to.
func printValidation(io term.IO, out *term.Options, v *validation, err error) error {
	if out.JSON {
		v.Error = report.ErrorText(err)
		return io.PrintJSON(v)
	}
	if err != nil && !errors.Is(err, errFindings) && v.Documents == 0 {
		return nil // the error says it
	}
	if v.Omitted > 0 {
		io.Printf("and %s more of the same kind\n", term.Count(v.Omitted, "finding"))
	}
	verdict := "valid"
	switch {
	case v.Errors > 0:
		verdict = "not valid"
	case err != nil:
		verdict = "not finished"
	}
	io.Printf("%s: %s, %s", verdict, term.Count(v.Errors, "error"), term.Count(v.Warnings, "warning"))
	if v.advice {
		io.Printf(", %d of advice", v.Advice)
	}
	io.Printf("\n")
	io.Printf("  %s with %s", term.Count(v.Documents, "document"), term.Count(v.Entries, "entry"))
	if v.Packages > 0 {
		io.Printf(", %s", term.Count(v.Packages, "package"))
	}
	if v.Resources > 0 {
		io.Printf("; the bytes of %s compared (--seed %d)", term.Count(v.Resources, "resource"), v.Seed)
	}
	if v.Links > 0 {
		io.Printf("; %s followed (--seed %d)", term.Count(v.Links, "alternate link"), v.Seed)
	}
	if v.Unseen > 0 {
		io.Printf("; %s could not be looked at from here", term.Count(v.Unseen, "address"))
	}
	io.Printf("\n  %s\n", term.Elapsed(time.Duration(v.Elapsed*float64(time.Second))))
	return nil
}

// printRules lists what is checked.
func printRules(o *validateOptions, io term.IO) error {
	rules := finding.Rules()
	if o.out.JSON {
		type rule struct {
			finding.Rule
			AppliesTo string `json:"applies_to"`
		}
		all := make([]rule, len(rules))
		for i, r := range rules {
			all[i] = rule{r, r.Kinds.String()}
		}
		return io.PrintJSON(struct {
			Rules []rule `json:"rules"`
		}{all})
	}
	for _, r := range rules {
		io.Printf("%-10s  %-7s  %s [%s]\n", r.ID, r.Level, r.Words, r.Section)
	}
	return nil
}

// Package validation runs the command that checks documents, packages and Sources: where
// to begin, what is read over the network or from files, and what is printed.
package validation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/cmd/lockstep/internal/tracing"
	"lockstep/internal/fetch"
	"lockstep/internal/provenance"
	"lockstep/validate"
	"lockstep/validate/finding"
)

// ErrFindings reports that documents break rules.
var ErrFindings = errors.New("not valid")

// Options are the flags of validate.
type Options struct {
	Targets []string
	Network network.Options
	Out     *term.Options
	Sample  string
	Seed    uint64
	Strict  bool
	Advice  bool
	Alone   bool
	Rules   bool
	BaseURL string
	Origin  bool // the sample is compared with the origins, too

	OnReport func(*finding.Report) // called with the result, before it is printed
}

// Sources returns the targets without user names and passwords.
func (o *Options) Sources() []string {
	all := make([]string, len(o.Targets))
	for i, target := range o.Targets {
		all[i] = fetch.WithoutUser(target)
	}
	return all
}

// validation is what validate prints with --json.
type validation struct {
	Sources []string `json:"sources"`       // the addresses at which the validation began
	Way     []string `json:"way,omitempty"` // the steps to them from the addresses given
	finding.Report
	Origin   *provenance.Report `json:"origin,omitempty"`
	Requests int64              `json:"requests"`
	Elapsed  float64            `json:"elapsed_seconds"`
	Error    string             `json:"error,omitempty"`

	advice bool  // it was asked for
	err    error // of the validation alone
}

// Run checks every target and prints what was found.
func Run(ctx context.Context, o *Options, io term.IO) error {
	if o.Rules {
		return printRules(o, io)
	}
	sample, err := tracing.ParseSample(o.Sample)
	switch {
	case err != nil:
		return err
	case o.Origin && sample == 0:
		return term.Usagef("--sample 0: --origin compares at least one resource, or all")
	}
	start := time.Now()
	result := validation{advice: o.Advice}
	result.Findings = finding.Findings{}
	var current atomic.Pointer[string]
	vo := validate.Options{
		Sample: sample, Seed: o.Seed, Strict: o.Strict, Advice: o.Advice, Single: o.Alone, Jobs: o.Network.Jobs,
		OnDocument: func(uri string) { current.Store(&uri) },
		OnFinding: func(f finding.Finding) {
			if !o.Out.JSON && (!o.Out.Quiet || f.Level == finding.Error) {
				io.Printf("%s\n", f)
			}
		},
	}
	var origins *origins
	if o.Origin {
		if origins, err = openOrigins(o, io); err != nil {
			return err
		}
		defer origins.client.Close()
	}
	sources := newSources(vo, origins)
	vo.Seed = sources.run.Report().Seed // one for all
	stop := term.ShowProgress(io, o.Out.Quiet, func() string {
		if uri := current.Load(); uri != nil {
			return "reading " + *uri
		}
		return "looking for documents"
	})
	var files files
	for _, target := range directoriesFirst(o.Targets) {
		var begun []string
		var r *finding.Report
		if info, serr := os.Stat(target); serr != nil {
			begun, err = sources.validate(ctx, o, target, &result, io)
			err = mirror.ExplainSource(err, target, "")
		} else if begun = []string{target}; files.contain(target, info) {
			continue
		} else if r, err = files.validate(ctx, o, vo, target, origins); r != nil {
			result.add(r)
		}
		result.Sources = append(result.Sources, begun...)
		if err != nil {
			break
		}
	}
	result.add(sources.run.Report())
	stop()
	if mirror.Interrupted(ctx, err) {
		err = term.ErrInterrupted
	}
	if err == nil && result.Errors > 0 {
		err = fmt.Errorf("%w: %s", ErrFindings, term.Count(result.Errors, "error"))
	}
	result.err = err
	if origins != nil {
		err = origins.end(&result)
	}
	result.Elapsed = time.Since(start).Seconds()
	o.OnReport(&result.Report)
	if perr := printValidation(io, o.Out, &result, err); err == nil {
		err = perr
	}
	return mirror.Explain(err, "")
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
	for _, f := range r.Findings {
		f.Message = fetch.Printable(f.Message) // a sentence: addresses in it show no secrets
		v.Findings = append(v.Findings, f)
	}
}

// printValidation prints the result of a validation.
func printValidation(io term.IO, out *term.Options, v *validation, err error) error {
	var usage term.UsageError
	if errors.As(err, &usage) {
		return nil
	}
	if out.JSON {
		v.Error = report.ErrorText(err)
		return io.PrintJSON(v)
	}
	if out.Quiet {
		return nil
	}
	if err = v.err; err != nil && !errors.Is(err, ErrFindings) && v.Documents == 0 {
		return nil // the error says it
	}
	if v.Omitted > 0 {
		io.Printf("and %s more of the same kind\n", term.Count(v.Omitted, "finding"))
	}
	counts := term.Count(v.Errors, "error") + ", " + term.Count(v.Warnings, "warning")
	switch {
	case v.Errors > 0:
		io.Printf("not valid: %s", counts)
	case err != nil:
		io.Printf("not finished: %s", counts)
	case v.Warnings > 0:
		io.Printf("valid, with %s", term.Count(v.Warnings, "warning"))
	default:
		io.Printf("valid")
	}
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
	io.Printf("\n")
	if v.Origin != nil {
		tracing.Print(io, v.Origin)
	}
	io.Printf("  %s\n", term.Elapsed(time.Duration(v.Elapsed*float64(time.Second))))
	report.PrintWay(io, v.Way)
	return nil
}

// printRules lists what is checked.
func printRules(o *Options, io term.IO) error {
	rules := finding.Rules()
	if o.Out.JSON {
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

package mirrors

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/fetch"
)

// Audit compares the mirrors of the configuration file with their Sources, or those that are
// named, and prints a result for each. flags are those of the command, of which one has the
// values. out gets the figures of all.
func Audit(ctx context.Context, f *Flags, one *auditing.Options, flags *pflag.FlagSet, names []string, io term.IO, out *alert.Outcome) error {
	if one.Report != "" {
		return term.Usage(errors.New("--report and --config: a report is about one mirror"), "give SOURCE and DEST")
	}
	entries, err := f.read(flags, names, one.Out, func(e *entry) error {
		_, err := e.sync().Options()
		return err
	})
	if err != nil {
		return err
	}
	shared := share(len(entries), f.Parallel, one.Network)
	shared.join(entries)
	results := make([]audited, len(entries))
	start := time.Now()
	var wg sync.WaitGroup
	for i, e := range entries {
		r := &results[i]
		end, err := shared.fleet.Begin(ctx, func() int64 { return 0 })
		wg.Go(func() {
			if r.err = err; err == nil {
				defer end()
				r.run(ctx, e, one, f.given, io)
			}
		})
	}
	wg.Wait()
	figures := make([]func(*admin.Figures), len(entries))
	for i, e := range entries {
		figures[i] = alert.Mirror(e.name, nil, results[i].report, results[i].err != nil)
	}
	out.Figures = alert.Mirrors(figures)
	return conclude(ctx, entries, results, one.Out, time.Since(start), io)
}

// audited is the result of an audit of one mirror.
type audited struct {
	json   bytes.Buffer // the object that it printed, if JSON is wanted
	report *destination.AuditReport
	err    error
}

// run compares one mirror with its Source.
func (r *audited) run(ctx context.Context, e *entry, one *auditing.Options, given map[string][]string, io term.IO) {
	o := *one
	o.Selection, o.Network = e.sync().Selection, e.sync().Network
	own := pflag.NewFlagSet(e.name, pflag.ContinueOnError)
	o.DeclareRepair(own)
	values := map[string][]string{}
	for _, flag := range []string{"delete", "max-delete"} {
		if vs := cmp.Or(strings.Join(given[flag], ""), strings.Join(e.values[flag], "")); vs != "" {
			values[flag] = []string{vs}
		}
	}
	if r.err = config.FlagsFromKeys(own, values); r.err != nil {
		return // unreachable: they are flags of sync, too
	}
	o.OnReport = func(report *destination.AuditReport) { r.report = report }
	out := io.Named(e.name)
	if o.Out.JSON {
		out.Out = &r.json
	}
	r.err = auditing.Run(ctx, &o, out)
	if r.err != nil && !mirror.Interrupted(ctx, r.err) {
		term.ReportError(out, r.err)
	}
}

// conclude prints what the audits of all mirrors come to.
func conclude(ctx context.Context, entries []*entry, results []audited, out *term.Options, took time.Duration, io term.IO) error {
	v := &verdict{all: len(entries), refused: true, differs: true}
	for i := range results {
		if err := results[i].err; err != nil {
			v.add(entries[i].name, err)
		}
	}
	var err error
	if len(v.failed) > 0 {
		err = v
	}
	if mirror.Interrupted(ctx, err) {
		err = term.ErrInterrupted
	}
	if out.JSON {
		return errors.Join(err, io.PrintJSON(auditObject(entries, results, took, err)))
	}
	if !out.Quiet && !errors.Is(err, term.ErrInterrupted) {
		io.Printf("%s in %s: %s\n", term.Count(len(entries), "mirror"), term.Elapsed(took), tally(results))
	}
	return err
}

// tally counts the mirrors that are in step, that are not, and that could not be compared.
func tally(results []audited) string {
	var in, out, failed int
	for i := range results {
		switch err := results[i].err; {
		case err == nil:
			in++
		case errors.Is(err, auditing.ErrDifferences), errors.Is(err, destination.ErrRefused):
			out++
		default:
			failed++
		}
	}
	text := fmt.Sprintf("%d in step", in)
	if out > 0 {
		text += fmt.Sprintf(", %d not in step", out)
	}
	if failed > 0 {
		text += fmt.Sprintf(", %d failed", failed)
	}
	return text
}

// An auditTotal is what audit --config prints with --json.
type auditTotal struct {
	Mirrors []json.RawMessage `json:"mirrors"`
	InSync  bool              `json:"in_sync"`
	Elapsed float64           `json:"elapsed_seconds"`
	Error   string            `json:"error,omitempty"`
}

// auditObject returns the objects of all mirrors as one, each with the name of its mirror.
func auditObject(entries []*entry, results []audited, took time.Duration, err error) auditTotal {
	t := auditTotal{Mirrors: []json.RawMessage{}, InSync: err == nil, Elapsed: took.Seconds(), Error: report.ErrorText(err)}
	for i, e := range entries {
		text := bytes.TrimSpace(results[i].json.Bytes())
		if len(text) == 0 { // it could not be opened
			text, _ = json.Marshal(map[string]string{"source": fetch.WithoutUser(e.sync().Source), "destination": e.sync().Dest, "error": report.ErrorText(results[i].err)}) // strings
		}
		t.Mirrors = append(t.Mirrors, fmt.Appendf(nil, `{"name":%q,%s`, e.name, text[1:]))
	}
	return t
}

// add counts a mirror that is not in step.
func (v *verdict) add(name string, err error) {
	v.failed, v.causes = append(v.failed, name), append(v.causes, err)
	refused, differs := errors.Is(err, destination.ErrRefused), errors.Is(err, auditing.ErrDifferences)
	v.refused, v.differs = v.refused && refused, v.differs && (refused || differs)
}

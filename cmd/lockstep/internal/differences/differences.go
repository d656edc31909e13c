// Package differences runs the command that lists what changed at a Source between two
// instants.
package differences

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/journal"
)

// Options are the flags of diff.
type Options struct {
	mirror.Selection
	Network  network.Options
	Out      *term.Options
	From, To string
}

// Run prints what differs between two instants.
func Run(ctx context.Context, o *Options, io term.IO) error {
	from, to, err := o.instants()
	if err != nil {
		return err
	}
	if err := o.CheckSource(false); err != nil {
		return err
	}
	do, err := o.Options()
	if err != nil {
		return err
	}
	do.Logger, do.Jobs = o.Out.Logger(io), o.Network.Jobs
	w := &mirror.Watcher{Io: io, Quiet: true}
	do.OnEvent = func(e destination.Event) { w.Event(ctx, e) }
	client, err := o.Network.Client(o.Source, io.LookupEnv, do.Logger)
	if err != nil {
		return err
	}
	defer client.Close()
	// There is no mirror: the data to sort goes to temporary files without
	// names.
	d, err := destination.New(&blob.Mem{}, &journal.Mem{Scratch: os.TempDir()}, client, do)
	if err != nil {
		return term.Usage(err, "")
	}
	shown := newPrinter(io, o.Out.JSON)
	r, err := d.Diff(ctx, o.Source, from, to, shown.add)
	w.SumUp()
	if none, ok := errors.AsType[*destination.NoPastError](err); ok && none.Err == nil && !none.Earliest.IsZero() {
		err = term.WithHint(err, "give instants from "+none.Earliest.UTC().Format(time.RFC3339Nano)+" on")
	}
	err = mirror.ExplainSource(err, o.Source, "")
	if mirror.Interrupted(ctx, err) {
		err = term.ErrInterrupted
	}
	if perr := shown.end(&r, err); err == nil {
		err = perr
	}
	if err == nil && !o.Out.Quiet && !o.Out.JSON {
		io.Errorf("%s\n", summary(&r))
	}
	return err
}

// instants returns what --from and --to say; a zero to is now.
func (o *Options) instants() (from, to time.Time, err error) {
	if o.From == "" {
		return from, to, term.Usage(errors.New("diff: --from is missing"), "say from when on, as --from 2026-05-01")
	}
	if from, err = mirror.ParseInstant("from", o.From); err != nil {
		return from, to, err
	}
	if o.To != "" {
		if to, err = mirror.ParseInstant("to", o.To); err != nil {
			return from, to, err
		}
		if from.After(to) {
			return from, to, term.Usagef("--from %s is later than --to %s", o.From, o.To)
		}
	}
	return from, to, nil
}

// summary returns the result of a comparison as text.
func summary(r *destination.DiffReport) string {
	var parts []string
	for _, p := range []struct {
		n    int64
		what string
	}{{r.Created, "created"}, {r.Updated, "updated"}, {r.Deleted, "deleted"}, {r.Unknown, "unknown"}, {r.Unchanged, "unchanged"}} {
		if p.n > 0 || p.what == "unchanged" {
			parts = append(parts, term.Thousands(p.n)+" "+p.what)
		}
	}
	return fmt.Sprintf("%s, %s to %s: %s", r.Source, r.From.Format(time.RFC3339Nano), r.To.Format(time.RFC3339Nano), strings.Join(parts, ", "))
}

// A printer prints differences as they come: as lines, or as the beginning of
// one JSON object.
type printer struct {
	out  *bufio.Writer
	json bool
	n    int64
}

func newPrinter(io term.IO, asJSON bool) *printer {
	return &printer{out: bufio.NewWriter(io.Out), json: asJSON}
}

func (p *printer) add(d destination.Difference) error {
	p.n++
	if !p.json {
		_, err := fmt.Fprintf(p.out, "%s %s\n", d.Change, d.URI)
		return err
	}
	sep := ","
	if p.n == 1 {
		sep = `{"differences":[`
	}
	text, err := encodeJSON(d)
	if err == nil {
		_, err = p.out.WriteString(sep + text)
	}
	return err
}

// end completes the output with the totals of the comparison.
func (p *printer) end(r *destination.DiffReport, failed error) error {
	if p.json {
		if p.n == 0 {
			_, _ = p.out.WriteString(`{"differences":[`) // a bufio.Writer keeps its error
		}
		text, err := encodeJSON(struct {
			*destination.DiffReport
			Error string `json:"error,omitempty"`
		}{r, report.ErrorText(failed)})
		if err != nil {
			return err
		}
		_, _ = p.out.WriteString("]," + text[1:] + "\n")
	}
	if err := p.out.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

// encodeJSON returns v as JSON, in which addresses stand as they are.
func encodeJSON(v any) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(b.String(), "\n"), err
}

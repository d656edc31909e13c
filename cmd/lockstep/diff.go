package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/internal/garbage"
)

// diffOptions are the flags of diff.
type diffOptions struct {
	mirror.Selection
	network  network.Options
	out      *term.Options
	from, to string
}

func newDiff(io term.IO, out *term.Options) *cobra.Command {
	o := &diffOptions{out: out}
	cmd := &cobra.Command{
		Use:   "diff SOURCE --from TIME [--to TIME] [flags]",
		Short: "List what changed at SOURCE between two instants",
		Long: `List the resources of SOURCE that changed between two instants, from its archived
lists and dumps and its changes since. Each resource that differs is one line, by
URI: created, updated or deleted, or unknown where SOURCE states nothing by which
its contents can be compared.

Only documents are read. The exit code is 0 whether or not there are differences,
and 1 if the state at an instant is not known: then the error says from when on it
is known.`,
		Example: `  lockstep diff https://example.org/ --from 2026-05-01 --to 2026-06-01
  lockstep diff https://example.org/ --from 2026-05-01T12:00:00Z --include '*.pdf'
  lockstep diff https://example.org/ --from 2026-05-01 --json`,
		Args: arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o.Source = args[0]
			if err := mirror.RefuseEmptyInstant(cmd.Flags(), "to"); err != nil {
				return err
			}
			return runDiff(cmd.Context(), o, io)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&o.from, "from", "", "the first `TIME`: a date, as 2026-05-01 (its first instant in UTC), or a time, as 2026-05-01T12:00:00Z")
	flags.StringVar(&o.to, "to", "", "the second `TIME` (default now)")
	help.Grouped(flags, help.SelectGroup, o.DeclareWhich)
	o.network.Declare(flags, network.TheSource)
	return cmd
}

// instants returns what --from and --to say; a zero to is now.
func (o *diffOptions) instants() (from, to time.Time, err error) {
	if o.from == "" {
		return from, to, term.Usage(errors.New("diff: --from is missing"), "say from when on, as --from 2026-05-01")
	}
	if from, err = mirror.ParseInstant("from", o.from); err != nil {
		return from, to, err
	}
	if o.to != "" {
		if to, err = mirror.ParseInstant("to", o.to); err != nil {
			return from, to, err
		}
		if from.After(to) {
			return from, to, term.Usagef("--from %s is later than --to %s", o.from, o.to)
		}
	}
	return from, to, nil
}

// runDiff prints what differs between two instants.
func runDiff(ctx context.Context, o *diffOptions, io term.IO) error {
	garbage.TuneCopying()
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
	do.Logger, do.Jobs = o.out.Logger(io), o.network.Jobs
	w := &mirror.Watcher{Io: io, Quiet: true}
	do.OnEvent = func(e destination.Event) { w.Event(ctx, e) }
	client, err := o.network.Client(o.Source, io.LookupEnv, do.Logger)
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
	shown := newShownDiff(io, o.out.JSON)
	report, err := d.Diff(ctx, o.Source, from, to, shown.add)
	w.SumUp()
	if none, ok := errors.AsType[*destination.NoPastError](err); ok && none.Err == nil && !none.Earliest.IsZero() {
		err = term.WithHint(err, "give instants from "+none.Earliest.UTC().Format(time.RFC3339Nano)+" on")
	}
	if mirror.Interrupted(ctx, err) {
		err = term.ErrInterrupted
	}
	if perr := shown.end(&report, err); err == nil {
		err = perr
	}
	if err == nil && !o.out.Quiet && !o.out.JSON {
		io.Errorf("%s\n", diffText(&report))
	}
	return err
}

// diffText returns the result of a comparison as text.
func diffText(r *destination.DiffReport) string {
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

// A shownDiff prints differences as they come: as lines, or as the beginning of
// one JSON object.
type shownDiff struct {
	out  *bufio.Writer
	json bool
	n    int64
}

func newShownDiff(io term.IO, asJSON bool) *shownDiff {
	return &shownDiff{out: bufio.NewWriter(io.Out), json: asJSON}
}

func (s *shownDiff) add(d destination.Difference) error {
	s.n++
	if !s.json {
		_, err := fmt.Fprintf(s.out, "%s %s\n", d.Change, d.URI)
		return err
	}
	sep := ","
	if s.n == 1 {
		sep = `{"differences":[`
	}
	text, err := encodeJSON(d)
	if err == nil {
		_, err = s.out.WriteString(sep + text)
	}
	return err
}

// end completes the output with the totals of the comparison.
func (s *shownDiff) end(r *destination.DiffReport, failed error) error {
	if s.json {
		if s.n == 0 {
			_, _ = s.out.WriteString(`{"differences":[`) // a bufio.Writer keeps its error
		}
		text, err := encodeJSON(struct {
			*destination.DiffReport
			Error string `json:"error,omitempty"`
		}{r, report.ErrorText(failed)})
		if err != nil {
			return err
		}
		_, _ = s.out.WriteString("]," + text[1:] + "\n")
	}
	if err := s.out.Flush(); err != nil {
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

package mirrors

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/syncing"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/fetch"
)

// Sync brings the mirrors of the configuration file into step, or those that are named, and
// prints a result for each. flags are those of the command, of which one has the values. out
// gets the figures of all.
func Sync(ctx context.Context, f *Flags, one *syncing.Flags, flags *pflag.FlagSet, names []string, io term.IO, out *alert.Outcome) error {
	entries, err := f.read(flags, names, one.Out, func(e *entry) error {
		_, err := e.sync().Options()
		return err
	})
	if err != nil {
		return err
	}
	shared := share(len(entries), f.Parallel, one.Network)
	shared.join(entries)
	r := &syncRun{io: io, flags: one, shared: shared, all: len(entries), start: time.Now(), json: bufio.NewWriter(io.Out)}
	stop := term.ShowFitting(io, one.Out.Quiet, r.fit)
	var wg sync.WaitGroup
	for _, e := range entries {
		w := newWork(e, io, one.Out)
		end, err := shared.fleet.Begin(ctx, w.received) // in the order of the file
		wg.Go(func() {
			if err == nil {
				defer end()
				r.begin(w)
				err = r.sync(ctx, e, w)
			}
			r.settle(ctx, e, w, err)
		})
	}
	wg.Wait()
	stop()
	out.Figures = alert.Mirrors(r.figures)
	return r.end(ctx)
}

// A syncRun brings several mirrors into step.
type syncRun struct {
	io     term.IO
	flags  *syncing.Flags
	shared *sharing
	all    int
	start  time.Time

	mu      sync.Mutex // guards the rest, and stdout
	json    *bufio.Writer
	printed int
	active  []*work
	ended   int
	failed  []string // names
	causes  []error  // of each
	refused int      // of them, for safety
	figures []func(*admin.Figures)
}

// work is one mirror that is being brought into step.
type work struct {
	name    string
	io      term.IO
	watcher mirror.Watcher
	fetched atomic.Pointer[func() int64] // nil: the mirror is not open
	result  *destination.Report          // nil: none was printed
}

func newWork(e *entry, io term.IO, out *term.Options) *work {
	w := &work{name: e.name, io: io.Named(e.name)}
	w.watcher = mirror.Watcher{Io: w.io, Quiet: out.Quiet, Verbose: out.Verbose}
	w.watcher.Meter.Fetched = w.received
	return w
}

// received returns the number of bytes that were received for the mirror.
func (w *work) received() int64 {
	if fetched := w.fetched.Load(); fetched != nil {
		return (*fetched)()
	}
	return 0
}

// sync brings one mirror into step.
func (r *syncRun) sync(ctx context.Context, e *entry, w *work) error {
	return e.sync().Sync(ctx, syncing.View{
		IO: w.io, Log: r.flags.Out.Logger(r.io).With(slog.String("mirror", e.name)), Watcher: &w.watcher,
		Show: func(fetched func() int64) (stop func()) {
			w.fetched.Store(&fetched)
			return func() {}
		},
		Print: func(d *destination.Destination, result *destination.Report, err error) error {
			w.result = result
			return r.print(ctx, e, d, result, err)
		},
	})
}

// notOpened is the report on a mirror that could not be opened.
func notOpened(e *entry) *destination.Report {
	return &destination.Report{Source: fetch.WithoutUser(e.sync().Source), Destination: e.sync().Dest, Sets: []string{}, Mode: destination.ModeNone, DryRun: e.sync().DryRun}
}

func (r *syncRun) begin(w *work) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = append(r.active, w)
}

// settle reports and counts a mirror that is in step, or has failed.
func (r *syncRun) settle(ctx context.Context, e *entry, w *work, err error) {
	switch {
	case err != nil && !mirror.Interrupted(ctx, err):
		term.ReportError(w.io, err)
	case errors.Is(err, term.ErrInterrupted) && err.Error() != term.ErrInterrupted.Error(): // it says how much is done
		w.io.Errorf("%v\n", err)
	}
	if w.result == nil {
		err = cmp.Or(err, r.print(ctx, e, nil, notOpened(e), err))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.active = slices.DeleteFunc(r.active, func(o *work) bool { return o == w })
	r.ended++
	r.figures = append(r.figures, alert.Mirror(w.name, w.result, nil, err != nil))
	if err == nil {
		return
	}
	r.failed, r.causes = append(r.failed, w.name), append(r.causes, err)
	if errors.Is(err, destination.ErrRefused) {
		r.refused++
	}
}

// fit describes the progress in at most columns columns; 0 is any number.
func (r *syncRun) fit(columns int) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var active []string
	for _, w := range r.active {
		active = append(active, w.name+" "+cmp.Or(w.watcher.Meter.Fit(columns/2), "…"))
	}
	return progress(r.ended, r.all, active, columns)
}

// print prints the result of one mirror: as the next of the objects, or as lines that begin
// with its name.
func (r *syncRun) print(ctx context.Context, e *entry, d *destination.Destination, result *destination.Report, err error) error {
	if r.flags.Out.JSON {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.separate()
		werr := report.WriteJSON(ctx, r.json, e.name, d, result, err)
		_ = r.json.Flush() // errors stay until the end
		return werr
	}
	if r.flags.Out.Quiet {
		return nil // failures have been reported
	}
	var text bytes.Buffer
	if perr := report.PrintSync(ctx, term.IO{Out: &text, Err: r.io.Err}, r.flags.Out, d, result, err); perr != nil {
		return perr // unreachable: only JSON can fail
	}
	if text.Len() == 0 && !mirror.Interrupted(ctx, err) {
		fmt.Fprintf(&text, "not in step with %s: nothing was done\n", result.Source) // the error has been reported
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if text.Len() > 0 {
		r.io.Printf("%s: %s", e.name, text.Bytes())
	}
	return nil
}

// separate begins the next of the objects. The caller holds mu.
func (r *syncRun) separate() {
	head := ","
	if r.printed == 0 {
		head = `{"mirrors":[`
	}
	r.printed++
	_, _ = r.json.WriteString(head) // errors stay until Flush
}

// A total is the end of the object that --json prints.
type total struct {
	InStep  int     `json:"in_step"`
	Failed  int     `json:"failed"`
	Refused int     `json:"refused"`
	DryRun  bool    `json:"dry_run,omitempty"`
	Elapsed float64 `json:"elapsed_seconds"`
	Error   string  `json:"error,omitempty"`
}

// end prints what all mirrors come to, and returns an error if some are not in step.
func (r *syncRun) end(ctx context.Context) error {
	var err error
	if len(r.failed) > 0 {
		err = &verdict{all: r.all, failed: r.failed, causes: r.causes, refused: r.refused == len(r.failed)}
	}
	if mirror.Interrupted(ctx, err) {
		err = term.WithHint(term.ErrInterrupted, "progress is saved; run the same command again to continue")
	}
	elapsed := time.Since(r.start)
	t := total{InStep: r.all - len(r.failed), Failed: len(r.failed) - r.refused, Refused: r.refused, DryRun: r.flags.DryRun, Elapsed: elapsed.Seconds(), Error: report.ErrorText(err)}
	if r.flags.Out.JSON {
		return cmp.Or(r.endJSON(&t), err)
	}
	if errors.Is(err, term.ErrInterrupted) || r.flags.Out.Quiet {
		return err
	}
	counts := fmt.Sprintf("%d in step", t.InStep)
	if t.DryRun {
		counts = fmt.Sprintf("%d compared, nothing was done", t.InStep)
	}
	if t.Failed > 0 {
		counts += fmt.Sprintf(", %d failed", t.Failed)
	}
	if t.Refused > 0 {
		counts += fmt.Sprintf(", %d refused", t.Refused)
	}
	r.io.Printf("%s in %s: %s\n", term.Count(r.all, "mirror"), term.Elapsed(elapsed), counts)
	return err
}

// endJSON ends the object.
func (r *syncRun) endJSON(t *total) error {
	text, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write result: %w", err) // unreachable: numbers and strings
	}
	_, _ = r.json.WriteString("],")
	_, _ = r.json.Write(text[1:])
	_ = r.json.WriteByte('\n')
	if err := r.json.Flush(); err != nil {
		return fmt.Errorf("write result: %w", err)
	}
	return nil
}

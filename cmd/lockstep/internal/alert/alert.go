// Package alert informs people and monitors of how a command ended, or of how a
// service is doing: it runs a command after a failure, pings a URL, and writes a
// file of metrics. Nothing that goes wrong here changes the result of the command;
// it is a warning.
package alert

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	goio "io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/help"
	"lockstep/cmd/lockstep/internal/shell"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/fetch"
)

// Flags are the flags that say who is informed, and how.
type Flags struct {
	onFailure    string
	pingURL      string
	metricsFile  string        // of commands that end by themselves
	failureAfter time.Duration // of services
}

// DeclareRun declares the flags of a command that ends by itself.
func (o *Flags) DeclareRun(all *pflag.FlagSet) {
	help.Grouped(all, help.AlertGroup, func(flags *pflag.FlagSet) {
		flags.StringVar(&o.onFailure, "on-failure", "", "run `CMD` by sh if the run fails, with the summary and the error on its stdin")
		flags.StringVar(&o.pingURL, "ping-url", "", "POST to `URL`/start when the run begins, and at its end the summary to URL after success, to URL/fail after failure")
		flags.StringVar(&o.metricsFile, "metrics-file", "", "write the result as metrics to `FILE`, for the textfile collector of Prometheus' node exporter")
	})
}

// DeclareService declares the flags of a service.
func (o *Flags) DeclareService(all *pflag.FlagSet) {
	help.Grouped(all, help.AlertGroup, func(flags *pflag.FlagSet) {
		flags.StringVar(&o.onFailure, "on-failure", "", "run `CMD` by sh when the service begins to fail, with the cause on its stdin")
		flags.StringVar(&o.pingURL, "ping-url", "", "POST to `URL` every minute while all is well, and to URL/fail when the service begins to fail")
		flags.DurationVar(&o.failureAfter, "failure-after", defaultFailureAfter, "a failure that lasts for this `DURATION` is reported by --on-failure and --ping-url")
	})
}

// A Run says which run of which command this is.
type Run struct {
	Command      string
	Source, Dest string // may be empty

	Roots func() (*x509.CertPool, error) // the certificates to trust for --ping-url; nil: those of the system
}

// An Outcome is what a run reports of itself.
type Outcome struct {
	Summary func(term.IO)        // prints the result as people see it; nil: it is what the run printed on stdout
	Figures func(*admin.Figures) // of the metrics file; may be nil
}

// Watch runs a command and informs of how it ended. code returns its exit code. A run
// that is interrupted has neither succeeded nor failed: only the metrics show it.
func (o *Flags) Watch(ctx context.Context, r Run, io term.IO, code func(error) int, run func(term.IO, *Outcome) error) error {
	if *o == (Flags{}) {
		return run(io, &Outcome{})
	}
	w, err := o.open(r, io)
	if err != nil {
		return err
	}
	began := time.Now()
	started := w.start(ctx)
	var out Outcome
	var printed tail
	io.Out = goio.MultiWriter(io.Out, &printed)
	err = run(io, &out)
	<-started
	w.writeMetrics(&out, code(err), began)
	if errors.Is(err, term.ErrInterrupted) {
		return err
	}
	w.inform(ctx, printed.summary(&out, err), err != nil, "LOCKSTEP_EXIT_CODE="+strconv.Itoa(code(err)))
	return err
}

// A tail is the end of what was written to it.
type tail struct{ text []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.text = append(t.text, p...)
	if len(t.text) > 2*maxSummary {
		t.text = append(t.text[:0], t.text[len(t.text)-maxSummary:]...)
	}
	return len(p), nil
}

// summary returns what people see of a run that printed t.
func (t *tail) summary(out *Outcome, err error) string {
	to := term.IO{Out: t, Err: t}
	if out.Summary != nil {
		t.text = t.text[:0]
		out.Summary(to)
	}
	if several, ok := errors.AsType[causesReporter](err); ok {
		several.ReportCauses(to)
	}
	term.ReportError(to, err)
	return string(t.text[max(0, len(t.text)-maxSummary):])
}

// A causesReporter is an error of a run over several mirrors, each of which has reported
// its own on stderr.
type causesReporter interface {
	error
	ReportCauses(io term.IO)
}

// maxSummary is how many bytes of a summary are sent: as many as monitors keep.
const maxSummary = 10_000

// A watch is the flags, ready to be used.
type watch struct {
	run     Run
	io      term.IO
	command *shell.Command // nil: none
	ping    *pinger        // nil: none
	metrics string         // path; "" for none
}

// open checks the flags.
func (o *Flags) open(r Run, io term.IO) (*watch, error) {
	w := &watch{run: r, io: io, metrics: o.metricsFile}
	w.run.Source = fetch.WithoutUser(r.Source)
	var err error
	if w.command, err = shell.Parse("on-failure", o.onFailure); err != nil {
		return nil, err
	}
	if w.ping, err = newPinger(o.pingURL, r.Roots); err != nil {
		return nil, err
	}
	return w, checkMetricsFile(o.metricsFile)
}

// start pings in the background that the run begins; the channel is closed after that.
func (w *watch) start(ctx context.Context) <-chan struct{} {
	done := make(chan struct{})
	if w.ping == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		w.warn(w.ping.send(ctx, "/start", "", 1))
	}()
	return done
}

// commandLimit is how long the command of --on-failure may take.
const commandLimit = time.Minute

// inform pings the result, and runs the command if it is a failure.
func (w *watch) inform(ctx context.Context, text string, failed bool, env ...string) {
	if w.ping != nil {
		suffix := ""
		if failed {
			suffix = "/fail"
		}
		w.warn(w.ping.send(ctx, suffix, text, pingTries))
	}
	if !failed || w.command == nil {
		return
	}
	ctx, cancel := context.WithTimeoutCause(ctx, commandLimit, fmt.Errorf("ended after %s without a result", term.Brief(commandLimit)))
	defer cancel()
	env = append(env, "LOCKSTEP_COMMAND="+w.run.Command, "LOCKSTEP_SOURCE="+w.run.Source, "LOCKSTEP_DEST="+w.run.Dest)
	out := term.NewLines(w.io.Err) // sh writes one in pieces
	err := w.command.Run(ctx, strings.NewReader(text), out, env...)
	out.Flush()
	if err != nil {
		w.warn(fmt.Errorf("--on-failure %q: %w", w.command.Text, err))
	}
}

// warn reports what could not be sent.
func (w *watch) warn(err error) {
	if err != nil {
		term.ReportWarning(w.io, err)
	}
}

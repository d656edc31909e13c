// Package following runs a Follower for the command that keeps a mirror in step. It
// reports progress to people, scripts and monitors, serves what hubs call, and ends
// subscriptions.
package following

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/fetch"
	"lockstep/internal/note"
)

// A Run is a Follower at work, and what it has reported to people, scripts and
// monitors.
type Run struct {
	o       Options
	io      term.IO
	Watcher mirror.Watcher
	Work    Work
	admin   *admin.Access
	address string // URL of what we serve; "" if we do not
	started time.Time
	stopBar func() // ends the bar of the first sync
	link    link

	mu        sync.Mutex // guards what follows
	tally     report.Tally
	progress  map[string]destination.Progress // by set, of the pass under way or the last
	tried     bool                            // each set was read since the mirror was opened, or could not be
	announced bool                            // the result of the first sync was printed
	ready     bool                            // all sets have been in step once
	closed    bool                            // the mirror could not be opened, or the Follower gave up
	failing   int                             // passes that failed since one that did not
	last      error                           // why the last of them did
	gaveUp    error                           // why closed was last set
	hint      string                          // what to do about it
	memory    string                          // directory of this machine for the state of the mirror
	lastRun   note.Note                       // nil: nothing is recorded
	recorded  record                          // there
	said      map[string]string               // by set: how it is followed
	spurned   map[string]string               // by set: why no hub calls us
	line      passLine
	streamed  []string // sets that were followed by streams of events
}

// Options configure what is followed, and what is reported about it.
type Options struct {
	Name         string // of one of several mirrors that the process follows; "" if it is the only one
	Source, Dest string
	Events       string        // file of events; "-" is stdout
	Poll         time.Duration // between two looks at a Source that sends no notifications
	Out          *term.Options
	Alerts       *alert.Service
	Requests     *accesslog.Log // of what is requested from us
}

// New returns a Run that has not begun.
func New(o Options, io term.IO) *Run {
	f := &Run{
		o: o, io: io, started: time.Now(), stopBar: func() {},
		Watcher:  mirror.Watcher{Io: io, Quiet: o.Out.Quiet, Verbose: o.Out.Verbose, Once: &report.Once{}},
		progress: map[string]destination.Progress{}, said: map[string]string{}, spurned: map[string]string{},
	}
	f.Work.bytes = func() int64 { return f.link.traffic().bytes }
	f.Watcher.Meter.Fetched = f.Work.bytes
	return f
}

// Event is the callback of the Destination.
func (f *Run) Event(ctx context.Context, e destination.Event) {
	f.mu.Lock()
	if e.Kind == destination.EventPlan || e.Kind == destination.EventProgress {
		if len(f.progress) >= report.MostSets {
			clear(f.progress)
		}
		f.progress[e.Set] = e.Progress
	}
	announced := f.announced
	f.mu.Unlock()
	f.Work.count(e.Kind)
	if announced {
		f.Watcher.Report(ctx, e) // the meter is that of the first sync
	} else {
		f.Watcher.Event(ctx, e)
	}
}

// status returns the state of the Follower, or why there is none at present.
func (f *Run) status() destination.FollowStatus {
	s := destination.FollowStatus{Source: fetch.WithoutUser(f.o.Source)}
	if o := f.link.open.Load(); o != nil {
		s = o.follower.Status()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed || f.gaveUp != nil && len(s.Sets) == 0 && s.Error == "" { // what the Follower has reported before no longer holds, or it is being tried again
		s.Error, s.Hint, s.Complete = report.ErrorText(f.gaveUp), f.hint, false
	}
	return s
}

// run follows until ctx ends or the Follower gives up.
func (f *Run) run(ctx context.Context) error {
	if f.o.Name == "" {
		stop := term.ShowFitting(f.io, f.o.Out.Quiet, f.Watcher.Meter.Fit)
		defer stop()
		f.mu.Lock()
		f.stopBar = stop
		f.mu.Unlock()
	}
	return f.link.open.Load().follower.Run(ctx)
}

// Passed records a pass that changed something or failed.
func (f *Run) Passed(r destination.Report, err error) {
	status := f.status()
	f.Work.countDelay(&r, &status)
	f.mu.Lock()
	f.tally.Add(&r, err)
	final := len(status.Sets) == 0 && len(r.Sets) == 0 && endsFollow(err)
	if err != nil {
		f.failing++
	}
	f.last = err
	announced := f.announced
	f.mu.Unlock()
	f.Watcher.SumUp()
	if err != nil && !final {
		hint := warn(&f.Watcher, &f.o, err)
		f.mu.Lock()
		f.hint = hint
		f.mu.Unlock()
	}
	if announced {
		f.reportPass(&r)
	}
}

// Ended is called when a pass has ended, after [Run.Passed].
func (f *Run) Ended() {
	status := f.status()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tried = f.tried || haveAllEnded(&status) || len(status.Sets) == 0 && errors.Is(f.last, destination.ErrIncomplete)
}

// endsFollow reports whether an error of the first look at the Source is not tried again: a
// Follower returns it.
func endsFollow(err error) bool {
	_, notOffered := errors.AsType[*destination.SetError](err)
	return notOffered || errors.Is(err, destination.ErrRefused)
}

// Failed records that the mirror could not be opened, or that the Follower gave up; it is
// tried again.
func (f *Run) Failed(err error) {
	f.mu.Lock()
	f.failing++
	f.last, f.gaveUp, f.closed = err, err, true
	f.mu.Unlock()
	hint := warn(&f.Watcher, &f.o, err)
	f.mu.Lock()
	f.hint = hint
	f.mu.Unlock()
}

// warn says what has failed and is tried again, and returns what to do about it.
func warn(w *mirror.Watcher, o *Options, err error) (hint string) {
	err = mirror.ExplainSource(err, o.Source, o.Dest)
	if hint := w.Causes.Hint(o.Source); hint != "" {
		err = term.WithHint(err, hint)
	}
	text, hint := strings.ReplaceAll(err.Error(), "\n", "\n  ")+"; trying again", term.HintOf(err)
	if hint != "" {
		text += "\nhint: " + hint
	}
	w.Say("warning: ", errors.New(text))
	return hint
}

// lookInterval is how often the status of the Follower is read in order to
// print changes: people do not notice such a delay.
const lookInterval = 50 * time.Millisecond

// watch prints changes of the Follower's status until ctx ends.
func (f *Run) watch(ctx context.Context) error {
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		f.mu.Lock()
		tried, announced := f.tried, f.announced
		f.mu.Unlock()
		s := f.status()
		noteReady(f, &s)
		switch {
		case !announced && !tried:
			continue
		case !announced:
			if err := f.announce(&s); err != nil {
				return err
			}
			continue
		}
		f.notice(&s)
		f.reportChannels(&s)
		f.reportRecovered(&s)
		f.flushPasses(time.Now())
		recordState(f, &s, time.Now())
	}
}

// announce prints the result of the first sync, how each set is followed, and
// that changes are mirrored from now on.
func (f *Run) announce(s *destination.FollowStatus) error {
	f.mu.Lock()
	stop := f.stopBar
	sum := f.tally.Report
	f.mu.Unlock()
	stop()
	out := f.io
	ready := out
	if f.o.Out.JSON || f.o.Events == "-" {
		out = f.io.ResultOnErr() // stdout has the result, or the events, and nothing else
		ready = out
	}
	if f.o.Out.Quiet {
		out.Out = io.Discard
	}
	sum.Source, sum.Elapsed = s.Source, time.Since(f.started).Seconds()
	t := f.link.traffic()
	sum.Requests, sum.Bytes = t.requests, t.bytes
	if sum.Mode == "" {
		sum.Mode = destination.ModeNone
	}
	sum.SyncedUntil, sum.Unproven = syncedUntil(s), unprovenOf(s)
	open, err := notInStep(s), error(nil)
	if len(open) > 0 {
		err = destination.ErrIncomplete
	}
	if err := report.PrintSync(context.Background(), out, &term.Options{Quiet: f.o.Out.Quiet}, nil, &sum, err); err != nil {
		return err
	}
	for _, text := range open {
		out.Printf("  not in step yet: %s\n", text)
	}
	for i := range s.Sets {
		set := &s.Sets[i]
		f.said[set.URI] = f.how(set)
		out.Printf("  %s: %s\n", nameOf(set), f.said[set.URI])
		f.reportHub(set)
	}
	if f.o.Name == "" {
		where := f.o.Dest
		if f.address != "" {
			where = f.address
		}
		f.admin.Print(out)
		sdnotify.Send(f.io.LookupEnv, sdnotify.Status(listen.ReadyPrefix+where))
		out.Printf("  Ctrl-C stops; progress is kept\n")
		ready.Printf("%s%s\n", listen.ReadyPrefix, where)
	}
	f.mu.Lock()
	f.announced = true
	f.mu.Unlock()
	return nil
}

// syncedUntil is up to when all sets are in step; zero if it is not known of
// one.
func syncedUntil(s *destination.FollowStatus) time.Time {
	var until time.Time
	for i := range s.Sets {
		switch w := s.Sets[i].Watermark; {
		case w.IsZero():
			return w
		case until.IsZero() || w.Before(until):
			until = w
		}
	}
	return until
}

func nameOf(s *destination.SetStatus) string {
	if s.Name == "" {
		return s.URI
	}
	return s.Name
}

// how says how a set is followed.
func (f *Run) how(s *destination.SetStatus) string {
	switch s.Channel {
	case destination.ChannelHub:
		return "notified by the hub " + fetch.Printable(s.Hub)
	case destination.ChannelEvents:
		return "notified by the event stream of the Source"
	}
	return "asked for changes every " + term.Brief(f.o.Poll)
}

// reportChannels reports when the channel by which a set is followed changes.
// Only watch calls it, as it does announce.
func (f *Run) reportChannels(s *destination.FollowStatus) {
	for i := range s.Sets {
		set := &s.Sets[i]
		if how := f.how(set); f.said[set.URI] != how {
			f.said[set.URI] = how
			f.io.Notef("%s: %s from now on", nameOf(set), how)
		}
		f.reportHub(set)
	}
	if len(f.said) > len(s.Sets) {
		clear(f.said) // of sets that are gone
		clear(f.spurned)
		for i := range s.Sets {
			f.said[s.Sets[i].URI] = f.how(&s.Sets[i])
		}
	}
}

// notice remembers how sets are followed: once it has ended, nothing is.
func (f *Run) notice(s *destination.FollowStatus) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streamed = f.streamed[:0]
	for i := range s.Sets {
		if s.Sets[i].Channel == destination.ChannelEvents {
			f.streamed = append(f.streamed, s.Sets[i].URI)
		}
	}
}

// reportHub reports, once for each reason, why a hub that could notify us does
// not.
func (f *Run) reportHub(s *destination.SetStatus) {
	if s.HubError == f.spurned[s.URI] {
		return
	}
	f.spurned[s.URI] = s.HubError
	if s.HubError == "" {
		return
	}
	text := s.HubError
	if _, reason, ok := strings.Cut(text, "hub.callback is refused: "); ok { // by a hub of ours
		text = "its hub does not call us: " + reason
	}
	f.io.Notef("%s: %s", nameOf(s), text)
}

// reportRecovered reports that all sets are in step again after failed attempts.
func (f *Run) reportRecovered(s *destination.FollowStatus) {
	if s.Error != "" || !haveAllEnded(s) {
		return
	}
	for i := range s.Sets {
		if s.Sets[i].Error != "" {
			return
		}
	}
	f.mu.Lock()
	n := f.failing
	f.failing = 0
	f.mu.Unlock()
	if n > 0 {
		f.Watcher.Once.Forget()
	}
	if n > 0 && !f.o.Out.Quiet {
		f.io.Errorf("%s  in step again, after %s\n", term.Clock(time.Now()), term.Count(n, "failed attempt"))
	}
}

// Conclude prints the totals of the run.
func (f *Run) Conclude(err error) error {
	status := f.status()
	recordEnd(f, &status, err)
	r := f.Result(err)
	out := f.io
	if f.o.Events == "-" {
		out = f.io.ResultOnErr()
	}
	switch {
	case f.o.Out.JSON && f.o.Name != "": // it is part of the result of the process
		return nil
	case f.o.Out.JSON:
		return out.PrintJSON(r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.flush(); f.announced && !f.o.Out.Quiet {
		out.Printf("followed %s for %s: %s\n", r.Source, term.Elapsed(time.Since(f.started)), report.TallyText(r.Created, r.Updated, r.Deleted, 0, r.Failed, r.Refused))
		if r.Kept != nil {
			out.Printf("  %s\n", report.KeptText(r.Kept))
		}
	}
	return nil
}

// Result returns the totals of the run, when it has ended with err.
func (f *Run) Result(err error) Result {
	status := f.status()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.stopBar()
	for i := range status.Sets {
		if s := &status.Sets[i]; s.Channel == destination.ChannelPoll && slices.Contains(f.streamed, s.URI) {
			s.Channel = destination.ChannelEvents
		}
	}
	return f.result(&status, err)
}

// A Result is what follow prints with --json.
type Result struct {
	Name                string                   `json:"name,omitempty"`
	*destination.Report                          // summed up over all passes
	Passes              int64                    `json:"passes"`
	PassesFailed        int64                    `json:"passes_failed"`
	Followed            float64                  `json:"followed_seconds"`
	Follow              destination.FollowStatus `json:"follow"`
	Error               string                   `json:"error,omitempty"`
}

// together runs tasks until ctx ends or one of them fails.
func together(ctx context.Context, tasks ...func(context.Context) error) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, task := range tasks {
		g.Go(func() error { return task(gctx) })
	}
	if err := g.Wait(); err != nil && ctx.Err() == nil {
		return err
	}
	return context.Cause(ctx)
}

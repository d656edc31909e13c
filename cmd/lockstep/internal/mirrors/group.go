package mirrors

import (
	"context"
	"errors"
	goio "io"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/alert"
	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/sdnotify"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/intake"
	"lockstep/internal/sleep"
)

// A group is the mirrors that a process follows.
type group struct {
	file     *Flags
	flags    *pflag.FlagSet      // of the command
	given    map[string][]string // what command line and environment say
	names    []string            // of the mirrors that are followed; empty: all of the file
	one      *following.Flags    // of the process
	io       term.IO
	shared   *sharing
	access   *admin.Access
	requests *accesslog.Log // of what is requested from us
	alerts   *alert.Service
	state    string // directory of what the process has for itself
	callback string // URL below which hubs reach us; "" if they do not
	address  string // URL of what we serve; "" if we do not
	started  time.Time

	running sync.WaitGroup

	mu      sync.Mutex // guards the rest
	members []*member  // in the order of the file
	ready   bool       // said so
}

// A member is a mirror that is followed.
type member struct {
	*entry
	run  *following.Run
	io   term.IO
	stop context.CancelFunc
	done chan struct{} // closed when it is not followed any more
}

// start follows a mirror until ctx ends, or the member is stopped.
func (g *group) start(ctx context.Context, e *entry) *member {
	ctx, stop := context.WithCancel(ctx)
	sync := e.sync()
	m := &member{entry: e, io: g.io.Named(e.name), stop: stop, done: make(chan struct{})}
	m.run = following.New(following.Options{Name: e.name, Source: sync.Source, Dest: sync.Dest, Events: sync.Events, Poll: e.flags.Poll, Out: sync.Out}, m.io)
	g.running.Go(func() {
		defer close(m.done)
		defer stop()
		g.keep(ctx, m)
	})
	return m
}

// retryMost is the most to which the pauses between attempts to open a mirror grow.
const retryMost = 5 * time.Minute

// keep follows a mirror until ctx ends. What ends a follow of one mirror, such as another
// process that works on it, is tried again.
func (g *group) keep(ctx context.Context, m *member) {
	retry := time.Duration(0)
	for {
		start := time.Now()
		err := g.follow(ctx, m)
		if ctx.Err() != nil {
			return
		}
		m.run.Failed(err)
		if time.Since(start) > retryMost {
			retry = 0
		}
		retry = min(max(2*retry, intake.RetryFirst), retryMost)
		if sleep.For(ctx, retry) != nil {
			return
		}
	}
}

// follow opens a mirror and follows it until ctx ends or it fails.
func (g *group) follow(ctx context.Context, m *member) error {
	sync := m.sync()
	do, fo, err := m.flags.FollowOptions()
	if err != nil {
		return err // unreachable: the flags were checked
	}
	if err := sync.CheckSource(false); err != nil {
		return err
	}
	do.Logger = sync.Out.Logger(g.io).With(slog.String("mirror", m.name))
	if do.Deliver, err = sync.Deliver(m.io); err != nil {
		return err
	}
	closeEvents, err := sync.OpenEvents(&m.run.Watcher)
	if err != nil {
		return err
	}
	do.OnEvent = func(e destination.Event) { m.run.Event(ctx, e) }
	r, err := mirror.Open(ctx, "follow", &sync.Selection, &sync.Network, do, false, m.io)
	if err != nil {
		return errors.Join(err, closeEvents())
	}
	defer r.Close()
	fo.Callback, fo.OnSync, fo.OnPass = callbackOf(g.callback, m.name), m.run.Passed, m.run.Ended
	g.shared.fleet.Follow(&fo)
	follower, err := r.Dest.Follow(sync.Source, fo)
	if err == nil {
		within, end := r.Within(ctx)
		err = r.Lost(m.run.FollowBeside(within, follower, r))
		end()
	}
	return errors.Join(err, closeEvents())
}

// run follows the mirrors until ctx ends. At each of the signals it reads the configuration
// file again.
func (g *group) run(ctx context.Context, entries []*entry, signals <-chan os.Signal) error {
	g.shared.join(entries)
	g.mu.Lock()
	for _, e := range entries {
		g.members = append(g.members, g.start(ctx, e))
	}
	g.mu.Unlock()
	stop := term.ShowFitting(g.io, g.one.Sync.Out.Quiet, g.fit)
	defer stop()
	defer g.running.Wait()
	tick := time.NewTicker(lookInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-signals:
			g.reload(ctx)
		case <-tick.C:
			if g.announce() {
				stop()
				tick.Stop()
			}
		}
	}
}

// lookInterval is how often the mirrors are looked at until all have been tried: people do
// not notice such a delay.
const lookInterval = 50 * time.Millisecond

// all returns the mirrors that are followed.
func (g *group) all() []*member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Clone(g.members)
}

func (g *group) isReady() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.ready
}

// announce says that the first syncs are done, once each set of each mirror has been in
// step or has failed, and reports whether it has said so. The results have been printed.
func (g *group) announce() bool {
	all := g.all()
	for _, m := range all {
		if !m.run.IsTried() {
			return false
		}
	}
	out := g.io
	if g.one.Sync.Out.JSON {
		out = g.io.ResultOnErr() // stdout has the result, and nothing else
	}
	ready := out
	if g.one.Sync.Out.Quiet {
		out.Out = goio.Discard
	}
	for _, m := range all {
		if err := m.run.WhyNotReady(); err != nil {
			out.Printf("  not in step yet: %s: %v\n", m.name, err)
		}
	}
	g.access.Print(out)
	where := g.file.config
	if g.address != "" {
		where = g.address
	}
	sdnotify.Send(g.io.LookupEnv, sdnotify.Status(listen.ReadyPrefix+where))
	out.Printf("  Ctrl-C stops; progress is kept\n")
	ready.Printf("%s%s\n", listen.ReadyPrefix, where)
	g.mu.Lock()
	g.ready = true
	g.mu.Unlock()
	return true
}

// fit describes the progress of the first syncs in at most columns columns; 0 is any number.
func (g *group) fit(columns int) string {
	done, all := 0, g.all()
	var active []string
	for _, m := range all {
		if m.run.IsTried() {
			done++
		} else if text := m.run.Watcher.Meter.Fit(columns / 2); text != "" {
			active = append(active, m.name+" "+text)
		}
	}
	return progress(done, len(all), active, columns)
}

// A conclusion is what follow --config prints with --json.
type conclusion struct {
	Mirrors  []following.Result `json:"mirrors"`
	Followed float64            `json:"followed_seconds"`
	Error    string             `json:"error,omitempty"`
}

// conclude prints the totals of all mirrors.
func (g *group) conclude(err error) error {
	c := conclusion{Mirrors: []following.Result{}, Followed: time.Since(g.started).Seconds(), Error: report.ErrorText(err)}
	for _, m := range g.all() {
		if perr := m.run.Conclude(err); perr != nil {
			return perr // unreachable: it only prints
		}
		c.Mirrors = append(c.Mirrors, m.run.Result(err))
	}
	if g.one.Sync.Out.JSON {
		return g.io.PrintJSON(c)
	}
	return nil
}

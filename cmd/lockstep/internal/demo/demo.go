// Package demo shows a Source, its hub and a mirror in one process: it changes files, waits
// for the mirror and compares both.
package demo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/auditing"
	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/listen"
	"lockstep/cmd/lockstep/internal/report"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/statedir"
)

// Options are the flags of demo.
type Options struct {
	Out  *term.Options
	Dir  string
	Keep bool
}

// A demo is the Source, the mirror, and the steps that it has run with them.
type demo struct {
	o      *Options
	io     term.IO
	files  string // directory the Source publishes
	mirror string
	base   string // URL
	run    *demoMirror
	result demoResult
}

// A demoResult is what demo prints with --json.
type demoResult struct {
	Steps []demoStep `json:"steps"`
	True  bool       `json:"all_true"`
}

// A demoStep is one step of the story.
type demoStep struct {
	Step    string  `json:"step"`
	True    bool    `json:"true"`
	Said    string  `json:"said"`
	Elapsed float64 `json:"elapsed_seconds"`
}

// Run runs the demo.
func Run(ctx context.Context, o *Options, io term.IO) (err error) {
	d := &demo{o: o, io: io}
	room, err := os.MkdirTemp("", "lockstep-demo-")
	if err != nil {
		return fmt.Errorf("create a directory for the demo: %w", err)
	}
	defer func() {
		if rerr := os.RemoveAll(room); err == nil && rerr != nil {
			err = fmt.Errorf("tidy up: %w", rerr)
		}
	}()
	d.files, d.mirror = filepath.Join(room, "source"), filepath.Join(room, "mirror")
	n, err := d.fill(ctx)
	if err != nil {
		return err
	}
	what := "sample files"
	if o.Dir != "" {
		what = "files copied from " + o.Dir
	}
	d.say("A Source, its hub and a mirror on this machine, with %s %s.\n\n", term.Thousands(int64(n)), what)

	serving, stop := context.WithCancel(ctx)
	defer stop()
	ended, err := d.serve(serving, filepath.Join(room, "state"))
	if err != nil {
		return err
	}
	calls, err := d.openMirror(serving)
	if err != nil {
		stop()
		return errors.Join(err, <-ended)
	}
	err = d.play(ctx)
	if perr := d.conclude(err); err == nil {
		err = perr
	}
	if err == nil && o.Keep {
		err = d.stay(ctx)
	}
	err = errors.Join(err, d.run.Close())
	stop()
	return errors.Join(err, <-calls, <-ended)
}

// say prints a line for people; with --json and --quiet it prints nothing.
func (d *demo) say(format string, args ...any) {
	if !d.o.Out.JSON && !d.o.Out.Quiet {
		d.io.Printf(format, args...)
	}
}

// serve starts the Source. The channel receives a value when it has ended.
func (d *demo) serve(ctx context.Context, state string) (<-chan error, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	d.base = listen.BaseURL("http", l.Addr(), d.io)
	n := &sourcereport.Reporter{IO: d.io, Quiet: true}
	s, err := site.Open(ctx, site.Options{
		BaseURL: d.base, Sets: []config.Set{{Origin: config.Address{Kind: config.KindOf("dir"), Place: d.files}, Hash: []string{"sha-256", "md5"}}}, State: stateplace.In(state), Documents: filepath.Join(state, statedir.DocumentsDir),
		ScanInterval: -1, Content: true, Command: "demo", Log: d.o.Out.Logger(d.io), OnEvent: n.Event,
		Hubs: hubflags.Hubs{URLs: []string{hubflags.Embedded}, Delay: hubflags.DefaultDelay}, Embedding: &site.Embedding{Hub: hubserver.ForThisMachine(), Admin: admin.Flags{Admin: admin.AdminOff}}, IO: d.io,
	})
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}
	start := time.Now()
	p, err := s.PublishOnce(ctx, n)
	if err != nil {
		s.Close()
		return nil, errors.Join(err, l.Close())
	}
	d.tick("publish", start, true, "the Source has %s at %s", term.Count(p.Resources(), "resource"), d.base)
	ended, ready := make(chan error, 1), make(chan struct{})
	go func() {
		err := s.ServeUntil(ctx, l, true, n, nil, func() error { close(ready); return nil })
		s.Close()
		if ctx.Err() != nil {
			err = nil
		}
		ended <- err
	}()
	select {
	case <-ready:
	case err := <-ended:
		return nil, errors.Join(err, context.Cause(ctx))
	}
	return ended, nil
}

// errUntrue reports that the demo's story did not come true.
var errUntrue = errors.New("the demo failed: not all of it was true")

// play runs the steps of the demo in order, up to the first that fails.
func (d *demo) play(ctx context.Context) error {
	start := time.Now()
	want, err := regularFiles(d.files)
	if err != nil {
		return err
	}
	if err := d.run.follow(ctx); err != nil {
		return err
	}
	r, _, err := d.run.await(ctx, int64(len(want)))
	if err != nil {
		return err
	}
	if err := d.check("first sync", start, r, -1, 0, 0, "everything fetched"); err != nil {
		return err
	}
	kind, hub := d.run.channel()
	if err := d.tick("subscribe", start, kind == destination.ChannelHub, "the hub %s calls %s from now on", hub, d.run.callback); err != nil {
		return err
	}
	for _, change := range d.changes() {
		if err := d.change(ctx, change); err != nil {
			return err
		}
	}
	if err := d.run.rest(); err != nil {
		return err
	}
	start = time.Now()
	audit, err := d.run.Dest.Audit(ctx, d.base, destination.AuditOptions{Content: true})
	if err != nil {
		return err
	}
	said := "in step: " + term.Count(audit.Verified, "file") + " verified byte by byte"
	if !audit.InSync {
		said = "not in step: " + auditing.Differences(audit)
	}
	return d.tick("audit", start, audit.InSync, "%s", said)
}

// A demoChange is something that happens to the Source's files.
type demoChange struct {
	step                      string
	what                      string
	do                        func() error
	created, updated, deleted int64
}

// change makes one change and follows it to the mirror.
func (d *demo) change(ctx context.Context, c demoChange) error {
	start := time.Now()
	if err := c.do(); err != nil {
		return fmt.Errorf("%s: %w", c.step, err)
	}
	r, at, err := d.run.await(ctx, c.created+c.updated+c.deleted)
	if err != nil {
		return d.tick(c.step, start, false, "%s: %v", c.what, err)
	}
	how := "mirrored"
	if r.Via == destination.ViaNotification {
		how = "notified and mirrored"
	}
	return d.check(c.step, start, r, c.created, c.updated, c.deleted, fmt.Sprintf("%s; %s after %s", c.what, how, term.Elapsed(at.Sub(start))))
}

// check compares what a sync says with what was done (created below 0: as
// many as there are), and then the files themselves: what counts is not what
// the program says of itself.
func (d *demo) check(step string, start time.Time, r destination.Report, created, updated, deleted int64, said string) error {
	n, difference, err := compare(d.files, d.mirror)
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	if created < 0 {
		created = int64(n)
	}
	switch {
	case difference != "":
		said = "the mirror differs: " + difference
	case r.Created != created || r.Updated != updated || r.Deleted != deleted:
		difference = "counts"
		said = fmt.Sprintf("sync says %d created, %d updated, %d deleted; it should be %d, %d, %d", r.Created, r.Updated, r.Deleted, created, updated, deleted)
	default:
		said += "; all " + term.Count(n, "file") + " identical"
	}
	return d.tick(step, start, difference == "", "%s", said)
}

// tick records and prints a step and whether it succeeded; if it did not, the
// demo ends.
func (d *demo) tick(step string, start time.Time, ok bool, format string, args ...any) error {
	said := fmt.Sprintf(format, args...)
	d.result.Steps = append(d.result.Steps, demoStep{Step: step, True: ok, Said: said, Elapsed: time.Since(start).Seconds()})
	mark := "✓"
	if !ok {
		mark = "✗"
	}
	line := fmt.Sprintf("%s %-11s %s\n", mark, step, said)
	d.say("%s", line)
	if !ok && d.o.Out.Quiet && !d.o.Out.JSON {
		d.io.Printf("%s", line)
	}
	if !ok {
		return errUntrue
	}
	return nil
}

// conclude prints how the story ended.
func (d *demo) conclude(err error) error {
	d.result.True = err == nil
	if d.o.Out.JSON {
		return d.io.PrintJSON(d.result)
	}
	if err == nil && !d.o.Keep {
		d.say("\nAll checks passed. Now with your own files:\n  lockstep serve DIR\n  lockstep follow http://127.0.0.1:8080/ MIRROR\n")
	}
	return nil
}

// stay keeps the mirror in step until the user has seen enough.
func (d *demo) stay(ctx context.Context) error {
	d.say("\nAll checks passed. All three keep running; change a file and see it arrive:\n")
	d.say("  source  %s\n          %s\n  mirror  %s\n", d.files, d.base, d.mirror)
	d.say("Ctrl-C ends it and removes these directories.\n")
	if err := d.run.follow(ctx); err != nil {
		return err
	}
	if !d.o.Out.JSON {
		d.io.Printf("%s%s\n", listen.ReadyPrefix, d.base)
	}
	for {
		select {
		case <-ctx.Done():
			return nil // this is how it is meant to end
		case err := <-d.run.ended:
			d.run.ended <- err
			return err
		case p := <-d.run.passes:
			switch {
			case ctx.Err() != nil:
			case p.err != nil:
				d.io.Errorf("warning: %v; trying again\n", p.err)
			case p.Created+p.Updated+p.Deleted > 0:
				text := "mirrored " + report.TallyText(p.Created, p.Updated, p.Deleted, 0, 0, 0)
				if s := d.run.follower.Status(); p.Via == destination.ViaNotification && len(s.Sets) > 0 && s.Sets[0].Lag > 0 {
					text += "; " + term.Elapsed(s.Sets[0].Lag) + " after the change"
				}
				d.say("%s  %s\n", term.Clock(p.at), text)
			}
		}
	}
}

package dir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"lockstep/intake"
)

// The rhythm of a Watch.
const (
	rootInterval = 2 * time.Second  // between looks whether the root is still the same directory
	pollLeast    = 10 * time.Second // between full scans where events cannot be had,
	pollShare    = 20               // or so many times what a scan takes
	hardAfter    = time.Second      // before the names of a new hard link are looked for; or as many times a scan
)

// atRest reports whether rel is a file that nobody is writing for sure.
func (d *Dir) atRest(rel string) bool {
	t, err := d.acquire()
	if err != nil {
		return false
	}
	defer t.release()
	asked, ok := t.tree.(interface{ atRest(rel string) bool })
	return ok && asked.atRest(rel)
}

// Watch scans everything, and from then on what the system says has been
// touched, until ctx ends; then it returns the cause. A change is in the
// catalog a fraction of a second after the file has come to rest, whatever the
// size of the tree; on Linux, where the kernel tells that nobody writes it any
// more, some milliseconds after that.
//
// onChange is told of every scan that changed the catalog; the next one waits
// until it returns. What goes wrong is told to [Options.OnEvent] and tried
// again. Where the system has no more watches to give, the tree is scanned
// every few seconds instead. A Dir can be watched once at a time.
func (d *Dir) Watch(ctx context.Context, onChange func(intake.Report)) error {
	w := &watch{d: d, onChange: onChange}
	w.touched.wake, w.touched.atRest = make(chan struct{}, 1), d.atRest
	d.mu.Lock()
	busy := d.enter != nil
	if !busy {
		d.enter = w.entering
	}
	d.mu.Unlock()
	if busy {
		return fmt.Errorf("watch %s: is being watched already", d.root)
	}
	defer func() {
		d.mu.Lock()
		d.enter = nil
		d.mu.Unlock()
		w.notify.close()
	}()
	w.touched.everything()
	return w.run(ctx)
}

// watch is one run of Watch. Its fields belong to run, but for touched and
// notify, which guard themselves.
type watch struct {
	d        *Dir
	onChange func(intake.Report)
	touched  touched
	notify   notifier
	root     os.FileInfo   // what notify watches; nil: nothing
	nextRoot time.Time     // when to see whether it is still there
	nextFull time.Time     // zero: never
	took     time.Duration // the last full scan
	retry    time.Duration // pause after the last failure
	retryAt  time.Time     // zero: nothing to retry
}

func (w *watch) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
		case <-w.touched.wake:
		}
		w.look()
		w.touched.ask(time.Now())
		if paths, all := w.touched.due(time.Now()); all || len(paths) > 0 {
			w.scan(ctx, paths, all)
		}
		timer.Reset(w.pause(time.Now()))
	}
}

// look decides whether everything has to be scanned for a reason other than
// an event.
func (w *watch) look() {
	now := time.Now()
	if !w.nextFull.IsZero() && now.After(w.nextFull) || !w.retryAt.IsZero() && now.After(w.retryAt) {
		w.retryAt = time.Time{}
		w.touched.everything()
	}
	if w.root == nil || now.Before(w.nextRoot) {
		return
	}
	w.nextRoot = now.Add(rootInterval)
	if fi, err := os.Stat(w.d.root); err != nil || !os.SameFile(fi, w.root) {
		w.root = nil
		w.touched.lost()
	}
}

// pause returns how long there is nothing to do.
func (w *watch) pause(now time.Time) time.Duration {
	p := min(rootInterval, w.touched.next(now))
	if !w.nextFull.IsZero() {
		p = min(p, w.nextFull.Sub(now))
	}
	if !w.retryAt.IsZero() {
		p = min(p, w.retryAt.Sub(now))
	}
	return max(p, time.Millisecond)
}

// scan scans the paths, or everything, and plans what comes next.
func (w *watch) scan(ctx context.Context, paths []string, all bool) {
	w.d.takeAgain() // of scans that others asked for; events tell of the same
	if all && (w.touched.takeLost() || w.root == nil) {
		w.restart()
	}
	w.notify.forget(w.touched.takeRenamed())
	if all {
		w.notify.recount()
	}
	var r intake.Report
	var err error
	if all {
		r, err = w.d.Scan(ctx)
	} else {
		r, err = w.d.ScanPaths(ctx, append(paths, w.d.touchedAliases()...)...)
	}
	if ctx.Err() != nil {
		return
	}
	for _, rel := range w.d.takeAgain() {
		w.touched.later(rel)
	}
	w.plan(all, r.Elapsed, err)
	if all || err != nil || r.Changed() {
		w.d.events.Emit(intake.Event{Kind: intake.EventScanned, Err: err, Report: r})
	}
	if r.Changed() && w.onChange != nil {
		w.onChange(r)
	}
}

// plan sets when everything is scanned next.
func (w *watch) plan(all bool, took time.Duration, err error) {
	now := time.Now()
	switch {
	case err == nil:
		w.retry = 0
	case all || w.retryAt.IsZero(): // else a retry is near; what fails meanwhile does not put it off
		w.retry = min(max(2*w.retry, intake.RetryFirst), intake.RetryMost)
		w.retryAt = now.Add(w.retry)
	}
	degraded := w.notify.failure()
	if degraded != nil {
		w.d.events.Emit(intake.Event{Kind: intake.EventDegraded, Err: degraded})
	}
	hard := w.d.takeNewHard()
	if !all {
		if soon := now.Add(max(hardAfter, pollShare*w.took)); hard && (w.nextFull.IsZero() || soon.Before(w.nextFull)) {
			w.nextFull = soon
		}
		return
	}
	w.took = took
	every := w.d.o.ScanInterval
	if w.notify.limited() {
		poll := max(pollLeast, pollShare*took)
		if every < 0 || poll < every {
			every = poll
		}
	}
	w.nextFull = time.Time{}
	if every > 0 {
		w.nextFull = now.Add(every)
	}
}

// restart begins with new watches: the root is another directory, or so much
// happened that nobody knows which directory a watch is on.
func (w *watch) restart() {
	w.notify.close()
	w.root = nil
	fi, err := os.Stat(w.d.root)
	if err != nil {
		return // the scan will say so
	}
	w.root = fi
	w.notify.open(w.d.root, &w.touched, w.d.filter)
}

// entering is called by every scan before a directory is read: what happens
// there from now on is told, what has happened is read.
func (w *watch) entering(rel string) { w.notify.add(rel) }

var errNoMoreWatches = errors.New("no more directories can be watched (see fs.inotify.max_user_watches): scanning at intervals instead")

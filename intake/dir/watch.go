package dir

import (
	"context"
	"fmt"
	"os"
	"time"

	"lockstep/intake"
	"lockstep/intake/internal/treewatch"
)

// The timing of a Watch.
const (
	rootInterval = 2 * time.Second  // between checks whether the root is still the same directory
	pollLeast    = 10 * time.Second // between full scans if events are not available
	pollShare    = 20               // or that many times the duration of a scan
	hardAfter    = time.Second      // before the other names of a new hard link are searched; or as many times the duration of a scan
	briefShare   = 100              // or as many times, if it is not known whether there was a hard link
	briefMost    = time.Hour        // but not longer
	aliasLeast   = 5 * time.Second  // between looks at files that can be written through names elsewhere
	aliasShare   = 100              // or that many times the duration of a look
)

// atRest reports whether rel is a file that certainly no process is writing.
func (d *Dir) atRest(rel string) bool {
	t, err := d.acquire()
	if err != nil {
		return false
	}
	defer t.release()
	asked, ok := t.tree.(interface{ atRest(rel string) bool })
	return ok && asked.atRest(rel)
}

// Watch scans everything, and then the paths that the system reports as touched,
// until ctx ends; then it returns the cause. A change is in the catalog a fraction
// of a second after the last write to the file, whatever the size of the tree; on
// Linux, where the kernel reports that no process has the file open for writing,
// after some milliseconds.
//
// onChange is called for every scan that changed the catalog, or failed: then it may
// have changed more than it reports. The next one waits until it returns. Errors are
// passed to [Options.OnEvent], and the scan is retried. If the system provides no more watches, or a directory is at two paths
// (a bind mount), the tree is also scanned every few seconds. A Dir can be watched
// once at a time.
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
		w.tree.Close()
	}()
	w.touched.Everything()
	return w.run(ctx)
}

// watch is one run of Watch. Its fields belong to the goroutine of run, except
// touched and tree, which are safe for concurrent use.
type watch struct {
	d        *Dir
	onChange func(intake.Report)
	touched  touched
	tree     treewatch.Tree
	root     os.FileInfo   // the directory that tree watches; nil: none
	nextRoot time.Time     // when to check that it is still at the root
	nextLook time.Time     // when to look at files that can be written through names elsewhere
	nextFull time.Time     // zero: never
	took     time.Duration // the duration of the last full scan
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
		if paths, created, all := w.touched.due(time.Now()); all || len(paths) > 0 {
			if w.d.anyVanished(created) {
				w.fullBy(time.Now().Add(min(max(hardAfter, briefShare*w.took), briefMost)))
			}
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
		w.touched.Everything()
	}
	if now.After(w.nextLook) {
		for _, rel := range w.d.touchedAliases() {
			w.touched.Touched(rel)
		}
		w.nextLook = now.Add(max(aliasLeast, aliasShare*time.Since(now)))
	}
	if w.root == nil || now.Before(w.nextRoot) {
		return
	}
	w.nextRoot = now.Add(rootInterval)
	if fi, err := os.Stat(w.d.root); err != nil || !os.SameFile(fi, w.root) {
		w.root = nil
		w.touched.Lost()
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

// scan scans the paths, or everything, and schedules the next scan.
func (w *watch) scan(ctx context.Context, paths []string, all bool) {
	w.d.takeAgain() // these belong to scans that other callers requested; events report the same
	if all && (w.touched.takeLost() || w.root == nil) {
		w.restart()
	}
	w.tree.Forget(w.touched.takeRenamed())
	if all {
		w.tree.Begin()
	}
	var r intake.Report
	var err error
	if all {
		if r, err = w.d.Scan(ctx); err == nil {
			w.tree.End()
		}
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
	if (err != nil || r.Changed()) && w.onChange != nil {
		w.onChange(r)
	}
}

// plan sets when the next full scan is due.
func (w *watch) plan(all bool, took time.Duration, err error) {
	now := time.Now()
	switch {
	case err == nil:
		w.retry = 0
	case all || w.retryAt.IsZero(): // else a retry is due soon; a failure meanwhile does not delay it
		w.retry = min(max(2*w.retry, intake.RetryFirst), intake.RetryMost)
		w.retryAt = now.Add(w.retry)
	}
	degraded := w.tree.Failure()
	if degraded != nil {
		w.d.events.Emit(intake.Event{Kind: intake.EventDegraded, Err: degraded})
	}
	hard := w.d.takeNewHard()
	if all {
		w.took, w.nextFull = took, time.Time{}
		if every := w.d.o.ScanInterval; every > 0 {
			w.nextFull = now.Add(every)
		}
	}
	if w.tree.Limited() {
		w.fullBy(now.Add(max(pollLeast, pollShare*w.took)))
	}
	if hard && !all {
		w.fullBy(now.Add(max(hardAfter, pollShare*w.took)))
	}
}

// fullBy lets the next full scan be due at the given time, or earlier.
func (w *watch) fullBy(at time.Time) {
	if w.nextFull.IsZero() || at.Before(w.nextFull) {
		w.nextFull = at
	}
}

// restart begins with new watches: the root is another directory, or so many events
// were lost that it is unknown which directory a watch is on.
func (w *watch) restart() {
	w.tree.Close()
	w.root = nil
	fi, err := os.Stat(w.d.root)
	if err != nil {
		return // the scan will report the error
	}
	w.root = fi
	w.tree.Open(w.d.root, &w.touched, w.d.filter)
}

// entering is called by every scan before a directory is read: earlier changes are
// found by reading it, later ones are reported by events.
func (w *watch) entering(rel string) { w.tree.Add(rel) }

// Package publishing decides when a Source publishes: changes soon after they are found,
// dumps when they are due.
package publishing

import (
	"context"
	"time"

	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/internal/sleep"
	"lockstep/source"
)

// The pace of publications. A change is to be published at once, and a steady stream
// of them must cost little: changes that come close together are published together
// ([Changes.Delay]), and each publication is followed by a pause that grows with
// the bytes it wrote, because the Change List is written from its beginning.
const (
	publishRate = 20e6        // bytes a second that publications write at most, ...
	publishPace = time.Second // ... unless the pause would be longer than this, or no client or hub is notified, or a set fails
	publishFull = time.Second // between publications of everything
)

// How long a failed publication (the disk is full, for example) waits before it is
// tried again: twice as long each time.
const (
	publishRetryFirst = time.Second
	publishRetryMost  = time.Minute
)

// A PublishFunc brings documents in step with the catalog.
type PublishFunc func(context.Context) (source.Report, error)

// Changes publishes changes as they are found.
type Changes struct {
	Delay   time.Duration // from a change to its publication: changes that follow it so soon are published with it
	All     PublishFunc   // publishes everything
	Urgent  PublishFunc   // publishes the documents that clients should get at once; its Report says whether some are left for later
	IsHeard func() bool   // whether a hub or a client is notified of a publication
}

// Run publishes whenever changed receives a value, until ctx ends: urgent documents at
// once, and a moment later everything, beside further urgent ones. A set that fails does
// not keep changes and documents of the others waiting.
func (c *Changes) Run(ctx context.Context, changed <-chan struct{}, n *sourcereport.Reporter) error {
	var rest time.Time // when the pause ends
	failed := retryTimer{Timer: time.NewTimer(0)}
	defer failed.Stop()
	failed.Stop()
	all := fullPublisher{publish: c.All, later: time.NewTimer(0), ended: make(chan source.Report, 1)}
	all.later.Stop()
	defer all.end()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-all.later.C:
			all.begin(ctx, n)
			continue
		case r := <-all.ended:
			if all.running = false; r.Later || all.again {
				all.soon()
			}
			continue
		case <-failed.C:
			failed.due = false
		case <-changed:
		}
		if sleep.For(ctx, max(c.Delay, time.Until(rest))) != nil {
			return nil
		}
		select {
		case <-changed: // during the pause: it is published now
		default:
		}
		start := time.Now()
		r, err := c.Urgent(ctx)
		if ctx.Err() != nil {
			return nil
		}
		failed.ended(r, err, n)
		switch {
		case r.Later && all.running:
			all.again = true // it may have been past what was left
		case r.Later:
			all.soon()
		case err == nil && !all.running:
			all.begun = start // nothing was left
		}
		rest = start.Add(restAfter(&r, time.Since(start)))
		if slow := start.Add(publishPace); (err != nil || !c.IsHeard()) && slow.After(rest) {
			rest = slow // clients that poll now and then do not notice the difference; after a failure all documents are looked at
		}
	}
}

// A retryTimer fires when a failed publication is to be tried again.
type retryTimer struct {
	*time.Timer
	wait time.Duration // of the last attempt; 0: the last publication succeeded
	due  bool          // it has not fired yet
}

// ended reports the result of a publication. Changes do not delay an attempt that is due,
// which will report what fails meanwhile, if it still does.
func (t *retryTimer) ended(r source.Report, err error, n *sourcereport.Reporter) {
	switch {
	case err == nil:
		t.Stop()
		t.wait, t.due = 0, false
		n.Published(r)
	case !t.due:
		t.wait, t.due = min(max(2*t.wait, publishRetryFirst), publishRetryMost), true
		t.Reset(t.wait)
		warn(err, t.wait, n)
	}
}

// warn reports a failed publication.
func warn(err error, wait time.Duration, n *sourcereport.Reporter) {
	n.IO.Errorf("warning: %v; trying again in %s\n", err, wait)
}

// A fullPublisher publishes everything, at most once in [publishFull], in a goroutine of
// its own.
type fullPublisher struct {
	publish PublishFunc
	later   *time.Timer        // when it is to begin
	begun   time.Time          // when it last began, or a publication that left nothing
	running bool               // it has not ended yet
	again   bool               // it is to run again after that
	ended   chan source.Report // receives its results
}

// soon has it begin as soon as it may. It does not run.
func (e *fullPublisher) soon() { e.later.Reset(time.Until(e.begun.Add(publishFull))) }

func (e *fullPublisher) begin(ctx context.Context, n *sourcereport.Reporter) {
	e.begun, e.running, e.again = time.Now(), true, false
	go func() {
		r, _ := retry(ctx, e.publish, n)
		e.ended <- r
	}()
}

// end waits until it has ended.
func (e *fullPublisher) end() {
	e.later.Stop()
	if e.running {
		<-e.ended
	}
}

// restAfter returns how long after its beginning a publication delays the next
// one. One that takes long is followed by a pause of the same length, so that other
// work gets its turn.
func restAfter(r *source.Report, took time.Duration) time.Duration {
	var bytes int64
	for i := range r.Sets {
		bytes += r.Sets[i].Bytes
	}
	pace := time.Duration(float64(bytes) / publishRate * float64(time.Second))
	return max(min(pace, publishPace), 2*took)
}

// retry publishes, repeatedly if that fails, and reports whether it succeeded before
// ctx ended.
func retry(ctx context.Context, publish PublishFunc, n *sourcereport.Reporter) (source.Report, bool) {
	for wait := publishRetryFirst; ; wait = min(2*wait, publishRetryMost) {
		r, err := publish(ctx)
		if ctx.Err() != nil {
			return r, false
		}
		if err == nil {
			n.Published(r)
			return r, true
		}
		warn(err, wait, n)
		if sleep.For(ctx, wait) != nil {
			return r, false
		}
	}
}

package site

import (
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"lockstep/cmd/lockstep/internal/sourcereport"
	"lockstep/intake"
	"lockstep/source"
)

// The pace of publications. A change is to be seen at once, and a steady stream
// of them must cost little: what comes close together is published together
// (--notify-delay), and what is published is followed by a rest that grows with
// the bytes it took, for the list of changes is written from its beginning.
const (
	publishRate = 20e6        // bytes a second that publications write at most, ...
	publishPace = time.Second // ... unless the pause would be longer than this, or no client or hub is notified
	publishFull = time.Second // from one publication of all there is to the next
)

// How long a publication that failed, on a full disk say, waits for better
// times: twice as long each time.
const (
	publishRetryFirst = time.Second
	publishRetryMost  = time.Minute
)

// watch publishes what changes where the sets come from, until ctx ends.
func (s *Site) watch(ctx context.Context, n *sourcereport.Reporter) error {
	changed := make(chan struct{}, 1)
	tell := func(intake.Report) {
		select {
		case changed <- struct{}{}:
		default: // a notification is pending already
		}
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, set := range s.sets {
		g.Go(func() error { return set.origin.Watch(ctx, tell) })
	}
	g.Go(func() error { return s.publishChanges(ctx, changed, n) })
	g.Go(func() error {
		s.offerAgain(ctx, tell, n)
		return nil
	})
	if slices.ContainsFunc(s.sets, func(set *siteSet) bool { return set.rehasher != nil }) {
		g.Go(func() error {
			s.rehash(ctx, tell)
			return nil
		})
	}
	return g.Wait()
}

// waitEvery is how often changes are offered again that wait for room.
const waitEvery = time.Minute

// offerAgain compares all of a set, until ctx ends, when changes of it wait
// because their versions could not be kept: no other event may report them
// again.
func (s *Site) offerAgain(ctx context.Context, tell func(intake.Report), n *sourcereport.Reporter) {
	if s.keeper == nil {
		return
	}
	for pause(ctx, waitEvery) {
		for _, set := range s.sets {
			if !s.keeper.Waiting(set.list) {
				continue
			}
			r, err := set.origin.Scan(ctx)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				n.Warn(err)
			}
			if r.Changed() {
				tell(r)
			}
		}
	}
}

// publishChanges publishes, with the pauses described above, whenever changed
// receives a value: at once what clients are to see at once, and all the rest a
// moment later.
func (s *Site) publishChanges(ctx context.Context, changed <-chan struct{}, n *sourcereport.Reporter) error {
	var rest, full time.Time // until when we rest; when all was published last
	later := time.NewTimer(0)
	later.Stop()
	defer later.Stop()
	for {
		all := false
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		case <-later.C:
			all = true
		}
		if !all && !pause(ctx, max(s.opts.Hubs.Delay, time.Until(rest))) {
			return nil
		}
		select {
		case <-changed: // while we waited: it is published now
		default:
		}
		start := time.Now()
		publish := s.src.PublishChanges
		if all = all || start.Sub(full) >= publishFull; all {
			publish, full = s.src.Publish, start
		}
		r, ok := s.publishSurely(ctx, publish, n)
		if !ok {
			return nil
		}
		later.Stop()
		if r.Later {
			later.Reset(time.Until(full.Add(publishFull)))
		}
		rest = start.Add(restAfter(&r, time.Since(start)))
		if unheard := start.Add(publishPace); !s.heard() && unheard.After(rest) {
			rest = unheard // clients that poll now and then do not notice the difference
		}
	}
}

// heard reports whether anyone is notified of changes as they are published: a
// hub elsewhere, a subscriber of our own hub, or a client that reads events.
func (s *Site) heard() bool {
	if len(s.opts.Hubs.Elsewhere()) > 0 {
		return true
	}
	return s.src.Streams() > 0 || s.hub != nil && s.hub.Subscriptions() > 0
}

// restAfter returns how long after its beginning a publication keeps the next
// one waiting. One that takes long is followed by a rest as long, so that others
// get their turn.
func restAfter(r *source.Report, took time.Duration) time.Duration {
	var bytes int64
	for i := range r.Sets {
		bytes += r.Sets[i].Bytes
	}
	pace := time.Duration(float64(bytes) / publishRate * float64(time.Second))
	return max(min(pace, publishPace), 2*took)
}

// publishSurely publishes, again and again if it fails, and reports whether it
// did before ctx ended.
func (s *Site) publishSurely(ctx context.Context, publish func(context.Context) (source.Report, error), n *sourcereport.Reporter) (source.Report, bool) {
	for retry := publishRetryFirst; ; retry = min(2*retry, publishRetryMost) {
		r, err := s.publishBy(ctx, publish)
		if ctx.Err() != nil {
			return r, false
		}
		if err == nil {
			n.Published(r)
			return r, true
		}
		n.IO.Errorf("warning: %v; trying again in %s\n", err, retry)
		if !pause(ctx, retry) {
			return r, false
		}
	}
}

// pause waits, and reports whether it did so to the end of d.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

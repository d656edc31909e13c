package delivery

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/timing"
)

// A loader fills the registry from the store.
type loader struct {
	store     hubstore.Store
	registry  *registry
	scheduler *scheduler
	alarms    *alarmClock
	deliverer *deliverer
	appender  *appender
	now       func() time.Time
	retryMost time.Duration
}

// topics loads the topics; with shards, only the states of those in shards, which other hubs may have
// changed.
func (l *loader) topics(ctx context.Context, shards []int) error {
	for row, err := range l.store.Topics(ctx) {
		if err != nil {
			return fmt.Errorf("load topics: %w", err)
		}
		if shards != nil && !slices.Contains(shards, hubstore.KeyOf(row.URL, "").Shard()) {
			continue
		}
		l.registry.mu.Lock()
		t := l.registry.topic(row.URL)
		t.row, t.state = true, row.State
		if shards == nil {
			t.first, t.last, t.bytes, t.ages.loaded = row.First, row.Last, row.Bytes, row.Last
		}
		l.registry.mu.Unlock()
	}
	return nil
}

// all loads all subscriptions into the registry.
func (l *loader) all(ctx context.Context) error {
	return l.load(l.store.Subscriptions(ctx, -1))
}

// shards loads the subscriptions of shards into the registry.
func (l *loader) shards(ctx context.Context, shards []int) error {
	return l.load(hubstore.OfShards(ctx, shards, l.store.Subscriptions, func(s *hubstore.Subscription) hubstore.Key { return s.Key }))
}

// load loads subscriptions. A position beyond the known end of a log is that of messages that another hub has accepted,
// or that the store has lost since: the next operation shows which.
func (l *loader) load(rows iter.Seq2[hubstore.Subscription, error]) error {
	for row, err := range rows {
		if err != nil {
			return fmt.Errorf("load subscriptions: %w", err)
		}
		l.registry.mu.Lock()
		if l.registry.find(row.Key) == nil {
			s := l.registry.add(resumed(row, l.now(), l.retryMost), &l.scheduler.lanes)
			l.appender.grown(s.log, s.Progress.Cursor, 0)
			l.start(s)
		}
		l.registry.mu.Unlock()
	}
	return nil
}

// resumed returns a subscription that an earlier process saved as this process
// continues it. A longer wait than most, the longest, means that the clock was set
// back since: then the next attempt is made now.
func resumed(row hubstore.Subscription, now time.Time, most time.Duration) hubstore.Subscription {
	p := &row.Progress
	row.Expires = timing.Anchored(row.Expires, now)
	p.Failing, p.Next = timing.Anchored(p.Failing, now), timing.Due(p.Next, now, most)
	return row
}

// join adds a saved subscription to the registry, or updates the one there. The
// caller holds the lock of the registry.
func (l *loader) join(row hubstore.Subscription) {
	l.registry.touch(row.Key)
	s := l.registry.find(row.Key)
	if s == nil {
		l.start(l.registry.add(row, &l.scheduler.lanes))
		l.deliverer.spawn()
		return
	}
	row.Progress = s.Progress // deliveries may have continued meanwhile
	s.set(row)
	l.watch(s)
}

// watch sets the alarm of a subscription after its lease has changed.
func (l *loader) watch(s *subscription) {
	at := s.Expires
	if s.stage == waiting && s.Progress.Next.Before(at) {
		at = s.Progress.Next
	}
	l.alarms.ring(&s.alarm, at)
}

// start starts a subscription that was just added to the registry.
func (l *loader) start(s *subscription) {
	l.alarms.ring(&s.alarm, s.Expires)
	s.stage = idle // only until resume
	l.scheduler.resume(s)
}

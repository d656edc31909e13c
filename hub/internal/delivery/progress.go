package delivery

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/refusal"
)

const (
	savePace   = 50 * time.Millisecond  // between two saves of the subscriptions' progress
	saveShare  = 4                      // and this many times the duration of the last save
	saveEach   = 200 * time.Microsecond // and this for each cursor of the last save: the deliveries that a subscription gets meanwhile are saved together
	savePause  = time.Second            // after a failed save
	saveCursor = 1000                   // cursors saved in one transaction: other writers need their turn
)

// A progressSaver saves the progress of subscriptions, and deletes the rows of
// those that have ended.
type progressSaver struct {
	registry *registry
	saver    *saver
	log      *slog.Logger
	changed  chan struct{}           // progress has to be saved
	hurried  chan struct{}           // progress has to be saved at once
	owns     func(hubstore.Key) bool // reports whether the hub owns a subscription; the caller holds the lock of the registry

	dirty    []*subscription                   // their Progress has to be saved; the lock of the registry guards it
	removing map[hubstore.Key]hubstore.Removal // rows of subscriptions that have ended; likewise

	wait time.Duration // before the next save; used by run alone
}

func newProgressSaver(r *registry, s *saver, log *slog.Logger) *progressSaver {
	return &progressSaver{
		registry: r, saver: s, log: log,
		changed: make(chan struct{}, 1), hurried: make(chan struct{}, 1), removing: map[hubstore.Key]hubstore.Removal{}, wait: savePace,
	}
}

// note schedules the progress of s to be saved. The caller holds the
// lock of the registry.
func (p *progressSaver) note(s *subscription) {
	if s.dirty {
		return
	}
	s.dirty = true
	if p.dirty = append(p.dirty, s); len(p.dirty) == 1 {
		wake(p.changed)
	}
}

// hurry makes pending progress be saved at once.
func (p *progressSaver) hurry() { wake(p.hurried) }

// finish ends a subscription and saves that at once. The caller holds the lock
// of the registry.
func (p *progressSaver) finish(s *subscription) {
	p.registry.drop(s)
	s.ended = true
	p.remove(s)
	p.hurry()
}

// remove schedules the row of a subscription that has ended to be deleted. The caller holds the
// lock of the registry.
func (p *progressSaver) remove(s *subscription) {
	p.removing[s.Key] = hubstore.Removal{Key: s.Key, Created: s.Created, Expires: s.Expires}
	wake(p.changed)
}

// lose drops what is to be saved of a shard that belongs to another hub. The caller holds the
// lock of the registry.
func (p *progressSaver) lose(shard int) {
	maps.DeleteFunc(p.removing, func(k hubstore.Key, _ hubstore.Removal) bool { return k.Shard() == shard })
	p.registry.clear(shard) // which makes progress void
}

// keep revokes remove: the subscription exists again. The caller holds the lock of
// the registry.
func (p *progressSaver) keep(key hubstore.Key) { delete(p.removing, key) }

// unsaved returns the progress that has to be saved. The caller holds the lock of
// the registry.
func (p *progressSaver) unsaved() map[hubstore.Key]hubstore.Progress {
	progress := map[hubstore.Key]hubstore.Progress{}
	for _, s := range p.dirty {
		if s.stage != gone {
			progress[s.Key] = s.Progress
		}
	}
	return progress
}

// finally saves what is left to be saved, when nothing else writes.
func (p *progressSaver) finally() error {
	for {
		_, more, err := p.save()
		if err != nil {
			return fmt.Errorf("save progress: %w", err)
		}
		p.registry.mu.Lock()
		more = more && !p.registry.lapsed()
		p.registry.mu.Unlock()
		if !more {
			return nil
		}
	}
}

// run saves the subscriptions' progress until ctx ends.
func (p *progressSaver) run(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.changed:
		}
		select {
		case <-ctx.Done():
			return
		case <-p.hurried:
		case <-time.After(p.wait):
		}
		start := time.Now()
		saved, more, err := p.save()
		p.wait = saveWait(time.Since(start), saved, more)
		if err != nil {
			p.log.Error("progress could not be saved: messages may be delivered twice after a crash", slog.Any("err", err))
			select {
			case <-ctx.Done():
				return
			case <-time.After(savePause):
			}
		}
		if more {
			wake(p.changed)
		}
	}
}

// saveWait returns how long to wait after a save of that many cursors. When more
// wait to be saved, it does not depend on their number: however many subscriptions
// there are, the last of them is saved soon.
func saveWait(took time.Duration, saved int, more bool) time.Duration {
	wait := max(savePace, saveShare*min(took, savePause))
	if more {
		return wait
	}
	return max(wait, time.Duration(saved)*saveEach)
}

// save saves pending progress, and returns how many cursors and whether there is more. It saves nothing after the
// claims of shards have lapsed.
func (p *progressSaver) save() (saved int, more bool, err error) {
	p.registry.mu.Lock()
	if p.registry.lapsed() {
		p.registry.mu.Unlock()
		return 0, true, nil
	}
	n := min(len(p.dirty), saveCursor)
	batch, removing := p.dirty[:n:n], p.removing
	p.dirty, p.removing = p.dirty[n:], map[hubstore.Key]hubstore.Removal{}
	if len(p.dirty) == 0 {
		p.dirty = nil
	}
	c := hubstore.Changes{Progress: make(map[hubstore.Key]hubstore.Progress, n)}
	for _, s := range batch {
		s.dirty = false
		if s.stage != gone {
			c.Progress[s.Key] = s.Progress
		}
	}
	for _, r := range removing {
		c.Remove = append(c.Remove, r)
	}
	more = len(p.dirty) > 0
	if len(c.Progress) == 0 && len(c.Remove) == 0 {
		p.registry.mu.Unlock()
		return 0, more, nil
	}
	saving := p.saver.enter(c) // here, so that whatever is entered later is written later
	p.registry.mu.Unlock()
	if saving == nil {
		return 0, false, refusal.ErrNotReady
	}
	<-saving.done
	p.registry.mu.Lock()
	defer p.registry.mu.Unlock()
	for _, s := range batch {
		saved, ok := c.Progress[s.Key]
		switch {
		case !ok:
		case saving.err != nil:
			p.note(s)
		default:
			s.saved = min(saved.Cursor, s.Progress.Cursor) // it may have been replayed meanwhile
		}
	}
	for k, r := range removing {
		if _, later := p.removing[k]; saving.err != nil && !later && p.registry.find(k) == nil && p.owns(k) {
			p.removing[k] = r
		}
	}
	return len(c.Progress), more || saving.err != nil, saving.err
}

// wake sends to c unless a value is already waiting there.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // the receiver will wake anyway
	}
}

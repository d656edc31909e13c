package destination

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

const (
	docSubscriptions = "subscriptions" // the memory of a websub.Subscriber

	// idleBefore is how long there is nothing to do before what need not be
	// saved at once is.
	idleBefore = 50 * time.Millisecond

	// passMessages and passBytes bound what is processed together.
	passMessages = 256
	passBytes    = 4 << 20

	// overdue is how long a look at a set waits behind messages that keep
	// coming.
	overdue = 2 * time.Second

	// turnFor is how long one set is at work while others wait, the first time.
	turnFor = 10 * time.Second

	// What keeps the mirror from being written ends a Follower if it lasts.
	failsFor  = time.Minute
	failsMost = 5
)

// errTurn ends the work for a set when it is another set's turn.
var errTurn = fmt.Errorf("%w: it is another set's turn", context.Canceled)

// A patient Doer has all of an answer come within a time.
type patient struct{ client *fetch.Client }

// patience is how long a hub, or a topic, may take for all of an answer.
const patience = 30 * time.Second

func (p *patient) Do(r *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	resp, err := p.client.Do(r.WithContext(ctx))
	if err != nil {
		cancel()
		return nil, err
	}
	resp.Body = &patientBody{resp.Body, cancel}
	return resp, nil
}

// A patientBody ends the context of its request with itself.
type patientBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *patientBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}

// subscriptions keeps the memory of a Subscriber in a Journal.
type subscriptions struct{ journal journal.Journal }

func (s subscriptions) Load(ctx context.Context) ([]byte, error) {
	return s.journal.Load(ctx, docSubscriptions)
}

func (s subscriptions) Save(ctx context.Context, document []byte) error {
	return s.journal.Record(ctx, journal.Batch{Save: map[string][]byte{docSubscriptions: document}})
}

// Run brings the mirror into step and keeps it there until ctx ends, and then
// returns nil soon: what was finished is kept. What fails is tried again, with
// growing pauses. Nothing a Source or a hub sends ends it: a set that is refused
// for safety is left as it is, reported and tried again, while the others go on.
// At its start it returns an [ErrRefused] when the mirror is one of another
// Source, and a [SetError] when the Source does not offer a set that is to be
// followed; at any time what keeps the mirror itself from being written. It must
// not be called twice.
func (f *Follower) Run(ctx context.Context) error {
	if !f.running.CompareAndSwap(false, true) {
		return errors.New("the follower has run already")
	}
	ctx, stop := context.WithCancel(ctx)
	defer f.started.Wait()
	defer stop()
	if err := f.inbox.Load(ctx, f.receive); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	if f.sub != nil {
		f.run(func() {
			if err := f.sub.Run(ctx); err != nil && ctx.Err() == nil {
				f.d.log.ErrorContext(ctx, "keep subscriptions", slog.Any("err", err))
			}
		})
	}
	f.ready.Store(true)
	defer f.ready.Store(false)
	err := f.work(ctx)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), graceAfterCancel)
	defer cancel()
	if ferr := f.leave(grace); err == nil {
		err = ferr
	}
	return err
}

// leave saves what can be saved.
func (f *Follower) leave(ctx context.Context) error {
	if f.session != nil {
		if err := f.session.close(ctx); err != nil {
			return err
		}
	}
	return f.journal.Flush(ctx)
}

// deliver takes a message from a hub: it is durable when it returns.
func (f *Follower) deliver(ctx context.Context, d websub.Delivery) error {
	l := inbox.Mail{Set: d.ID, Topic: d.Topic, ID: d.DeliveryID, Type: d.ContentType, Links: d.Links, At: d.At, Body: d.Body}
	err := f.inbox.Put(ctx, l, f.receive)
	if errors.Is(err, inbox.ErrFull) && f.makeRoom() {
		err = f.inbox.Put(ctx, l, f.receive)
	}
	return err
}

// receive queues a message that is in the inbox.
func (f *Follower) receive(set string, m *inbox.Message) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if s := f.find(set); s != nil {
		f.enqueue(s, m)
		return
	}
	f.early[set] = append(f.early[set], m)
}

// find returns the followed set, or nil. The caller holds mu.
func (f *Follower) find(uri string) *followed {
	for _, s := range f.sets {
		if s.uri == uri {
			return s
		}
	}
	return nil
}

// onSubscription records the result of a subscription request.
func (f *Follower) onSubscription(e websub.SubscriberEvent) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.find(e.ID)
	if s == nil {
		return
	}
	why := fmt.Sprintf("hub %s: %s: %s", fetch.Printable(e.Hub), e.Kind, fetch.Printable(e.Reason))
	now := time.Now()
	switch e.Kind {
	case websub.Verified:
		s.trouble = ""
		f.setHub(s, true, "")
		f.ask(s, now) // RN-RX-04
	case websub.Renewed:
		first := !s.hub
		s.trouble = ""
		if f.setHub(s, true, ""); first && s.waiting {
			f.ask(s, now)
		}
	case websub.Denied: // WS-V-03
		s.trouble = why
		f.setHub(s, false, why)
		f.ask(s, now) // RN-RX-04
	case websub.Refused:
		s.trouble = why
		f.setHub(s, s.hub, why)
		if s.waiting && (s.channel.events == "" || !f.uses(ChannelEvents)) { // else that is tried now
			f.ask(s, now)
		}
	case websub.Expired, websub.Ended:
		s.trouble = why
		f.setHub(s, false, why)
	case websub.Forged:
		s.status.Forged++
		f.ask(s, now) // RN-RX-04
	case websub.Weak:
		f.d.log.Warn("a hub signs with sha1", slog.String("set", s.name), slog.String("hub", fetch.Printable(e.Hub))) // WS-X-08
	}
	f.replan(s)
}

func (f *Follower) wakeUp() {
	select {
	case f.wake <- struct{}{}:
	default: // it is awake
	}
}

// A job is what the worker does next.
type job struct {
	set  *followed // nil: look at the Source as a whole
	push bool      // process messages; else look at the set
}

// work does one thing after the other, sets in turn.
func (f *Follower) work(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	idle := false
	for {
		if ctx.Err() != nil {
			return nil
		}
		j, wait := f.next(time.Now())
		if j != nil {
			idle = false
			if err := f.do(ctx, j); err != nil {
				return err
			}
			continue
		}
		if idle {
			if err := f.journal.Flush(ctx); err != nil && ctx.Err() == nil {
				f.d.log.WarnContext(ctx, "record progress", slog.Any("err", err)) // it is due still
			}
		} else {
			wait = min(wait, idleBefore)
		}
		timer.Reset(wait)
		select {
		case <-ctx.Done():
		case <-f.wake:
			idle = false
		case <-timer.C:
			idle = true
		}
	}
}

// next returns the next job, or how long there is nothing to do.
func (f *Follower) next(now time.Time) (*job, time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	wait := 24 * time.Hour
	at := func(t time.Time) bool {
		if t.After(now) {
			wait = min(wait, t.Sub(now))
			return false
		}
		return true
	}
	if at(f.lookAt) {
		return &job{}, 0
	}
	for i := range f.sets {
		k := (f.turn + i) % len(f.sets)
		s := f.sets[k]
		if s.uri == "" {
			continue
		}
		if late := s.changed.Due(f.opts.Pause); !late.IsZero() && !s.asked && at(late) {
			f.ask(s, now)
		}
		pull := !s.due.IsZero() && at(s.due)
		push := s.pulled && s.usesPush(now) && len(s.queue) > 0 && at(s.again)
		switch {
		case pull && !s.asked && now.Sub(f.looked) > f.interval(s)/2 && f.pause == 0:
			f.turn = k
			return &job{}, 0
		case pull && (!push || now.Sub(s.due) > overdue || !s.asked || s.overload != nil && !s.overload.Over):
			f.turn = k + 1
			return &job{set: s}, 0
		case push:
			f.turn = k + 1
			return &job{set: s, push: true}, 0
		}
	}
	return nil, max(wait, time.Millisecond)
}

// interval is how long to wait between looks at a set.
func (f *Follower) interval(s *followed) time.Duration {
	if s.isLive() {
		return f.opts.Check
	}
	return f.opts.Poll
}

// replan moves the next look at a set, which was not asked for, to where its
// channel wants it. The caller holds mu.
func (f *Follower) replan(s *followed) {
	if !s.asked && s.pulled && !s.last.IsZero() {
		s.due = s.last.Add(f.interval(s))
	}
	f.wakeUp()
}

// do does a job. Others get their turn if it takes long.
func (f *Follower) do(ctx context.Context, j *job) error {
	if j.set == nil {
		return f.look(ctx)
	}
	own, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	turn := max(j.set.turn, f.turnFor)
	var alarm *time.Timer
	alarm = time.AfterFunc(turn, func() {
		if f.othersWait(j.set) {
			cancel(errTurn)
			return
		}
		alarm.Reset(time.Second)
	})
	defer alarm.Stop()
	if j.push {
		return f.pushTo(own, j.set)
	}
	return f.pull(own, j.set)
}

// othersWait reports whether another set could be worked at.
func (f *Follower) othersWait(but *followed) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	return slices.ContainsFunc(f.sets, func(s *followed) bool {
		return s != but && (!s.due.IsZero() && s.due.Before(now) || s.pulled && s.usesPush(now) && len(s.queue) > 0 && s.again.Before(now))
	})
}

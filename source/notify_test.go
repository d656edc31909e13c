package source_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
	"lockstep/validate"
	"lockstep/validate/finding"
)

// A told is one change, as a notification or a Change List tells it.
type told struct {
	loc    string
	change resourcesync.Change
	at     string
}

func toldOf(e *resourcesync.Entry) told { return told{e.Loc, e.Change, e.Datetime.String()} }

// A payload is a notification as a hub was given it.
type payload struct {
	topic       string
	header      http.Header
	body        []byte
	from, until time.Time
	changes     []told
}

// readPayload reads a notification as strictly as can be.
func readPayload(t testing.TB, topic string, header http.Header, body []byte) payload {
	t.Helper()
	p := payload{topic: topic, header: header.Clone(), body: bytes.Clone(body)}
	r := resourcesync.NewReader(bytes.NewReader(body), resourcesync.ReaderOptions{Base: topic, Strict: true})
	h, err := r.Header()
	if err != nil {
		t.Errorf("notification: %v\n%s", err, body)
		return p
	}
	if h.Capability != resourcesync.ChangeNotification || h.Index {
		t.Errorf("RN-PL-01, RN-PL-02: capability %q, index %v", h.Capability, h.Index)
	}
	if h.Link(resourcesync.RelUp) != strings.TrimSuffix(topic, "changes")+"capabilitylist.xml" {
		t.Errorf("RN-PL-03: up is %q, the topic %s", h.Link(resourcesync.RelUp), topic)
	}
	p.from, p.until = h.From.Time(), h.Until.Time()
	var last time.Time
	for e, err := range r.Entries() {
		if err != nil {
			t.Errorf("notification: %v\n%s", err, body)
			return p
		}
		at := e.Datetime.Time()
		if e.Change == 0 || at.Before(last) || !at.After(p.from) || !at.Before(p.until) {
			t.Errorf("RN-PL-04, RN-PL-05: %q at %s, after one at %s, in a notification from %s until %s", e.Change, at, last, p.from, p.until)
		}
		last = at
		p.changes = append(p.changes, toldOf(&e))
	}
	if len(p.changes) == 0 || !p.from.Before(p.until) {
		t.Errorf("RN-PL-10: a notification of %d changes, from %s until %s", len(p.changes), p.from, p.until)
	}
	rep, err := validate.Document(context.Background(), bytes.NewReader(body), topic, validate.Options{})
	if err != nil {
		t.Error(err)
		return p
	}
	for _, f := range rep.Findings {
		if f.Level == finding.Error || f.Level == finding.Warning {
			t.Errorf("validate finds %+v in\n%s", f, body)
		}
	}
	return p
}

// A sink is a hub that keeps what it accepts.
type sink struct {
	t     testing.TB
	thins bool                            // it fetches what stands at the topic
	check func(p payload)                 // called before it answers; may be nil
	fail  func(topic string, n int) error // what the nth call gets for an answer; may be nil
	mu    sync.Mutex                      // guards what follows
	calls int
	known map[string]payload
	got   map[string][]payload // accepted, by topic
}

func (s *sink) Thin() bool { return s.thins }

func (s *sink) Publish(_ context.Context, topic string, header http.Header, body []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	p, known := s.known[string(body)] // brought again
	if !known {
		p = readPayload(s.t, topic, header, body)
		if s.known == nil || len(s.known) > 4 {
			s.known = make(map[string]payload)
		}
		s.known[string(body)] = p
	}
	if s.check != nil {
		s.check(p)
	}
	if s.fail != nil {
		if err := s.fail(topic, s.calls); err != nil {
			return err
		}
	}
	if s.got == nil {
		s.got = make(map[string][]payload)
	}
	s.got[topic] = append(s.got[topic], p)
	return nil
}

func (s *sink) accepted(set string) []payload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.got[topicOf(set)])
}

func (s *sink) asked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.calls
}

func topicOf(set string) string { return baseURL + "resourcesync/" + set + "/changes" }

// refused is an answer of the kind 4xx.
type refused struct{}

func (refused) Error() string   { return "hub: status 400" }
func (refused) Permanent() bool { return true }

// busy is an answer with Retry-After.
type busy struct{ after time.Duration }

func (busy) Error() string               { return "hub: status 503" }
func (b busy) RetryAfter() time.Duration { return b.after }

var errDown = errors.New("connection refused")

// A newsWorld is a Source in a bubble of time, what happened in it, and hubs.
type newsWorld struct {
	testing.TB
	cat      *catalog.Mem
	docs     *blob.Mem
	opts     source.Options
	src      *source.Source
	stop     func()
	happened map[string][]told // by set
}

func newNewsWorld(t testing.TB, o source.Options) *newsWorld {
	w := &newsWorld{TB: t, cat: catalog.NewMem(nil), docs: &blob.Mem{}, opts: o, happened: make(map[string][]told)}
	w.opts.BaseURL = baseURL
	w.start()
	return w
}

// start makes a Source that goes on with what is there, publishes and notifies.
func (w *newsWorld) start() {
	w.Helper()
	s, err := source.New(w.cat, w.docs, w.opts)
	if err != nil {
		w.Fatal(err)
	}
	w.src = s
	w.publish()
	ctx, cancel := context.WithCancel(w.Context())
	done := make(chan error, 1)
	go func() { done <- s.Notify(ctx) }()
	w.stop = func() {
		cancel()
		if err := <-done; err != nil {
			w.Error(err)
		}
	}
	synctest.Wait()
}

func (w *newsWorld) restart() {
	w.Helper()
	w.stop()
	w.start()
}

func (w *newsWorld) publish() {
	w.Helper()
	if _, err := w.src.Publish(w.Context()); err != nil {
		w.Fatal(err)
	}
}

// change applies updates to a set: "name=content" puts, "name" deletes.
func (w *newsWorld) change(set string, words ...string) {
	w.Helper()
	list, err := source.CapabilityListURI(baseURL, set)
	if err != nil {
		w.Fatal(err)
	}
	before, err := w.cat.Status(w.Context(), list)
	if err != nil {
		w.Fatal(err)
	}
	us := make([]catalog.Update, len(words))
	for i, word := range words {
		name, content, put := strings.Cut(word, "=")
		us[i] = catalog.Update{Record: record(baseURL+name, content), Deleted: !put}
	}
	if _, err := w.cat.Apply(w.Context(), list, us); err != nil {
		w.Fatal(err)
	}
	for c, err := range w.cat.Changes(w.Context(), list, before.Last) {
		if err != nil {
			w.Fatal(err)
		}
		w.happened[set] = append(w.happened[set], told{c.URI, c.Change, resourcesync.NewDatetime(c.EventTime).String()})
	}
}

// inChangeList fails unless the Change List, as anybody can read it now, holds
// what p tells (RN-PL-08).
func (w *newsWorld) inChangeList(p payload) {
	w.Helper()
	set := strings.TrimSuffix(strings.TrimPrefix(p.topic, baseURL+"resourcesync/"), "/changes")
	c := &crawl{read: reader(w.docs), state: make(map[string]string), at: time.Now().Add(time.Hour)}
	if err := c.changes("resourcesync/" + set + "/changelist.xml"); err != nil {
		w.Error(err)
		return
	}
	listed := make(map[told]bool)
	for i := range c.all {
		listed[toldOf(&c.all[i])] = true
	}
	for _, one := range p.changes {
		if !listed[one] {
			w.Errorf("RN-PL-08: %v is notified before it is in the Change List", one)
		}
	}
}

// covers fails unless what was accepted is what happened, in order, in
// consecutive intervals, but for what is in gaps, which the intervals show. It
// returns how many gaps there were, and how many changes were told twice.
func (w *newsWorld) covers(happened []told, got []payload) (gaps, twice int) {
	w.Helper()
	next := 0
	var until time.Time
	for i, p := range got {
		switch {
		case i == 0:
		case p.from.After(until):
			gaps++
		case p.from.Before(until):
			for next > 0 && !parseTime(w, happened[next-1].at).Before(p.from) {
				next--
				twice++
			}
		}
		for i == 0 && next < len(happened) && parseTime(w, happened[next].at).Before(p.from) || next < len(happened) && p.from.After(until) && !until.IsZero() && parseTime(w, happened[next].at).Before(p.from) {
			next++
		}
		for _, one := range p.changes {
			if next == len(happened) || happened[next] != one {
				w.Fatalf("notification %d, from %s until %s, tells %v, want change %d of %d", i, p.from, p.until, one, next, len(happened))
			}
			next++
		}
		until = p.until
	}
	if next != len(happened) {
		w.Errorf("%d of %d changes are told", next, len(happened))
	}
	return gaps, twice
}

func parseTime(t testing.TB, s string) time.Time {
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		t.Fatal(err)
	}
	return d.Time()
}

// TestNotify: each published change is told once, in order, with the header
// that hubs want, and in consecutive intervals; idle time is not told of.
func TestNotify(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &sink{t: t}
		w := newNewsWorld(t, source.Options{Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}})
		hub.check = w.inChangeList
		time.Sleep(time.Hour) // RN-PL-07
		if hub.asked() != 0 {
			t.Error("RN-PL-10: told of nothing")
		}
		for _, words := range [][]string{{"a=1"}, {"a=2", "b=1"}, {"a"}} {
			w.change("main", words...)
			w.publish()
			synctest.Wait()
			time.Sleep(time.Hour)
		}
		got := hub.accepted("main")
		if gaps, twice := w.covers(w.happened["main"], got); gaps+twice > 0 || len(got) != 3 {
			t.Errorf("%d notifications, %d gaps, %d told twice; want 3, 0, 0", len(got), gaps, twice)
		}
		for i := range got {
			want := http.Header{"Content-Type": {"application/xml"}, "Link": {`<` + topicOf("main") + `>; rel="self", <https://hub.example.net/>; rel="hub", <` +
				baseURL + `resourcesync/main/capabilitylist.xml>; rel="resourcesync"`}}
			if !maps.EqualFunc(got[i].header, want, slices.Equal) {
				t.Errorf("RN-PB-01: header %v, want %v", got[i].header, want)
			}
			if i > 0 && !got[i].from.Equal(got[i-1].until) {
				t.Errorf("RN-PL-07: from %s, the one before ended at %s", got[i].from, got[i-1].until)
			}
		}
		w.stop()
	})
}

// TestNotifyBeginsLate: what is published before the notifications begin is not lost, because the hub may
// have subscribers already. What was there when the process began is not notified.
func TestNotifyBeginsLate(t *testing.T) {
	t.Parallel()
	for name, notify := range map[string]func(*source.Source, context.Context) error{"once": (*source.Source).NotifyOnce, "always": (*source.Source).Notify} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := &sink{t: t}
				w := newNewsWorld(t, source.Options{})
				w.change("main", "a=1")
				w.publish()
				w.stop()
				w.opts.Hubs = []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}
				s, err := source.New(w.cat, w.docs, w.opts)
				if err != nil {
					t.Fatal(err)
				}
				w.src = s
				w.publish()
				w.change("main", "b=1")
				w.publish()
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- notify(s, ctx) }()
				synctest.Wait()
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
				got := hub.accepted("main")
				if len(got) != 1 || len(got[0].changes) != 1 || got[0].changes[0] != w.happened["main"][1] {
					t.Errorf("the hub is notified of %v, want b alone", got)
				}
			})
		})
	}
}

// TestNotifySplits: very many changes at once are a sequence (RN-PL-06), by
// their number and by their bytes.
func TestNotifySplits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		n     int
		long  string
		least int
	}{{"entries", 2500, "", 3}, {"bytes", 1500, strings.Repeat("long/", 300), 3}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				hub := &sink{t: t}
				w := newNewsWorld(t, source.Options{Hubs: []source.Hub{{URL: "https://hub.example.net/", Notifier: hub}}})
				words := make([]string, tt.n)
				for i := range words {
					words[i] = fmt.Sprintf("%sr%d=1", tt.long, i)
				}
				w.change("main", words...)
				w.publish()
				synctest.Wait()
				got := hub.accepted("main")
				if gaps, twice := w.covers(w.happened["main"], got); gaps+twice > 0 || len(got) < tt.least {
					t.Errorf("%d notifications, %d gaps, %d told twice", len(got), gaps, twice)
				}
				for _, p := range got {
					if len(p.changes) > 1000 || len(p.body) > 1<<20+1<<10 {
						t.Errorf("RN-PL-06: a notification of %d changes and %d bytes", len(p.changes), len(p.body))
					}
				}
				w.stop()
			})
		})
	}
}

// TestNotifyHistories: whatever happens – hubs that are away, refuse or answer
// in vain, restarts, crashes, changes forgotten – every hub is told all that it
// did not refuse, in order; where something is missing the intervals say so.
func TestNotifyHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(rounds(8)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playHistory(t, rand.New(rand.NewPCG(seed, 5))) })
		})
	}
}

func playHistory(t *testing.T, rnd *rand.Rand) {
	var down, refusing atomic.Bool
	steady, shaky, strict := &sink{t: t}, &sink{t: t}, &sink{t: t}
	shaky.fail = func(_ string, n int) error {
		switch {
		case !down.Load():
			return nil
		case n%2 == 0:
			return busy{3 * time.Second}
		}
		return errDown
	}
	strict.fail = func(string, int) error {
		if refusing.Load() {
			return refused{}
		}
		return nil
	}
	var mu sync.Mutex // guards reported
	reported := 0
	w := newNewsWorld(t, source.Options{
		Hubs: []source.Hub{
			{URL: "https://steady.example.net/", Notifier: steady}, {URL: "https://shaky.example.net/", Notifier: shaky},
			{URL: "https://strict.example.net/", Notifier: strict}, {URL: "https://foreign.example.net/"},
		},
		OnNotify: func(n source.Notification) {
			mu.Lock()
			defer mu.Unlock()
			if n.Refused {
				reported++
			}
		},
		Sets: []source.Set{{Name: "one"}, {Name: "two", ChangeList: source.ChangeList{Entries: 400}}}, Keep: 48 * time.Hour, Grace: time.Hour,
	})
	steady.check = w.inChangeList
	mayGap, crashed := false, false
	kept := map[string][]byte{}
	for range 100 {
		switch rnd.IntN(40) {
		case 0:
			down.Store(!down.Load())
		case 1:
			refusing.Store(!refusing.Load())
		case 2:
			w.restart()
		case 3: // what was told last is not remembered
			w.stop()
			for name, data := range kept {
				put(t, w.docs, name, data)
			}
			crashed = crashed || len(kept) > 0
			w.start()
		case 4:
			for _, set := range []string{"one", "two"} {
				name := ".lockstep/" + set + ".notify.json"
				if data, err := reader(w.docs)(name); err == nil {
					kept[name] = data
				}
			}
		case 5:
			time.Sleep(50 * time.Hour)
			mayGap = true
			clear(kept)
		case 6:
			time.Sleep(time.Duration(rnd.Int64N(int64(2 * time.Minute))))
		case 7:
			var words []string
			for i := range 900 + rnd.IntN(300) {
				words = append(words, fmt.Sprintf("many%d=%d", i, rnd.Int()))
			}
			w.change("two", words...)
		default:
			set := []string{"one", "two"}[rnd.IntN(2)]
			word := fmt.Sprintf("r%d=%d", rnd.IntN(20), rnd.Int())
			if rnd.IntN(4) == 0 {
				word, _, _ = strings.Cut(word, "=")
			}
			w.change(set, word)
		}
		if rnd.IntN(3) > 0 {
			w.publish()
		}
		synctest.Wait()
	}
	down.Store(false)
	refusing.Store(false)
	w.change("one", "last=1")
	w.change("two", "last=1")
	w.publish()
	time.Sleep(3 * time.Minute) // the longest pause
	synctest.Wait()
	w.stop()
	for _, set := range []string{"one", "two"} {
		for _, hub := range []*sink{steady, shaky, strict} {
			gaps, twice := w.covers(w.happened[set], hub.accepted(set))
			if gaps > 0 && hub != strict && !mayGap || twice > 0 && !crashed {
				t.Errorf("set %s: %d gaps, %d told twice", set, gaps, twice)
			}
		}
		if gaps, _ := w.covers(w.happened[set], steady.accepted(set)); gaps > 0 {
			t.Errorf("set %s: %d gaps at a hub that is always there", set, gaps)
		}
	}
	if got, want := strict.asked()-len(strict.accepted("one"))-len(strict.accepted("two")), reported; got != want {
		t.Errorf("RN-PB-06: %d notifications were refused, %d reported", got, want)
	}
}

func put(t testing.TB, docs blob.Store, name string, data []byte) {
	t.Helper()
	w, err := docs.Create(context.Background(), name)
	if err == nil {
		_, err = w.Write(data)
	}
	if err == nil {
		err = docs.Commit(context.Background(), w)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestCostly: at a busy Source the open Change List is cut before writing it
// anew, time and again, costs too much; at a quiet one it stays one document.
func TestCostly(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		every time.Duration
		cut   bool
	}{{"busy", 100 * time.Millisecond, true}, {"quiet", 10 * time.Second, false}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, source.Options{SmallSet: 1})
			s := w.source()
			w.publish(s)
			var most, total int64
			for range 300 {
				w.fill("r%03d", 20)
				for i := range 20 { // the same names have other content
					w.put(fmt.Sprintf("r%03d=%s", i, w.now()))
				}
				w.pass(tt.every)
				r := w.publish(s)
				most, total = max(most, r.Sets[0].Bytes), total+r.Sets[0].Bytes
			}
			c := w.upToDate()
			if got := c.closed > 0; got != tt.cut {
				t.Errorf("%d parts were closed; %d bytes written in all, %d at most at once", c.closed, total, most)
			}
			if tt.cut && most > 800_000 {
				t.Errorf("%d bytes were written at once", most)
			}
		})
	}
}

package bridge_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/discover"
)

// A press publishes records by Atom-PMH. It generates the documents from its
// history on request.
type press struct {
	t   testing.TB
	srv *httptest.Server

	mu       sync.Mutex // guards what follows
	id       string
	now      time.Time
	history  []issue
	texts    map[int]string // of the current records
	formats  map[int]int    // indexes of formats
	per      int            // entries per archive document
	cut      int            // number of entries in archives
	epoch    int            // part of the names of archives
	complete bool           // fh:complete instead of deletion entries
	ended    bool
	faults   float64 // share of requests that fail
	rnd      *rand.Rand
	asked    []string
	absent   map[string]bool // archives that are unavailable
}

// An issue is one entry.
type issue struct {
	record  int
	updated time.Time
	formats int // index of formats; 0: deleted
}

// formats are the suffixes of a record's addresses, and the media types there.
var formats = [][]format{nil, {text}, {text, asJSON}, {asJSON}, {asJSON, text}}

type format struct{ end, typ string }

var text, asJSON = format{"", "text/plain"}, format{".json", "application/json"}

// of returns the text of a record in a format.
func (f format) of(text string) string {
	if f == asJSON {
		return "{" + text + "}"
	}
	return text
}

// chosen returns the format of a record that the mirror stores.
func chosen(formats []format, prefer []string) format {
	for _, typ := range prefer {
		for _, f := range formats {
			if f.typ == typ {
				return f
			}
		}
	}
	return formats[0]
}

func newPress(t testing.TB) *press {
	p := &press{t: t, id: "urn:uuid:feed", now: time.Date(2024, 5, 1, 0, 0, 0, 0, time.UTC), texts: map[int]string{}, formats: map[int]int{},
		per: 5, rnd: rand.New(rand.NewPCG(1, 2)), absent: map[string]bool{}}
	p.srv = httptest.NewServer(p)
	t.Cleanup(p.srv.Close)
	return p
}

// tick returns the time of the next event; sometimes several events have the
// same time.
func (p *press) tick() time.Time {
	if p.rnd.IntN(4) > 0 {
		p.now = p.now.Add(time.Duration(1+p.rnd.IntN(2000)) * time.Millisecond)
	}
	return p.now
}

func (p *press) put(record int, text string, formats int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.now = p.tick()
	for i := len(p.history) - 1; i >= 0 && !p.history[i].updated.Before(p.now); i-- {
		if p.history[i].record == record {
			p.now = p.now.Add(time.Millisecond) // two events of a record are distinguished by their times
		}
	}
	p.texts[record], p.formats[record] = text, formats
	p.history = append(p.history, issue{record, p.now, formats})
}

func (p *press) del(record int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if _, ok := p.texts[record]; !ok {
		return
	}
	delete(p.texts, record)
	delete(p.formats, record)
	p.now = p.now.Add(time.Millisecond)
	p.history = append(p.history, issue{record, p.now, 0})
}

// archive moves all but the newest entries to archives.
func (p *press) archive(keep int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.history) - keep; n > p.cut {
		p.cut = n - n%p.per
	}
}

// recut redistributes the entries over archives with new names.
func (p *press) recut(per int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.epoch++
	p.per = per
	p.cut -= p.cut % per
}

// forget drops obsolete entries and renames the archives.
func (p *press) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	last := map[int]int{}
	for i := range p.history {
		last[p.history[i].record] = i
	}
	var kept []issue
	for i := range p.history {
		if last[p.history[i].record] == i {
			kept = append(kept, p.history[i])
		}
	}
	p.history, p.epoch = kept, p.epoch+1
	p.cut = min(p.cut, len(kept))
	p.cut -= p.cut % p.per
}

func (p *press) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.URL.Path)
	var text, typ string
	switch path := r.URL.Path; {
	case p.rnd.Float64() < p.faults:
		p.fail(w, strings.HasPrefix(path, "/r/"))
		return
	case path == "/feed" && p.ended:
		http.Error(w, "gone", http.StatusGone)
		return
	case path == "/feed":
		text, typ = p.feed(len(p.history)), "application/atom+xml"
	case strings.HasPrefix(path, "/archive/"):
		var epoch, end int
		if _, err := fmt.Sscanf(path, "/archive/%d/%d", &epoch, &end); err != nil || epoch != p.epoch || end > p.cut || p.absent[path] {
			http.NotFound(w, r)
			return
		}
		text, typ = p.feed(end), "application/atom+xml"
	default:
		name, end, _ := strings.Cut(strings.TrimPrefix(path, "/r/"), ".")
		n, err := strconv.Atoi(name)
		body, ok := p.texts[n]
		i := slices.IndexFunc(formats[p.formats[n]], func(f format) bool { return strings.TrimPrefix(f.end, ".") == end })
		if err != nil || !ok || i < 0 {
			http.NotFound(w, r)
			return
		}
		f := formats[p.formats[n]][i]
		text, typ = f.of(body), f.typ
	}
	tag := fmt.Sprintf("%q", fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:16])
	w.Header().Set("ETag", tag)
	w.Header().Set("Content-Type", typ)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	_, _ = w.Write([]byte(text)) // the client may have disconnected
}

// fail sends a wrong answer; for a record the answer is visibly wrong, because
// nothing describes its content.
func (p *press) fail(w http.ResponseWriter, record bool) {
	switch n := p.rnd.IntN(4); {
	case n == 0:
		http.Error(w, "busy", http.StatusServiceUnavailable)
	case n == 1 && !record:
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>Please log in</body></html>"))
	case n == 2:
		w.Header().Set("Content-Length", "5000")
		_, _ = w.Write([]byte(`<feed xmlns="http://www.w3.org/2005/Atom"><id>`))
	default:
		panic(http.ErrAbortHandler)
	}
}

// feed returns the document that ends before the end-th entry: one of the
// archives, or the subscription document.
func (p *press) feed(end int) string {
	var b strings.Builder
	from, prev := p.cut, p.cut
	if end <= p.cut {
		from = max(end-p.per, 0)
		prev = from
	}
	fmt.Fprintf(&b, `<?xml version="1.0" encoding="UTF-8"?><feed xmlns="http://www.w3.org/2005/Atom" xmlns:fh="http://purl.org/syndication/history/1.0"><id>%s</id><title>Records</title><author><name>x</name></author>`, p.id)
	entries := p.history[from:end]
	if p.complete {
		prev = 0
		b.WriteString(`<fh:complete/>`)
		entries = nil
		last := map[int]issue{}
		for _, e := range p.history {
			last[e.record] = e
		}
		for _, e := range last {
			if e.formats > 0 {
				entries = append(entries, e)
			}
		}
	}
	updated := p.history[:0]
	if end > 0 {
		updated = p.history[end-1 : end]
	}
	for _, e := range updated {
		fmt.Fprintf(&b, `<updated>%s</updated>`, e.updated.Format(time.RFC3339Nano))
	}
	if len(updated) == 0 {
		b.WriteString(`<updated>2024-01-01T00:00:00Z</updated>`)
	}
	if prev > 0 {
		fmt.Fprintf(&b, `<link rel="prev-archive" href="/archive/%d/%d"/>`, p.epoch, prev)
	}
	for _, i := range p.rnd.Perm(len(entries)) {
		e := entries[i]
		fmt.Fprintf(&b, `<entry><id>urn:x:%d</id><title>Record %d</title><updated>%s</updated>`, e.record, e.record, e.updated.Format(time.RFC3339Nano))
		if e.formats == 0 {
			b.WriteString(`<content/>`)
		}
		for _, f := range formats[e.formats] {
			fmt.Fprintf(&b, `<link href="/r/%d%s" type="%s"/>`, e.record, f.end, f.typ)
		}
		b.WriteString(`</entry>`)
	}
	b.WriteString(`</feed>`)
	return b.String()
}

// want returns the expected files of a mirror.
func (p *press) want(prefer ...string) map[string]string {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := map[string]string{}
	for n, text := range p.texts {
		f := chosen(formats[p.formats[n]], prefer)
		all[fmt.Sprintf("r/%d%s", n, f.end)] = f.of(text)
	}
	return all
}

// requests returns the requests since its last call.
func (p *press) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	asked := p.asked
	p.asked = nil
	return asked
}

func (p *press) setFaults(share float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults = share
}

func TestFeed(t *testing.T) {
	t.Parallel()
	for _, prefix := range []string{"", "atom-pmh:"} {
		t.Run("prefix="+prefix, func(t *testing.T) {
			t.Parallel()
			p := newPress(t)
			for i := range 23 {
				p.put(i, fmt.Sprint("text ", i), 1+i%2)
			}
			p.archive(3)
			m := newMirror(t, prefix+p.srv.URL+"/feed")
			r := m.mustSync()
			if r.Created != 23 || r.Via != discover.AtomPMH || r.Mode != destination.ModeBaseline || !r.SyncedUntil.Equal(p.now) {
				t.Errorf("report: %+v", r)
			}
			m.holds(p.want())

			p.requests()
			if r = m.mustSync(); r.Mode != destination.ModeNone {
				t.Errorf("report: %+v", r)
			}
			if asked := p.requests(); len(asked) != 1 {
				t.Errorf("nothing is new, yet asked for %v", asked)
			}

			p.put(3, "text 3, 2nd edition", 1)
			p.put(30, "text 30", 2)
			p.del(4)
			r = m.mustSync()
			if r.Created != 1 || r.Updated != 1 || r.Deleted != 1 || r.Mode != destination.ModeIncremental {
				t.Errorf("report: %+v", r)
			}
			m.holds(p.want())
			if asked := p.requests(); len(asked) > 5 {
				t.Errorf("for three changes asked for %v", asked)
			}
		})
	}
}

// The guard asks before many deletions, by deletion entries as well as by
// absence.
func TestFeedGuard(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		t.Run(fmt.Sprint("complete=", complete), func(t *testing.T) {
			t.Parallel()
			p := newPress(t)
			p.complete = complete
			for i := range 20 {
				p.put(i, fmt.Sprint(i), 1)
			}
			m := newMirror(t, p.srv.URL+"/feed")
			m.mustSync()
			for i := range 15 {
				p.del(i)
			}
			for range 2 {
				r, err := m.sync()
				if !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "would delete 75% of the mirror (15 of 20 resources)") || len(m.files()) != 20 {
					t.Fatalf("Sync = %v\n%+v", err, r)
				}
			}
			m.opts.MaxDelete = 75
			m.mustSync()
			m.holds(p.want())
		})
	}
}

// AP-HV-11: another feed at the address is refused, unless the user confirms
// it.
func TestFeedOther(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	for i := range 4 {
		p.put(i, fmt.Sprint(i), 1)
	}
	m := newMirror(t, p.srv.URL+"/feed")
	m.mustSync()
	p.mu.Lock()
	p.id, p.history, p.texts = "urn:uuid:other", nil, map[int]string{}
	p.mu.Unlock()
	p.put(100, "other", 1)
	p.put(101, "other", 1)
	_, err := m.sync()
	var refused *destination.RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "replaced by another") || !strings.Contains(refused.Hint, "--baseline") {
		t.Fatalf("Sync = %v", err)
	}
	if len(m.files()) != 4 {
		t.Errorf("mirror: %v", m.files())
	}
	m.opts.Baseline, m.opts.MaxDelete = true, 100
	m.mustSync()
	m.holds(p.want())
	m.opts.Baseline = false
	m.mustSync()
}

// AP-HV-08: readable entries are applied, nothing else is touched, and the run
// reports that the mirror is not in step.
func TestFeedGap(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	for i := range 12 {
		p.put(i, fmt.Sprint(i), 1)
	}
	p.archive(0)
	m := newMirror(t, p.srv.URL+"/feed")
	p.mu.Lock()
	p.absent["/archive/0/5"] = true
	p.mu.Unlock()
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || len(r.Failures) == 0 || !strings.Contains(r.Failures[0].Cause, "/archive/0/5") {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	if len(m.files()) != 7 {
		t.Errorf("mirror: %v", m.files())
	}
	p.mu.Lock()
	clear(p.absent)
	p.mu.Unlock()
	m.mustSync()
	m.holds(p.want())
}

// AP-HV-15
func TestFeedEnds(t *testing.T) {
	t.Parallel()
	p := newPress(t)
	p.put(1, "one", 1)
	m := newMirror(t, "atom-pmh:"+p.srv.URL+"/feed")
	m.mustSync()
	p.mu.Lock()
	p.ended = true
	p.mu.Unlock()
	r := m.mustSync()
	if len(r.Warnings) == 0 || !strings.Contains(r.Warnings[0], "has ended") {
		t.Errorf("report: %+v", r)
	}
	m.holds(map[string]string{"r/1": "one"})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	err := m.run(func(d *destination.Destination) error {
		f, err := d.Follow(m.address, destination.FollowOptions{Poll: time.Millisecond, Check: time.Millisecond})
		if err != nil {
			return err
		}
		go func() {
			for ctx.Err() == nil {
				if sets := f.Status().Sets; len(sets) > 0 && sets[0].Pulls > 1 {
					stop()
				}
				time.Sleep(time.Millisecond)
			}
		}()
		return f.Run(ctx)
	})
	if err != nil {
		t.Errorf("Run = %v, want it to continue until it is stopped", err)
	}
}

// Random histories, recut documents, faults, canceled runs and lost memories: in
// the end the mirror equals the feed.
func TestFeedConverges(t *testing.T) {
	t.Parallel()
	for seed := range uint64(*rounds) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 2))
			p := newPress(t)
			p.complete = rnd.IntN(4) == 0
			m := newMirror(t, p.srv.URL+"/feed")
			m.opts.MaxDelete = 100
			for range 7 {
				if m.opts.Prefer = nil; rnd.IntN(2) == 0 {
					m.opts.Prefer = []string{"application/json"}
				}
				p.happen(rnd)
				if rnd.IntN(2) == 0 {
					p.setFaults(.1)
				}
				if rnd.IntN(8) == 0 {
					m.forget()
					m.opts.Delete = destination.DeleteApply // otherwise resources deleted meanwhile stay
				}
				m.disturb(rnd)
				p.setFaults(0)
			}
			if _, err := m.sync(); err != nil {
				t.Logf("Sync: %v", err)
			}
			for _, u := range m.mustSync().Unproven { // an archive that is gone may have listed deletions
				if !strings.Contains(u.Command, "--baseline") {
					t.Errorf("unproven: %+v", u)
				}
				m.opts.Baseline = true
			}
			m.mustSync()
			m.holds(p.want(m.opts.Prefer...))
		})
	}
}

// happen simulates the passage of time.
func (p *press) happen(rnd *rand.Rand) {
	for range rnd.IntN(25) {
		n := rnd.IntN(40)
		switch rnd.IntN(5) {
		case 0:
			p.del(n)
		default:
			p.put(n, fmt.Sprint("text ", rnd.IntN(1000)), 1+rnd.IntN(4))
		}
	}
	switch rnd.IntN(6) {
	case 0:
		p.recut(1 + rnd.IntN(9))
	case 1:
		p.forget()
	case 2, 3:
		p.archive(rnd.IntN(6))
	}
}

package destination_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/resourcesync"
)

var (
	pushes    = flag.Int("pushes", 12, "how many lives TestPushes leads")
	pushSeed  = flag.Uint64("push-seed", 0, "the one to lead")
	pushSteps = flag.Int("push-steps", 60, "how long they are")
)

// A pushLife is a Source, its channel and a Destination, with random events.
type pushLife struct {
	*rand.Rand
	t      *testing.T
	s      *site
	p      *press
	g      *following
	late   []string // payloads that are still under way
	events bool
	runs   bool

	vmu     sync.Mutex           // guards what follows
	seen    map[string]time.Time // of the newest version of a URI that was applied
	deleted map[string]bool      // URIs that were ever deleted at the Source
	wrong   []string
}

// TestPushes runs random histories in which notifications are lost, doubled, late, out of
// order and forged, Change Lists lag and lose their history, and hub, Source
// and Destination go down and come back. In the end the mirror is what the
// Source is, and an older state never replaced a newer one.
//
// RN-RX-02, RN-RX-03, RN-RX-04, RN-RX-06: push alone is never trusted.
func TestPushes(t *testing.T) {
	t.Parallel()
	if *pushSeed != 0 {
		leadPush(t, *pushSeed)
		return
	}
	for range *pushes {
		seed := rand.Uint64()
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			leadPush(t, seed)
		})
	}
}

func leadPush(t *testing.T, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 1))
	styles := []style{{}, {}, {seconds: true}, {noChanges: true}, {parts: 3}, {noHash: true}, {newestFirst: true}, {noETag: true}}
	l := &pushLife{Rand: r, t: t, s: newSite(t, styles[r.IntN(len(styles))]), events: r.IntN(3) == 0, seen: map[string]time.Time{}, deleted: map[string]bool{}}
	for i := range 6 {
		l.s.put(fmt.Sprint("/", i), "start")
	}
	l.p = newPress(t, l.s, !l.events, l.events)
	l.g = newFollowing(t, l.s, !l.events)
	l.g.opts.MaxDelete = 100
	l.g.backlog = r.IntN(4) // zero: as many as there are
	l.g.on = l.applied
	l.start()
	for range *pushSteps {
		l.step()
	}
	if !l.runs {
		l.start()
	}
	l.s.setDown(false)
	l.s.mu.Lock()
	l.s.late = time.Time{}
	l.s.mu.Unlock()
	l.s.put("/last", "word")
	for _, payload := range l.late {
		l.p.deliver(payload)
	}
	l.p.notify()
	deadline := time.Now().Add(time.Minute)
	since := int64(-1) // how many looks there were when it became exact
	for {
		switch st := l.g.status(); {
		case !l.exact() || st.Waiting > 0: // forged notifications may still be in process
			since = -1
		case since < 0:
			since = st.Pulls
		}
		if since >= 0 && l.g.status().Pulls >= since+2 {
			break
		}
		if time.Now().After(deadline) {
			t.Errorf("seed %d: %+v", seed, l.g.f.Status())
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	l.g.end()
	l.g.same()
	l.vmu.Lock()
	defer l.vmu.Unlock()
	if len(l.wrong) > 0 {
		t.Errorf("seed %d: %s", seed, strings.Join(l.wrong, "\n"))
	}
}

func (l *pushLife) start() {
	l.g.start(destination.FollowOptions{Pause: 5 * time.Millisecond, Poll: 100 * time.Millisecond, Check: 150 * time.Millisecond})
	l.runs = true
}

func (l *pushLife) step() {
	path := fmt.Sprint("/", l.IntN(8))
	switch l.IntN(20) {
	case 0, 1, 2, 3, 4:
		l.s.put(path, fmt.Sprint("version ", l.Uint64()))
	case 5, 6:
		l.vmu.Lock()
		l.deleted[l.s.url(path)] = true
		l.vmu.Unlock()
		l.s.del(path)
	case 7, 8, 9, 10:
		l.p.notify()
	case 11: // lost
		_ = l.p.payload()
	case 12: // twice
		payload := l.p.payload()
		l.p.push(payload)
		l.p.deliver(payload)
		l.p.deliver(payload)
	case 13: // later
		l.late = append(l.late, l.p.payload())
	case 14: // now, in any order
		l.Shuffle(len(l.late), func(i, j int) { l.late[i], l.late[j] = l.late[j], l.late[i] })
		for _, payload := range l.late {
			l.p.push(payload)
			l.p.deliver(payload)
		}
		l.late = nil
	case 15:
		l.lie(path)
	case 16:
		l.misfortune()
	case 17:
		if l.runs {
			l.g.end()
			l.runs = false
		} else {
			l.start()
		}
	case 18:
		l.p.hangUp()
	default:
		time.Sleep(time.Duration(l.IntN(20)) * time.Millisecond)
	}
}

// lie notifies of a deletion that never was, or of an update to content that
// never was, maybe at an instant that is still to come: without a right
// signature, or with one.
func (l *pushLife) lie(path string) {
	if l.s.style.seconds {
		return // a forgery within the second of the last change cannot be recognized
	}
	l.s.mu.Lock()
	now := l.s.now
	l.s.mu.Unlock()
	said := `change="deleted"`
	if l.IntN(3) == 0 {
		said = fmt.Sprintf(`change="updated" hash="md5:%032x"`, l.Uint64())
	}
	if l.IntN(3) == 0 {
		now = time.Now().Add(4 * time.Minute)
	}
	payload := l.p.notification(now, now, fmt.Sprintf(`<url><loc>%s</loc><rs:md %s datetime="%s"/></url>`, l.s.url(path), said, l.s.time(now)))
	if l.IntN(2) == 0 {
		l.p.deliverSigned(payload, "sha256="+strings.Repeat("0", 64))
		return
	}
	l.p.deliver(payload)
	l.p.push(payload)
}

func (l *pushLife) misfortune() {
	switch l.IntN(4) {
	case 0:
		l.s.forget(l.IntN(4))
	case 1:
		if l.s.style.parts == 0 {
			l.s.lag()
		}
	case 2:
		l.s.mu.Lock()
		l.s.late = time.Time{}
		l.s.mu.Unlock()
	case 3:
		l.s.setDown(true)
		time.AfterFunc(time.Duration(l.IntN(30))*time.Millisecond, func() { l.s.setDown(false) })
	}
}

// setDown lets the Source answer nothing.
func (s *site) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// applied checks that no resource goes back in time.
func (l *pushLife) applied(e destination.Event) {
	if e.Kind != destination.EventApplied {
		return
	}
	l.vmu.Lock()
	defer l.vmu.Unlock()
	was := l.seen[e.URI]
	if e.Change == resourcesync.Deleted && !l.deleted[e.URI] {
		l.wrong = append(l.wrong, fmt.Sprintf("%s was deleted, and never was at the Source", e.URI))
	}
	if e.Change == resourcesync.Deleted && !e.Datetime.IsZero() && e.Datetime.Before(was.Truncate(time.Second)) {
		l.wrong = append(l.wrong, fmt.Sprintf("%s as of %s was deleted for what happened at %s", e.URI, was, e.Datetime))
	}
	if e.Datetime.After(was) {
		l.seen[e.URI] = e.Datetime
	}
}

// exact reports whether the mirror is what the site is.
func (l *pushLife) exact() bool {
	for i := range 8 {
		path := fmt.Sprint("/", i)
		if !l.g.has(path, string(l.s.file(path).data)) {
			return false
		}
	}
	return l.g.has("/last", "word")
}

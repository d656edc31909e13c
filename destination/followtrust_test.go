package destination_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// deletions returns a notification that says that resources were deleted, after
// all that happened so far.
func (p *press) deletions(paths ...string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var b strings.Builder
	from := p.until
	for _, path := range paths {
		fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md change="deleted" datetime="%s"/></url>`, p.url(path), p.time(p.site.tick()))
	}
	p.until = p.site.tick()
	return p.notification(from, p.until, b.String())
}

// A deletion that a notification announces, and that the Source does not confirm,
// is not carried out: it is pending, over restarts, until the Source's own
// documents contradict it. Then push pauses for a day, and the set is polled.
func TestUnconfirmedDeletionIsPending(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.put("/b", "two")
	p.notify()
	g.becomes("/b", "two")
	p.deliver(p.deletions("/a"))
	eventually(t, func() bool { return g.status().Pending == 1 })
	g.settled()
	if st := g.status(); !g.has("/a", "one") || st.Pending != 1 || !st.Paused.IsZero() {
		t.Fatalf("/a is there: %v, want it, and a deletion that is pending: %+v", g.has("/a", "one"), st)
	}
	g.end()
	r, err := g.sync()
	if err != nil || r.Pending != 1 || !strings.Contains(strings.Join(r.Warnings, "\n"), "not confirmed 1 deletion") {
		t.Errorf("Sync = %v, %d pending, %q; want it reported", err, r.Pending, r.Warnings)
	}
	if r.Complete || len(r.Unproven) != 1 || !strings.Contains(r.Unproven[0].String(), "1 deletion that it notified") || !strings.HasPrefix(r.Unproven[0].Command, "lockstep sync ") {
		t.Errorf("complete %v, %+v; want the pending deletion to be the reason", r.Complete, r.Unproven)
	}

	g.start(destination.FollowOptions{Poll: 50 * time.Millisecond})
	g.live(destination.ChannelHub)
	s.put("/c", "three") // the Change List goes past the lie
	p.notify()
	g.becomes("/c", "three")
	eventually(t, func() bool { st := g.status(); return st.Contradicted == 1 && st.Pending == 0 })
	check := func() {
		t.Helper()
		st := g.status()
		if left := time.Until(st.Paused); left < 23*time.Hour || left > 24*time.Hour || st.Channel != destination.ChannelPoll || !strings.Contains(st.Reason, "contradict") {
			t.Errorf("%+v, want push to pause for a day", st)
		}
	}
	check()
	s.put("/d", "four") // without a notification
	g.becomes("/d", "four")
	s.put("/d", "five")
	p.notify()
	g.becomes("/d", "five")
	g.end()
	g.start(destination.FollowOptions{Poll: 50 * time.Millisecond})
	eventually(t, func() bool { return g.f.Status().Synced })
	check()
	eventually(t, func() bool { return p.subscribers() > 0 })
	discarded := g.status().Discarded
	p.deliver(p.deletions("/a", "/b"))
	eventually(t, func() bool { return g.status().Discarded > discarded })
	g.end()
	g.same()
}

// Deletions by a stream of events are confirmed as well.
func TestUnconfirmedDeletionByEvents(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.put("/b", "two")
	p := newPress(t, s, false, true)
	g := newFollowing(t, s, false)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelEvents)
	p.push(p.deletions("/a"))
	eventually(t, func() bool { return g.status().Pending == 1 })
	s.del("/b")
	p.notify()
	g.becomes("/b", "")
	if !g.has("/a", "one") {
		t.Error("/a was deleted, and is at the Source")
	}
	g.end()
	g.same()
}

// Many deletions are confirmed by reading the Change List once, and not at all
// where it does not list them.
func TestManyDeletionsAreConfirmedByTheChangeList(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	var paths []string
	for i := range 300 {
		paths = append(paths, fmt.Sprint("/", i))
		s.put(paths[i], "content")
	}
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	s.reset()
	for _, path := range paths[:100] {
		s.del(path)
	}
	p.notify()
	eventually(t, func() bool { return g.count() == 200 })
	g.settled()
	if docs, gets := s.got("/rs/changelist.xml"), s.resourceGets(); docs != 1 || gets != 0 {
		t.Errorf("the Change List was read %d times and %d resources were asked for, want 1 and 0", docs, gets)
	}
	p.deliver(p.deletions(paths[100:]...))
	eventually(t, func() bool { return g.status().Pending == 200 })
	if n := g.count(); n != 200 {
		t.Errorf("%d files, want 200: the Source has them all", n)
	}
	g.end()
	g.same()
}

// Where the Source's documents lag behind, the resources themselves confirm that
// they are gone.
func TestDeletionsAreConfirmedByTheResources(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 300 {
		s.put(fmt.Sprint("/", i), "content")
	}
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	s.lag()
	s.del("/0")
	p.notify()
	g.becomes("/0", "")
	for i := range 100 {
		s.del(fmt.Sprint("/", i))
	}
	p.notify()
	eventually(t, func() bool { return g.count() == 200 })
	g.end()
	g.same()
}

// Files that come and go between two pulls are not deletions of what was there.
func TestTemporaryFilesAreNetted(t *testing.T) {
	t.Parallel()
	for _, events := range []bool{false, true} {
		s := newSite(t, style{})
		for i := range 40 {
			s.put(fmt.Sprint("/", i), "content")
		}
		p := newPress(t, s, !events, events)
		g := newFollowing(t, s, !events)
		g.start(destination.FollowOptions{})
		g.live(map[bool]string{true: destination.ChannelEvents, false: destination.ChannelHub}[events])
		for i := range 41 {
			path := fmt.Sprint("/tmp", i)
			s.put(path, "for a moment")
			p.notify()
			g.becomes(path, "for a moment")
			if i == 20 { // the count survives a restart
				g.end()
				g.start(destination.FollowOptions{})
				g.live(map[bool]string{true: destination.ChannelEvents, false: destination.ChannelHub}[events])
			}
			s.del(path)
			p.notify()
			g.becomes(path, "")
		}
		if st := g.status(); st.Refused != "" || st.Error != "" {
			t.Errorf("%+v, want nothing refused", st)
		}
		g.end()
		g.opts.Baseline = true
		if _, err := g.sync(); err != nil {
			t.Errorf("Sync = %v, want nil", err)
		}
		g.same()
	}
}

// Files that were deleted and came back do not count either.
func TestDeletedAndCreatedAgainIsNetted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 20 {
		s.put(fmt.Sprint("/", i), "content")
	}
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	for i := range 20 {
		path := fmt.Sprint("/", i)
		s.del(path)
		p.notify()
		g.becomes(path, "")
		s.put(path, "again")
		p.notify()
		g.becomes(path, "again")
	}
	if st := g.status(); st.Refused != "" {
		t.Errorf("refused: %s", st.Refused)
	}
	g.end()
	g.same()
}

// A set that is refused is left as it is; the others are followed, and it is
// tried again.
func TestRefusedSetIsTriedAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.withSlowSet("/other")
	for i := range 40 {
		s.put(fmt.Sprint("/", i), "content")
	}
	g := newFollowing(t, s, false)
	other := "first"
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch r.URL.Path {
		case "/other":
			_, _ = w.Write([]byte(other))
		case "/two/resourcelist.xml":
			at := s.tick()
			_, _ = w.Write([]byte(doc("urlset", `<rs:md capability="resourcelist" at="`+s.time(at)+`"/>`, fmt.Sprintf(`<url><loc>%s</loc><lastmod>%s</lastmod></url>`, s.url("/other"), s.time(at)))))
		default:
			return false
		}
		return true
	})
	g.start(destination.FollowOptions{Poll: 30 * time.Millisecond})
	g.becomes("/other", "first")
	eventually(t, func() bool { return g.count() == 41 })
	for i := range 40 {
		s.del(fmt.Sprint("/", i))
	}
	eventually(t, func() bool { return strings.Contains(g.status().Refused, "would delete 100%") })
	s.mu.Lock()
	other = "second"
	s.mu.Unlock()
	g.becomes("/other", "second")
	if n := g.count(); n != 41 {
		t.Errorf("%d files, want all 41", n)
	}
	for i := range 40 {
		s.put(fmt.Sprint("/", i), "again")
	}
	g.becomes("/7", "again")
	eventually(t, func() bool { return g.status().Refused == "" })
	g.end()
}

// Notifications with wrong hashes and future times: the mirror never has other
// content than the Source, and true notifications are applied at once.
func TestForgedUpdatesStopNothing(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	forge := func(at time.Time, hash string) {
		p.deliver(p.notification(at, at, fmt.Sprintf(`<url><loc>%s</loc><rs:md change="updated" datetime="%s"%s/></url>`, s.url("/a"), at.UTC().Format(time.RFC3339Nano), hash)))
	}
	wrong := ` hash="md5:00000000000000000000000000000000"`
	for i, hash := range []string{wrong, "", wrong} {
		forge(time.Now().Add(4*time.Minute), hash)
		forge(time.Now(), hash)
		content := fmt.Sprint("version ", i)
		s.put("/a", content)
		p.notify()
		g.becomes("/a", content)
	}
	g.end()
	r, err := g.sync()
	if err != nil || r.Failed != 0 {
		t.Errorf("Sync = %v, %d failed: nothing forged may be left behind", err, r.Failed)
	}
	g.same()
}

// count returns how many files the mirror has at its root.
func (g *following) count() (n int) {
	g.t.Helper()
	entries, err := os.ReadDir(g.dir)
	if err != nil {
		g.t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != ".lockstep" {
			n++
		}
	}
	return n
}

// TestDeletionDoesNotReplaceWork: a deletion that was only notified replaces no pending work, and
// does not keep a damaged file from being repaired.
func TestDeletionDoesNotReplaceWork(t *testing.T) {
	t.Parallel()
	t.Run("fetch", func(t *testing.T) {
		t.Parallel()
		s, p, g := followHub(t, style{})
		g.end()
		inner := s.fault
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/a" {
				w.WriteHeader(http.StatusServiceUnavailable)
				return true
			}
			return inner != nil && inner(w, r)
		})
		s.put("/a", "two")
		if r, err := g.sync(); err == nil {
			t.Fatalf("%+v", r)
		}
		g.start(destination.FollowOptions{Poll: 50 * time.Millisecond})
		g.live(destination.ChannelHub)
		p.deliver(p.deletions("/a"))
		eventually(t, func() bool { return g.status().Waiting == 0 })
		s.put("/c", "three") // the Change List goes past the lie
		p.notify()
		g.becomes("/c", "three")
		s.setFault(inner)
		s.put("/d", "four")
		p.notify()
		g.becomes("/d", "four")
		g.end()
		for range 2 {
			_, _ = g.sync()
		}
		if !g.has("/a", "two") {
			t.Errorf("%v: want the version that could not be fetched", g.files())
		}
	})
	t.Run("repair", func(t *testing.T) {
		t.Parallel()
		_, p, g := followHub(t, style{})
		p.deliver(p.deletions("/a"))
		eventually(t, func() bool { return g.status().Pending == 1 })
		g.settled()
		g.end()
		if err := os.Remove(filepath.Join(g.dir, "a")); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, _ = g.sync()
		}
		if !g.has("/a", "one") {
			t.Errorf("%v: want the file that was removed", g.files())
		}
	})
}

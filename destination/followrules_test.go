package destination_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// followed starts to follow a site by a hub.
func followHub(t *testing.T, st style) (*site, *press, *following) {
	t.Helper()
	return followHubWith(t, st, destination.FollowOptions{})
}

func followHubWith(t *testing.T, st style, o destination.FollowOptions) (*site, *press, *following) {
	t.Helper()
	s := newSite(t, st)
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	g.start(o)
	g.live(destination.ChannelHub)
	s.reset()
	return s, p, g
}

// settled waits until no notification is queued and no pull is due soon.
func (g *following) settled() {
	g.t.Helper()
	eventually(g.t, func() bool {
		st := g.status()
		return st.Waiting == 0 && time.Until(st.NextPull) > time.Minute
	})
}

// TestGaps is RN-RX-03: notifications that do not continue from what is here are
// applied and cause the Change List to be read, which closes the gap; later
// notifications count. RN-RX-02: what both report is applied once, and late
// notifications are ignored.
func TestGaps(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.put("/b", "lost")
	_ = p.payload() // it reaches no subscriber
	s.put("/c", "heard")
	late := p.payload()
	if p.deliver(late) != http.StatusAccepted && p.deliver(late)/100 != 2 {
		t.Error("a notification behind a gap is not acknowledged")
	}
	g.becomes("/c", "heard")
	g.becomes("/b", "lost")
	g.settled()
	if st := g.status(); st.Gaps != 1 || st.Pulls != 2 {
		t.Errorf("%d gaps, %d looks, want 1 and 2: %+v", st.Gaps, st.Pulls, st)
	}
	s.put("/c", "again")
	p.deliver(p.payload())
	g.becomes("/c", "again")
	s.reset()
	p.deliver(late)
	p.deliver(late + "\n") // not the same bytes
	g.settled()
	if st := g.status(); st.Gaps != 1 || !g.has("/c", "again") || s.resourceGets() != 0 {
		t.Errorf("an old notification led to %d gaps and %d requests, want nothing new: %+v", st.Gaps-1, s.resourceGets(), st)
	}
	if st := g.status(); st.Duplicates == 0 {
		t.Errorf("no duplicates are counted: %+v", st)
	}
	g.end()
	g.same()
}

// TestHeartbeat is RN-PL-10 and RN-RX-03: an empty notification advances the
// watermark; one whose end is in the future does not.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	_, p, g := followHub(t, style{})
	until := p.until.Add(time.Hour)
	p.deliver(p.notification(p.until, until, ""))
	eventually(t, func() bool { return g.status().Watermark.Equal(until) })
	p.deliver(p.notification(until, time.Now().Add(24*time.Hour), ""))
	g.settled()
	if st := g.status(); !st.Watermark.Equal(until) || st.Gaps != 0 {
		t.Errorf("a notification of what is to come moved the watermark to %s, want %s", st.Watermark, until)
	}
}

// TestOddNotifications are RN-PL-11, RN-CH-10, RN-AMB-02 and RN-AMB-05:
// payloads that are applied although parts are missing.
func TestOddNotifications(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.lag() // the Change List does not have the changes
	up := fmt.Sprintf(`<rs:ln rel="up" href="%s"/>`, p.url("/rs/capabilitylist.xml"))
	for i, head := range []string{
		"",                                 // no metadata at all
		`<rs:md capability="changelist"/>`, // as old publishers say
		up + `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`, // RN-FW-05: the Change List itself
		`<rs:md capability="notification"/>`,                                // an older spelling
		up + `<rs:md capability="change-notification"/>`,                    // no interval
		`<rs:md capability="change-notification" from="2024-05-01T00:00:00Z"/>`,
	} {
		path, content := fmt.Sprint("/odd", i), fmt.Sprint("content ", i)
		s.put(path, content)
		s.mu.Lock()
		body := p.changesBody(p.log[len(p.log)-1:])
		s.mu.Unlock()
		if i%2 == 1 { // no time either
			body = body[:strings.Index(body, ` datetime="`)] + body[strings.Index(body, ` datetime="`)+len(` datetime="`)+len(`2024-05-01T02:00:00.274Z"`):]
		}
		payload := doc("urlset", head, body)
		if i == 0 {
			payload = "\n" + payload // RN-PL-11
		}
		p.deliver(payload)
		g.becomes(path, content)
	}
	if st := g.status(); st.Quarantined != 0 {
		t.Errorf("%d were quarantined, want none", st.Quarantined)
	}
}

// TestMalformed is RN-RX-09 and RN-RX-01: an unreadable notification is acknowledged
// and quarantined, not even a part of it is applied, and a pull follows.
func TestMalformed(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.put("/b", "two")
	good := p.payload()
	deep := strings.Repeat("<x>", 100_000)
	var many strings.Builder
	for i := range 50_001 {
		fmt.Fprintf(&many, `<url><loc>%s</loc><rs:md change="deleted"/></url>`, s.url(fmt.Sprint("/", i)))
	}
	bad := []string{
		"", " \n", "no document", "<html><body>login</body></html>",
		good[:strings.Index(good, "</url>")+len("</url>")], // cut off behind an entry
		doc("urlset", `<rs:md capability="change-notification"/>`, deep),
		p.notification(p.until, p.until.Add(time.Second), many.String()),
		`<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;">]>` + good,
	}
	for _, payload := range bad {
		if got := p.deliver(payload); got/100 != 2 {
			t.Errorf("%.60q is answered %d, want 2xx: the hub would retry without success", payload, got)
		}
	}
	g.becomes("/b", "two") // by the looks
	eventually(t, func() bool { return int(g.status().Quarantined) >= len(bad)-2 })
	g.settled()
	if b, err := g.journal.Load(t.Context(), "aside/0"); err != nil || b == nil {
		t.Errorf("nothing was kept aside: %v", err)
	}
	g.end()
	g.same()
}

// TestOthers are RN-RX-07, RN-FW-04, RN-FW-05 and WS-SEC-08: what
// belongs to another set, another kind of notification, another document, and
// entries that are none of the Source's.
func TestOthers(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	own := p.url("/rs/capabilitylist.xml")
	gone := fmt.Sprintf(`<url><loc>%s</loc><rs:md change="deleted" datetime="2024-05-01T03:00:00Z"/></url>`, s.url("/a"))
	foreign := `<url><loc>http://198.51.100.7/x</loc><rs:md change="created" datetime="2024-05-01T03:00:00Z"/></url>
<url><loc>http://198.51.100.7/y</loc><rs:md change="deleted" datetime="2024-05-01T03:00:00Z"/></url>`
	for _, tt := range []struct{ name, payload string }{
		{"another set", doc("urlset", `<rs:ln rel="up" href="`+s.url("/rs/other.xml")+`"/><rs:md capability="change-notification"/>`, gone)},
		{"another host", doc("urlset", `<rs:ln rel="up" href="http://198.51.100.7/rs/capabilitylist.xml"/><rs:md capability="change-notification"/>`, gone)},
		{"framework", doc("urlset", `<rs:ln rel="up" href="`+own+`"/><rs:md capability="framework-notification"/>`, gone)},
		{"capability list", doc("urlset", `<rs:md capability="capabilitylist"/>`, "<url><loc>"+own+"</loc></url>")},
		{"resource list", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T03:00:00Z"/>`, "<url><loc>"+s.url("/new")+"</loc></url>")},
		{"sitemap", doc("urlset", "", "<url><loc>"+s.url("/new")+"</loc></url>")},
		{"index", doc("sitemapindex", `<rs:md capability="changelist" from="2024-05-01T03:00:00Z"/>`, "")},
		{"foreign", p.notification(p.until, p.until, foreign)},
	} {
		before := g.status().Pulls
		s.put("/by-the-way", tt.name) // a look brings it
		if got := p.deliver(tt.payload); got/100 != 2 {
			t.Errorf("%s: answered %d, want 2xx", tt.name, got)
		}
		if tt.name == "foreign" {
			eventually(t, func() bool { return g.status().Waiting == 0 })
			break
		}
		g.becomes("/by-the-way", tt.name)
		if g.status().Pulls == before {
			g.settled()
		}
		if !g.has("/a", "one") || !g.has("/new", "") {
			t.Errorf("%s: it was applied", tt.name)
		}
	}
	if st := g.status(); st.Quarantined != 2 || st.Error != "" {
		t.Errorf("status %+v, want 2 quarantined and no error", st)
	}
	for _, r := range g.passReports() {
		if r.Refused > 0 {
			t.Errorf("resources of other hosts in a notification are pending: %+v", r)
		}
	}
}

// lag has the Change List omit everything that happens from now on.
func (s *site) lag() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = s.now.Add(1)
}

// passReports returns the reports so far.
func (g *following) passReports() []destination.Report {
	g.rmu.Lock()
	defer g.rmu.Unlock()
	return append([]destination.Report(nil), g.reports...)
}

// TestForged is RN-RX-04 and WS-X-05: a wrong signature is acknowledged, a
// missing one refused; neither is applied, both are counted and cause a pull.
func TestForged(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.put("/b", "two")
	gone := p.notification(p.until, p.until, fmt.Sprintf(`<url><loc>%s</loc><rs:md change="deleted" datetime="2024-05-01T03:00:00Z"/></url>`, s.url("/a")))
	if got := p.deliverSigned(gone, "sha256="+strings.Repeat("0", 64)); got != http.StatusAccepted {
		t.Errorf("a wrong signature is answered %d, want 202", got)
	}
	g.becomes("/b", "two")
	s.put("/b", "three")
	if got := p.deliverSigned(gone, "-"); got != http.StatusForbidden {
		t.Errorf("a missing signature is answered %d, want 403", got)
	}
	g.becomes("/b", "three")
	g.settled()
	if st := g.status(); st.Forged != 2 || st.Applied != 0 || !g.has("/a", "one") {
		t.Errorf("status %+v, want 2 forged and nothing applied", st)
	}
}

// TestFollowGuard has a Source notify the deletion of everything, a few at a time:
// the guard holds over all of them (promise 8).
func TestFollowGuard(t *testing.T) {
	t.Parallel()
	for _, listed := range []bool{true, false} { // whether the Change List has the deletions, too
		s := newSite(t, style{})
		for i := range 40 {
			s.put(fmt.Sprint("/", i), "content")
		}
		p := newPress(t, s, true, false)
		g := newFollowing(t, s, true)
		g.start(destination.FollowOptions{})
		g.live(destination.ChannelHub)
		g.settled() // a pull after the first deletions would not count them: no notification had announced any
		if !listed {
			s.lag()
		}
		for i := range 40 {
			s.del(fmt.Sprint("/", i))
			if i%4 == 3 {
				p.notify()
				eventually(t, func() bool { return g.status().Waiting == 0 })
			}
		}
		eventually(t, func() bool { return strings.Contains(g.status().Refused, "would delete") })
		g.end()
		if n := len(g.files()); n < 20 {
			t.Errorf("%d of 40 files are left, want half of them", n)
		}
	}
}

// TestRestart is RN-RX-01: acknowledged notifications are applied by the next
// process, if this one ends; nothing is requested twice.
func TestRestart(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	p.site.setFault(func(w http.ResponseWriter, r *http.Request) bool { // contents are unavailable
		if r.URL.Path != "/b" {
			return r.URL.Path == "/rs/changes" && func() bool { w.WriteHeader(204); return true }()
		}
		time.Sleep(50 * time.Millisecond)
		http.Error(w, "busy", http.StatusServiceUnavailable)
		return true
	})
	s.lag()
	s.put("/b", "two")
	p.notify()
	g.end()
	p.site.setFault(nil)
	g.start(destination.FollowOptions{})
	g.becomes("/b", "two")
	g.end()
	g.same()
}

// TestDenied is WS-V-03 and RN-RX-04: after a hub denies the subscription, the set is
// polled, and the reason is recorded. WS-L-07: a channel that is gone is left, too.
func TestFollowDenied(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	p.deny = "not you"
	g := newFollowing(t, s, true)
	g.start(destination.FollowOptions{Poll: 30 * time.Millisecond})
	g.live(destination.ChannelPoll)
	eventually(t, func() bool { return strings.Contains(g.status().Error, "not you") })
	s.put("/b", "two")
	g.becomes("/b", "two")
	g.end()

	s, p, g = followHub(t, style{})
	g.end()
	g.start(destination.FollowOptions{Poll: 50 * time.Millisecond, Check: 60 * time.Millisecond})
	g.live(destination.ChannelHub)
	s.mu.Lock()
	s.offer = ""
	s.mu.Unlock()
	eventually(t, func() bool { return g.status().Channel == destination.ChannelPoll && p.subscribers() == 0 })
	s.put("/b", "two")
	g.becomes("/b", "two")
	g.end()
}

// TestNoChangeList is RN-RX-08: without a Change List, a gap causes another full
// comparison.
func TestNoChangeList(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{noChanges: true})
	s.put("/b", "lost")
	_ = p.payload()
	s.put("/c", "heard")
	p.notify()
	g.becomes("/b", "lost")
	g.becomes("/c", "heard")
	g.settled()
	g.end()
	g.same()
}

// TestOrderOfStart is RN-RX-05: notifications between the subscription and the end
// of the baseline are processed after it.
func TestOrderOfStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	var start time.Time
	p.slow = 200 * time.Millisecond // to verify
	inner := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/rs/resourcelist.xml" || s.got("/rs/resourcelist.xml") > 1 {
			return inner(w, r)
		}
		if time.Since(start) < p.slow {
			t.Error("the Resource List is read before the subscription is verified")
		}
		eventually(t, func() bool { return p.subscribers() == 1 })
		text, _ := s.document("/rs/resourcelist.xml")
		s.put("/b", "two") // behind the list
		p.notify()
		_, _ = w.Write([]byte(text))
		return true
	})
	start = time.Now()
	g.start(destination.FollowOptions{})
	g.becomes("/b", "two")
	g.settled()
	g.end()
	g.same()
}

// TestFollowRestored has the Source go back to an earlier state, and change on
// from there: changes that it notified before and no longer lists stay (promise 9).
func TestFollowRestored(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	s.mu.Lock()
	files, log := maps.Clone(s.files), slices.Clone(s.log)
	s.now = s.now.Add(time.Minute) // what is of one second is not older
	s.mu.Unlock()
	s.put("/a", "newer")
	p.notify()
	g.becomes("/a", "newer")
	g.end()
	s.mu.Lock()
	s.files, s.log = files, log
	s.mu.Unlock()
	s.put("/after", "the restore")
	g.start(destination.FollowOptions{})
	eventually(t, func() bool { return strings.Contains(g.status().Refused, "back in time") })
	g.end()
	if !g.has("/a", "newer") {
		t.Error("the newer copy is gone")
	}
}

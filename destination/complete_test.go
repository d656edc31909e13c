package destination_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/destination"
)

// frozen makes the site keep serving the present version of a document.
func (s *site) frozen(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.document(path)
	if !ok {
		s.t.Fatalf("there is no %s", path)
	}
	s.doc[path] = text
}

func (s *site) thawed(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.doc, path)
}

// withoutFrom has Change Lists not say from when on they are complete (RS-MD-14).
func (s *site) withoutFrom() {
	s.rewrite = func(path, text string) string {
		before, after, ok := strings.Cut(text, `<rs:md capability="changelist" from="`)
		if !ok {
			return text
		}
		_, after, _ = strings.Cut(after, `"`)
		return before + `<rs:md capability="changelist"` + after
	}
}

// TestUnprovenIsReported: what the documents of a Source do not prove is in the
// result of the run that met it, of every later run with nothing new, and of an
// audit: complete is false, and a sentence says why and what closes it.
func TestUnprovenIsReported(t *testing.T) {
	t.Parallel()
	const baseline = "--baseline"
	gap := func(s *site, m *mirror) { // the list ends before the Change List begins
		s.frozen("/rs/resourcelist.xml")
		s.put("/e", "e")
		s.put("/f", "f")
		s.forget(len(s.log) - 1)
	}
	tests := []struct {
		name    string
		style   style
		source  func(s *site, m *mirror) // before the first run
		reason  string                   // part of it; empty: it is complete
		command string                   // its last flag
		needs   string
		publish func(s *site) // what closes it, with the command
	}{
		{name: "a Resource List and a Change List"},
		{name: "a Resource List", style: style{noChanges: true}},
		{name: "a Resource Dump and a Change Dump", style: style{dumpStyle: dumpStyle{dump: true, noList: true, changeDump: true, noChangeList: true}}},
		{name: "a Change List alone", style: style{dumpStyle: dumpStyle{noList: true}},
			reason: "from a Change List alone, and what was at the Source before 20", command: baseline, needs: "publishes a Resource List",
			publish: func(s *site) { s.style.noList = false }},
		{name: "a Change Dump alone", style: style{dumpStyle: dumpStyle{noList: true, changeDump: true, noChangeList: true}},
			reason: "from a Change Dump alone", command: baseline, needs: "publishes a Resource List",
			publish: func(s *site) { s.style.noList = false }},
		{name: "a Change List alone, without from", style: style{dumpStyle: dumpStyle{noList: true}},
			source: func(s *site, _ *mirror) { s.withoutFrom() },
			reason: "before its first change is unknown", command: baseline, needs: "publishes a Resource List",
			publish: func(s *site) { s.style.noList, s.rewrite = false, nil }},
		{name: "a Change List without from", source: func(s *site, _ *mirror) { s.withoutFrom() },
			reason: "does not say from when on", needs: "state from"},
		{name: "a Resource List without at", style: style{noAt: true}, reason: "as of when it is", needs: "state at"},
		{name: "a gap between Resource List and Change List", source: gap,
			reason: "changes may be missing", command: baseline, needs: "newer than the gap",
			publish: func(s *site) { s.thawed("/rs/resourcelist.xml") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, m := spoiledSite(t, test.style)
			s.makeDump()
			if test.source != nil {
				test.source(s, m)
			}
			check := func(when string, complete bool, all []destination.Unproven) {
				t.Helper()
				if complete != (test.reason == "") || complete != (len(all) == 0) {
					t.Fatalf("%s: complete %v, %+v", when, complete, all)
				}
				if complete {
					return
				}
				text := all[0].String()
				if !strings.Contains(text, test.reason) || !strings.HasSuffix(all[0].Command, test.command) || !strings.Contains(all[0].Needs, test.needs) {
					t.Errorf("%s: %+v", when, all)
				}
				if test.command != "" && !strings.HasPrefix(all[0].Command, "lockstep sync "+s.srv.URL+" ") || strings.Count(text, "\n") > 0 {
					t.Errorf("%s: %q", when, text)
				}
			}
			run := func(when string) {
				t.Helper()
				r, err := m.sync()
				if err != nil {
					t.Fatalf("%s: %v", when, err)
				}
				check(when, r.Complete, r.Unproven)
				if len(r.BySet) != 1 || r.BySet[0].Complete != r.Complete {
					t.Errorf("%s: by set %+v", when, r.BySet)
				}
			}
			audit := func(when string) {
				t.Helper()
				r, _ := m.destination().Audit(t.Context(), m.address(), destination.AuditOptions{})
				check(when, r.Complete, r.Unproven)
			}
			m.opts.DryRun = true
			run("a dry run")
			m.opts.DryRun = false
			run("the first run")
			run("a run with nothing new")
			if test.name != "a gap between Resource List and Change List" { // of which an audit says more
				audit("an audit")
			}
			s.put("/a", "changed")
			s.makeDump()
			run("a run with a change")
			status := m.followedUntilSynced()
			check("follow", status.Complete, status.Sets[0].Unproven)
			if test.publish == nil {
				return
			}
			test.publish(s)
			test.needs = "" // the Source does its part now
			run("a run that only could close it")
			m.opts.Baseline = true
			r, err := m.sync()
			m.opts.Baseline = false
			if err != nil || !r.Complete || len(r.Unproven) > 0 {
				t.Fatalf("the command: %v %+v", err, r)
			}
			if r = m.mustSync(); !r.Complete {
				t.Errorf("a run after the command: %+v", r)
			}
			if r := m.audit(); !r.Complete || len(r.Unproven) > 0 {
				t.Errorf("an audit after the command: %+v", r)
			}
		})
	}
}

// followedUntilSynced follows until all sets were looked at.
func (m *mirror) followedUntilSynced() destination.FollowStatus {
	m.t.Helper()
	f, err := m.destination().Follow(m.address(), destination.FollowOptions{Channel: destination.ChannelPoll})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(m.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	for !f.Status().Synced {
		select {
		case err := <-ended:
			m.t.Fatalf("follow ended: %v", err)
		case <-time.After(2 * time.Millisecond):
		}
	}
	status := f.Status()
	stop()
	if err := <-ended; err != nil {
		m.t.Fatal(err)
	}
	return status
}

// TestGapThatNothingClosesIsRemembered: changes that were lost while there is no
// list to compare with are a failure once, and every later run says that the
// mirror may lack them.
func TestGapThatNothingClosesIsRemembered(t *testing.T) {
	t.Parallel()
	s, m := spoiledSite(t, style{dumpStyle: dumpStyle{noList: true}})
	m.mustSync()
	s.put("/lost", "lost")
	s.put("/seen", "seen")
	s.forget(len(s.log) - 1)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.Complete {
		t.Fatalf("%v %+v", err, r)
	}
	for range 2 {
		r, err := m.sync()
		if err != nil || r.Complete || len(r.Unproven) != 2 || !strings.Contains(r.Unproven[1].Reason, "changes may be missing") {
			t.Errorf("a later run: %v %+v", err, r.Unproven)
		}
		if r := m.audit(); r.Complete || len(r.Unproven) != 2 {
			t.Errorf("an audit: %+v", r.Unproven)
		}
	}
}

// TestCompleteIsFalseWithFailures: a run with failures is not complete, and complete
// is in the JSON whether true or false.
func TestCompleteIsFalseWithFailures(t *testing.T) {
	t.Parallel()
	s, m := spoiledSite(t, style{})
	m.mustSync()
	s.put("/new", "new")
	s.breakAt("/new", "503")
	r, err := m.sync()
	if err == nil || r.Complete || len(r.Unproven) != 1 || !r.Unproven[0].IsFailure() || !strings.HasPrefix(r.Unproven[0].Command, "lockstep sync ") {
		t.Errorf("%v %+v", err, r)
	}
	a, _ := m.destination().Audit(t.Context(), m.address(), destination.AuditOptions{})
	if a.Complete {
		t.Errorf("audit: %+v", a)
	}
	for _, v := range []any{r, a, destination.Report{}, destination.SetReport{}, destination.AuditReport{}, destination.SetStatus{}, destination.FollowStatus{}} {
		if text, err := json.Marshal(v); err != nil || !strings.Contains(string(text), `"complete":false`) {
			t.Errorf("%T: %s %v", v, text, err)
		}
	}
}

// TestHarvestThatIsNotWholeIsNotComplete: where not all of a feed or a repository
// could be read, every run says so, also with nothing new, and the command that
// closes it does, once all can be read.
func TestHarvestThatIsNotWholeIsNotComplete(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.whole = false
	p.brings([]catalog.Update{p.put("/a", "a")})
	for run := range 3 {
		if run == 2 {
			p.brings([]catalog.Update{p.put("/b", "b")})
		}
		r, err := m.sync()
		if err != nil || r.Complete || r.BySet[0].Complete || len(r.Unproven) != 1 || !strings.Contains(r.Unproven[0].Reason, "not all of it could be read") ||
			!strings.HasSuffix(r.Unproven[0].Command, " --baseline") || strings.Contains(r.Unproven[0].String(), "\n") {
			t.Fatalf("run %d: %v %+v", run, err, r)
		}
	}
	if a, err := m.destination().Audit(t.Context(), p.srv.URL+"/feed", destination.AuditOptions{}); err == nil || a.Complete || len(a.Unproven) == 0 {
		t.Errorf("audit: %v %+v", err, a)
	}
	p.whole = true
	for _, m.opts.Baseline = range []bool{true, false} {
		if r, err := m.sync(); err != nil || !r.Complete || len(r.Unproven) > 0 {
			t.Errorf("%v %+v", err, r)
		}
	}
}

// TestNothingIsSaidOfUnreadDocuments: of a list that could not be read, nothing is known, such as that it
// lacks at, or that the mirror was made without it.
func TestNothingIsSaidOfUnreadDocuments(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, path, says string
		style            style
	}{
		{"a Resource List", "/rs/resourcelist.xml", "", style{}},
		{"a Resource List without at", "/rs/resourcelist.xml", "", style{noAt: true}},
		{"a Change List alone", "/rs/changelist.xml", "nothing of its Change List could be read", style{dumpStyle: dumpStyle{noList: true}}},
	} {
		for _, how := range []string{"503", "404", "html", "truncated"} {
			t.Run(test.name+" "+how, func(t *testing.T) {
				t.Parallel()
				s, m := spoiledSite(t, test.style)
				s.breakAt(test.path, how)
				r, err := m.sync()
				if err == nil || r.Complete {
					t.Fatalf("it was read: %+v", r)
				}
				said := ""
				for i := range r.Unproven {
					if u := &r.Unproven[i]; !u.IsFailure() {
						said += u.String()
					}
				}
				if how == "truncated" && strings.HasSuffix(test.name, " at") { // that much of it was read
					return
				}
				if test.says == "" && said != "" || !strings.Contains(said, test.says) {
					t.Errorf("says %q", said)
				}
				s.breakAt("", "")
				if r = m.mustSync(); r.Complete == (test.style != style{}) {
					t.Errorf("complete %v, %+v", r.Complete, r.Unproven)
				}
			})
		}
	}
}

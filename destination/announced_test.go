package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// answerUnreadable answers a request for a document in one of the ways in which it can
// be unreadable.
func answerUnreadable(w http.ResponseWriter, how, pages string) {
	switch how {
	case "503":
		w.WriteHeader(http.StatusServiceUnavailable)
	case "404":
		w.WriteHeader(http.StatusNotFound)
	case "reset":
		panic(http.ErrAbortHandler)
	case "html":
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>We are moving</body></html>"))
	case "truncated":
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`<?xml version="1.0"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"><url><loc>`))
	case "other kind":
		_, _ = w.Write([]byte(pages))
	}
}

// breakAt has the site fail at a path; "" heals it.
func (s *site) breakAt(path, how string) {
	pages := doc("urlset", "", "<url><loc>"+s.url("/page.html")+"</loc></url>")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if path == "" || r.URL.Path != path {
			return false
		}
		answerUnreadable(w, how, pages)
		return true
	})
}

// TestAnnouncedDocumentFails fails each document between the address and the
// lists, for a new mirror and for one that lacks an update: sync, its dry run,
// audit and follow agree that the mirror is not in step, name the document, and
// change nothing; once the document is back, a run brings the mirror into step.
func TestAnnouncedDocumentFails(t *testing.T) {
	t.Parallel()
	for _, path := range []string{"/.well-known/resourcesync", "/rs/capabilitylist.xml"} {
		for _, how := range []string{"503", "404", "reset", "html", "truncated", "other kind"} {
			for _, fresh := range []bool{true, false} {
				if fresh && how == "404" && path == "/.well-known/resourcesync" {
					continue // nothing is announced then
				}
				t.Run(fmt.Sprintf("%s %s new %v", strings.ReplaceAll(path, "/", "_"), how, fresh), func(t *testing.T) {
					t.Parallel()
					announcedFails(t, path, how, fresh)
				})
			}
		}
	}
}

func announcedFails(t *testing.T, path, how string, fresh bool) {
	s := newSite(t, style{})
	s.put("/a", "one")
	s.replace("/sitemap.xml", doc("urlset", "", "<url><loc>"+s.url("/page.html")+"</loc></url>"))
	s.replace("/page.html", "<html>a page</html>")
	m := newMirror(t, s)
	if !fresh {
		m.mustSync()
		s.put("/a", "two")
	}
	before := m.files()
	s.breakAt(path, how)
	check := func(what string, err error, text string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error()+text, path) {
			t.Errorf("%s: %v, %s, want an error that names %s", what, err, text, path)
		}
		if got := m.files(); !maps.Equal(got, before) {
			t.Errorf("%s: files %v, were %v", what, got, before)
		}
	}
	for range 2 { // later runs, too
		r, err := m.sync()
		check("sync", err, fmt.Sprint(r.Failures))
	}
	m.opts.DryRun = true
	r, err := m.sync()
	check("dry run", err, fmt.Sprint(r.Failures))
	m.opts.DryRun = false
	a, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{})
	check("audit", err, fmt.Sprint(a.Failures))
	if a.InSync {
		t.Errorf("audit: %+v", a)
	}
	g := &following{mirror: m, handler: &swapHandler{}}
	g.start(destination.FollowOptions{Pause: time.Millisecond, Poll: 2 * time.Millisecond})
	eventually(t, func() bool { return g.f.Status().Error != "" })
	st := g.f.Status()
	check("follow", errors.New(st.Error), fmt.Sprint(g.reportedFailures()))
	if st.Synced {
		t.Errorf("follow: %+v", st)
	}
	s.breakAt("", "")
	eventually(t, func() bool { return g.f.Status().Synced && g.f.Status().Error == "" })
	g.end()
	m.mustSync2()
}

// reportedFailures returns those of all reports.
func (g *following) reportedFailures() (all []destination.Failure) {
	g.rmu.Lock()
	defer g.rmu.Unlock()
	for _, r := range g.reports {
		all = append(all, r.Failures...)
	}
	return all
}

// mustSync2 is mustSync for a site with documents among its files that no list
// names.
func (m *mirror) mustSync2() {
	m.t.Helper()
	if r, err := m.sync(); err != nil {
		m.t.Errorf("Sync: %v\n%+v", err, r)
	}
	m.same()
}

// TestOneSetOfSeveralUnreadable breaks one of two sets: the other is brought into
// step, and every command reports that the mirror as a whole is not, and which set it is,
// on later runs, too.
func TestOneSetOfSeveralUnreadable(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"503", "404", "html", "truncated", "other kind"} {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s new %v", how, fresh), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, style{})
				s.put("/a", "one")
				s.withSlowSet("/b")
				s.replace("/b", "b")
				m := newMirror(t, s)
				if !fresh {
					if _, err := m.sync(); err != nil {
						t.Fatal(err)
					}
				}
				s.put("/c", "new")
				s.breakAt("/two/capabilitylist.xml", how)
				named := func(what string, err error, failures []destination.Failure) {
					t.Helper()
					if !errors.Is(err, destination.ErrIncomplete) || !strings.Contains(fmt.Sprint(failures), "/two/capabilitylist.xml") {
						t.Errorf("%s: %v, %v, want the set named", what, err, failures)
					}
				}
				m.opts.DryRun = true
				r, err := m.sync()
				named("dry run", err, r.Failures)
				m.opts.DryRun = false
				for range 2 {
					r, err = m.sync()
					named("sync", err, r.Failures)
					if len(r.BySet) != 2 || r.BySet[0].Error == "" || len(r.Withdrawn) > 0 {
						t.Errorf("sync: by set %+v, withdrawn %+v", r.BySet, r.Withdrawn)
					}
				}
				a, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{})
				named("audit", err, a.Failures)
				if a.InSync || a.Extra > 0 {
					t.Errorf("audit: %+v", a)
				}
				m.opts.Baseline, m.opts.MaxDelete = true, 100
				r, err = m.sync()
				named("baseline", err, r.Failures)
				m.opts.Baseline, m.opts.MaxDelete = false, 0
				if f := m.files(); f["c"] != "new" || (f["b"] == "b") == fresh {
					t.Errorf("files %v", f)
				}
				g := &following{mirror: m, handler: &swapHandler{}}
				g.start(destination.FollowOptions{Pause: time.Millisecond, Poll: 2 * time.Millisecond})
				eventually(t, func() bool { return g.f.Status().Error != "" && g.status().Pulls > 0 })
				named("follow", destination.ErrIncomplete, g.reportedFailures())
				if g.f.Status().Synced {
					t.Errorf("follow: %+v", g.f.Status())
				}
				s.breakAt("", "")
				eventually(t, func() bool { return g.f.Status().Synced && g.f.Status().Error == "" })
				g.end()
				if f := m.files(); f["b"] != "b" {
					t.Errorf("files %v", f)
				}
				if r, err := m.sync(); err != nil {
					t.Errorf("healed: %v, %+v", err, r)
				}
			})
		}
	}
}

// TestDescriptionBelowIndexUnreadable breaks one of two Source Descriptions below
// an index: its sets are neither in step nor withdrawn.
func TestDescriptionBelowIndexUnreadable(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.withSlowSet("/b")
	s.replace("/b", "b")
	sd := func(path string) string {
		return doc("urlset", `<rs:md capability="description"/>`, "<url><loc>"+s.url(path)+`</loc><rs:md capability="capabilitylist"/></url>`)
	}
	s.replace("/one.xml", sd("/rs/capabilitylist.xml"))
	s.replace("/two.xml", sd("/two/capabilitylist.xml"))
	s.replace("/.well-known/resourcesync", doc("sitemapindex", `<rs:md capability="description"/>`,
		"<sitemap><loc>"+s.url("/one.xml")+"</loc></sitemap><sitemap><loc>"+s.url("/two.xml")+"</loc></sitemap>"))
	m := newMirror(t, s)
	if r, err := m.sync(); err != nil || len(r.Sets) != 2 {
		t.Fatalf("%v, %+v", err, r)
	}
	for _, how := range []string{"404", "503", "html"} {
		s.breakAt("/two.xml", how)
		for range 2 {
			r, err := m.sync()
			if !errors.Is(err, destination.ErrIncomplete) || !strings.Contains(fmt.Sprint(r.Failures), "/two.xml") || len(r.Withdrawn) > 0 {
				t.Errorf("%s: %v, %+v", how, err, r)
			}
		}
		a, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{})
		if !errors.Is(err, destination.ErrIncomplete) || a.Extra > 0 || a.InSync {
			t.Errorf("%s: audit: %v, %+v", how, err, a)
		}
		m.opts.Baseline, m.opts.MaxDelete = true, 100
		if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || m.files()["b"] != "b" {
			t.Errorf("%s: with consent to delete: %v, %+v", how, err, r)
		}
		m.opts.Baseline, m.opts.MaxDelete = false, 0
		s.breakAt("", "")
		if r, err := m.sync(); err != nil || len(r.Sets) != 2 {
			t.Errorf("healed after %s: %v, %+v", how, err, r)
		}
	}
}

// TestWithdrawnSetIsReported withdraws a set: sync reports it on every run, audit
// counts its resources as extra, and a baseline with consent removes them.
func TestWithdrawnSetIsReported(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.withSlowSet("/b")
	s.replace("/b", "b")
	m := newMirror(t, s)
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`,
		"<url><loc>"+s.url("/rs/capabilitylist.xml")+`</loc><rs:md capability="capabilitylist"/></url>`))
	want := destination.WithdrawnSet{URI: s.url("/two/capabilitylist.xml"), Name: "two", Resources: 1}
	for _, dry := range []bool{true, false, false} {
		m.opts.DryRun = dry
		r, err := m.sync()
		if err != nil || len(r.Withdrawn) != 1 || r.Withdrawn[0] != want || !strings.Contains(fmt.Sprint(r.Warnings), "keeps 1 resource of it; to remove: sync --baseline --max-delete 100") {
			t.Errorf("%v, %+v, want %+v", err, r, want)
		}
	}
	if a := m.audit(); a.Extra != 1 || a.InSync || len(a.Withdrawn) != 1 {
		t.Errorf("audit: %+v", a)
	}
	m.opts.Baseline = true
	if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) || m.files()["b"] != "b" {
		t.Errorf("baseline without consent: %v, %+v", err, r)
	}
	m.opts.MaxDelete = 100
	if r, err := m.sync(); err != nil || r.Deleted != 1 || m.files()["b"] != "" || m.files()["a"] != "one" {
		t.Errorf("baseline with consent: %v, %+v", err, r)
	}
	m.opts.Baseline, m.opts.MaxDelete = false, 0
	if a := m.audit(); !a.InSync {
		t.Errorf("audit: %+v", a)
	}
}

// TestSelectionOfNothing selects nothing: every command ends with an error that
// says so, on later runs, too, and deletes nothing.
func TestSelectionOfNothing(t *testing.T) {
	t.Parallel()
	for _, o := range []destination.Options{{Include: []string{"*.typo"}}, {Exclude: []string{"*"}}, {Types: []string{"image/*"}}} {
		s, old := seeded(t, style{})
		for _, m := range []*mirror{newMirror(t, s), old} {
			before := m.files()
			m.opts = o
			for _, dry := range []bool{true, false, false} {
				m.opts.DryRun = dry
				r, err := m.sync()
				var none *destination.SelectionError
				if !errors.As(err, &none) || none.Listed != 10 || !strings.Contains(err.Error(), "0 of 10 selected") || !errors.Is(err, destination.ErrIncomplete) {
					t.Errorf("%+v: %v, %+v", o, err, r)
				}
			}
			m.opts.DryRun = false
			if _, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{}); err == nil || !strings.Contains(err.Error(), "0 of 10 selected") {
				t.Errorf("%+v: audit: %v", o, err)
			}
			if !maps.Equal(m.files(), before) {
				t.Errorf("%+v: files %v, were %v", o, m.files(), before)
			}
		}
		g := newFollowing(t, s, false)
		g.opts = o
		g.start(destination.FollowOptions{})
		eventually(t, func() bool { return strings.Contains(g.status().Error, "0 of 10 selected") })
		g.end()
	}
	s, m := seeded(t, style{})
	m.opts.Sets = []string{"typo"}
	if r, err := m.sync(); err == nil || !strings.Contains(err.Error(), "0 of 1 selected") {
		t.Errorf("--set: %v, %+v", err, r)
	}
	s.del("/d/f1")
}

// TestListKeepsItsKind puts a plain Sitemap in the place of the Resource List of an
// existing mirror: it is not accepted without a baseline.
func TestListKeepsItsKind(t *testing.T) {
	t.Parallel()
	s, m := seeded(t, style{noChanges: true})
	s.put("/d/f1", "newer")
	pages := doc("urlset", "", "<url><loc>"+s.url("/d/f2")+"</loc></url>")
	s.replace("/rs/resourcelist.xml", pages)
	for range 2 {
		r, err := m.sync()
		wantErr(t, r, err, destination.ErrIncomplete, "leads to a plain Sitemap now, not to a Resource List")
	}
	if a, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{}); !errors.Is(err, destination.ErrIncomplete) || a.Extra > 0 {
		t.Errorf("audit: %v, %+v", err, a)
	}
	m.opts.Baseline = true
	if r, err := m.sync(); err != nil {
		t.Errorf("baseline: %v, %+v", err, r)
	}
}

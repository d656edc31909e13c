package destination_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/destination"
)

// withhold stops the server of a pool from serving a resource; the returned function
// resumes it.
func (p *pool) withhold(path string) (serve func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.files[path]
	delete(p.files, path)
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.files[path] = text
	}
}

// twoForms is a record with two representations.
func (p *pool) twoForms(name, text string) []catalog.Update {
	r, json := "/"+name, "/"+name+".json"
	return []catalog.Update{
		p.put(r, text, p.link("alternate", json, "application/json")),
		p.put(json, "{"+text+"}", p.link("canonical", r, "text/plain")),
	}
}

// TestRepresentationThatIsNotServed: in a new mirror, too, a representation that
// cannot be fetched is replaced by another one of its record. That is reported once,
// and is no failure of this run or of a later one.
func TestRepresentationThatIsNotServed(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts          destination.Options
		absent, other string // of the record r
	}{
		"preferred":            {destination.Options{Prefer: []string{"application/json"}}, "r.json", "r"},
		"preferred, the first": {destination.Options{Prefer: []string{"text/plain"}}, "r", "r.json"},
		"the first":            {destination.Options{}, "r", "r.json"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t)
			p.complete = false
			m := newReservoir(t, p)
			m.opts = tt.opts
			text := map[string]string{"r": "1", "r.json": "{1}"}
			kept := "q" + strings.TrimPrefix(tt.absent, "r")
			has := func(path, content string) {
				t.Helper()
				m.holds(map[string]string{path: content, kept: map[string]string{"q": "2", "q.json": "{2}"}[kept]})
				if a := auditOf(t, m, destination.AuditOptions{Content: true}); !a.InSync {
					t.Errorf("audit: %+v", a)
				}
			}
			p.brings(append(p.twoForms("r", "1"), p.twoForms("q", "2")...))
			p.withhold("/" + tt.absent)
			for run, baseline := range []bool{false, false, true, false} {
				m.opts.Baseline = baseline
				r, err := m.sync()
				if err != nil || r.Failed != 0 || r.Deleted != 0 || len(r.Warnings) > 0 != (run == 0) {
					t.Fatalf("run %d: Sync = %v\n%+v", run, err, r)
				}
				has(tt.other, text[tt.other])
			}
			// The one that is kept follows its record.
			p.brings(p.twoForms("r", "3"))
			serve := p.withhold("/" + tt.absent)
			if r, err := m.sync(); err != nil || r.Updated != 1 || len(r.Warnings) > 0 {
				t.Fatalf("Sync = %v\n%+v", err, r)
			}
			has(tt.other, strings.Replace(text[tt.other], "1", "3", 1))
			serve()
			if r, err := m.sync(); err != nil || r.Created != 1 || r.Deleted != 1 {
				t.Fatalf("Sync = %v\n%+v", err, r)
			}
			has(tt.absent, strings.Replace(text[tt.absent], "1", "3", 1))
		})
	}
}

// TestRecordOfWhichNothingIsServed: where no representation of a record can be
// fetched, that is a failure, and names the first.
func TestRecordOfWhichNothingIsServed(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	m.opts.Prefer = []string{"application/json"}
	p.brings(p.twoForms("r", "1"))
	first, second := p.withhold("/r"), p.withhold("/r.json")
	for range 2 {
		r, err := m.sync()
		if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || !strings.Contains(r.Failures[0].Cause, "no other representation") {
			t.Fatalf("Sync = %v\n%+v", err, r)
		}
	}
	first()
	if r, err := m.sync(); err != nil || r.Created != 1 || len(r.Warnings) != 1 {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	m.holds(map[string]string{"r": "1"})
	second()
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.holds(map[string]string{"r.json": "{1}"})
}

// TestRepresentationThatVanished: a representation that is pending is given up when
// its record does not have it any more, or goes itself.
func TestRepresentationThatVanished(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	m.opts.Prefer, m.opts.MaxDelete = []string{"application/json"}, 100
	p.brings(append(p.twoForms("r", "1"), p.twoForms("q", "2")...))
	p.withhold("/r.json")
	p.withhold("/q.json")
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.holds(map[string]string{"r": "1", "q": "2"})
	p.brings([]catalog.Update{p.put("/r", "1"), p.del("/r.json"), p.del("/q"), p.del("/q.json")})
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.holds(map[string]string{"r": "1"})
	p.gets = 0
	if r, err := m.sync(); err != nil || p.gets > 0 || len(r.Warnings) > 0 {
		t.Fatalf("Sync = %v, %d requests\n%+v", err, p.gets, r)
	}
}

// TestRepresentationThatCameInACanceledRun: a run that fetches the representation
// that was pending, and ends before it has removed the one kept in its place, leaves
// that to the next run.
func TestRepresentationThatCameInACanceledRun(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	m.opts.Prefer = []string{"application/json"}
	p.brings(append(p.twoForms("r", "1"), p.twoForms("q", "2")...))
	serve := p.withhold("/r.json")
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	m.holds(map[string]string{"r": "1", "q.json": "{2}"})

	serve()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	m.opts.OnEvent = func(e destination.Event) {
		if e.Kind == destination.EventApplied {
			cancel()
		}
	}
	if _, err := m.destination().Sync(ctx, p.srv.URL+"/feed"); !errors.Is(err, context.Canceled) {
		t.Fatalf("Sync = %v, want it canceled", err)
	}
	m.opts.OnEvent = nil
	m.holds(map[string]string{"r": "1", "r.json": "{1}", "q.json": "{2}"})

	m.mustSync("none created=0 updated=0 deleted=1 unchanged=1 failed=0 refused=0")
	m.holds(map[string]string{"r.json": "{1}", "q.json": "{2}"})
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
}

package destination_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

func TestOrigin(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.brings([]catalog.Update{p.put("/a", "one"), p.put("/b", "two"), p.put("/d/c", "three")})
	r := m.mustSync("baseline created=3 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	if r.Via != "atom-pmh" || len(r.Sets) != 1 || r.Sets[0] != p.srv.URL+"/feed" || !r.SyncedUntil.Equal(p.now) {
		t.Errorf("report: %+v", r)
	}
	m.holds(map[string]string{"a": "one", "b": "two", "d/c": "three"})
	if p.applied != [2]int64{3, 3} {
		t.Errorf("applied %v", p.applied)
	}

	p.gets = 0
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	if p.gets != 0 {
		t.Errorf("%d requests where nothing is new", p.gets)
	}

	p.brings([]catalog.Update{p.put("/a", "1"), p.del("/b"), p.put("/e", "5")})
	m.mustSync("incremental created=1 updated=1 deleted=1 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"a": "1", "d/c": "three", "e": "5"})

	// Another memory of the same: what is held is not fetched again.
	p.id, p.gets = "another", 0
	m.mustSync("baseline created=0 updated=0 deleted=0 unchanged=3 failed=0 refused=0")
	if p.gets != 0 {
		t.Errorf("%d requests for what is the same", p.gets)
	}
	if p.fulls != 0 {
		t.Error("a full harvest that was not requested")
	}
	m.opts.Baseline = true
	m.mustSync("baseline created=0 updated=0 deleted=0 unchanged=3 failed=0 refused=0")
	if last := p.opened[len(p.opened)-1]; p.fulls != 1 || !last.Accept || last.ReadOnly {
		t.Errorf("--baseline: %d full harvests, %+v", p.fulls, last)
	}
}

// New resources of a long harvest are applied as they arrive, deletions at its end,
// where the guard counts all of them.
func TestOriginPortions(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	var first [][]catalog.Update
	all := map[string]string{}
	for i := range 20 {
		path := fmt.Sprintf("%02d", i)
		all[path] = path
		if i%5 == 0 {
			first = append(first, nil)
		}
		k := len(first) - 1
		first[k] = append(first[k], p.put("/"+path, path))
	}
	p.brings(first...)
	m.mustSync("baseline created=20 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	m.holds(all)

	portions := func() [][]catalog.Update {
		out := make([][]catalog.Update, 3)
		for i := range 16 {
			out[i/8] = append(out[i/8], p.del(fmt.Sprintf("/%02d", i)))
		}
		out[0] = append(out[0], p.put("/new", "new"))
		out[1] = append(out[1], p.put("/03", "03")) // is there again
		out[2] = []catalog.Update{p.put("/last", "last")}
		return out
	}
	p.brings(portions()...)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrRefused) || !strings.Contains(err.Error(), "15 of 21") {
		t.Fatalf("Sync = %v", err)
	}
	wantCounts(t, r, "incremental created=1 updated=0 deleted=0 unchanged=1 failed=0 refused=0")
	all["new"] = "new"
	m.holds(all)

	m.opts.MaxDelete = 100
	m.mustSync("incremental created=1 updated=0 deleted=15 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"03": "03", "16": "16", "17": "17", "18": "18", "19": "19", "new": "new", "last": "last"})
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
}

// A harvest in portions that prefers another representation and is canceled: the
// next run with the former preference fetches and removes what that one applied.
func TestOriginOtherSelectionCanceled(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.complete = false
	both := func(name, text string) []catalog.Update {
		r, json := "/"+name, "/"+name+".json"
		return []catalog.Update{
			p.put(r, text, p.link("alternate", json, "application/json")),
			p.put(json, "{"+text+"}", p.link("canonical", r, "text/plain")),
		}
	}
	preferred := []string{"application/json"}
	m.opts.Prefer = preferred
	p.brings(both("a", "1"))
	m.mustSync("baseline created=1 updated=0 deleted=0 unchanged=0 failed=0 refused=0")

	m.opts.Prefer = nil
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	updates := 0
	p.onUpdate = func() {
		if updates++; updates > 1 {
			cancel()
		}
	}
	p.brings(both("b", "2"), both("c", "3"))
	if _, err := m.destination().Sync(ctx, p.srv.URL+"/feed"); !errors.Is(err, context.Canceled) {
		t.Fatalf("Sync = %v, want it canceled", err)
	}
	m.holds(map[string]string{"a.json": "{1}", "b": "2"})

	m.opts.Prefer, p.onUpdate = preferred, nil
	p.brings(both("c", "3"))
	if r, err := m.sync(); err != nil {
		t.Fatalf("Sync: %v\n%+v", err, r)
	}
	m.holds(map[string]string{"a.json": "{1}", "b.json": "{2}", "c.json": "{3}"})
}

// A harvest breaks off: what was received is applied, and nothing is deleted for
// being absent (AP-HV-08, AP-CDL-03).
func TestOriginBroken(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.brings([]catalog.Update{p.put("/a", "a"), p.put("/b", "b"), p.put("/c", "c")})
	m.mustSync("baseline created=3 updated=0 deleted=0 unchanged=0 failed=0 refused=0")

	p.cat, p.id, p.whole = catalog.NewMem(nil), "new", false // it was lost
	if _, err := p.cat.Mark(t.Context(), poolSet); err != nil {
		t.Fatal(err)
	}
	p.brings([]catalog.Update{p.put("/a", "A"), p.put("/d", "d")})
	p.err = destination.Problems{errors.New("read " + p.srv.URL + "/page2: status 404"), errors.New("and another")}
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || len(r.Failures) != 2 || !strings.Contains(r.Failures[0].Cause, "page2") {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	wantCounts(t, r, "baseline created=1 updated=1 deleted=0 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"a": "A", "b": "b", "c": "c", "d": "d"})

	p.err, p.whole = nil, true
	p.brings([]catalog.Update{p.put("/b", "b")})
	m.mustSync("baseline created=0 updated=0 deleted=1 unchanged=3 failed=0 refused=0")
	m.holds(map[string]string{"a": "A", "b": "b", "d": "d"})
}

// Absence from a feed that is not complete proves nothing (AP-CDL-02), unless the
// user configures it so.
func TestOriginAbsence(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*pool, *reservoir)
		gone   bool
	}{
		{"not complete", func(p *pool, _ *reservoir) { p.complete = false }, false},
		{"complete", func(*pool, *reservoir) {}, true},
		{"not complete, --delete apply", func(p *pool, m *reservoir) { p.complete, m.opts.Delete = false, destination.DeleteApply }, true},
		{"complete, --delete keep", func(_ *pool, m *reservoir) { m.opts.Delete = destination.DeleteKeep }, false},
		{"another feed", func(p *pool, m *reservoir) { p.complete, p.source, m.opts.Baseline = false, "other", true }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t)
			m := newReservoir(t, p)
			a, b := p.put("/a", "a"), p.put("/b", "b")
			p.brings([]catalog.Update{a, b})
			m.mustSync("baseline created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
			p.cat, p.id = catalog.NewMem(nil), "new"
			if _, err := p.cat.Mark(t.Context(), poolSet); err != nil {
				t.Fatal(err)
			}
			tt.change(p, m)
			p.brings([]catalog.Update{a})
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"a": "a", "b": "b"}
			if tt.gone {
				delete(want, "b")
			}
			m.holds(want)
			if m.opts.Delete == destination.DeleteKeep { // is not forgotten
				m.opts.Delete = ""
				if _, err := m.sync(); err != nil {
					t.Fatal(err)
				}
				m.holds(map[string]string{"a": "a"})
			}
		})
	}
}

func TestOriginRefuses(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.brings([]catalog.Update{p.put("/a", "a")})
	p.err = &destination.RefusedError{Reason: "there is another feed now", Hint: "--baseline"}
	r, err := m.sync()
	if !errors.Is(err, destination.ErrRefused) || r.Created != 0 {
		t.Errorf("Sync = %v\n%+v", err, r)
	}
	m.holds(nil)
}

// AP-HV-15: a feed that has ended leaves everything as it is.
func TestOriginEnded(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.err = fmt.Errorf("harvest %s: %w", p.srv.URL, destination.ErrEnded)
	if _, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) {
		t.Errorf("what never was has ended: %v", err)
	}
	p.err = nil
	p.brings([]catalog.Update{p.put("/a", "a")})
	m.mustSync("baseline created=1 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	p.err = fmt.Errorf("harvest %s: %w", p.srv.URL, destination.ErrEnded)
	r := m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	if len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "it has ended; what is here was kept") {
		t.Errorf("warnings: %q", r.Warnings)
	}
	f, err := m.destination().Follow(p.srv.URL+"/feed", destination.FollowOptions{Poll: time.Millisecond, Check: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- f.Run(ctx) }()
	eventually(t, func() bool { sets := f.Status().Sets; return len(sets) == 1 && sets[0].Pulls > 2 })
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v, want it to continue until it is stopped", err)
	}
	m.holds(map[string]string{"a": "a"})
}

// Of the representations of a record one is kept, under its own URI: the first
// that is selected, unless another is preferred (AP-CDL-07, AP-AMB-14). Which
// that is may change without the guard being asked: no record goes.
func TestOriginRepresentations(t *testing.T) {
	t.Parallel()
	group := func(p *pool, name, text string) []catalog.Update {
		r, json := "/"+name, "/"+name+".json"
		return []catalog.Update{
			p.put(r, text, p.link("alternate", json, "application/json")),
			p.put(json, "{"+text+"}", p.link("canonical", r, "text/plain")),
		}
	}
	first := map[string]string{"only": "only"}
	json := map[string]string{"only": "only"}
	jsonOnly := map[string]string{}
	for i := range 9 {
		name, text := fmt.Sprint("r", i), fmt.Sprint(i)
		first[name], json[name+".json"], jsonOnly[name+".json"] = text, "{"+text+"}", "{"+text+"}"
	}
	for _, tt := range []struct {
		name string
		opts destination.Options
		want map[string]string
	}{
		{"first", destination.Options{}, first},
		{"prefer", destination.Options{Prefer: []string{"application/json"}}, json},
		{"prefer what there is not", destination.Options{Prefer: []string{"image/*"}}, first},
		{"prefer the first", destination.Options{Prefer: []string{"text/*", "application/json"}}, first},
		{"type", destination.Options{Types: []string{"application/json"}}, jsonOnly},
		{"type of the first", destination.Options{Types: []string{"text/*"}}, first},
		{"include", destination.Options{Include: []string{"*.json"}}, jsonOnly},
		{"exclude", destination.Options{Exclude: []string{"*/r?"}}, json},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t)
			m := newReservoir(t, p)
			p.complete = false
			m.opts = tt.opts
			var all []catalog.Update
			for i := range 9 {
				all = append(all, group(p, fmt.Sprint("r", i), fmt.Sprint(i))...)
			}
			p.brings(append(all, p.put("/only", "only")))
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			m.holds(tt.want)

			// Another selection finds its own.
			m.opts = destination.Options{}
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			m.holds(first)
			m.opts = tt.opts
			if _, err := m.sync(); err != nil {
				t.Fatal(err)
			}
			m.holds(tt.want)
			if r := auditOf(t, m, destination.AuditOptions{Content: true}); !r.InSync {
				t.Errorf("audit: %+v", r)
			}
			p.gets = 0
			p.brings(group(p, "r3", "three"))
			r, err := m.sync()
			if err != nil || r.Updated != 1 || r.Created+r.Deleted > 0 || p.gets != 1 {
				t.Errorf("Sync = %v, %d requests\n%+v", err, p.gets, r)
			}
		})
	}
}

// Formats come and go. The events have the URIs of the representations that are kept.
func TestOriginFormatsVanish(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	var events []string
	m.opts.OnEvent = func(e destination.Event) {
		if e.Kind == destination.EventApplied {
			events = append(events, fmt.Sprint(e.Change, " ", strings.TrimPrefix(e.URI, p.srv.URL), " ", e.Path))
		}
	}
	wantEvents := func(want ...string) {
		t.Helper()
		if d := cmp.Diff(want, events); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		events = nil
	}
	both := func(text string) []catalog.Update {
		return []catalog.Update{p.put("/r", text, p.link("alternate", "/r.json", "application/json")), p.put("/r.json", "{"+text+"}", p.link("canonical", "/r", ""))}
	}
	m.opts.MaxDelete = 100
	for _, prefer := range []bool{true, false} {
		m.opts.Prefer, m.opts.Types = []string{"application/json"}, nil
		if !prefer {
			m.opts.Prefer, m.opts.Types = nil, m.opts.Prefer
		}
		p.brings(both("1"))
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
		m.holds(map[string]string{"r.json": "{1}"})
		events = nil
		p.brings([]catalog.Update{p.put("/r", "2"), p.del("/r.json")})
		if prefer {
			m.mustSync("incremental created=1 updated=0 deleted=1 unchanged=0 failed=0 refused=0")
			m.holds(map[string]string{"r": "2"})
			wantEvents("created /r r", "deleted /r.json r.json")
		} else {
			m.mustSync("incremental created=0 updated=0 deleted=1 unchanged=0 failed=0 refused=0")
			m.holds(nil)
			wantEvents("deleted /r.json r.json")
		}
		p.brings(both("3"))
		if _, err := m.sync(); err != nil {
			t.Fatal(err)
		}
		m.holds(map[string]string{"r.json": "{3}"})
		if prefer {
			wantEvents("created /r.json r.json", "deleted /r r")
		} else {
			wantEvents("created /r.json r.json")
		}
	}

	// The first representation of one record is now a further one of another.
	m.opts.Types = nil
	m.mustSync("baseline created=1 updated=0 deleted=1 unchanged=0 failed=0 refused=0")
	p.brings([]catalog.Update{
		p.put("/new", "4", p.link("alternate", "/r", "text/plain")),
		p.put("/r", "3", p.link("canonical", "/new", "")), p.del("/r.json"),
	})
	m.mustSync("incremental created=1 updated=0 deleted=1 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"new": "4"})
}

// A representation that is to be replaced by another stays until the other has been
// fetched, however long that takes.
func TestOriginReplacementFails(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	both := []catalog.Update{p.put("/r", "1", p.link("alternate", "/r.json", "application/json")), p.put("/r.json", "{1}", p.link("canonical", "/r", ""))}
	p.brings(append(both, p.put("/z", "z")))
	m.mustSync("baseline created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	p.mu.Lock()
	delete(p.files, "/r.json")
	p.mu.Unlock()
	m.opts.Prefer = []string{"application/json"}
	for i := range 3 { // it is optional, and reported once
		r, err := m.sync()
		if err != nil || r.Failed != 0 || r.Deleted != 0 || len(r.Warnings) > 0 != (i == 0) {
			t.Fatalf("Sync = %v\n%+v", err, r)
		}
		m.holds(map[string]string{"r": "1", "z": "z"})
	}
	p.mu.Lock()
	p.files["/r.json"] = "{1}"
	p.mu.Unlock()
	m.mustSync("none created=1 updated=0 deleted=1 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"r.json": "{1}", "z": "z"})
}

// Contents come from the Origin where it has them, and are verified.
func TestOriginContents(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.maps = []filename.Map{{Prefix: p.srv.URL + "/?id=", Dir: ".", Value: true, Suffix: ".xml"}}
	record := func(id, text string) catalog.Update {
		u := p.put("/?id="+id, "nothing to ask for")
		sum := resourcesync.NewHasher(resourcesync.SHA256)
		_, _ = sum.Write([]byte(text))
		u.Hashes = sum.Sum()
		p.contents[u.URI] = text
		return u
	}
	p.brings([]catalog.Update{record("oai%3Ax%3A1", "<a/>"), record("oai%3Ax%3A2", "<b/>"), record("oai%3Ax%3A3", "<c/>")})
	p.contents[p.srv.URL+"/?id=oai%3Ax%3A2"] = "<wrong/>"
	p.gone[p.srv.URL+"/?id=oai%3Ax%3A3"] = true
	p.gets = 0
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Harvest != 1 || r.Failed != 2 {
		t.Fatalf("Sync = %v\n%+v", err, r)
	}
	m.holds(map[string]string{"oai:x:1.xml": "<a/>"})
	if p.gets != 1 { // to see what is there
		t.Errorf("%d requests", p.gets)
	}
	if p.updates != 2 {
		t.Errorf("%d updates: the feed was not read again for the missing resource", p.updates)
	}
	p.contents[p.srv.URL+"/?id=oai%3Ax%3A2"] = "<b/>"
	p.brings([]catalog.Update{p.del("/?id=oai%3Ax%3A3")})
	m.mustSync("incremental created=1 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"oai:x:1.xml": "<a/>", "oai:x:2.xml": "<b/>"})
}

// AP-CDL-05: an alternate that is not there leaves the copy, and has the feed be
// read again; AP-CDL-06: one that is temporarily unavailable is tried again.
func TestOriginPending(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.brings([]catalog.Update{p.put("/a", "a"), p.put("/b", "b")})
	m.mustSync("baseline created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	change := p.put("/a", "A")
	p.mu.Lock()
	delete(p.files, "/a")
	p.mu.Unlock()
	p.updates = 0
	p.brings([]catalog.Update{change})
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.Failed != 1 || p.updates != 2 {
		t.Fatalf("Sync = %v, %d updates\n%+v", err, p.updates, r)
	}
	m.holds(map[string]string{"a": "a", "b": "b"})

	// Reading the feed again may show that it was deleted.
	p.updates = 0
	p.brings(nil, []catalog.Update{p.del("/a")})
	p.onUpdate = func() {}
	if _, err = m.sync(); err != nil {
		t.Fatal(err)
	}
	m.holds(map[string]string{"b": "b"})
}

func TestOriginDryRun(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	m.opts.DryRun = true
	p.brings([]catalog.Update{p.put("/a", "a")}, []catalog.Update{p.put("/b", "b")})
	m.mustSync("baseline created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	m.holds(nil)
	if !p.opened[0].ReadOnly || p.applied != [2]int64{} {
		t.Errorf("%+v, applied %v", p.opened, p.applied)
	}
	m.opts.DryRun = false
	m.mustSync("baseline created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	m.opts.DryRun = true
	p.brings([]catalog.Update{p.del("/a"), p.put("/c", "c")})
	m.mustSync("incremental created=1 updated=0 deleted=1 unchanged=0 failed=0 refused=0")
	m.holds(map[string]string{"a": "a", "b": "b"})
}

func TestOriginWithoutBridge(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	c, err := fetch.New(fetch.Options{Home: discover.Home(p.srv.URL), Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d, err := destination.New(m.store, m.journal, c, destination.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Sync(t.Context(), p.srv.URL+"/feed"); err == nil || !strings.Contains(err.Error(), "/feed: an Atom feed, and harvesting is not configured") {
		t.Errorf("Sync = %v", err)
	}
}

func auditOf(t *testing.T, m *reservoir, o destination.AuditOptions) destination.AuditReport {
	t.Helper()
	r, err := m.destination().Audit(context.Background(), m.pool.srv.URL+"/feed", o)
	if err != nil {
		t.Fatalf("Audit: %v\n%+v", err, r)
	}
	return r
}

func TestOriginAudit(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	p.brings([]catalog.Update{p.put("/a", "a"), p.put("/b", "b"), p.put("/c", "c")})
	m.mustSync("baseline created=3 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	if r := auditOf(t, m, destination.AuditOptions{Content: true}); !r.InSync || r.Verified != 3 || r.Unverifiable != 0 {
		t.Errorf("audit: %+v", r)
	}
	p.brings([]catalog.Update{p.put("/a", "A"), p.del("/b"), p.put("/d", "d")})
	r := auditOf(t, m, destination.AuditOptions{})
	if r.InSync || r.Stale != 1 || r.Extra != 1 || r.Missing != 1 {
		t.Errorf("audit: %+v", r)
	}
	if last := p.opened[len(p.opened)-1]; !last.ReadOnly {
		t.Error("an audit may write to the memory")
	}
	if r = auditOf(t, m, destination.AuditOptions{Fix: true}); !r.InSync || r.Mended == nil || r.Mended.Fetched != 2 || r.Mended.Deleted != 1 {
		t.Errorf("audit --fix: %+v", r)
	}
	m.holds(map[string]string{"a": "A", "c": "c", "d": "d"})
	p.complete = false
	p.id, p.cat = "new", catalog.NewMem(nil)
	if _, err := p.cat.Mark(t.Context(), poolSet); err != nil {
		t.Fatal(err)
	}
	p.brings([]catalog.Update{p.put("/a", "A")})
	if r = auditOf(t, m, destination.AuditOptions{}); r.Extra != 0 {
		t.Errorf("AP-CDL-02: audit: %+v", r)
	}
}

// A pending resource that is deleted before it was ever fetched is not requested any more.
func TestOriginOwedAndGone(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	lost := p.put("/x", "x")
	p.mu.Lock()
	delete(p.files, "/x")
	p.mu.Unlock()
	p.brings([]catalog.Update{p.put("/a", "a")})
	m.mustSync("baseline created=1 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	p.brings([]catalog.Update{lost})
	if r, err := m.sync(); r.Failed != 1 {
		t.Fatalf("Sync = %v", err)
	}
	p.brings([]catalog.Update{p.del("/x")})
	m.mustSync("incremental created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")

	// Put and gone between two looks.
	p.brings([]catalog.Update{lost})
	if r, err := m.sync(); r.Failed != 1 {
		t.Fatalf("Sync = %v", err)
	}
	p.brings([]catalog.Update{p.put("/x", "again")}, []catalog.Update{p.del("/x")})
	m.mustSync("incremental created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
}

package destination_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/destination"
)

// fill puts n resources on s.
func fill(s *site, n int) {
	for i := range n {
		s.put(fmt.Sprintf("/d/%03d", i), fmt.Sprintf("content %d%0*d", i, i%40, 0))
	}
}

// singles returns the number of requests for single resources.
func (s *site) singles() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, k := range s.gets {
		if _, ok := s.files[path]; ok {
			n += k
		}
	}
	return n
}

// TestOrigins mirrors Sources that have one description only, or any two.
//
// Requirements: RS-DST-26.
func TestOrigins(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		style    style
		via, inc string // of the baseline, and of the run after
	}{
		{"list", style{}, destination.ViaList, destination.ViaChangeList},
		{"dump", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true}}, destination.ViaDump, destination.ViaDump},
		{"dump with copies", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, copies: true}}, destination.ViaDump, destination.ViaDump},
		{"dump without ranges", style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, noRanges: true}}, destination.ViaDump, destination.ViaDump},
		{"dump without hashes", style{noHash: true, noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true}}, destination.ViaDump, destination.ViaDump},
		{"dump by old tools", style{noAt: true, noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, noPaths: true}}, destination.ViaDump, destination.ViaDump},
		{"dump and change list", style{dumpStyle: dumpStyle{dump: true, noList: true}}, destination.ViaDump, destination.ViaChangeList},
		{"dump and change dump", style{dumpStyle: dumpStyle{dump: true, noList: true, changeDump: true, noChangeList: true}}, destination.ViaDump, destination.ViaChangeDump},
		{"list and change dump", style{dumpStyle: dumpStyle{changeDump: true, noChangeList: true}}, destination.ViaList, destination.ViaChangeDump},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tt.style)
			m := newMirror(t, s)
			fill(s, 23)
			if r := m.mustSync(); r.Via != tt.via || r.Created != 23 {
				t.Fatalf("baseline: %s via %s, want %s", counts(r), r.Via, tt.via)
			} else if packed := tt.via == destination.ViaDump; packed != (r.By.Package == 23) || packed != (s.singles() == 0) {
				t.Fatalf("baseline: by %+v, with %d requests for resources", r.By, s.singles())
			}
			s.put("/d/001", "changed")
			s.put("/d/001", "changed again")
			s.put("/e", "new")
			s.del("/d/002")
			s.makeDump()
			r := m.mustSync()
			if r.Via != tt.inc || r.Created != 1 || r.Updated != 1 || r.Deleted != 1 {
				t.Fatalf("changes: %s via %s, want %s", counts(r), r.Via, tt.inc)
			}
			if packed := tt.inc == destination.ViaDump || tt.inc == destination.ViaChangeDump; packed != (r.By.Package == 2) || packed != (s.singles() == 0) {
				t.Fatalf("changes: by %+v, with %d requests for resources", r.By, s.singles())
			}
			if r := m.mustSync(); r.Mode != destination.ModeNone || s.singles() > 0 {
				t.Fatalf("at rest: %s, %d requests for resources", counts(r), s.singles())
			}
		})
	}
}

// TestChangeDumpAlone mirrors a Source that has nothing but a Change Dump.
func TestChangeDumpAlone(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{changeDump: true, noList: true, noChangeList: true}})
	m := newMirror(t, s)
	fill(s, 12)
	s.del("/d/003")
	for range 2 {
		if r := m.mustSync(); r.Via != destination.ViaChangeDump || s.singles() > 0 {
			t.Fatalf("%s via %s, %d requests for resources", counts(r), r.Via, s.singles())
		}
		s.put("/d/004", "other")
	}
	m.mustSync()
}

// TestPackageListedTwice deletes, creates and deletes a resource within one second at
// a Source that states whole seconds and names packages by their content: the packages
// of the two deletions are one. Each entry of the Change Dump is a change of its own, so
// the package counts at each place where it is listed.
func TestPackageListedTwice(t *testing.T) {
	t.Parallel()
	for _, indexed := range []bool{false, true} {
		t.Run(fmt.Sprint("in two Change Dumps of an index: ", indexed), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{seconds: true, noDatetime: true, dumpStyle: dumpStyle{changeDump: true, noList: true, noChangeList: true, each: 1}})
			m := newMirror(t, s)
			s.put("/a", "one")
			s.put("/b", "one")
			m.mustSync()
			s.del("/a")
			s.put("/a", "two")
			s.del("/a")
			s.mu.Lock()
			text := s.changeDump("")
			parcels := s.dumps.changes
			s.mu.Unlock()
			if n := len(parcels); n != 5 || parcels[2].entry != parcels[4].entry {
				t.Fatalf("not one package listed twice: %s", text)
			}
			if indexed {
				s.replace("/rs/changedump.xml", doc("sitemapindex", mdOf("changedump"),
					"<sitemap><loc>"+s.url("/first.xml")+"</loc></sitemap><sitemap><loc>"+s.url("/second.xml")+"</loc></sitemap>"))
				first := ""
				for _, p := range parcels[:4] {
					first += p.entry
				}
				s.replace("/first.xml", doc("urlset", mdOf("changedump"), first))
				s.replace("/second.xml", doc("urlset", mdOf("changedump"), parcels[4].entry))
			}
			if r := m.mustSync(); r.Via != destination.ViaChangeDump || r.Deleted != 1 {
				t.Errorf("%s via %s", counts(r), r.Via)
			}
			s.put("/a", "three")
			if !indexed {
				m.mustSync()
			}
		})
	}
}

// TestDumpStart begins at addresses in and around a dump.
func TestDumpStart(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{dump: true, noList: true, changeDump: true, noChangeList: true, copies: true}})
	fill(s, 7)
	newMirror(t, s).mustSync() // makes the packages
	s.mu.Lock()
	addresses := []string{"/rs/resourcedump.xml", "/rs/changedump.xml", "/rs/capabilitylist.xml", "/.well-known/resourcesync"}
	alone := doc("urlset", `<rs:md capability="resourcedump" at="`+s.time(s.now)+`"/>`, s.dumps.current)
	s.mu.Unlock()
	s.replace("/alone.xml", alone)
	s.replace("/index.xml", doc("sitemapindex", `<rs:md capability="resourcedump" at="`+s.time(s.now)+`"/>`, "<sitemap><loc>"+s.url("/alone.xml")+"</loc></sitemap>"))
	s.replace("/changes.xml", doc("sitemapindex", `<rs:md capability="changedump" from="`+s.time(s.from)+`"/>`, "<sitemap><loc>"+s.url("/calone.xml")+"</loc></sitemap>"))
	s.mu.Lock()
	s.doc["/calone.xml"] = strings.ReplaceAll(s.changeDump(""), s.url("/rs/capabilitylist.xml"), "")
	s.mu.Unlock()
	s.replace("/robots.txt", "Sitemap: "+s.url("/index.xml")+"\n")
	s.replace("/page.html", `<!DOCTYPE html><html><head><link rel="resourcesync" href="/rs/capabilitylist.xml"></head></html>`)
	for _, path := range append(addresses, "/alone.xml", "/index.xml", "/page.html", "/calone.xml", "/changes.xml") {
		m := newMirror(t, s)
		m.at = s.url(path)
		if r := m.mustSync(); r.Created != 7 || s.singles() > 0 {
			t.Errorf("from %s: %s, %d requests for resources", path, counts(r), s.singles())
		}
	}
}

// TestDumpWay: a list states the resources, and packages deliver their content where
// that is cheaper.
func TestDumpWay(t *testing.T) {
	t.Parallel()
	both := dumpStyle{dump: true, changeDump: true, each: 40, copies: true}
	demand := dumpStyle{demand: true}
	tests := []struct {
		name   string
		style  style
		via    string
		resync int // resources that change before the second run
		by     func(r destination.Report) int64
		want   string // the report's via
		plan   string // and a piece of its plan
	}{
		{"dump", style{dumpStyle: both}, "", 0, byPackage, destination.ViaDump, "120 of 120 resources are missing or differ: 120 by Resource Dump (3 packages, "},
		{"list asked for", style{dumpStyle: both}, destination.ViaList, 0, byRequest, destination.ViaList, "120 by single requests"},
		{"on demand", style{dumpStyle: demand}, "", 0, byDemand, destination.ViaList, "120 by packages on demand ("},
		{"on demand without lengths", style{noLength: true, dumpStyle: demand}, "", 0, byDemand, destination.ViaList, "on demand"},
		{"few changes", style{dumpStyle: both}, "", 3, byRequest, destination.ViaChangeList, "3 of its resources to be fetched: 3 by single requests"},
		{"many changes", style{dumpStyle: both}, "", 90, byPackage, destination.ViaChangeDump, "90 by Change Dump ("},
		{"few changes, dumps asked for", style{dumpStyle: both}, destination.ViaDump, 3, byPackage, destination.ViaChangeDump, "3 by Change Dump (1 package, "},
		{"few on demand", style{dumpStyle: demand}, "", 3, byRequest, destination.ViaChangeList, "3 by single requests"},
		{"few on demand, asked for", style{dumpStyle: demand}, destination.ViaDump, 3, byDemand, destination.ViaChangeList, "3 by packages on demand"},
		{"many on demand", style{dumpStyle: demand}, "", 90, byDemand, destination.ViaChangeList, "90 by packages on demand"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, tt.style)
			m := newMirror(t, s)
			fill(s, 120)
			want := int64(120)
			if tt.resync > 0 {
				m.mustSync()
				want = int64(tt.resync)
				for i := range tt.resync {
					s.put(fmt.Sprintf("/d/%03d", i), fmt.Sprintf("an earlier version of %d", i))
				}
				for i := range tt.resync {
					s.put(fmt.Sprintf("/d/%03d", i), fmt.Sprintf("the last version of %d", i))
				}
			}
			m.opts.Via, m.opts.DryRun = tt.via, true
			dry, err := m.sync()
			if err != nil {
				t.Fatal(err)
			}
			m.opts.DryRun = false
			r := m.mustSync()
			if got := tt.by(r); got != want || r.Via != tt.want {
				t.Errorf("by %+v via %s, want %d via %s", r.By, r.Via, want, tt.want)
			}
			for _, r := range []destination.Report{dry, r} {
				if got := strings.Join(r.Plan, "; "); !strings.Contains(got, tt.plan) {
					t.Errorf("plan %q, want %q", got, tt.plan)
				}
			}
		})
	}
}

func byPackage(r destination.Report) int64 { return r.By.Package }
func byRequest(r destination.Report) int64 { return r.By.Request }
func byDemand(r destination.Report) int64  { return r.By.OnDemand }

// TestDumpOutdated has a dump that is older than the list: its old versions must not
// get into the mirror.
func TestDumpOutdated(t *testing.T) {
	t.Parallel()
	for _, noHash := range []bool{false, true} {
		s := newSite(t, style{noHash: noHash, dumpStyle: dumpStyle{dump: true, each: 50}})
		m := newMirror(t, s)
		fill(s, 100)
		s.makeDump()
		for i := range 30 {
			s.put(fmt.Sprintf("/d/%03d", i), "newer")
		}
		s.del("/d/099")
		m.opts.Via = destination.ViaDump
		if r := m.mustSync(); r.By.Package != 69 || r.By.Request != 30 {
			t.Errorf("without hash %v: by %+v", noHash, r.By)
		}
	}
}

// TestDumpGone removes or rebuilds packages while they are read.
func TestDumpGone(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		style dumpStyle
		fault func(s *site, w http.ResponseWriter, r *http.Request) bool
		ok    bool // the mirror is in step in spite of it
	}{
		{"gone for good, with a list", dumpStyle{dump: true}, goneZip, true},
		{"gone for good", dumpStyle{dump: true, noList: true}, goneZip, false},
		{"gone for good, with copies", dumpStyle{dump: true, noList: true, copies: true}, goneZip, true},
		{"rebuilt", dumpStyle{dump: true, noList: true}, rebuiltZip(), true},
		{"rebuilt, with copies", dumpStyle{dump: true, noList: true, copies: true}, rebuiltZip(), true},
		{"rebuilt, with a list", dumpStyle{dump: true}, rebuiltZip(), true},
		{"no ZIP, with a list", dumpStyle{dump: true, copies: true}, htmlZip, true},
		{"no ZIP", dumpStyle{dump: true, noList: true}, htmlZip, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.style.each = 40
			s := newSite(t, style{noChanges: true, dumpStyle: tt.style})
			m := newMirror(t, s)
			m.opts.Via = destination.ViaDump
			fill(s, 100)
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool { return tt.fault(s, w, r) })
			if tt.ok {
				// What was read may have been true when it was: then the next run
				// brings what changed since.
				if r, err := m.sync(); err != nil {
					t.Fatalf("Sync = %v, %s", err, counts(r))
				}
				m.mustSync()
				return
			}
			if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Created != 0 {
				t.Fatalf("Sync = %v, %s", err, counts(r))
			}
			s.setFault(nil)
			m.mustSync()
			s.del("/d/001")
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool { return tt.fault(s, w, r) })
			s.makeDump()
			if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Deleted != 0 {
				t.Fatalf("Sync = %v, %s: nothing may be changed because of packages that were not read", err, counts(r))
			}
		})
	}
}

func isZip(r *http.Request) bool { return strings.HasSuffix(r.URL.Path, ".zip") }

func goneZip(_ *site, w http.ResponseWriter, r *http.Request) bool {
	if isZip(r) {
		http.NotFound(w, r)
	}
	return isZip(r)
}

func htmlZip(_ *site, w http.ResponseWriter, r *http.Request) bool {
	if isZip(r) {
		_, _ = w.Write([]byte("<html><body>Please log in.</body></html>"))
	}
	return isZip(r)
}

// rebuiltZip rebuilds the dump, with other content, when a package is requested
// for the second time.
func rebuiltZip() func(s *site, w http.ResponseWriter, r *http.Request) bool {
	var asked atomic.Int32
	return func(s *site, _ http.ResponseWriter, r *http.Request) bool {
		if isZip(r) && asked.Add(1) == 2 {
			s.put("/d/000", "other")
			s.makeDump()
		}
		return false
	}
}

// TestDemandFails: the Source does not make the packages it offers.
func TestDemandFails(t *testing.T) {
	t.Parallel()
	answer := func(status int, text string) func(*site, http.ResponseWriter) {
		return func(_ *site, w http.ResponseWriter) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(text))
		}
	}
	tests := []struct {
		name   string
		answer func(s *site, w http.ResponseWriter)
		most   int // POSTs
	}{
		{"not found", answer(404, ""), 4},
		{"method not allowed", answer(405, ""), 4},
		{"HTML", answer(200, "<html></html>"), 4},
		{"nothing", answer(200, ""), 4},
		{"too much", answer(413, "ask for less"), 40},
		{"server error", answer(500, ""), 4},
		{"empty package", func(s *site, w http.ResponseWriter) { _, _ = w.Write(s.demanded(nil)) }, 4},
		{"half of it", func(s *site, w http.ResponseWriter) { _, _ = w.Write(s.demanded([]string{s.url("/d/001")})) }, 40},
		{"without end", func(_ *site, w http.ResponseWriter) {
			for range 400 {
				_, _ = w.Write(make([]byte, 64<<10))
			}
		}, 40},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{dumpStyle: dumpStyle{demand: true}})
			m := newMirror(t, s)
			fill(s, 200)
			var posts atomic.Int32
			s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method != http.MethodPost {
					return false
				}
				posts.Add(1)
				s.mu.Lock()
				defer s.mu.Unlock()
				tt.answer(s, w)
				return true
			})
			r := m.mustSync()
			if n := int(posts.Load()); n == 0 || n > tt.most {
				t.Errorf("%d packages were asked for, want up to %d; by %+v, warnings %q", n, tt.most, r.By, r.Warnings)
			}
		})
	}
}

// TestChangesVanish removes some of the changes: with a list to compare with, the
// mirror recovers; without one, the run reports the gap.
func TestChangesVanish(t *testing.T) {
	t.Parallel()
	for _, st := range []style{
		{parts: 3},
		{dumpStyle: dumpStyle{changeDump: true, noChangeList: true}},
		{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, dump: true, noList: true}},
		{dumpStyle: dumpStyle{changeDump: true, noChangeList: true, noList: true}},
	} {
		s := newSite(t, st)
		m := newMirror(t, s)
		fill(s, 4)
		m.mustSync()
		fill(s, 10)
		s.makeDump()
		gone := ""
		if st.changeDump {
			s.mu.Lock()
			s.changeDump("")
			gone, _, _ = strings.Cut(strings.TrimPrefix(s.dumps.changes[1].entry, "<url><loc>"+s.srv.URL), "<")
			s.mu.Unlock()
		}
		s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
			if gone == "" && strings.HasPrefix(r.URL.Path, "/rs/changes-") {
				gone = r.URL.Path
			}
			if r.URL.Path == gone {
				http.NotFound(w, r)
			}
			return r.URL.Path == gone
		})
		r, err := m.sync()
		if healed := !st.noList || st.dump; healed != (err == nil) {
			t.Fatalf("%+v: Sync = %v, %+v", st, err, r)
		} else if healed {
			m.same()
		}
		s.setFault(nil)
		m.mustSync()
	}
}

// TestDumpBack: the dump of a Source goes back in time.
func TestDumpBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{dump: true, noList: true}})
	m := newMirror(t, s)
	fill(s, 5)
	s.makeDump()
	s.mu.Lock()
	old := s.resourceDump("")
	packages := maps.Clone(s.dumps.files)
	s.mu.Unlock()
	m.mustSync()
	s.now = s.now.Add(time.Minute)
	s.put("/d/001", "newer")
	m.mustSync()
	caps := strings.ReplaceAll(doc("urlset", `<rs:md capability="capabilitylist"/>`, `<url><loc>URL/rs/resourcedump.xml</loc><rs:md capability="resourcedump"/></url>`), "URL", s.srv.URL)
	s.replace("/rs/capabilitylist.xml", caps) // no changes any more
	s.replace("/rs/resourcedump.xml", old)
	s.mu.Lock()
	s.dumps.files = packages
	s.mu.Unlock()
	for range 2 {
		if r, err := m.sync(); !errors.Is(err, destination.ErrRefused) {
			t.Fatalf("Sync = %v, %s", err, counts(r))
		}
		m.same()
	}
	m.opts.Baseline = true
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	if got := m.files()["d/001"]; got == "newer" {
		t.Error("with consent the mirror should go back")
	}
}

// TestDumpInterrupted cancels a run that unpacks, and resumes with the next one:
// unpacked members are not read again.
func TestDumpInterrupted(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true, dumpStyle: dumpStyle{dump: true, noList: true, each: 100, copies: true}})
	for i := range 300 {
		s.put(fmt.Sprintf("/d/%03d", i), strings.Repeat(fmt.Sprint(i, "x"), 3000))
	}
	whole := newMirror(t, s).mustSync()

	m := newMirror(t, s)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	m.on = func(e destination.Event) {
		if e.Kind == destination.EventApplied {
			stop()
		}
	}
	var first atomic.Value
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if isZip(r) && !first.CompareAndSwap(nil, r.URL.Path) && first.Load() != r.URL.Path {
			<-ctx.Done() // the others take long
		}
		return false
	})
	before, err := m.destination().Sync(ctx, m.address())
	s.setFault(nil)
	if !errors.Is(err, context.Canceled) || before.Created < 1 || before.Created > 100 { // in one batch, or where all is slow in two
		t.Fatalf("Sync = %v, %s", err, counts(before))
	}
	after := m.mustSync()
	if rest := 300 - before.Created; after.Created != rest || after.By.Package != rest {
		t.Errorf("%s by %+v", counts(after), after.By)
	}
	// The manifests are read again, and the beginnings of what was under way.
	if sum := before.Bytes + after.Bytes; sum > whole.Bytes*3/2 {
		t.Errorf("%d bytes in two runs, %d in one", sum, whole.Bytes)
	}
}

// TestDumpManyVersions changes resources more often than hints are kept.
func TestDumpManyVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{dumpStyle: dumpStyle{changeDump: true, each: 50}})
	m := newMirror(t, s)
	fill(s, 20)
	m.mustSync()
	for v := range 12 {
		for i := range 20 {
			s.put(fmt.Sprintf("/d/%03d", i), fmt.Sprintf("version %d of %d", v, i))
		}
	}
	m.opts.Via = destination.ViaDump
	if r := m.mustSync(); r.By.Package != 20 || r.Updated != 20 || r.Via != destination.ViaChangeDump {
		t.Errorf("%s by %+v via %s", counts(r), r.By, r.Via)
	}
}

// TestDumpElsewhere names packages, copies of manifests and packages on demand
// on a host that does not belong to the Source.
func TestDumpElsewhere(t *testing.T) {
	t.Parallel()
	other := newSite(t, style{})
	elsewhere := strings.Replace(other.srv.URL, "127.0.0.1", "localhost", 1)
	var asked atomic.Int32
	other.setFault(func(w http.ResponseWriter, _ *http.Request) bool {
		asked.Add(1)
		http.NotFound(w, nil)
		return true
	})
	for _, st := range []dumpStyle{{dump: true, copies: true, demand: true}, {dump: true, noList: true, copies: true}} {
		s := newSite(t, style{noChanges: true, dumpStyle: st})
		fill(s, 70)
		s.makeDump()
		s.mu.Lock()
		for _, path := range []string{"/rs/resourcedump.xml", "/rs/capabilitylist.xml"} {
			text, _ := s.document(path)
			for _, what := range []string{"/rs/r-", "/rs/demand"} {
				text = strings.ReplaceAll(text, s.url(what), elsewhere+what)
			}
			s.doc[path] = text
		}
		s.mu.Unlock()
		m := newMirror(t, s)
		m.opts.Via = destination.ViaDump
		if r, err := m.sync(); (err == nil) == st.noList {
			t.Errorf("%+v: Sync = %v, %s", st, err, counts(r))
		} else if !st.noList {
			m.same()
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the other host was asked %d times", n)
	}
}

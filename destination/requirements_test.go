package destination_test

import (
	"crypto/sha512"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// content returns the text of a mirrored file, by the path of its URI.
func (m *mirror) content(path string) string {
	m.t.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, filepath.FromSlash(strings.TrimPrefix(path, "/"))))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// The watermark after a baseline is the list's at (RS-DST-02), neither its
// completed (RS-MD-03) nor this machine's clock, which is years ahead of this
// Source's (RS-DST-27): a change between at and completed is applied.
func TestWatermarkIsAt(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "first")
	s.mu.Lock()
	list, _ := s.document("/rs/resourcelist.xml")
	at := s.time(s.now)
	s.mu.Unlock()
	s.put("/a", "second") // while the list was being written
	s.mu.Lock()
	file, changes := s.files["/a"], s.log
	s.files["/a"], s.log = changes[0].file, changes[:1]
	completed := s.time(s.tick())
	s.mu.Unlock()
	s.replace("/rs/resourcelist.xml", strings.Replace(list, `at="`+at+`"`, `at="`+at+`" completed="`+completed+`"`, 1))
	m := newMirror(t, s)
	if r := m.mustSync(); r.Mode != destination.ModeBaseline { // RS-DST-01
		t.Errorf("mode %s", r.Mode)
	}
	s.mu.Lock()
	s.files["/a"], s.log = file, changes
	s.mu.Unlock()
	wantCounts(t, m.mustSync(), "incremental created=0 updated=1 deleted=0 unchanged=0 failed=0 refused=0")
}

// Every change at or after the watermark is applied in the order of its event
// time, and each once, also where many share a second (RS-DST-20, RS-DST-22,
// RS-DST-23, RS-AMB-06), where the document is in another order, and where no
// times are stated (RS-CHL-14).
func TestEachChangeOnce(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {seconds: true}, {newestFirst: true}, {noDatetime: true}, {noTimes: true}} {
		t.Run(fmt.Sprintf("%+v", st), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, st)
			s.put("/a", "first")
			m := newMirror(t, s)
			m.mustSync()
			for i := range 5 {
				name := fmt.Sprintf("/new%d", i)
				s.put("/a", fmt.Sprintf("version %d", i))
				s.put(name, "new")
				if r := m.mustSync(); r.Created != 1 || r.Updated != 1 || r.Mode != destination.ModeIncremental {
					t.Errorf("round %d: %s", i, counts(r))
				}
				if s.got("/a") != 1 || s.got(name) != 1 {
					t.Errorf("round %d: %d and %d requests for two changes", i, s.got("/a"), s.got(name))
				}
			}
		})
	}
}

// What a change means depends on what the mirror has (RS-CHL-16): a creation of
// what is known updates it, an update of what is unknown creates it, a deletion
// of what is unknown does nothing; repeated, none has an effect.
func TestChangesDependOnWhatIsHeld(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "first")
	m := newMirror(t, s)
	m.mustSync()
	read := len(s.log)
	s.put("/a", "second")
	s.put("/b", "only")
	s.put("/c", "short")
	s.del("/c")
	s.mu.Lock()
	for i := read; i < len(s.log); i++ {
		switch s.log[i].change {
		case "created":
			s.log[i].change = "updated"
		case "updated":
			s.log[i].change = "created"
		}
	}
	s.mu.Unlock()
	wantCounts(t, m.mustSync(), "incremental created=1 updated=1 deleted=0 unchanged=0 failed=0 refused=0")
	if r := m.mustSync(); r.Mode != destination.ModeNone {
		t.Errorf("again: %s", counts(r))
	}
}

// Closed parts of a Change List from before the watermark are not read again
// (RS-CHI-08, RS-DST-24); once they are dropped from the front before they were
// read, the gap leads to a full comparison (RS-CHI-09, RS-DST-21).
func TestClosedPartsAndGaps(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{parts: 3})
	for i := range 8 {
		s.put(fmt.Sprintf("/f%d", i), "first")
	}
	m := newMirror(t, s)
	m.mustSync()
	s.put("/f8", "first")
	m.mustSync()
	s.mu.Lock()
	for path, n := range s.gets {
		if strings.HasPrefix(path, "/rs/changes-") && path < fmt.Sprintf("/rs/changes-%d", s.log[6].at.UnixMicro()) {
			t.Errorf("%s was read %d times", path, n)
		}
	}
	s.mu.Unlock()
	for i := range 9 {
		s.put(fmt.Sprintf("/f%d", i), "second")
	}
	s.forget(15)
	if r := m.mustSync(); r.Mode != destination.ModeBaseline || r.Updated != 9 {
		t.Errorf("after a gap: %s", counts(r))
	}
}

// A part's own until holds, not what its index says (RS-CHI-10), and not a
// lastmod in the index (RS-CHI-11): a part that the index calls closed and that
// says it is open is read again.
func TestPartSaysWhetherItIsClosed(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "first")
	m := newMirror(t, s)
	open := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		up := fmt.Sprintf(`<rs:ln rel="up" href="%s"/>`, s.url("/rs/capabilitylist.xml"))
		from := s.time(s.from)
		s.doc["/rs/changelist.xml"] = doc("sitemapindex", up+`<rs:md capability="changelist" from="`+from+`"/>`,
			fmt.Sprintf(`<sitemap><loc>%s</loc><lastmod>%s</lastmod><rs:md from="%s" until="%s"/></sitemap>`, s.url("/rs/part.xml"), s.time(s.log[0].at), from, s.time(s.log[0].at)))
		s.doc["/rs/part.xml"] = doc("urlset", up+`<rs:md capability="changelist" from="`+from+`"/>`, s.changesBody(s.log))
	}
	open()
	m.mustSync()
	s.put("/a", "second")
	open()
	m.mustSync()
	s.put("/b", "new")
	open()
	m.mustSync()
}

// All open parts of a Change List are read (RS-AMB-27), parts of another
// capability are not (RS-AMB-28), and where an open part is gone, its successor
// in the index is read (RS-AMB-26).
func TestOpenParts(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "first")
	m := newMirror(t, s)
	m.mustSync()
	s.put("/b", "by the first part")
	s.put("/c", "by the second part")
	index := func(bodies ...string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		up := fmt.Sprintf(`<rs:ln rel="up" href="%s"/>`, s.url("/rs/capabilitylist.xml"))
		text := ""
		for i, body := range bodies {
			name := fmt.Sprintf("/rs/open-%d-%d.xml", len(s.log), i)
			text += fmt.Sprintf(`<sitemap><loc>%s</loc><rs:md from="%s"/></sitemap>`, s.url(name), s.time(s.from))
			capability := "changelist"
			if strings.Contains(body, "stray") {
				capability = "changedump"
			}
			s.doc[name] = doc("urlset", up+fmt.Sprintf(`<rs:md capability="%s" from="%s"/>`, capability, s.time(s.from)), body)
		}
		s.doc["/rs/changelist.xml"] = doc("sitemapindex", up+`<rs:md capability="changelist" from="`+s.time(s.from)+`"/>`, text)
	}
	s.mu.Lock()
	first, second := s.changesBody(s.log[:2]), s.changesBody(s.log[2:])
	s.mu.Unlock()
	stray := fmt.Sprintf(`<url><loc>%s</loc><rs:md change="created" datetime="%s"/></url>`, s.url("/stray"), s.time(s.now))
	index(first, second, stray)
	r, err := m.sync()
	if m.content("/b") != "by the first part" || m.content("/c") != "by the second part" {
		t.Errorf("open parts: %v, %s", err, counts(r))
	}
	if s.got("/stray") > 0 {
		t.Error("an entry of a part with another capability was used")
	}
	s.put("/d", "by the successor")
	s.mu.Lock()
	for name := range s.doc {
		if strings.HasPrefix(name, "/rs/open-") {
			delete(s.doc, name)
		}
	}
	all := s.changesBody(s.log)
	s.mu.Unlock()
	index(all)
	m.mustSync()
}

// A listed or announced resource that is not there is reported and its copy is
// kept (RS-AMB-20, RS-CHL-18); it stays pending until it is available, whatever
// the Change List still says (RS-DST-25).
func TestMissingResourceIsNoDeletion(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "first")
	s.put("/b", "first")
	m := newMirror(t, s)
	m.mustSync()
	s.put("/a", "second")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a" {
			http.NotFound(w, r)
		}
		return r.URL.Path == "/a"
	})
	r, err := m.sync()
	if err == nil || r.Failed != 1 || m.content("/a") != "first" {
		t.Errorf("%v, %s, /a is %q", err, counts(r), m.content("/a"))
	}
	s.mu.Lock()
	s.log, s.from, s.fault = nil, s.now, nil
	s.mu.Unlock()
	m.mustSync()
	if m.content("/a") != "second" {
		t.Errorf("/a is %q", m.content("/a"))
	}
}

// Two URIs that differ only in what some take for the same are two resources
// (RS-AMB-23); a fragment belongs to the name and is not sent (RS-AMB-22).
func TestURIsAreComparedAsTheyStand(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/%7Ea", "upper case escape")
	s.put("/%7ea", "lower case escape")
	s.put("/~a", "no escape")
	m := newMirror(t, s)
	wantCounts(t, m.mustSync(), "baseline created=3 updated=0 deleted=0 unchanged=0 failed=0 refused=0")

	s = newSite(t, style{noHash: true, noLength: true})
	s.put("/page", "text")
	s.mu.Lock()
	list, _ := s.document("/rs/resourcelist.xml")
	s.log, s.from = nil, s.now
	s.mu.Unlock()
	s.replace("/rs/resourcelist.xml", strings.Replace(list, "/page</loc>", "/page#top</loc>", 1))
	m = newMirror(t, s)
	if r, err := m.sync(); err != nil || r.Created != 1 || s.got("/page") != 1 {
		t.Errorf("%v, %s, %d requests", err, counts(r), s.got("/page"))
	}
}

// Contents count as equal or different by a hash only if both sides have one of
// the same algorithm (RS-DST-05). A list that comes to state another algorithm has
// it computed from the files that are held, once: the same content is not fetched,
// and another content is found though its length and time are the same.
func TestHashesOfDifferentAlgorithms(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true})
	s.put("/a", "first")
	m := newMirror(t, s)
	m.mustSync()
	relist := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.tick()
		delete(s.doc, "/rs/resourcelist.xml")
		list, _ := s.document("/rs/resourcelist.xml")
		_, rest, _ := strings.Cut(list, `hash="`)
		hash, _, _ := strings.Cut(rest, `"`)
		s.doc["/rs/resourcelist.xml"] = strings.Replace(list, hash, fmt.Sprintf("sha-512:%x", sha512.Sum512(s.files["/a"].data)), 1)
	}
	relist()
	if a := m.audit(); !a.InSync {
		t.Errorf("audit of the same content with another algorithm: %+v", a)
	}
	if r := m.mustSync(); r.Created+r.Updated+r.Deleted != 0 || s.got("/a") != 0 {
		t.Errorf("the same content with another algorithm: %s, %d requests", counts(r), s.got("/a"))
	}
	held, err := m.journal.Lookup(t.Context(), []string{s.url("/a")})
	if err != nil || held[0].Hashes.Get(resourcesync.SHA512) == "" {
		t.Errorf("the hash that was computed is not recorded: %v, %v", held, err)
	}

	held[0].Hashes = slices.DeleteFunc(held[0].Hashes, func(h resourcesync.Hash) bool { return h.Algorithm == resourcesync.SHA512 })
	if err := m.journal.Record(t.Context(), journal.Batch{Put: held}); err != nil {
		t.Fatal(err)
	}
	s.mu.Lock()
	f := s.files["/a"]
	s.files["/a"] = siteFile{data: []byte("other"), mod: f.mod} // as long, in the same second
	s.mu.Unlock()
	relist()
	if a := m.audit(); a.InSync || a.Stale != 1 {
		t.Errorf("audit of another content of the same length and time: %+v", a)
	}
	wantCounts(t, m.mustSync(), "baseline created=0 updated=1 deleted=0 unchanged=0 failed=0 refused=0")
	if r := m.mustSync(); s.got("/a") != 0 {
		t.Errorf("the next run: %s, %d requests", counts(r), s.got("/a"))
	}
}

// A part of a Resource List that is missing has its index read once more; then
// the reading is incomplete and nothing is deleted for not being listed
// (RS-IDX-07, RS-DST-04). Incremental reading starts at the index's at, or at
// that of a part if it is earlier (RS-RLI-04).
func TestMissingPart(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{listParts: 2, noChanges: true})
	for i := range 6 {
		s.put(fmt.Sprintf("/f%d", i), "first")
	}
	m := newMirror(t, s)
	m.mustSync()
	s.del("/f0")
	s.put("/f5", "second")
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/rs/list-1" {
			http.NotFound(w, r)
		}
		return r.URL.Path == "/rs/list-1"
	})
	r, err := m.sync()
	if err == nil || r.Deleted != 0 || m.content("/f0") != "first" {
		t.Errorf("%v, %s", err, counts(r))
	}
	s.setFault(nil)
	m.mustSync()
}

func TestBaselineFromIndexStartsAtItsEarliestPart(t *testing.T) { // RS-RLI-04
	t.Parallel()
	s := newSite(t, style{listParts: 2})
	for i := range 4 {
		s.put(fmt.Sprintf("/f%d", i), "first")
	}
	s.mu.Lock()
	early, _ := s.document("/rs/list-0") // taken before the change, as it says
	s.mu.Unlock()
	s.put("/f0", "second")
	s.replace("/rs/list-0", early)
	m := newMirror(t, s)
	if r, err := m.sync(); err != nil {
		t.Fatalf("%v, %s", err, counts(r))
	}
	if r, err := m.sync(); err != nil || m.content("/f0") != "second" {
		t.Errorf("/f0 is %q; %v, %s", m.content("/f0"), err, counts(r))
	}
}

// Whether a document is an index is read off the document: a Capability List
// does not say it (RS-CL-10).
func TestDocumentSaysWhetherItIsAnIndex(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{listParts: 2})
	for i := range 5 {
		s.put(fmt.Sprintf("/f%d", i), "first")
	}
	newMirror(t, s).mustSync()
}

// A document whose own capability is not the one that its Capability List
// states is not read as either (RS-CL-11): the run is not in step, and nothing
// is deleted. Of two entries for one capability the first is used (RS-CL-02).
func TestContradictingCapabilities(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "first")
	m := newMirror(t, s)
	m.mustSync()
	s.mu.Lock()
	capabilities, _ := s.document("/rs/capabilitylist.xml")
	s.mu.Unlock()
	s.put("/b", "new")
	s.del("/a")
	s.replace("/rs/capabilitylist.xml", strings.NewReplacer(`capability="resourcelist"`, `capability="changelist"`, `capability="changelist"`, `capability="resourcelist"`).Replace(capabilities))
	r, err := m.sync()
	if err == nil || r.Deleted != 0 || m.content("/a") != "first" {
		t.Errorf("capabilities exchanged: %v, %s", err, counts(r))
	}

	second := fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="resourcelist"/></url>`, s.url("/rs/none.xml"))
	s.replace("/rs/capabilitylist.xml", strings.Replace(capabilities, "</urlset>", second+"</urlset>", 1))
	m = newMirror(t, s)
	m.mustSync()
	if s.got("/rs/none.xml") > 0 {
		t.Error("the second of two Resource Lists was asked for")
	}
}

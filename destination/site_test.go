package destination_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/destination"
	"lockstep/destination/filename"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
)

// A style is how a Source writes its documents.
type style struct {
	noHash      bool
	noLength    bool
	noLastmod   bool
	noDatetime  bool // as in 1.0: lastmod is the time of the event
	noTimes     bool // neither
	noAt        bool
	newestFirst bool
	seconds     bool // times of whole seconds
	noChanges   bool // no Change List at all
	sitemap     bool // a plain Sitemap instead of everything
	parts       int  // entries of one Change List; beyond, there is an index
	listParts   int  // likewise of a Resource List
	noETag      bool
	dumpStyle
}

// A site is a Source under a test's control. Its documents are made from its
// state when they are asked for.
type site struct {
	t     testing.TB
	srv   *httptest.Server
	style style

	mu    sync.Mutex // guards what follows
	now   time.Time
	files map[string]siteFile
	log   []siteEvent
	from  time.Time // of the log
	gets  map[string]int
	sent  int64                                             // bytes of resources
	fault func(w http.ResponseWriter, r *http.Request) bool // may answer instead
	doc   map[string]string                                 // documents that replace those made
	links func(e siteEvent) string                          // rs:ln of an entry; of a list, its event has no change
	down  bool                                              // it answers nothing
	head  string                                            // more at the root of the Capability List
	offer string                                            // more entries of it
	late  time.Time                                         // the Change List has no change since; zero: it does not lag
	dumps siteDumps

	rewrite func(path, text string) string // changes documents, and as manifest.xml those in packages
	beside  map[string][]byte              // further members of the package that is being made
}

type siteFile struct {
	data []byte
	mod  time.Time
	doc  bool
}

type siteEvent struct {
	path, change string
	file         siteFile
	at           time.Time
}

func newSite(t testing.TB, st style) *site {
	s := &site{t: t, style: st, files: map[string]siteFile{}, gets: map[string]int{}, doc: map[string]string{}}
	s.now = time.Date(2024, 5, 1, 2, 0, 0, 0, time.UTC)
	s.from = s.now
	s.srv = httptest.NewServer(s)
	t.Cleanup(s.srv.Close)
	return s
}

// tick advances the clock of the Source.
func (s *site) tick() time.Time {
	s.now = s.now.Add(137 * time.Millisecond)
	return s.now
}

func (s *site) put(path, data string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change := "created"
	if _, ok := s.files[path]; ok {
		change = "updated"
	}
	now := s.tick()
	f := siteFile{data: []byte(data), mod: now.Truncate(time.Second)}
	if s.style.noHash {
		f.mod = now // else two versions of one second would look the same
	}
	s.files[path] = f
	s.log = append(s.log, siteEvent{path, change, f, now})
}

func (s *site) del(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.files[path]; ok {
		delete(s.files, path)
		s.log = append(s.log, siteEvent{path, "deleted", siteFile{}, s.tick()})
	}
}

// forget drops the oldest n events: the history begins after them.
func (s *site) forget(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n = min(n, len(s.log))
	if k := s.style.parts; k > 0 {
		n -= n % k // closed lists go as a whole
	}
	if n == 0 {
		return
	}
	if s.style.parts > 0 && s.style.seconds {
		return // lists would have to end with a second
	}
	s.from = s.log[n-1].at.Add(time.Microsecond)
	if s.style.seconds { // it must be true as it is written
		s.from = s.log[n-1].at.Add(time.Second).Truncate(time.Second)
	}
	s.log = slices.DeleteFunc(slices.Clone(s.log), func(e siteEvent) bool { return e.at.Before(s.from) })
	s.now = maxTime(s.now, s.from)
}

func maxTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *site) setFault(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

func (s *site) replace(path, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.doc[path] = text
}

func (s *site) got(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gets[path]
}

func (s *site) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.gets)
	s.sent = 0
}

// resourceGets is how often resources were asked for since reset.
func (s *site) resourceGets() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for path, k := range s.gets {
		if !strings.HasPrefix(path, "/rs/") && !strings.HasPrefix(path, "/.well-known") && path != "/robots.txt" {
			n += k
		}
	}
	return n
}

func (s *site) url(path string) string { return s.srv.URL + path }

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	uri := r.URL.EscapedPath()
	if r.URL.RawQuery != "" {
		uri += "?" + r.URL.RawQuery
	}
	s.gets[uri]++
	fault, down := s.fault, s.down
	s.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if fault != nil && fault(w, r) {
		return
	}
	s.mu.Lock()
	pack, isPack := s.packed(w, r, uri)
	text, isDoc := s.document(uri)
	if isDoc && s.rewrite != nil {
		text = s.rewrite(uri, text)
	}
	f, isFile := s.files[uri]
	s.mu.Unlock()
	switch {
	case isPack:
		s.serve(w, r, siteFile{data: pack, doc: true})
	case isDoc:
		w.Header().Set("Content-Type", "application/xml")
		s.serve(w, r, siteFile{data: []byte(text), doc: true})
	case isFile:
		s.serve(w, r, f)
	default:
		http.NotFound(w, r)
	}
}

func (s *site) serve(w http.ResponseWriter, r *http.Request, f siteFile) {
	if !s.style.noETag {
		sum := md5.Sum(f.data)
		w.Header().Set("ETag", `"`+hex.EncodeToString(sum[:8])+`"`)
	}
	cw := &counting{ResponseWriter: w}
	http.ServeContent(cw, r, "", f.mod, bytes.NewReader(f.data))
	s.mu.Lock()
	if !f.doc {
		s.sent += cw.n
	}
	s.mu.Unlock()
}

type counting struct {
	http.ResponseWriter
	n int64
}

func (c *counting) Write(p []byte) (int, error) {
	n, err := c.ResponseWriter.Write(p)
	c.n += int64(n)
	return n, err
}

const rsRoot = `<?xml version="1.0" encoding="UTF-8"?>
<%s xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
%s%s</%s>
`

func doc(root, head, body string) string { return fmt.Sprintf(rsRoot, root, head, body, root) }

// document returns the document at path. The caller holds mu.
func (s *site) document(path string) (string, bool) {
	if text, ok := s.doc[path]; ok {
		return text, true
	}
	up := fmt.Sprintf(`<rs:ln rel="up" href="%s"/>`, s.url("/rs/capabilitylist.xml"))
	switch {
	case path == "/sitemap.xml" && s.style.sitemap:
		return strings.ReplaceAll(doc("urlset", "", s.listBody(0, 1<<30)), ` xmlns:rs="http://www.openarchives.org/rs/terms/"`, ""), true
	case s.style.sitemap:
		return "", false
	case path == "/.well-known/resourcesync":
		return doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(
			`<url><loc>%s</loc><rs:md capability="capabilitylist"/></url>`, s.url("/rs/capabilitylist.xml"))), true
	case path == "/rs/capabilitylist.xml":
		head := `<rs:md capability="capabilitylist"/><rs:ln rel="up" href="` + s.url("/.well-known/resourcesync") + `"/>`
		if s.style.demand {
			head += fmt.Sprintf(`<rs:ln rel="urn:x-lockstep:dump" href="%s"/>`, s.url("/rs/demand"))
		}
		head += s.head
		body := s.offer
		for _, c := range s.style.capabilities() {
			body += fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="%s"/></url>`, s.url("/rs/"+c+".xml"), c)
		}
		return doc("urlset", head, body), true
	case path == "/rs/resourcelist.xml" || strings.HasPrefix(path, "/rs/list-"):
		at := fmt.Sprintf(` at="%s"`, s.time(s.now))
		if s.style.noAt {
			at = ""
		}
		head := up + `<rs:md capability="resourcelist"` + at + `/>`
		if n := s.style.listParts; n > 0 && len(s.files) > n && path == "/rs/resourcelist.xml" {
			var b strings.Builder
			for i := 0; i < len(s.files); i += n {
				fmt.Fprintf(&b, "<sitemap><loc>%s</loc></sitemap>\n", s.url(fmt.Sprintf("/rs/list-%d", i/n)))
			}
			return doc("sitemapindex", head, b.String()), true
		} else if no, ok := strings.CutPrefix(path, "/rs/list-"); ok {
			i, _ := strconv.Atoi(no)
			return doc("urlset", head, s.listBody(i*n, n)), true
		}
		return doc("urlset", head, s.listBody(0, 1<<30)), true
	case path == "/rs/changelist.xml" || strings.HasPrefix(path, "/rs/changes-"):
		return s.changes(path, up)
	case path == "/rs/resourcedump.xml":
		return s.resourceDump(up), true
	case path == "/rs/changedump.xml":
		return s.changeDump(up), true
	}
	return "", false
}

func (s *site) listBody(skip, n int) string {
	var b strings.Builder
	for _, path := range slices.Sorted(maps.Keys(s.files)) {
		if skip--; skip >= 0 || n == 0 {
			continue
		}
		n--
		f := s.files[path]
		fmt.Fprintf(&b, "<url><loc>%s</loc>%s</url>\n", escape(s.url(path)), s.describe(f, f.mod, "")+s.linksOf(siteEvent{path: path, file: f}))
	}
	return b.String()
}

func (s *site) linksOf(e siteEvent) string {
	if s.links == nil {
		return ""
	}
	return s.links(e)
}

// describe returns the lastmod and rs:md of a file.
func (s *site) describe(f siteFile, mod time.Time, more string) string {
	text := ""
	if !s.style.noLastmod && !mod.IsZero() {
		text = "<lastmod>" + mod.UTC().Format(time.RFC3339Nano) + "</lastmod>"
	}
	if s.style.sitemap {
		return text
	}
	if f.data != nil {
		if !s.style.noHash {
			sum, sum5 := sha256.Sum256(f.data), md5.Sum(f.data)
			more += fmt.Sprintf(` hash="md5:%x sha-256:%x"`, sum5, sum)
		}
		if !s.style.noLength {
			more += fmt.Sprintf(` length="%d"`, len(f.data))
		}
	}
	if more != "" {
		text += "<rs:md" + more + "/>"
	}
	return text
}

// changes returns the Change List, its index, or a part. Parts are numbered by
// their first event.
func (s *site) changes(path, up string) (string, bool) {
	n := s.style.parts
	if n == 0 || len(s.log) <= n {
		log := s.log
		if !s.late.IsZero() {
			log = slices.DeleteFunc(slices.Clone(log), func(e siteEvent) bool { return !e.at.Before(s.late) })
		}
		return doc("urlset", up+fmt.Sprintf(`<rs:md capability="changelist" from="%s"/>`, s.time(s.from)), s.changesBody(log)), path == "/rs/changelist.xml"
	}
	bounds := func(i int) (from, until string) {
		from = s.time(s.from)
		if i > 0 {
			from = s.time(s.log[i-1].at.Add(time.Microsecond))
		}
		if i+n < len(s.log) {
			until = fmt.Sprintf(` until="%s"`, s.time(s.log[i+n-1].at.Add(time.Microsecond)))
		}
		return from, until
	}
	if path == "/rs/changelist.xml" {
		var b strings.Builder
		for i := 0; i < len(s.log); i += n {
			from, until := bounds(i)
			name := fmt.Sprintf("/rs/changes-%d", s.log[i].at.UnixMicro())
			fmt.Fprintf(&b, `<sitemap><loc>%s</loc><rs:md from="%s"%s/></sitemap>`, s.url(name), from, until)
		}
		return doc("sitemapindex", up+fmt.Sprintf(`<rs:md capability="changelist" from="%s"/>`, s.time(s.from)), b.String()), true
	}
	for i := 0; i < len(s.log); i += n {
		if path == fmt.Sprintf("/rs/changes-%d", s.log[i].at.UnixMicro()) {
			from, until := bounds(i)
			return doc("urlset", up+fmt.Sprintf(`<rs:md capability="changelist" from="%s"%s/>`, from, until),
				s.changesBody(s.log[i:min(i+n, len(s.log))])), true
		}
	}
	return "", false
}

func (s *site) changesBody(log []siteEvent) string {
	var b strings.Builder
	log = slices.Clone(log)
	if s.style.newestFirst {
		slices.Reverse(log)
	}
	for _, e := range log {
		more, mod := fmt.Sprintf(` change="%s"`, e.change), e.file.mod
		switch {
		case s.style.noTimes:
			mod = time.Time{}
		case s.style.noDatetime:
			mod = e.at
			if s.style.seconds {
				mod = mod.Truncate(time.Second)
			}
		default:
			more += fmt.Sprintf(` datetime="%s"`, s.time(e.at))
		}
		fmt.Fprintf(&b, "<url><loc>%s</loc>%s</url>\n", escape(s.url(e.path)), s.describe(e.file, mod, more)+s.linksOf(e))
	}
	return b.String()
}

func (s *site) time(t time.Time) string {
	if s.style.seconds {
		t = t.Truncate(time.Second)
	}
	return t.UTC().Format(time.RFC3339Nano)
}

func escape(s string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;").Replace(s)
}

// A mirror is a Destination under a test's control.
type mirror struct {
	t       testing.TB
	dir     string
	store   blob.Store
	journal journal.Journal
	site    *site
	at      string // the address to sync; default: the site
	opts    destination.Options
	events  []destination.Event
	on      func(destination.Event) // receives all events as well
}

func newMirror(t testing.TB, s *site) *mirror {
	m := &mirror{t: t, dir: t.TempDir(), journal: new(journal.Mem), site: s}
	store, err := blob.NewDir(m.dir, blob.DirOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	m.store = store
	return m
}

func (m *mirror) address() string {
	if m.at != "" {
		return m.at
	}
	if m.site.style.sitemap {
		return m.site.url("/sitemap.xml")
	}
	return m.site.srv.URL
}

func (m *mirror) destination() *destination.Destination {
	m.t.Helper()
	c, err := fetch.New(fetch.Options{Home: discover.Home(m.address()), Retries: -1})
	if err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(c.Close)
	o := m.opts
	m.events = nil
	o.OnEvent = func(e destination.Event) {
		m.events = append(m.events, e)
		if m.on != nil {
			m.on(e)
		}
	}
	d, err := destination.New(m.store, m.journal, c, o)
	if err != nil {
		m.t.Fatal(err)
	}
	return d
}

func (m *mirror) sync() (destination.Report, error) {
	m.t.Helper()
	m.site.reset()
	return m.destination().Sync(context.Background(), m.address())
}

// mustSync syncs and compares the mirror with the site.
func (m *mirror) mustSync() destination.Report {
	m.t.Helper()
	r, err := m.sync()
	if err != nil {
		m.t.Fatalf("Sync: %v\n%+v", err, r)
	}
	m.same()
	return r
}

func (m *mirror) audit() destination.AuditReport {
	m.t.Helper()
	r, err := m.destination().Audit(context.Background(), m.address(), destination.AuditOptions{Content: true})
	if err != nil {
		m.t.Fatalf("Audit: %v\n%+v", err, r)
	}
	return r
}

// same checks that the mirror's files are the site's resources, and that there are
// no other files.
func (m *mirror) same() {
	m.t.Helper()
	paths, err := filename.New(filename.Options{Origin: m.site.srv.URL})
	if err != nil {
		m.t.Fatal(err)
	}
	want, got := map[string]string{}, map[string]string{}
	m.site.mu.Lock()
	for path, f := range m.site.files {
		want[m.site.url(path)] = string(f.data)
	}
	m.site.mu.Unlock()
	for path, data := range m.files() {
		uri, err := paths.URI(path)
		if err != nil {
			m.t.Fatal(err)
		}
		got[uri] = data
	}
	if d := cmp.Diff(want, got); d != "" {
		m.t.Fatalf("mirror: (-want +got)\n%.2000s", d)
	}
	if left, _ := os.ReadDir(filepath.Join(m.dir, ".lockstep", "tmp")); len(left) > 0 {
		m.t.Fatalf("litter: %v", left)
	}
}

// files returns the content of the mirror's files, our own state aside.
func (m *mirror) files() map[string]string {
	m.t.Helper()
	got := map[string]string{}
	err := filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.Name() == ".lockstep" && d.IsDir():
			return fs.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		rel, _ := filepath.Rel(m.dir, path)
		got[filepath.ToSlash(rel)] = string(data)
		return err
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return got
}

// want is what a Report should count.
func counts(r destination.Report) string {
	return fmt.Sprintf("%s created=%d updated=%d deleted=%d unchanged=%d failed=%d refused=%d",
		r.Mode, r.Created, r.Updated, r.Deleted, r.Unchanged, r.Failed, r.Refused)
}

func wantCounts(t testing.TB, r destination.Report, want string) {
	t.Helper()
	if got := counts(r); got != want {
		t.Fatalf("report\n got %s\nwant %s\n%+v", got, want, r)
	}
}

func (s *site) file(path string) siteFile {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.files[path]
}

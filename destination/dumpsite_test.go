package destination_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
)

// A dumpStyle states which dumps a Source has, and how it writes them.
type dumpStyle struct {
	dump         bool // a Resource Dump
	noList       bool // and no Resource List
	changeDump   bool // a Change Dump
	noChangeList bool // and no Change List
	demand       bool // packages on demand
	copies       bool // copies of the manifests beside the packages
	noRanges     bool // packages are sent whole
	noPaths      bool // paths are written without the slash, as by old tools
	stored       bool // nothing in a package is compressed
	each         int  // members of a package; default 5
}

func (st *style) capabilities() []string {
	var cs []string
	add := func(c string, ok bool) {
		if ok {
			cs = append(cs, c)
		}
	}
	add("resourcelist", !st.noList)
	add("resourcedump", st.dump)
	add("changelist", !st.noChanges && !st.noChangeList)
	add("changedump", !st.noChanges && st.changeDump)
	return cs
}

// siteDumps are the packages of a site.
type siteDumps struct {
	files   map[string][]byte // packages and copies of manifests by path
	current string            // body of the Resource Dump as it was made last
	at      time.Time         // and as of when
	changes []siteParcel      // of the Change Dump

	// describe may change what a manifest of the Change Dump says of a change,
	// and add members to its package; nil: it does not.
	describe func(e siteEvent, text string, add func(name string, data []byte)) string
}

// A siteParcel is a package of a Change Dump.
type siteParcel struct {
	entry       string
	from, until time.Time
}

// makeDump rebuilds the Resource Dump and removes the packages of the previous one.
func (s *site) makeDump() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buildDump()
}

func (s *site) buildDump() {
	d := &s.dumps
	for path := range d.files {
		if strings.HasPrefix(path, "/rs/r-") {
			delete(d.files, path)
		}
	}
	d.at = s.now
	var b strings.Builder
	for paths := range slices.Chunk(slices.Sorted(maps.Keys(s.files)), s.each()) {
		b.WriteString(s.pack("r", fmt.Sprintf(`capability="resourcedump-manifest" at="%s"`, s.time(d.at)), "", len(paths), func(i int) (string, siteFile, string) {
			f := s.files[paths[i]]
			return paths[i], f, s.describe(f, f.mod, s.member(i))
		}))
	}
	d.current = b.String()
}

func (s *site) each() int {
	if s.style.each > 0 {
		return s.style.each
	}
	return 5
}

func (s *site) member(i int) string {
	slash := "/"
	if s.style.noPaths {
		slash = ""
	}
	return fmt.Sprintf(` path="%sb/%d"`, slash, i)
}

// pack makes a package of n entries and returns what a dump says of it.
func (s *site) pack(kind, md, said string, n int, entry func(i int) (path string, f siteFile, text string)) string {
	var body strings.Builder
	var buf bytes.Buffer
	z := zip.NewWriter(&buf)
	write := func(name string, i int, data []byte) {
		method := []uint16{zip.Store, zip.Deflate}[i%2]
		if s.style.stored {
			method = zip.Store
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = w.Write(data)
		}
		if err != nil {
			s.t.Error(err)
		}
	}
	s.beside = map[string][]byte{}
	for i := range n {
		path, f, text := entry(i)
		fmt.Fprintf(&body, "<url><loc>%s</loc>%s</url>\n", escape(s.url(path)), text)
		if f.data != nil {
			write(fmt.Sprintf("b/%d", i), i, f.data)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.beside)) {
		write(name, 0, s.beside[name])
	}
	manifest := doc("urlset", "<rs:md "+md+"/>", body.String())
	if s.rewrite != nil {
		manifest = s.rewrite("manifest.xml", manifest)
	}
	write("manifest.xml", 1, []byte(manifest))
	if err := z.Close(); err != nil {
		s.t.Error(err)
	}
	sum := sha256.Sum256(buf.Bytes())
	name := fmt.Sprintf("/rs/%s-%x", kind, sum[:8])
	if s.dumps.files == nil {
		s.dumps.files = map[string][]byte{}
	}
	s.dumps.files[name+".zip"] = buf.Bytes()
	links := ""
	if s.style.copies {
		s.dumps.files[name+".xml"] = []byte(manifest)
		links = fmt.Sprintf(`<rs:ln rel="contents" href="%s" type="application/xml"/>`, s.url(name+".xml"))
	}
	return fmt.Sprintf(`<url><loc>%s</loc><rs:md type="application/zip" length="%d" hash="sha-256:%x"%s/>%s</url>`,
		s.url(name+".zip"), buf.Len(), sum, said, links)
}

// resourceDump returns the latest Resource Dump.
func (s *site) resourceDump(up string) string {
	if s.dumps.at.IsZero() {
		s.buildDump()
	}
	at := fmt.Sprintf(` at="%s"`, s.time(s.dumps.at))
	if s.style.noAt {
		at = ""
	}
	return doc("urlset", up+`<rs:md capability="resourcedump"`+at+`/>`, s.dumps.current)
}

// changeDump packs the changes since the last package and returns the Change Dump.
func (s *site) changeDump(up string) string {
	d := &s.dumps
	d.changes = slices.DeleteFunc(d.changes, func(p siteParcel) bool { return !p.until.After(s.from) })
	from := s.from
	if n := len(d.changes); n > 0 {
		from = maxTime(from, d.changes[n-1].until)
	}
	log := slices.DeleteFunc(slices.Clone(s.log), func(e siteEvent) bool { return e.at.Before(from) })
	for part := range slices.Chunk(log, s.each()) {
		until := part[len(part)-1].at.Add(time.Microsecond)
		interval := fmt.Sprintf(` from="%s" until="%s"`, s.time(from), s.time(until))
		entries := s.changeEntries(part)
		d.changes = append(d.changes, siteParcel{from: from, until: until, entry: s.pack("c", `capability="changedump-manifest"`+interval, interval, len(part),
			func(i int) (string, siteFile, string) {
				e, text := part[i], entries(i)
				if d.describe != nil {
					text = d.describe(e, text, func(name string, data []byte) { s.beside[name] = data })
				}
				return e.path, e.file, text
			})})
		from = until
	}
	body, begin := "", s.from
	for i, p := range d.changes {
		if body += p.entry; i == 0 {
			begin = p.from
		}
	}
	return doc("urlset", up+fmt.Sprintf(`<rs:md capability="changedump" from="%s"/>`, s.time(begin)), body)
}

// changeEntries says what a manifest says of each change.
func (s *site) changeEntries(log []siteEvent) func(i int) string {
	return func(i int) string {
		e := log[i]
		more, mod := fmt.Sprintf(` change="%s"`, e.change), e.file.mod
		if e.file.data != nil {
			more += s.member(i)
		}
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
		return s.describe(e.file, mod, more)
	}
}

// packed returns the package, or copy of a manifest, at path, or that is asked
// for on demand. The caller holds mu.
func (s *site) packed(w http.ResponseWriter, r *http.Request, path string) ([]byte, bool) {
	if path == "/rs/demand" && r.Method == http.MethodPost {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			s.t.Error(err)
		}
		return s.demanded(strings.Fields(string(body))), true
	}
	data, ok := s.dumps.files[path]
	if ok && s.style.noRanges {
		r.Header.Del("Range")
	}
	if ok {
		w.Header().Set("Content-Type", "application/zip")
	}
	return data, ok
}

// demanded makes a package of those of uris that exist.
func (s *site) demanded(uris []string) []byte {
	var paths []string
	for _, uri := range uris {
		path := strings.TrimPrefix(uri, s.srv.URL)
		if _, ok := s.files[path]; ok {
			paths = append(paths, path)
		}
	}
	entry := s.pack("d", fmt.Sprintf(`capability="resourcedump-manifest" at="%s"`, s.time(s.now)), "", len(paths), func(i int) (string, siteFile, string) {
		f := s.files[paths[i]]
		return paths[i], f, s.describe(f, f.mod, s.member(i))
	})
	name := entry[strings.Index(entry, "/rs/d-"):strings.Index(entry, ".zip")]
	return s.dumps.files[name+".zip"]
}

package destination_test

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
	"lockstep/resourcesync"
)

// An atWorld is a Source with a past, of which it keeps some parts and loses others. Its documents are written by a [resourcesync.Writer] when build is
// called.
type atWorld struct {
	testing.TB
	*rand.Rand
	srv  *httptest.Server
	docs map[string][]byte // by path
	gone map[string]bool   // documents that are listed and not there
	dark map[string]bool   // lists of which no archive says of when they are

	noHash   bool
	gate     bool          // there is a TimeGate, which the lists name
	header   bool          // and the resources name it
	mementos bool          // the lists name mementos
	step     time.Duration // between events, at least

	start, now time.Time
	log        []atVersion
	lists      []takenList
	spans      []shutSpan
	head       time.Time     // the current Change List begins here
	indexed    int           // of the last spans, how many the current Change List names
	alive      map[int]bool  // by place in the log: the memento is there
	dropped    map[int]bool  // the TimeGate does not know it any more
	packed     map[int][]int // by number of the package: places in the log
}

// An atVersion is an event, and the version it made.
type atVersion struct {
	path string
	at   time.Time
	data string // empty: a deletion
	nth  int    // place in the log
}

// A takenList is a Resource List or Dump that was taken.
type takenList struct {
	at   time.Time
	dump bool
	path string
}

// A shutSpan is a closed document of changes.
type shutSpan struct {
	from, until time.Time
	dump        bool
	path        string
}

func newAtWorld(t testing.TB, r *rand.Rand) *atWorld {
	w := &atWorld{TB: t, Rand: r, docs: map[string][]byte{}, gone: map[string]bool{}, dark: map[string]bool{}, alive: map[int]bool{}, dropped: map[int]bool{}, packed: map[int][]int{}}
	w.start = time.Date(2024, 5, 1, 2, 0, 0, 0, time.UTC)
	w.now, w.head = w.start, w.start
	w.srv = httptest.NewServer(w)
	t.Cleanup(w.srv.Close)
	w.step = 2 * time.Second
	return w
}

func (w *atWorld) one(in int) bool { return w.IntN(in) == 0 }

func (w *atWorld) url(path string) string { return w.srv.URL + path }

// state is the true state at t.
func (w *atWorld) state(t time.Time) map[string]atVersion {
	s := map[string]atVersion{}
	for _, v := range w.log {
		switch {
		case v.at.After(t):
			return s
		case v.data == "":
			delete(s, v.path)
		default:
			s[v.path] = v
		}
	}
	return s
}

// happen makes n random changes.
func (w *atWorld) happen(n int) {
	for range n {
		w.now = w.now.Add(w.step + time.Duration(w.IntN(5000))*time.Millisecond)
		path := fmt.Sprintf("/r/%c", 'a'+w.IntN(7))
		_, there := w.state(w.now)[path]
		v := atVersion{path: path, at: w.now, nth: len(w.log)}
		if !there || !w.one(4) {
			v.data = fmt.Sprintf("%s, version %d%s", path, v.nth, strings.Repeat(".", w.IntN(3)))
		}
		w.log = append(w.log, v)
		if w.alive[v.nth] = w.mementos && !w.one(5); w.one(4) {
			w.dropped[v.nth] = true
		}
	}
	w.now = w.now.Add(time.Second)
}

// take makes a list, or a dump, of the present state.
func (w *atWorld) take(dump bool) {
	l := takenList{at: w.now, dump: dump, path: fmt.Sprintf("/rs/taken-%d.xml", len(w.lists))}
	w.lists = append(w.lists, l)
	w.writeList(l, l.path)
}

// shut closes the changes so far.
func (w *atWorld) shut(dump bool) {
	s := shutSpan{from: w.head, until: w.now, dump: dump, path: fmt.Sprintf("/rs/span-%d.xml", len(w.spans))}
	if dump && w.one(2) { // it repeats an earlier entry
		s.from = s.from.Add(-time.Duration(w.IntN(20)) * time.Second)
	}
	w.spans, w.head = append(w.spans, s), w.now
	if dump {
		w.indexed = 0 // the Change List begins after it
	} else {
		w.indexed++
	}
	w.writeSpan(s.path, s.from, s.until, dump)
}

func (w *atWorld) write(path string, h resourcesync.Header, entries []resourcesync.Entry) {
	w.Helper()
	if up := w.url("/rs/capabilitylist.xml"); h.Capability != resourcesync.Description && h.Capability != resourcesync.CapabilityList {
		h.Links = append(h.Links, resourcesync.Link{Rel: resourcesync.RelUp, Href: up})
	}
	var b bytes.Buffer
	d, err := resourcesync.NewWriter(&b, h)
	if err != nil {
		w.Fatal(err)
	}
	for i := range entries {
		if err := d.Write(&entries[i]); err != nil {
			w.Fatalf("%s: %v", path, err)
		}
	}
	if err := d.Close(); err != nil {
		w.Fatal(err)
	}
	w.docs[path] = b.Bytes()
}

// describe is the entry of a version; of a list, there is no change.
func (w *atWorld) describe(v atVersion, change resourcesync.Change) resourcesync.Entry {
	e := resourcesync.Entry{Loc: w.url(v.path)}
	if e.Change = change; change != 0 {
		e.Datetime = resourcesync.NewDatetime(v.at)
	}
	if v.data != "" {
		e.Lastmod = resourcesync.NewDatetime(v.at)
		e.Length, e.HasLength = int64(len(v.data)), true
		if sum := sha256.Sum256([]byte(v.data)); !w.noHash {
			e.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}
		}
		if w.mementos {
			e.Links = append(e.Links, resourcesync.Link{Rel: "memento", Href: w.url(fmt.Sprintf("/m/%d", v.nth)), Modified: resourcesync.NewDatetime(v.at)})
		}
	}
	if w.gate && !w.header {
		e.Links = append(e.Links, resourcesync.Link{Rel: "timegate", Href: w.url("/gate" + v.path)})
	}
	return e
}

func (w *atWorld) writeList(l takenList, path string) {
	var entries []resourcesync.Entry
	var versions []atVersion
	for _, v := range w.inOrder(l.at) {
		entries, versions = append(entries, w.describe(v, 0)), append(versions, v)
	}
	if !l.dump {
		h := resourcesync.Header{Capability: resourcesync.ResourceList, At: resourcesync.NewDatetime(l.at)}
		if len(entries) > 1 && w.one(3) { // as an index (RA-GEN-07)
			h.Index = true
			parts := entries[:len(entries)/2]
			entries = entries[len(parts):]
			index := []resourcesync.Entry{{Loc: w.url(path + "-0"), Metadata: resourcesync.Metadata{At: h.At}}, {Loc: w.url(path + "-1"), Metadata: resourcesync.Metadata{At: h.At}}}
			w.write(path, h, index)
			h.Index = false
			w.write(path+"-0", h, parts)
			path += "-1"
		}
		w.write(path, h, entries)
		return
	}
	md := resourcesync.Header{Capability: resourcesync.ResourceDumpManifest, At: resourcesync.NewDatetime(l.at)}
	w.write(path, resourcesync.Header{Capability: resourcesync.ResourceDump, At: md.At}, []resourcesync.Entry{w.pack(md, entries, versions)})
}

func (w *atWorld) inOrder(t time.Time) []atVersion {
	s := w.state(t)
	var vs []atVersion
	for _, path := range slices.Sorted(maps.Keys(s)) {
		vs = append(vs, s[path])
	}
	return vs
}

// pack makes a package and returns what a dump says of it.
func (w *atWorld) pack(h resourcesync.Header, entries []resourcesync.Entry, versions []atVersion) resourcesync.Entry {
	n := len(w.packed)
	path := fmt.Sprintf("/rs/package-%d.zip", n)
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	add := func(name string, data []byte) {
		f, err := z.Create(name)
		if err == nil {
			_, err = f.Write(data)
		}
		if err != nil {
			w.Fatal(err)
		}
	}
	w.packed[n] = []int{}
	for i, v := range versions {
		if v.data != "" {
			entries[i].Path = fmt.Sprintf("/resources/%d", i)
			add(entries[i].Path[1:], []byte(v.data))
			w.packed[n] = append(w.packed[n], v.nth)
		}
	}
	w.write(path, h, entries)
	add("manifest.xml", w.docs[path])
	if err := z.Close(); err != nil {
		w.Fatal(err)
	}
	w.docs[path] = b.Bytes()
	return resourcesync.Entry{Loc: w.url(path), Metadata: resourcesync.Metadata{Type: "application/zip", Length: int64(b.Len()), HasLength: true, From: h.From, Until: h.Until}}
}

// writeSpan writes the changes of an interval; without until they are open.
func (w *atWorld) writeSpan(path string, from, until time.Time, dump bool) {
	var entries []resourcesync.Entry
	var versions []atVersion
	for i, v := range w.log {
		if v.at.Before(from) || !until.IsZero() && v.at.After(until) {
			continue
		}
		change := resourcesync.Updated
		if _, before := w.state(v.at.Add(-1))[v.path]; v.data == "" {
			change = resourcesync.Deleted
		} else if !before {
			change = resourcesync.Created
		}
		entries, versions = append(entries, w.describe(w.log[i], change)), append(versions, v)
	}
	h := resourcesync.Header{Capability: resourcesync.ChangeList, From: resourcesync.NewDatetime(from)}
	if !until.IsZero() {
		h.Until = resourcesync.NewDatetime(until)
	}
	if !dump {
		w.write(path, h, entries)
		return
	}
	h.Capability = resourcesync.ChangeDumpManifest
	e := w.pack(h, entries, versions)
	h.Capability, h.Links = resourcesync.ChangeDump, nil
	w.write(path, h, []resourcesync.Entry{e})
}

// build writes the current documents and the archives.
func (w *atWorld) build() {
	entry := func(path string, c resourcesync.Capability) resourcesync.Entry {
		return resourcesync.Entry{Loc: w.url(path), Metadata: resourcesync.Metadata{Capability: c}}
	}
	w.write("/.well-known/resourcesync", resourcesync.Header{Capability: resourcesync.Description},
		[]resourcesync.Entry{entry("/rs/capabilitylist.xml", resourcesync.CapabilityList)})
	w.write("/rs/capabilitylist.xml", resourcesync.Header{Capability: resourcesync.CapabilityList,
		Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: w.url("/.well-known/resourcesync")}}}, []resourcesync.Entry{
		entry("/rs/resourcelist.xml", resourcesync.ResourceList), entry("/rs/changelist.xml", resourcesync.ChangeList),
		entry("/rs/lists.xml", resourcesync.ResourceListArchive), entry("/rs/dumps.xml", resourcesync.ResourceDumpArchive),
		entry("/rs/changes.xml", resourcesync.ChangeListArchive), entry("/rs/packages.xml", resourcesync.ChangeDumpArchive),
	})
	w.writeList(takenList{at: w.now}, "/rs/resourcelist.xml")
	if w.indexed > 0 {
		var parts []resourcesync.Entry
		begin := w.head
		for _, s := range w.spans[len(w.spans)-w.indexed:] {
			parts = append(parts, resourcesync.Entry{Loc: w.url(s.path), Metadata: interval(s.from, s.until)})
			if s.from.Before(begin) {
				begin = s.from
			}
		}
		w.writeSpan("/rs/open.xml", w.head, time.Time{}, false)
		parts = append(parts, resourcesync.Entry{Loc: w.url("/rs/open.xml"), Metadata: interval(w.head, time.Time{})})
		w.write("/rs/changelist.xml", resourcesync.Header{Capability: resourcesync.ChangeList, Index: true, From: resourcesync.NewDatetime(begin)}, parts)
	} else {
		w.writeSpan("/rs/changelist.xml", w.head, time.Time{}, false)
	}
	archives := map[resourcesync.Capability][]resourcesync.Entry{}
	for _, l := range w.lists {
		c := resourcesync.ResourceListArchive
		if l.dump {
			c = resourcesync.ResourceDumpArchive
		}
		archives[c] = append(archives[c], resourcesync.Entry{Loc: w.url(l.path), Metadata: resourcesync.Metadata{At: resourcesync.NewDatetime(l.at)}})
	}
	for _, s := range w.spans {
		c := resourcesync.ChangeListArchive
		if s.dump {
			c = resourcesync.ChangeDumpArchive
		}
		archives[c] = append(archives[c], resourcesync.Entry{Loc: w.url(s.path), Metadata: interval(s.from, s.until)})
	}
	for path, c := range map[string]resourcesync.Capability{
		"/rs/lists.xml": resourcesync.ResourceListArchive, "/rs/dumps.xml": resourcesync.ResourceDumpArchive,
		"/rs/changes.xml": resourcesync.ChangeListArchive, "/rs/packages.xml": resourcesync.ChangeDumpArchive,
	} {
		entries := archives[c]
		if c == resourcesync.ResourceListArchive || c == resourcesync.ResourceDumpArchive { // order is said, not needed
			w.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
			for i := range entries {
				if w.dark[strings.TrimPrefix(entries[i].Loc, w.srv.URL)] = w.one(5); w.dark[strings.TrimPrefix(entries[i].Loc, w.srv.URL)] {
					entries[i].Metadata = resourcesync.Metadata{} // only the document says so
				}
			}
		}
		h := resourcesync.Header{Capability: c}
		if len(entries) > 1 && w.one(4) { // an index of archives (RA-IDX-06)
			at := 1 + w.IntN(len(entries)-1)
			w.write(path+"-0", h, entries[:at])
			w.write(path+"-1", h, entries[at:])
			h.Index = true
			entries = []resourcesync.Entry{{Loc: w.url(path + "-1")}, {Loc: w.url(path + "-0")}}
		}
		w.write(path, h, entries)
	}
}

func interval(from, until time.Time) resourcesync.Metadata {
	m := resourcesync.Metadata{From: resourcesync.NewDatetime(from)}
	if !until.IsZero() {
		m.Until = resourcesync.NewDatetime(until)
	}
	return m
}

// retain forgets some of the past: pointers and documents, or documents alone.
func (w *atWorld) retain() {
	w.lists = slices.DeleteFunc(w.lists, func(takenList) bool { return w.one(4) })
	for _, l := range w.lists {
		w.gone[l.path] = w.one(6)
	}
	current := len(w.spans) - w.indexed
	var kept []shutSpan
	for i, s := range w.spans {
		switch {
		case i >= current:
			kept = append(kept, s)
		case !w.one(6):
			kept = append(kept, s)
			w.gone[s.path] = w.one(8)
		}
	}
	w.spans = kept
}

// ServeHTTP serves documents, what is there now, mementos, and a TimeGate.
func (w *atWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	if doc, ok := w.docs[path]; ok && !w.gone[path] {
		_, _ = rw.Write(doc)
		return
	}
	if original, ok := strings.CutPrefix(path, "/gate"); ok && w.gate {
		at, err := memento.ParseDatetime(r.Header.Get("Accept-Datetime"))
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		if v, ok := w.negotiate(original, at); ok {
			http.Redirect(rw, r, w.url(fmt.Sprintf("/m/%d", v.nth)), http.StatusFound)
			return
		}
	}
	var nth int
	if _, err := fmt.Sscanf(path, "/m/%d", &nth); err == nil && nth < len(w.log) && (w.alive[nth] || w.gate && !w.dropped[nth]) {
		rw.Header().Set("Memento-Datetime", memento.FormatDatetime(w.log[nth].at))
		_, _ = rw.Write([]byte(w.log[nth].data))
		return
	}
	if w.header && w.gate && strings.HasPrefix(path, "/r/") {
		rw.Header().Set("Link", fmt.Sprintf(`<%s>; rel="timegate"`, w.url("/gate"+path)))
	}
	if v, ok := w.state(w.now)[path]; ok {
		_, _ = rw.Write([]byte(v.data))
		return
	}
	http.NotFound(rw, r)
}

// negotiate returns the answer of a TimeGate, chosen from the versions it knows (ME-TG-05).
func (w *atWorld) negotiate(path string, at time.Time) (best atVersion, ok bool) {
	for _, v := range w.log {
		if v.path == path && !w.dropped[v.nth] && !v.at.Truncate(time.Second).After(at) {
			best, ok = v, v.data != ""
		}
	}
	return best, ok
}

package source_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A family is several sets of one Source.
type family struct {
	*world
	sets     map[string]*world // by name
	contents map[string]string // of all sets, by URI
	known    map[string]known
}

// newFamily returns a Source of three sets: "all"; "some", which shares
// resources with it and has a dump; and "away", whose resources are elsewhere.
func newFamily(t testing.TB, o source.Options) *family {
	f := &family{sets: make(map[string]*world), contents: make(map[string]string)}
	bitstream := func(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
		content, ok := f.contents[r.URI]
		if !ok {
			return nil, blob.ErrNotExist
		}
		return io.NopCloser(strings.NewReader(content)), nil
	}
	o.Sets = []source.Set{
		{Name: "all", ChangeList: source.ChangeList{Rotate: 90 * time.Minute, Entries: 3, Keep: 5 * time.Hour}, Links: []source.LinkRule{
			{Href: "https://m1.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate", Pri: 1}},
		}},
		{Name: "some", Bitstream: bitstream, ResourceDump: &source.ResourceDump{Every: time.Hour}},
		{Name: "away", Elsewhere: true, ChangeList: source.ChangeList{Rotate: time.Hour}},
	}
	f.world = newWorld(t, o)
	for _, set := range f.opts.Sets {
		w := *f.world
		w.live, w.past = make(map[string]string), nil
		w.set, _ = source.CapabilityListURI(baseURL, set.Name)
		if set.Elsewhere {
			w.opts.BaseURL = "https://elsewhere.example/"
		}
		w.remember()
		f.sets[set.Name] = &w
	}
	return f
}

// put changes the sets: each word is as those of world.put with the names of
// the sets in front, "all,some:name=content".
func (f *family) put(words ...string) {
	f.Helper()
	for _, word := range words {
		sets, word, _ := strings.Cut(word, ":")
		for set := range strings.SplitSeq(sets, ",") {
			w := f.sets[set]
			w.docs = f.docs
			rel, content, put := strings.Cut(word, "=")
			if uri := w.opts.BaseURL + rel; put {
				f.contents[uri] = content
			} else {
				delete(f.contents, uri)
			}
			w.put(word)
		}
	}
}

// check crawls every set, and compares what it finds with the set's past.
func (f *family) check(read func(name string) ([]byte, error)) error {
	for name, w := range f.sets {
		c, err := crawlSet(read, name, f.known)
		if err == nil {
			err = c.check(w.past)
		}
		if err != nil && !errors.Is(err, errNothing) {
			return fmt.Errorf("set %s: %w", name, err)
		}
	}
	return nil
}

// upToDate requires the present of every set.
func (f *family) upToDate() {
	f.Helper()
	for name, w := range f.sets {
		c, err := crawlSet(reader(f.docs), name, f.known)
		if err == nil && !maps.Equal(c.state, w.live) {
			err = fmt.Errorf("documents say %v, want %v", c.state, w.live)
		}
		if err != nil {
			f.Fatalf("set %s: %v", name, err)
		}
	}
}

// unpacked reads documents as those do who ask for compressed ones.
func unpacked(read func(name string) ([]byte, error)) func(name string) ([]byte, error) {
	return func(name string) ([]byte, error) {
		data, err := read(name + ".gz")
		if errors.Is(err, blob.ErrNotExist) {
			return read(name)
		}
		if err != nil {
			return nil, err
		}
		r, err := gzip.NewReader(bytes.NewReader(data))
		if err != nil {
			return nil, err
		}
		return io.ReadAll(r)
	}
}

// TestSameSetAtEveryMoment plays one history of three sets again and again,
// with the process dying at the first, the second, … thing it does to the
// store. At every moment all that a Capability List names is there, and the
// Resource List, the Resource Dump and the Change List tell of the same
// resources (RS-CL-03, RS-SET-02), to those who read compressed documents too;
// and what was closed once stays as it is.
func TestSameSetAtEveryMoment(t *testing.T) {
	t.Parallel()
	for lane := range 4 {
		compressed, stride := lane == 3, 3
		if compressed {
			stride = 13 // the same steps, and more between them
		}
		stride = apart(stride)
		t.Run(fmt.Sprintf("lane=%d", lane), func(t *testing.T) {
			t.Parallel()
			known := make(map[string]known)
			for failAt := lane + 1; ; failAt += stride {
				if reached := playFamily(t, failAt, compressed, known); !reached {
					if failAt < 300 {
						t.Errorf("only %d steps", failAt)
					}
					return
				}
				if t.Failed() {
					t.Fatalf("with a fault at step %d", failAt)
				}
			}
		})
	}
}

func playFamily(t *testing.T, failAt int, compressed bool, known map[string]known) (reached bool) {
	t.Helper()
	f := newFamily(t, source.Options{MaxEntries: 4, Keep: 10 * time.Hour, Grace: 2 * time.Hour})
	f.known = known
	seen := &immutability{TB: t, seen: make(map[string]string)}
	store := faulty(f.docs, failAt, true)
	recovered := false
	store.Faults.After = func() {
		if store.Faults.Steps() < failAt-1 || recovered {
			return // earlier runs were here, or later ones will be
		}
		err := f.check(reader(store.Store))
		if err == nil && compressed {
			err = f.check(unpacked(reader(store.Store)))
		}
		if err != nil {
			t.Errorf("step %d: %v", store.Faults.Steps(), err)
		}
		seen.check(f.files())
	}
	start := func() *source.Source {
		w := *f.world
		w.docs = store
		if compressed {
			w.docs = source.Compressed(store)
		}
		return w.source()
	}
	s := start()
	publish := func() error {
		_, err := s.Publish(context.Background())
		if err == nil {
			_, err = s.PublishDumps(context.Background())
		}
		return err
	}
	further := 2 // publications after the one that failed
	for _, words := range []string{
		"all,some:a=1 all:b=2 away:x=1", "all:c=3", "all,some:d=4 all:e=5 away:y=1", "all,some:a=2", "all:b all:c away:x=2", "",
		"all:f=1 all:g=1 all:h=1 all,some:i=1 away:z=1", "all,some:a=3 away:x", "all:b=3 all:e some:a", "",
	} {
		if further == 0 {
			break
		}
		if words != "" {
			f.put(strings.Fields(words)...)
		}
		if err := publish(); err != nil {
			if !errors.Is(err, errFault) {
				t.Errorf("Publish = %v", err)
			}
			store.Faults.After()
			store.Faults.Restart()
			s = start()
			f.pass(7 * time.Minute)
			if failAt%2 == 0 {
				f.put(fmt.Sprintf("all,some,away:meanwhile=%d", failAt))
			}
			if err := publish(); err != nil {
				t.Errorf("Publish after a crash = %v", err)
			}
			recovered = true
		}
		if store.Faults.Steps() >= failAt {
			f.upToDate()
			if further--; compressed {
				f.variants(true)
			}
		}
		f.pass(50 * time.Minute)
		if words == "" {
			f.pass(6 * time.Hour)
		}
	}
	return store.Faults.Steps() >= failAt
}

// Sets that do not fit one Source Description are named by several, and an
// index over them.
func TestManySets(t *testing.T) {
	t.Parallel()
	o := source.Options{MaxEntries: 4, Grace: time.Hour}
	for i := range 10 {
		o.Sets = append(o.Sets, source.Set{Name: fmt.Sprintf("set%02d", i), Description: "https://data.example.org/about"})
	}
	w := newWorld(t, o)
	w.publish(w.source())
	named := func() (parts []string, sets int) {
		c := &crawl{read: reader(w.docs)}
		h, entries, err := c.document(".well-known/resourcesync", resourcesync.Description)
		if err != nil {
			t.Fatal(err)
		}
		if !h.Index {
			return nil, len(entries)
		}
		for _, part := range entries {
			ph, pe, err := c.document(name(part.Loc), resourcesync.Description)
			if err != nil || ph.Index || ph.Link("index") != baseURL+".well-known/resourcesync" {
				t.Fatalf("part %s: %+v, %v", part.Loc, ph, err)
			}
			parts = append(parts, name(part.Loc))
			sets += len(pe)
		}
		return parts, sets
	}
	first, sets := named()
	if len(first) != 3 || sets != 10 {
		t.Errorf("%d sets in %q, want 10 in 3 parts", sets, first)
	}
	w.pass(time.Minute)
	w.opts.Sets = w.opts.Sets[1:]
	w.publish(w.source())
	second, sets := named()
	if len(second) != 3 || sets != 9 || slices.Equal(first, second) {
		t.Errorf("%d sets in %q, want 9 in 3 parts of other names", sets, second)
	}
	if got := w.names("resourcesync/description-"); len(got) != 6 {
		t.Errorf("within the grace period %q, want old parts and new", got)
	}
	w.pass(2 * time.Hour)
	w.publish(w.source())
	if got := w.names("resourcesync/description-"); len(got) != 3 {
		t.Errorf("after the grace period %q, want the new parts", got)
	}
	w.opts.Sets = w.opts.Sets[:3]
	w.publish(w.source())
	if parts, sets := named(); len(parts) != 0 || sets != 3 {
		t.Errorf("%d sets in %q, want 3 in one document", sets, parts)
	}
}

// A resource in several sets is covered by each, one elsewhere by none of ours.
func TestCoverageOfSharedResources(t *testing.T) {
	t.Parallel()
	s := newSite(t, source.Options{Sets: []source.Set{
		{Name: "all"}, {Name: "articles", Path: "articles"}, {Name: "away", Elsewhere: true},
	}}, map[string]string{"a.txt": "1", "articles/b.txt": "2"})
	for target, want := range map[string][]string{
		"/a.txt":          {"all"},
		"/articles/b.txt": {"all", "articles"},
	} {
		resp, _ := s.do("GET", target)
		var got []string
		for _, link := range resp.Header.Values("Link") {
			_, rest, _ := strings.Cut(link, "/resourcesync/")
			set, _, _ := strings.Cut(rest, "/")
			got = append(got, set)
		}
		if !slices.Equal(got, want) {
			t.Errorf("GET %s: covered by %q, want %q", target, got, want)
		}
	}
}

func TestSetNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"index.html", "description-0123456789abcdef.xml", "a.gz", "main.tail", "main.dumps"} {
		if _, err := source.CapabilityListURI(baseURL, name); err == nil {
			t.Errorf("set %q was taken, which is a name of ours", name)
		}
	}
}

// The page beside the documents links to every Capability List, and is left
// alone where it is someone else's.
func TestHintPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Sets: []source.Set{{Name: "one"}, {Name: "two"}}})
	s := w.source()
	w.publish(s)
	for _, target := range []string{"/resourcesync/", "/resourcesync/index.html"} {
		rec := httptest.NewRecorder()
		s.Handler().ServeHTTP(rec, httptest.NewRequest("GET", target, nil))
		for _, set := range []string{"one", "two"} {
			if want := `<link rel="resourcesync" href="` + baseURL + "resourcesync/" + set + `/capabilitylist.xml">`; !strings.Contains(rec.Body.String(), want) {
				t.Errorf("GET %s: %s lacks %s", target, rec.Body, want)
			}
		}
		if typ := rec.Header().Get("Content-Type"); typ != "text/html; charset=utf-8" {
			t.Errorf("GET %s: Content-Type %q", target, typ)
		}
	}
	w.write("resourcesync/index.html", "<html>mine")
	if r := w.publish(w.source()); !slices.Equal(r.Kept, []string{"resourcesync/index.html"}) {
		t.Errorf("Publish = %+v, want the page kept", r)
	}
	if data, err := reader(w.docs)("resourcesync/index.html"); err != nil || string(data) != "<html>mine" {
		t.Errorf("the page is %q, %v", data, err)
	}
}

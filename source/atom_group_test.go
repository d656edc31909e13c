package source_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/atompmh"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A linked resource says which others are representations of the same.
type linkedResource struct {
	typ, canonical, id string
	alternates         []string
}

// A linkedWorld is a set of them, by name.
type linkedWorld struct {
	*world
	has map[string]linkedResource
	n   int
}

func newLinkedWorld(t testing.TB, a source.Atom) *linkedWorld {
	return &linkedWorld{world: atomWorld(t, a), has: make(map[string]linkedResource)}
}

// set changes resources, all in one Apply; a type of "" deletes.
func (w *linkedWorld) set(all map[string]linkedResource) {
	w.Helper()
	var us []catalog.Update
	for _, name := range slices.Sorted(maps.Keys(all)) {
		r := all[name]
		w.n++
		u := catalog.Update{Record: record(baseURL+name, fmt.Sprint(w.n)), Deleted: r.typ == ""}
		u.Type = r.typ
		if r.canonical != "" {
			u.Links = append(u.Links, resourcesync.Link{Rel: "canonical", Href: baseURL + r.canonical})
		}
		for _, a := range r.alternates {
			u.Links = append(u.Links, resourcesync.Link{Rel: "alternate", Href: baseURL + a, Type: "x/y"})
		}
		if r.id != "" {
			u.Links = append(u.Links, resourcesync.Link{Rel: catalog.RelRecord, Href: r.id})
		}
		us = append(us, u)
		if w.has[name] = r; u.Deleted {
			delete(w.has, name)
		}
	}
	w.apply(us...)
}

// want returns the records there should be, by a rule stated anew: a resource
// belongs to the one it calls canonical, if that calls it an alternate, calls
// nothing canonical that is there, and has none of its type yet.
func (w *linkedWorld) want() map[string]string {
	all := make(map[string]string)
	member := make(map[string]bool)
	for name, x := range w.has {
		types, uris := map[string]bool{x.typ: true}, []string{baseURL + name}
		for _, a := range x.alternates {
			if y, ok := w.has[a]; ok && x.canonical == "" && a != name && y.canonical == name && !types[y.typ] {
				types[y.typ], member[a] = true, true
				uris = append(uris, baseURL+a)
			}
		}
		all[name] = strings.Join(uris, " ")
	}
	want := make(map[string]string)
	for name, uris := range all {
		if member[name] {
			continue
		}
		id := w.has[name].id
		if _, there := w.has[w.has[name].canonical]; id == "" || there {
			id = atompmh.RecordID(baseURL + name)
		}
		want[id] = uris
	}
	return want
}

// told checks that a harvester knows what there is.
func (w *linkedWorld) told(h *harvester) {
	w.Helper()
	if err := h.harvest(reader(w.docs), false); err != nil {
		w.Fatal(err)
	}
	for _, h := range []*harvester{h, w.harvested()} {
		if diff := cmp.Diff(w.want(), h.active()); diff != "" {
			w.Fatalf("records in the feed (-want +got):\n%s\nresources %v", diff, w.has)
		}
	}
}

// TestAtomRepresentations has records in several formats (AP-ACT-07), which come,
// go and change.
func TestAtomRepresentations(t *testing.T) {
	t.Parallel()
	for _, a := range []source.Atom{{Entries: 3}, {Complete: true}} {
		w := newLinkedWorld(t, a)
		h := new(harvester)
		html := linkedResource{typ: "text/html", alternates: []string{"r.pdf", "r.xml"}}
		pdf, xml := linkedResource{typ: "application/pdf", canonical: "r"}, linkedResource{typ: "application/xml", canonical: "r"}
		for i, step := range []map[string]linkedResource{
			{"r": html, "r.pdf": pdf, "other": {typ: "text/plain"}},
			{"r.xml": xml},                          // a format more: AP-AMB-14
			{"r.xml": pdf},                          // whose type is taken: a record by itself
			{"r.xml": xml},                          // and back
			{"r": {}},                               // without the record, its formats are records
			{"r": html},                             //
			{"r.pdf": {}},                           // a format less
			{"r": {typ: "text/html"}},               // named no more
			{"r": html, "r.pdf": pdf},               //
			{"r": {}, "r.pdf": {}, "r.xml": {}},     // all of it
			{"r": html, "r.pdf": pdf, "r.xml": xml}, //
			{"r": {typ: "text/html", canonical: "other"}},      // a format itself, that nobody names
			{"other": {typ: "x/z", alternates: []string{"r"}}}, //
			{"a": {typ: "x/a", id: "urn:record:1"}},            // under an identifier that was given
			{"a": {typ: "x/a", id: "urn:record:2"}},            //
			{"a": {}, "b": {typ: "x/b", id: "urn:record:2"}},   // which goes to another resource
			{"a": {typ: "x/a", canonical: "b", id: "urn:record:2"}, "b": {typ: "x/b", id: "urn:record:2", alternates: []string{"a"}}},
			{"b": {}},
			{"a": {}},
		} {
			w.pass(time.Minute)
			w.set(step)
			w.publish(w.source())
			if w.told(h); t.Failed() {
				t.Fatalf("step %d", i)
			}
		}
	}
}

// TestAtomRecordMoves has a record move from one resource to another, which has its
// identifier before the old one is gone, and back (AP-ACT-01).
func TestAtomRecordMoves(t *testing.T) {
	t.Parallel()
	const id = "urn:record:1"
	for _, anew := range []bool{false, true} {
		w := newLinkedWorld(t, source.Atom{Entries: 2})
		h := new(harvester)
		s := w.source()
		w.publish(s)
		a, b := linkedResource{typ: "x/a", id: id}, linkedResource{typ: "x/b", id: id}
		for i, step := range []struct {
			set  map[string]linkedResource
			want string // the resource that is the record
		}{
			{map[string]linkedResource{"a": a}, "a"},
			{map[string]linkedResource{"b": b}, "b"},
			{map[string]linkedResource{"a": {}}, "b"},
			{map[string]linkedResource{"a": a}, "a"},
			{map[string]linkedResource{"a": {}}, "b"}, // b is it still
			{map[string]linkedResource{"a": a, "other": b}, "other"},
			{map[string]linkedResource{"b": {}, "other": {typ: "x/c"}}, "a"},
			{map[string]linkedResource{"a": {typ: "x/a"}}, ""},
		} {
			w.pass(time.Minute)
			w.set(step.set)
			if anew && i%2 == 1 {
				w.remove(".lockstep/atom/main.json")
				s = w.source()
			}
			w.publish(s)
			if err := h.harvest(reader(w.docs), false); err != nil {
				t.Fatal(err)
			}
			want := baseURL + step.want
			if step.want == "" {
				want = ""
			}
			if got := h.active()[id]; got != want {
				t.Errorf("anew %v, step %d: the record is %q, want %q", anew, i, got, want)
			}
			if got := w.harvested().active()[id]; got != want {
				t.Errorf("anew %v, step %d: the record is %q, want %q, who reads all finds", anew, i, got, want)
			}
		}
	}
}

// TestAtomRepresentationsAtRandom has resources of six names link to each other as
// it comes, change in any number between publications, and documents get lost.
func TestAtomRepresentationsAtRandom(t *testing.T) {
	t.Parallel()
	rounds := 60
	if *atomMore {
		rounds = 3000
	}
	for seed := range uint64(4) {
		random := rand.New(rand.NewPCG(seed, 7))
		a := source.Atom{Entries: 1 + random.IntN(6)}
		if seed == 3 {
			a = source.Atom{Complete: true}
		}
		w := newLinkedWorld(t, a)
		names := []string{"a", "b", "c", "d", "e", "f"}
		name := func() string { return names[random.IntN(len(names))] }
		h := new(harvester)
		s := w.source()
		for range rounds {
			for range random.IntN(4) {
				step := make(map[string]linkedResource)
				for range 1 + random.IntN(3) {
					r := linkedResource{}
					if random.IntN(4) > 0 {
						r.typ = []string{"x/1", "x/2", "x/3"}[random.IntN(3)]
					}
					switch n := name(); random.IntN(3) {
					case 0:
						r.canonical = n
					case 1:
						r.alternates = []string{n, name()}
					}
					step[name()] = r
				}
				for n, r := range step { // a resource says nothing of itself
					if r.canonical == n {
						r.canonical = ""
					}
					step[n] = r
				}
				w.set(step)
			}
			w.pass(time.Duration(random.IntN(1000)) * time.Millisecond)
			switch random.IntN(25) {
			case 0:
				s = w.source()
			case 1:
				w.remove(".lockstep/atom/main.json")
				s = w.source()
			case 2:
				w.pass(-time.Minute)
			}
			if _, err := s.Publish(context.Background()); err != nil {
				t.Fatal(err)
			}
			w.told(h)
		}
	}
}

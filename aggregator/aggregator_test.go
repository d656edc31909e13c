package aggregator_test

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/aggregator"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/intake"
	"lockstep/resourcesync"
)

const (
	home = "https://origin.example/"
	here = "https://here.example/"
	list = here + "resourcesync/main/capabilitylist.xml"
)

// A world is a mirror in memory, and a catalog that is to follow it.
type world struct {
	t       *testing.T
	store   *blob.Mem
	journal *journal.Mem
	catalog *catalog.Mem
	deliver func(context.Context, []destination.Change) error
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{t: t, store: &blob.Mem{}, journal: &journal.Mem{}, catalog: catalog.NewMem(nil)}
	origin := []byte(`{"origin":"` + strings.TrimSuffix(home, "/") + `"}`)
	must(t, w.journal.Record(t.Context(), journal.Batch{Save: map[string][]byte{"mirror": origin}}))
	return w
}

// upstream opens the mirror as that of an upstream that is left alone.
func (w *world) upstream(o aggregator.Options) *aggregator.Upstream {
	w.t.Helper()
	o.Name, o.Address, o.BaseURL, o.Continue = "up", home, here, true
	if o.URI == "" {
		o.URI = here
	}
	u, err := aggregator.New(w.catalog, list, o, func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		w.deliver = deliver
		return aggregator.Mirror{Store: w.store, Journal: w.journal}, nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return u
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// hold has the mirror hold a file at the path, and returns the row.
func (w *world) hold(path, text string, links ...resourcesync.Link) journal.Held {
	w.t.Helper()
	return w.holdAt(home+path, path, text, links...)
}

// holdAt has the mirror hold a resource in a file at the path.
func (w *world) holdAt(uri, path, text string, links ...resourcesync.Link) journal.Held {
	w.t.Helper()
	ctx := w.t.Context()
	f, err := w.store.Create(ctx, path)
	must(w.t, err)
	_, err = io.WriteString(f, text)
	must(w.t, errors.Join(err, w.store.Commit(ctx, f)))
	hashes := hashesOf(text)
	modified := resourcesync.NewDatetime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	h := journal.Held{
		URI: uri, Path: path, Length: int64(len(text)), Hashes: hashes, Lastmod: modified.Time(), Type: "text/x-a", Links: links,
		Stated: &journal.Stated{Lastmod: modified, Length: int64(len(text)), Hashes: hashes},
	}
	info, err := w.store.Stat(ctx, path)
	must(w.t, err)
	h.SetFile(&info)
	must(w.t, w.journal.Record(ctx, journal.Batch{Put: []journal.Held{h}}))
	return h
}

func hashesOf(text string) resourcesync.Hashes {
	sum := sha256.Sum256([]byte(text))
	return resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: string(sum[:])}}
}

// drop has the mirror hold a resource no more.
func (w *world) drop(path string) {
	w.t.Helper()
	must(w.t, w.journal.Record(w.t.Context(), journal.Batch{Drop: []string{home + path}}))
}

// scan brings the catalog in step.
func (w *world) scan(u *aggregator.Upstream) intake.Report {
	w.t.Helper()
	r, err := u.Scan(w.t.Context())
	must(w.t, err)
	return r
}

// record returns the record of an own URI; its URI is empty if there is none.
func (w *world) record(uri string) catalog.Record {
	w.t.Helper()
	r, _, err := catalog.Find(w.t.Context(), w.catalog, list, uri)
	must(w.t, err)
	return r
}

// records returns all records as lines: the URI below here, and its links.
func (w *world) records() (lines []string) {
	w.t.Helper()
	for r, err := range w.catalog.Resources(w.t.Context(), list, catalog.Range{}) {
		must(w.t, err)
		line := strings.TrimPrefix(r.URI, here)
		for _, l := range r.Links {
			line += fmt.Sprintf(" %s=%s", l.Rel, l.Href)
		}
		lines = append(lines, line)
	}
	return lines
}

func (w *world) want(lines ...string) {
	w.t.Helper()
	if got := w.records(); !slices.Equal(got, lines) {
		w.t.Errorf("the catalog has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
}

func link(rel, href string) resourcesync.Link { return resourcesync.Link{Rel: rel, Href: href} }

// TestEachResourceHasAViaLinkWithWhatTheOriginStates checks RS-REL-70: the link has the
// address, time, hashes, length and type of the origin; RS-REL-73: times are our own.
func TestEachResourceHasAViaLinkWithWhatTheOriginStates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.holdAt(home+"a%20b/%2F.txt", "a b/%~2F.txt", "text")
	u := w.upstream(aggregator.Options{})
	before := time.Now().Truncate(time.Microsecond)
	if r := w.scan(u); r.Created != 1 {
		t.Errorf("report = %+v", r)
	}
	r := w.record(here + "a%20b/%25~2F.txt")
	if r.Type != "text/x-a" || r.Length != 4 || !slices.Equal(r.Hashes, h.Hashes) || r.Lastmod.Before(before) || len(r.Links) != 1 {
		t.Fatalf("record = %+v", r)
	}
	via := r.Links[0]
	if via.Rel != "via" || via.Href != h.URI || !via.Modified.Time().Equal(h.Lastmod) || via.Length != 4 || !via.HasLength || via.Type != h.Type || !slices.Equal(via.Hashes, h.Hashes) {
		t.Errorf("via = %+v", via)
	}
	if again := w.scan(u); again.Changed() || again.Unchanged != 1 {
		t.Errorf("nothing changed: %+v", again)
	}
}

// TestAViaLinkIsPassedOnUnchanged checks RS-REL-71, and the form of version 0.9: a link
// for each Source that was passed, the origin first.
func TestAViaLinkIsPassedOnUnchanged(t *testing.T) {
	t.Parallel()
	first := link("via", "https://first.example/x")
	first.Modified = resourcesync.NewDatetime(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC))
	second := link("via", "https://second.example/x")
	second.Modified = resourcesync.NewDatetime(time.Date(2021, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, tt := range []struct {
		name  string
		links []resourcesync.Link
		chain bool
		want  string
	}{
		{"one", []resourcesync.Link{first}, false, "x via=https://first.example/x urn:x-lockstep:hop=" + home + "x"},
		{"two", []resourcesync.Link{first, second}, false, "x via=https://first.example/x urn:x-lockstep:hop=https://second.example/x urn:x-lockstep:hop=" + home + "x"},
		{"wrong order", []resourcesync.Link{second, first}, false, "x via=https://first.example/x urn:x-lockstep:hop=https://second.example/x urn:x-lockstep:hop=" + home + "x"}, // RS-REL-72
		{"chain", []resourcesync.Link{first, second}, true, "x via=https://first.example/x via=https://second.example/x via=" + home + "x"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.hold("x", "text", tt.links...)
			w.scan(w.upstream(aggregator.Options{Chain: tt.chain}))
			w.want(tt.want)
		})
	}
}

// TestLinksThatAreNoLongerTrueAreDropped checks RS-REL-74.
func TestLinksThatAreNoLongerTrueAreDropped(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("r", "text", link("describedby", home+"r.xml"), link("describedby", "https://elsewhere.example/r"), link("canonical", home+"r.xml"),
		link("collection", home+"all"), link("profile", "urn:p"), link("memento", home+"m"))
	w.hold("r.xml", "<r/>", link("describes", home+"r"))
	w.hold("s", "text", link("describedby", home+"loop"))
	w.hold("loop", "text", link("via", here+"x")) // is not republished
	u := w.upstream(aggregator.Options{Collection: "https://c.example/"})
	w.scan(u)
	w.want("r via="+home+"r describedby="+here+"r.xml profile=urn:p collection=https://c.example/",
		"r.xml via="+home+"r.xml describes="+here+"r collection=https://c.example/", "s via="+home+"s collection=https://c.example/")

	// The description goes; the link to it goes with the next comparison.
	w.drop("r.xml")
	must(t, w.deliver(t.Context(), []destination.Change{{URI: home + "r.xml", Path: "r.xml", Kind: resourcesync.Deleted}}))
	w.scan(u)
	w.want("r via="+home+"r profile=urn:p collection=https://c.example/", "s via="+home+"s collection=https://c.example/")
}

// TestALinkFollowsTheResourceThatItLeadsTo: a description that comes later than its
// resource, or goes before it, is linked as long as it is republished, without a
// comparison.
func TestALinkFollowsTheResourceThatItLeadsTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("early", "text", link("describedby", home+"d1.xml"))
	w.scan(w.upstream(aggregator.Options{})) // another process
	u := w.upstream(aggregator.Options{})
	w.scan(u)
	w.hold("late", "text", link("describedby", home+"d2.xml"))
	created := func(path string) {
		t.Helper()
		must(t, w.deliver(t.Context(), []destination.Change{{URI: home + path, Path: path, Kind: resourcesync.Created}}))
	}
	created("late")
	w.want("early via="+home+"early", "late via="+home+"late")
	for _, d := range []string{"d1.xml", "d2.xml"} {
		w.hold(d, "<d/>")
		created(d)
	}
	w.want("d1.xml via="+home+"d1.xml", "d2.xml via="+home+"d2.xml",
		"early via="+home+"early describedby="+here+"d1.xml", "late via="+home+"late describedby="+here+"d2.xml")

	w.hold("d2.xml", "<d/>", link("describes", home+"late"))
	must(t, w.deliver(t.Context(), []destination.Change{{URI: home + "d2.xml", Path: "d2.xml", Kind: resourcesync.Updated, Content: destination.ContentSame}}))
	w.drop("d2.xml")
	must(t, w.deliver(t.Context(), []destination.Change{{URI: home + "d2.xml", Path: "d2.xml", Kind: resourcesync.Deleted}}))
	w.want("d1.xml via="+home+"d1.xml", "early via="+home+"early describedby="+here+"d1.xml", "late via="+home+"late")
}

// TestALastmodOfItsOwnIsPassedOn: a change of nothing but what the upstream states of the
// time of a resource changes its via link, and no time here (RS-REL-73).
func TestALastmodOfItsOwnIsPassedOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold("a", "text")
	w.scan(w.upstream(aggregator.Options{}))
	before := w.record(here + "a")
	h.Lastmod = h.Lastmod.Add(time.Hour)
	s := *h.Stated
	s.Lastmod = resourcesync.NewDatetime(h.Lastmod)
	h.Stated = &s
	must(t, w.journal.Record(t.Context(), journal.Batch{Put: []journal.Held{h}}))
	must(t, w.deliver(t.Context(), []destination.Change{{URI: h.URI, Path: h.Path, Kind: resourcesync.Updated, Content: destination.ContentSame}}))
	after := w.record(here + "a")
	if !after.Links[0].Modified.Time().Equal(h.Lastmod) || !after.Lastmod.Equal(before.Lastmod) || after.Seq == before.Seq {
		t.Errorf("record = %+v, before %+v", after, before)
	}
}

// TestALoopIsRefusedAndNamed: what comes from this Source is not republished; the others
// are.
func TestALoopIsRefusedAndNamed(t *testing.T) {
	t.Parallel()
	for _, chain := range []bool{false, true} {
		w := newWorld(t)
		w.hold("loop", "text", link("via", here+"x"))
		w.hold("hop", "text", link("via", "https://origin2.example/x"), link(journal.RelHop, here+"x"))
		w.hold("longer", "text", link("via", "https://origin2.example/x"), link("via", here+"x"))
		w.hold("robots.txt", "text")
		w.hold("straight", "text")
		w.hold("worn", "text", slices.Repeat([]resourcesync.Link{link("via", "https://origin2.example/x")}, 32)...)
		reserved := func(rel string) bool { return rel == "robots.txt" }
		r := w.scan(w.upstream(aggregator.Options{Reserved: reserved, Chain: chain}))
		var named []string
		for _, p := range r.Skipped.First {
			named = append(named, strings.TrimPrefix(p.Path, home))
		}
		want := []string{"hop", "longer", "loop", "robots.txt", "worn"}
		if !slices.Equal(named, want) || !errors.Is(r.Skipped.First[1].Err, aggregator.ErrLoop) {
			t.Errorf("skipped = %v, want %v", r.Skipped.First, want)
		}
		if w.record(here+"straight").URI == "" || w.record(here+"worn").URI != "" || w.record(here+"loop").URI != "" {
			t.Errorf("published: %v", w.records())
		}
	}
}

// TestALoopOfDescriptionsIsRecognized: an Aggregator that republishes descriptions only
// leaves a trace in them, by which it recognizes what returns to it.
func TestALoopOfDescriptionsIsRecognized(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first, second := link(journal.RelHop, "https://first.example/"), link(journal.RelHop, here)
	w.hold("a", "text", link("via", "https://origin2.example/a"), first)
	w.hold("b", "text", first, second)
	r := w.scan(w.upstream(aggregator.Options{InPlace: true}))
	if r.Skipped.Count != 1 || r.Skipped.First[0].Path != home+"b" || !errors.Is(r.Skipped.First[0].Err, aggregator.ErrLoop) {
		t.Errorf("skipped = %v", r.Skipped.First)
	}
	w.want(home + "a via=https://origin2.example/a " + journal.RelHop + "=" + here + " " + journal.RelHop + "=https://first.example/")
}

// TestALoopIsRecognizedInAnySpelling: an address of this Source is one in any spelling.
func TestALoopIsRecognizedInAnySpelling(t *testing.T) {
	t.Parallel()
	for uri, here := range map[string]bool{
		"https://here.example/x": true, "https://here.example": true, "HTTPS://Here.Example/x": true, "https://here.example:443/x": true, "http://here.example/x": true,
		"https://here.example./x": true, "https://user@here.example/x": true, "https://here.example/%78/../y": true, "https://here.example//x": true,
		"https://here.example:8443/x": false, "https://here.example.org/x": false, "https://there.example/https://here.example/": false, "urn:here.example": false, "ftp://here.example/x": false,
	} {
		w := newWorld(t)
		w.hold("a", "text", link("via", uri))
		r := w.scan(w.upstream(aggregator.Options{}))
		if loop := r.Skipped.Count == 1; loop != here {
			t.Errorf("via %s: a loop: %v, want %v", uri, loop, here)
		}
	}
}

// TestDeliveriesAreAppliedAsTheMirrorIs: a batch applies what the mirror holds now, so
// that batches that come late or twice do no harm.
func TestDeliveriesAreAppliedAsTheMirrorIs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("a", "one")
	w.hold("b", "one")
	u := w.upstream(aggregator.Options{})
	w.scan(u)
	first := w.record(here + "a")
	w.hold("a", "two, and longer")
	w.hold("c", "new")
	w.drop("b")
	batch := []destination.Change{
		{URI: home + "a", Path: "a", Kind: resourcesync.Updated}, {URI: home + "b", Path: "b", Kind: resourcesync.Deleted},
		{URI: home + "c", Path: "c", Kind: resourcesync.Created},
	}
	must(t, w.deliver(t.Context(), batch))
	w.want("a via="+home+"a", "c via="+home+"c")
	second, created := w.record(here+"a"), w.record(here+"c")
	if second.Length != 15 || !second.Lastmod.After(first.Lastmod) {
		t.Errorf("a = %+v, before %+v", second, first)
	}
	must(t, w.deliver(t.Context(), batch)) // again, as after a crash
	must(t, w.deliver(t.Context(), []destination.Change{{URI: home + "a", Path: "a", Kind: resourcesync.Deleted}}))
	w.want("a via="+home+"a", "c via="+home+"c")
	if r := w.record(here + "a"); r.Seq != second.Seq || !r.Lastmod.Equal(second.Lastmod) {
		t.Errorf("a = %+v, want it unchanged: %+v", r, second)
	}
	if r := w.record(here + "c"); r.Seq != created.Seq || !r.Lastmod.Equal(created.Lastmod) {
		t.Errorf("c = %+v, want it unchanged: %+v", r, created)
	}
}

// TestACopyIsNeverOlderThanTheOrigin: where a text was replaced and came back, the copy is
// the same, and its time is not before that of the origin; otherwise a Destination would
// take the copy for the origin (RS-REL-72).
func TestACopyIsNeverOlderThanTheOrigin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	h := w.hold("a", "text")
	u := w.upstream(aggregator.Options{Chain: true})
	w.scan(u)
	first := w.record(here + "a").Lastmod
	h.Lastmod = time.Now().UTC().Truncate(time.Microsecond)
	h.Stated.Lastmod = resourcesync.NewDatetime(h.Lastmod)
	must(t, w.journal.Record(t.Context(), journal.Batch{Put: []journal.Held{h}}))
	w.scan(u)
	r := w.record(here + "a")
	if via := r.Links[0].Modified.Time(); r.Lastmod.Before(via) {
		t.Errorf("lastmod %v, before it %v; that of the origin is %v", r.Lastmod, first, via)
	}
}

// TestAnEmptyMirrorDeletesNothing: it may not be mounted, or be another one.
func TestAnEmptyMirrorDeletesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("a", "one")
	w.scan(w.upstream(aggregator.Options{}))
	w.drop("a")
	w.hold("b", "that is refused", link("via", here+"b"))
	w.scan(w.upstream(aggregator.Options{})) // it may be filled again: that needs no consent
	w.want("a via=" + home + "a")
	w.hold("a", "that is refused, too", link("via", here+"a"))
	if _, err := w.upstream(aggregator.Options{}).Scan(t.Context()); !errors.Is(err, intake.ErrEmpty) {
		t.Errorf("error = %v, want ErrEmpty", err)
	}
	w.want("a via=" + home + "a")
	if r := w.scan(w.upstream(aggregator.Options{AllowEmpty: true})); r.Deleted != 1 {
		t.Errorf("report = %+v", r)
	}
	w.want()
}

// TestARecordIsServedWithItsOwnBytesOnly: neither newer ones, nor those of a damaged
// file.
func TestARecordIsServedWithItsOwnBytesOnly(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.hold("a", "one")
	u := w.upstream(aggregator.Options{})
	w.scan(u)
	r := w.record(here + "a")
	read := func() (string, error) {
		f, err := u.Bitstream(t.Context(), &r)
		if err != nil {
			return "", err
		}
		defer f.Close()
		text, err := io.ReadAll(f)
		return string(text), err
	}
	if text, err := read(); text != "one" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
	was := r.Hashes
	sum := sha512.Sum512([]byte("one"))
	r.Hashes = append(slices.Clone(was), resourcesync.Hash{Algorithm: resourcesync.SHA512, Digest: string(sum[:])})
	if text, err := read(); text != "one" || err != nil {
		t.Errorf("with a hash that the catalog has added: %q, %v", text, err)
	}
	r.Hashes = was
	row, err := w.journal.Lookup(t.Context(), []string{home + "a"})
	must(t, err)
	w.hold("a", "two")
	if _, err := read(); !errors.Is(err, aggregator.ErrReplaced) {
		t.Errorf("the row is newer: %v", err)
	}
	must(t, w.journal.Record(t.Context(), journal.Batch{Put: row})) // the file is newer than row and record
	if _, err := read(); !errors.Is(err, aggregator.ErrReplaced) {
		t.Errorf("the file is newer: %v", err)
	}
	must(t, w.store.Remove(t.Context(), "a"))
	if _, err := read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the file is gone: %v", err)
	}
	w.drop("a")
	if _, err := read(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the row is gone: %v", err)
	}
}

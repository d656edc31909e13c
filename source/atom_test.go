package source_test

import (
	"context"
	"fmt"
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

// atomWorld is a world whose set has a feed.
func atomWorld(t testing.TB, a source.Atom) *world {
	t.Helper()
	return newWorld(t, source.Options{Sets: []source.Set{{Atom: &a}}, Grace: 2 * time.Hour})
}

// restart makes the catalog another one, that knows of nothing but words.
func (w *world) restart(words ...string) {
	w.Helper()
	w.cat, w.live = catalog.NewMem(w.now), make(map[string]string)
	if _, err := w.cat.Mark(context.Background(), w.set); err != nil {
		w.Fatal(err)
	}
	w.put(words...)
}

// harvested returns what a full harvest of the feed finds.
func (w *world) harvested() *harvester {
	w.Helper()
	h := new(harvester)
	if err := h.harvest(reader(w.docs), true); err != nil {
		w.Fatal(err)
	}
	return h
}

// inFeed checks that the feed tells of what there is, and nothing else.
func (w *world) inFeed() *harvester {
	w.Helper()
	h := w.harvested()
	if diff := cmp.Diff(w.records(), h.active()); diff != "" {
		w.Errorf("records in the feed (-want +got):\n%s", diff)
	}
	return h
}

// whole returns the feed as it is.
func (w *world) whole() *wholeFeed {
	w.Helper()
	f, err := snap(reader(w.docs))
	if err != nil || f == nil {
		w.Fatalf("feed %v: %v", f, err)
	}
	return f
}

func TestAtomFeed(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 3})
	w.put("a=1", "b=1", "c=1", "d=1")
	s := w.source()
	w.publish(s)
	first := w.inFeed() // AP-GEN-01, AP-GEN-03, AP-GEN-04, AP-ACT-01
	if first.docs != 2 || first.entries != 4 {
		t.Errorf("%d entries in %d documents, want 4 in 2", first.entries, first.docs)
	}
	w.pass(time.Minute)
	w.put("a=2", "b")
	w.publish(s)
	h := w.inFeed()
	a, b := h.records[atompmh.RecordID(baseURL+"a")], h.records[atompmh.RecordID(baseURL+"b")]
	if a.Kind != atompmh.Active || !a.Updated.After(first.w) || a.Title != "a" { // AP-ACT-02, AP-ACT-03, AP-DOC-05
		t.Errorf("entry of a = %+v", a)
	}
	if b.Kind != atompmh.Deletion || !b.Updated.After(first.w) { // AP-DEL-02, AP-DEL-04, AP-DEL-06
		t.Errorf("entry of b = %+v", b)
	}
	if h.entries != 6 { // AP-HIS-01, AP-HIS-02, AP-HIS-04: what was said stays
		t.Errorf("%d entries, want 6", h.entries)
	}
	old := first.records[b.ID]
	if e, ok := w.whole().all[b.ID+" "+stamp(old.Updated)]; !ok || e.alternates != baseURL+"b" { // AP-HIS-03: it leads nowhere now
		t.Errorf("entry of b that is history = %v", e)
	}
	w.pass(time.Minute)
	w.put("b=2")
	w.publish(s)
	if b := w.inFeed().records[b.ID]; b.Kind != atompmh.Active { // AP-DEL-08
		t.Errorf("entry of b = %+v", b)
	}
	files := w.files()
	if again := w.publish(s); again.Written {
		t.Error("published again though nothing changed")
	}
	if diff := cmp.Diff(files, w.files()); diff != "" {
		t.Errorf("documents changed (-before +after):\n%s", diff)
	}
}

// TestAtomEmpty has a feed of nothing, then of something.
func TestAtomEmpty(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		w := atomWorld(t, source.Atom{Complete: complete})
		s := w.source()
		w.publish(s)
		w.inFeed()
		w.pass(time.Second)
		w.put("a=1")
		w.publish(s)
		w.inFeed()
		w.pass(time.Second)
		w.put("a")
		w.publish(s)
		w.inFeed()
	}
}

// TestAtomComplete is the manner without deletions (AP-DEL-01, AP-DEL-03).
func TestAtomComplete(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Complete: true})
	w.put("a=1", "b=1", "c=1")
	s := w.source()
	w.publish(s)
	first := w.inFeed()
	w.pass(time.Minute)
	w.put("a=2", "b")
	w.publish(s)
	h := w.inFeed()
	d, err := readAtomDoc(reader(w.docs), feedName)
	if err != nil {
		t.Fatal(err)
	}
	if !d.feed.Complete || len(d.entries) != 2 { // AP-CMP-01, AP-CMP-02, AP-RS-02
		t.Errorf("complete %v with %d entries, want true with 2", d.feed.Complete, len(d.entries))
	}
	c := atompmh.RecordID(baseURL + "c")
	if !h.records[c].Updated.Equal(first.records[c].Updated) {
		t.Errorf("entry of c has become one of %s, was of %s", h.records[c].Updated, first.records[c].Updated)
	}
	if names := w.names("resourcesync/main/feed-"); len(names) > 0 {
		t.Errorf("archives %v", names)
	}
}

// TestAtomLookBack has a feed that began long after its records.
func TestAtomLookBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	for i := range 7 {
		w.put(fmt.Sprintf("%c=1", 'g'-i))
		w.pass(time.Hour)
	}
	w.publish(w.source())
	w.opts.Sets = []source.Set{{Atom: &source.Atom{Entries: 2}}}
	w.publish(w.source())
	h := w.inFeed()
	if h.docs != 4 {
		t.Errorf("%d documents, want 4", h.docs)
	}
	for r, err := range w.cat.Resources(context.Background(), w.set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e := h.records[atompmh.RecordID(r.URI)]; !e.Updated.Equal(r.EventTime.Truncate(time.Millisecond)) { // AP-GEN-02, AP-RS-01
			t.Errorf("%s is of %s, want %s", r.URI, e.Updated, r.EventTime)
		}
	}
}

// TestAtomManyAtOnce has more events than milliseconds (AP-TS-11).
func TestAtomManyAtOnce(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 10})
	w.fill("r%05d", 95)
	s := w.source()
	w.publish(s)
	strictly := func(from time.Time) {
		t.Helper()
		seen := make(map[int64]bool)
		for _, e := range w.inFeed().records {
			if at := e.Updated.UnixMilli(); !e.Updated.Before(from) && seen[at] {
				t.Errorf("two entries of %s", e.Updated)
			} else {
				seen[at] = true
			}
		}
	}
	strictly(time.Time{})
	w.pass(time.Second)
	w.fill("s%05d", 95)
	w.publish(s)
	strictly(time.Time{})
	last := w.inFeed().w
	w.pass(10 * time.Millisecond)
	w.fill("t%05d", 95)
	w.publish(s)
	strictly(time.Time{})
	if h := w.inFeed(); !h.w.After(last) || h.w.After(w.now().Add(95*time.Millisecond)) {
		t.Errorf("newest entry is of %s, want it after %s and not long after %s", h.w, last, w.now())
	}
}

// TestAtomClockBack has a clock that runs back between publications.
func TestAtomClockBack(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		w := atomWorld(t, source.Atom{Complete: complete})
		s := w.source()
		h := new(harvester)
		for i := range 10 {
			w.put(fmt.Sprintf("a=%d", i), fmt.Sprintf("b=%d", i/2))
			w.publish(s)
			before := h.records[atompmh.RecordID(baseURL+"a")]
			if err := h.harvest(reader(w.docs), false); err != nil {
				t.Fatal(err)
			}
			if now := h.records[before.ID]; i > 0 && !now.Updated.After(before.Updated) {
				t.Errorf("complete %v: change %d is of %s, the one before of %s", complete, i, now.Updated, before.Updated)
			}
			w.pass(-time.Minute)
		}
		w.inFeed()
	}
}

// TestAtomArchivesStay has archives that are the same for good (AP-TS-07,
// AP-HIS-04), whatever else happens.
func TestAtomArchivesStay(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 4})
	s := w.source()
	seen := make(map[string]string)
	for i := range 30 {
		corrected := fmt.Sprintf("r%d", i%7)
		w.put(fmt.Sprintf("%s=%d", corrected, i))
		w.publish(s)
		if d, err := readAtomDoc(reader(w.docs), feedName); err != nil || !slices.ContainsFunc(d.entries, func(e atompmh.Entry) bool { // AP-TS-09
			return e.ID == atompmh.RecordID(baseURL+corrected) && e.Updated.Equal(d.feed.Updated)
		}) {
			t.Errorf("change %d is not the newest entry: %v", i, err)
		}
		for name, content := range w.files() {
			if !strings.Contains(name, "/feed-") {
				continue
			}
			if old, known := seen[name]; known && old != content {
				t.Errorf("%s has changed", name)
			}
			seen[name] = content
		}
		w.pass(time.Minute)
	}
	w.inFeed()
	if len(seen) < 6 {
		t.Errorf("%d archives", len(seen))
	}
}

// TestAtomCostsWhatChanges counts what a change writes and reads.
func TestAtomCostsWhatChanges(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 10})
	w.fill("r%05d", 995)
	s := w.source()
	w.publish(s)
	h := w.harvested()
	before := w.names("resourcesync/main/feed")
	for i := range 20 {
		w.pass(time.Minute)
		w.put(fmt.Sprintf("r%05d=x%d", i*7, i))
		w.publish(s)
		if err := h.harvest(reader(w.docs), false); err != nil {
			t.Fatal(err)
		}
		if h.docs > 2 {
			t.Errorf("%d documents read to find one change", h.docs)
		}
	}
	if made := len(w.names("resourcesync/main/feed")) - len(before); made > 2 {
		t.Errorf("%d archives made for 20 changes, 10 in each", made)
	}
}

// TestAtomCompacts has a history that outgrows the records: it is left out, under
// new names, and the old documents stay a while.
func TestAtomCompacts(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 5})
	w.put("a=1", "b=1", "gone=1", "c=1")
	s := w.source()
	w.publish(s)
	w.put("gone")
	most, least := 0, 1000
	h := new(harvester)
	var dropped []string
	for i := range 120 {
		w.pass(time.Minute)
		w.put(fmt.Sprintf("a=%d", i))
		before := w.names("resourcesync/main/feed-")
		w.publish(s)
		if err := h.harvest(reader(w.docs), false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.records(), h.active()); diff != "" {
			t.Fatalf("records in the feed (-want +got):\n%s", diff)
		}
		n := w.inFeed().entries
		if n < least && most > least {
			dropped = before
		}
		most, least = max(most, n), min(least, n)
	}
	full := w.inFeed()
	if full.records[atompmh.RecordID(baseURL+"gone")].Kind != atompmh.Deletion { // AP-DEL-07
		t.Error("a deletion is forgotten")
	}
	if most > 60 {
		t.Errorf("the feed has grown to %d entries of 4 records", most)
	}
	w.pass(3 * time.Hour)
	w.publish(s)
	left := strings.Join(w.names("resourcesync/main/feed-"), " ")
	for _, name := range dropped {
		if strings.Contains(left, name) { // AP-TS-08
			t.Errorf("%s is still there", name)
		}
	}
}

// TestAtomCatalogGoesBack restores an older catalog: who followed the feed comes
// to what there is now.
func TestAtomCatalogGoesBack(t *testing.T) {
	t.Parallel()
	for _, complete := range []bool{false, true} {
		w := atomWorld(t, source.Atom{Complete: complete})
		w.put("a=1", "b=1", "c=1")
		w.publish(w.source())
		h := new(harvester)
		w.pass(time.Minute)
		w.put("a=2", "d=1", "b")
		w.publish(w.source())
		if err := h.harvest(reader(w.docs), false); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.restart("a=1", "b=1", "c=1")
		w.publish(w.source())
		if err := h.harvest(reader(w.docs), false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.records(), h.active()); diff != "" {
			t.Errorf("complete %v: records in the feed (-want +got):\n%s", complete, diff)
		}
		w.inFeed()
	}
}

// TestAtomLostParts loses documents, states and archives.
func TestAtomLostParts(t *testing.T) {
	t.Parallel()
	for _, lost := range []string{feedName, ".lockstep/atom/main.json", "archive", "all"} {
		w := atomWorld(t, source.Atom{Entries: 3})
		s := w.source()
		h := new(harvester)
		for i := range 10 {
			w.put(fmt.Sprintf("r%d=%d", i%6, i))
			w.publish(s)
			w.pass(time.Minute)
		}
		if err := h.harvest(reader(w.docs), false); err != nil {
			t.Fatal(err)
		}
		w.put("r1")
		switch lost {
		case "archive":
			w.remove(w.names("resourcesync/main/feed-")[0])
		case "all":
			for _, name := range append(w.names("resourcesync/main/feed"), feedName, ".lockstep/atom/main.json") {
				w.remove(name)
			}
		default:
			w.remove(lost)
		}
		w.pass(2 * time.Minute)
		w.publish(s)
		w.inFeed()
		if err := h.harvest(reader(w.docs), false); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(w.records(), h.active()); diff != "" {
			t.Errorf("without %s: records in the feed (-want +got):\n%s", lost, diff)
		}
	}
}

// TestAtomConfiguredAnew changes what is said of a feed, one thing after the other.
func TestAtomConfiguredAnew(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{Entries: 3})
	w.put("a=1", "b=1", "c=1", "d=1")
	w.publish(w.source())
	w.put("d")
	w.publish(w.source())
	for _, a := range []source.Atom{{Entries: 2}, {Title: "Articles", Author: "A library"}, {Complete: true}, {Entries: 2}, {ID: "urn:x-test:feed"}} {
		w.pass(time.Minute)
		w.opts.Sets = []source.Set{{Atom: &a}}
		w.publish(w.source())
		w.inFeed()
		d, err := readAtomDoc(reader(w.docs), feedName)
		if err != nil {
			t.Fatal(err)
		}
		if a.Title != "" && (d.feed.Title != a.Title || d.feed.Author != a.Author) || a.Complete != d.feed.Complete || a.ID != "" && d.feed.ID != a.ID {
			t.Errorf("feed = %+v, configured %+v", d.feed, a)
		}
	}
	h := w.harvested()
	w.opts.Sets = []source.Set{{}}
	w.publish(w.source())
	if names := slices.Concat(w.names("resourcesync/main/feed"), w.names(feedName), w.names(".lockstep/atom")); len(names) > 0 {
		t.Errorf("%v are left of a feed there is to be no more", names)
	}
	for name, content := range w.files() {
		if strings.Contains(content, "atom.xml") {
			t.Errorf("%s names the feed", name)
		}
	}
	w.pass(time.Minute)
	w.put("a", "e=1")
	w.publish(w.source())
	w.pass(time.Minute)
	w.opts.Sets = []source.Set{{Atom: &source.Atom{ID: h.id}}} // on again
	w.publish(w.source())
	w.inFeed()
	if err := h.harvest(reader(w.docs), false); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w.records(), h.active()); diff != "" {
		t.Errorf("who followed the feed knows (-want +got):\n%s", diff)
	}
}

// TestAtomNewerStateIsRefused leaves what a newer version wrote alone.
func TestAtomNewerStateIsRefused(t *testing.T) {
	t.Parallel()
	w := atomWorld(t, source.Atom{})
	w.put("a=1")
	w.write(".lockstep/atom/main.json", `{"version": 99}`)
	_, err := w.source().Publish(context.Background())
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("Publish = %v, want it to refuse", err)
	}
}

// TestAtomUntellable has resources that a feed has no words for, or no whole ones:
// the others are told of, and they are as far as possible.
func TestAtomUntellable(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{true, false} {
		w := atomWorld(t, source.Atom{})
		s := w.source()
		if !early {
			w.publish(s)
		}
		odd := []string{"not a uri", "urn:\x01", "https://data.example.org/\xff", "https://data.example.org/a b", "mailto:x@example.org"}
		for i, typ := range []string{"text", " text/plain", "text/\x02", "a/b; c=\"<&>\"", "", "/"} {
			uri := fmt.Sprintf("%stype%d", baseURL, i)
			r := record(uri, "x")
			r.Type = typ
			r.Links = []resourcesync.Link{{Rel: "collection", Href: "https://example.org/\x03"}, {Rel: "via", Href: "a b"}, {Rel: catalog.RelRecord, Href: "no id"}}
			w.live[uri] = "x"
			w.apply(catalog.Update{Record: r})
		}
		for _, uri := range odd {
			w.apply(catalog.Update{Record: record(uri, "x")})
		}
		w.live["mailto:x@example.org"] = "x"
		w.publish(s)
		w.inFeed()
		for _, uri := range odd {
			delete(w.live, uri)
			w.apply(catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		}
		w.publish(s)
		w.inFeed()
	}
}

func TestAtomNewRefuses(t *testing.T) {
	t.Parallel()
	for want, a := range map[string]source.Atom{
		"entries":   {Entries: -1},
		"complete":  {Complete: true, Entries: 5},
		"id \"feed": {ID: "feed"},
		"author":    {Author: " x"},
		"character": {Title: "\x01"},
	} {
		w := atomWorld(t, a)
		if _, err := source.New(w.cat, w.docs, w.opts); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%+v) = %v, want an error about %s", a, err, want)
		}
	}
}

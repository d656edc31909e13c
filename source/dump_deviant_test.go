package source_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// Files change, vanish, grow and shrink behind the catalog's back: a package
// holds what is there, its manifest says so, and the next dump sees to it that
// it is looked at again.
func TestDumpOfWhatHasChangedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, size := range []int{10, 300_000} { // loaded whole, streamed
		d := newDumpWorld(t, source.Options{}, source.Set{ResourceDump: &source.ResourceDump{Every: time.Hour}})
		text := strings.Repeat("x", size)
		for _, name := range []string{"same", "changed", "grown", "shrunk", "gone", "huge"} {
			d.put(name + "=" + text)
		}
		was := maps.Clone(d.now)
		base := d.opts.BaseURL
		d.write(base+"changed", strings.Repeat("y", size), true)
		d.write(base+"grown", text+"more", true)
		d.write(base+"shrunk", text[:size/2], true)
		d.write(base+"huge", strings.Repeat("z", size+400_000), true)
		d.write(base+"gone", "", false)
		s := d.source()
		d.publish(s)
		if r := d.dump(s); !r.Dump || r.Deviant != 5 {
			t.Errorf("PublishDumps = %+v, want 5 deviant resources", r)
		}
		if c := d.dumps(); !maps.Equal(c.state, d.now) {
			t.Error("the dump does not hold what is there")
		}
		d.pass(2 * time.Hour)
		for uri, text := range was { // the files are as they were: no change will tell
			d.write(uri, text, true)
		}
		if r := d.dump(s); !r.Dump || r.Deviant != 0 {
			t.Errorf("PublishDumps = %+v, want a new dump of what is back", r)
		}
		if c := d.dumps(); !maps.Equal(c.state, was) {
			t.Error("the new dump does not hold what is there")
		}
	}
}

// A file that is written to all the time ends up in a package all the same.
func TestDumpOfRestlessFiles(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, source.Set{ResourceDump: &source.ResourceDump{}})
	for i := range 20 {
		d.put(fmt.Sprintf("r%02d=%d", i, i))
	}
	n := 0
	d.onOpen = func(uri string) {
		d.mu.Lock()
		n++
		text := strings.Repeat("x", n)
		d.mu.Unlock()
		d.write(uri, text, true)
	}
	s := d.source()
	d.publish(s)
	if r := d.dump(s); r.Deviant == 0 || d.opened > 60 {
		t.Errorf("PublishDumps = %+v with %d openings", r, d.opened)
	}
	if c := d.dumps(); len(c.state) != 20 {
		t.Errorf("%d resources in the dump, want 20", len(c.state))
	}
}

// What is there and cannot be read must not look as if it were gone: the dump
// stays as it was.
func TestDumpKeepsOldGenerationWhenUnreadable(t *testing.T) {
	t.Parallel()
	set := source.Set{ResourceDump: &source.ResourceDump{Every: time.Hour, PackageEntries: 2}, ChangeDump: &source.ChangeDump{}}
	d := newDumpWorld(t, source.Options{}, set)
	d.put("a=1", "b=2", "c=3", "d=4", "e=5")
	s := d.source()
	d.publish(s)
	d.dump(s)
	before := d.dumps()
	d.pass(2 * time.Hour)
	d.put("a=new", "d=new", "e=new")
	d.publish(s)
	d.broken[d.opts.BaseURL+"d"] = fs.ErrPermission
	_, err := s.PublishDumps(context.Background())
	if !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), "d") {
		t.Errorf("PublishDumps = %v, want permission denied, naming the resource", err)
	}
	after := d.dumps()
	if !after.at.Equal(before.at) || !maps.Equal(after.state, before.state) {
		t.Error("the resource dump is not what it was")
	}
	d.holds(after) // the changes were kept, so the change dump went on
	left := d.names("resourcesync/main/resourcedump-")
	if len(left) != 6 {
		t.Errorf("packages and manifests %q, want those of the dump there is", left)
	}
	delete(d.broken, d.opts.BaseURL+"d")
	if r := d.dump(s); !r.Dump {
		t.Errorf("PublishDumps = %+v, want a new dump", r)
	}
	d.holds(d.dumps())
}

// Records without hash or length get both from what is packed.
func TestDumpOfWhatIsNotHashed(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	apply := func(name, content string, hashed bool) {
		r := record(d.opts.BaseURL+name, content)
		if !hashed {
			r.Hashes, r.Length = nil, -1
		}
		r.Lastmod = d.clock.Now()
		d.write(r.URI, content, true)
		d.apply(catalog.Update{Record: r})
	}
	apply("a", "1", false)
	apply("b", strings.Repeat("b", 400_000), false)
	apply("c", "3", true)
	s := d.source()
	d.publish(s)
	if r := d.dump(s); r.Deviant != 0 {
		t.Errorf("PublishDumps = %+v", r)
	}
	d.holds(d.dumps())
	d.pass(time.Minute)
	apply("a", "2", false)
	apply("c", "4", false)
	d.publish(s)
	d.dump(s)
	d.holds(d.dumps())
	// Superseded before it was packed, and with nothing to know it by: it is lost.
	d.pass(2 * time.Hour)
	apply("a", "5", false)
	d.pass(time.Minute)
	apply("a", "6", false)
	d.publish(s)
	d.dump(s)
	c := d.dumps()
	if len(c.changes) != 1 || c.changes[0].content != "6" || !c.from.After(c.at) {
		t.Errorf("change dump from %s has %v, want only what is sure", c.from, c.changes)
	}
}

// A change whose bitstream is lost cannot be told: the history begins anew
// after it.
func TestChangeDumpBeginsAnewAfterLoss(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, source.Set{ChangeDump: &source.ChangeDump{PackageEntries: 3}})
	s := d.source()
	d.publish(s)
	d.put("a=1", "b=2", "c=3", "d=4")
	d.publish(s)
	if r := d.dump(s); r.Added != 2 || r.Changes != 4 {
		t.Errorf("PublishDumps = %+v, want 4 changes in 2 packages", r)
	}
	old := d.dumps().packages
	d.pass(2 * time.Hour)
	d.put("a=5", "b=6", "c=7", "a=8", "b", "d=9", "e=10")
	d.mu.Lock()
	for key, text := range d.past {
		if text == "5" || text == "6" {
			delete(d.past, key)
		}
	}
	d.mu.Unlock()
	d.publish(s)
	d.dump(s)
	c := d.dumps()
	var got []string
	for _, ch := range c.changes {
		got = append(got, strings.TrimPrefix(ch.uri, baseURL)+"="+ch.content)
	}
	if want := []string{"c=7", "a=8", "b=", "d=9", "e=10"}; !slices.Equal(got, want) {
		t.Errorf("changes %q, want %q", got, want)
	}
	files := d.files()
	for _, name := range old {
		if files[name] == "" {
			t.Errorf("%s is gone before its time", name)
		}
	}
}

// Patches that are kept here are packed with the change they belong to, others
// are not mentioned (RS-CDM-06); a Resource Dump knows none.
func TestChangeDumpPacksPatches(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1")
	s := d.source()
	d.publish(s)
	d.dump(s)
	patch := `[{"op":"replace"}]`
	name := "resourcesync/main/patches/1.json"
	d.store(name, patch)
	h := record("x", patch).Hashes
	r := record(d.opts.BaseURL+"a", "2")
	for _, href := range []string{d.opts.BaseURL + name, d.opts.BaseURL + "resourcesync/main/patches/gone.json", "https://elsewhere.example/p"} {
		r.Links = append(r.Links, resourcesync.Link{
			Rel: resourcesync.RelPatch, Href: href, Type: "application/json-patch+json", Hashes: h, Length: int64(len(patch)), HasLength: true,
		})
	}
	d.write(r.URI, "2", true)
	d.apply(catalog.Update{Record: r})
	d.pass(25 * time.Hour)
	d.publish(s)
	d.dump(s)
	c := d.dumps()
	if len(c.changes) != 1 || c.changes[0].patch != patch || c.state[r.URI] != "2" {
		t.Errorf("changes %+v, dump %q, want the patch in the change", c.changes, c.state)
	}
}

func (d *dumpWorld) store(name, content string) {
	d.Helper()
	w, err := d.docs.Create(context.Background(), name)
	if err == nil {
		_, err = w.Write([]byte(content))
	}
	if err == nil {
		err = d.docs.Commit(context.Background(), w)
	}
	if err != nil {
		d.Fatal(err)
	}
}

// A catalog that was restored, or filled anew, has another history: nothing is
// reused of what was made from the old one.
func TestDumpOfAnotherCatalog(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1", "b=2", "c=3")
	s := d.source()
	d.publish(s)
	d.dump(s)
	d.pass(time.Minute)
	d.put("a=4", "b=5")
	d.publish(s)
	d.dump(s)
	d.pass(time.Minute)
	d.cat = catalog.NewMem(d.clock.Now)
	clear(d.now)
	clear(d.live)
	d.put("a=1", "x=1", "y=1", "z=1", "w=1", "v=1")
	s = d.source()
	d.publish(s)
	if r := d.dump(s); !r.Dump || r.Reused != 0 {
		t.Errorf("PublishDumps = %+v, want all anew", r)
	}
	c := d.dumps()
	d.holds(c)
	if len(c.changes) != 0 {
		t.Errorf("changes %v of a history that is over", c.changes)
	}
}

// The same, where nothing but time tells one history from the other.
func TestDumpOfAnotherCatalogOfTheSameLength(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1", "b=1")
	s := d.source()
	d.publish(s)
	d.dump(s)
	d.pass(time.Minute)
	d.cat = catalog.NewMem(d.clock.Now)
	clear(d.now)
	clear(d.live)
	d.put("x=1", "y=1")
	s = d.source()
	d.publish(s)
	d.dump(s)
	c := d.dumps()
	d.holds(c)
	d.pass(time.Minute)
	d.put("a=2")
	d.publish(s)
	d.pass(25 * time.Hour)
	d.dump(s)
	d.holds(d.dumps())
}

// A dump that is no longer configured leaves the Capability List first.
func TestDumpWithdrawn(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1")
	s := d.source()
	d.publish(s)
	d.dump(s)
	d.opts.Sets[0].ResourceDump, d.opts.Sets[0].ChangeDump = nil, nil
	s = d.source()
	d.dump(s)
	if c := d.dumps(); len(c.packages) != 0 || !c.at.IsZero() || !c.from.IsZero() {
		t.Errorf("dumps at %s, from %s are still named", c.at, c.from)
	}
	if left := d.names("resourcesync/main/resourcedump-"); len(left) != 2 {
		t.Errorf("%q are left within the grace period, want package and manifest", left)
	}
	d.pass(25 * time.Hour)
	d.dump(s)
	if left := append(d.names("resourcesync/main/resourcedump"), d.names("resourcesync/main/changedump")...); len(left) != 0 {
		t.Errorf("%q are left", left)
	}
	d.publish(s)
	d.upToDate()
}

// Wherever it is cut short, the Capability List names only what is there.
func TestDumpWithdrawnWithFaults(t *testing.T) {
	t.Parallel()
	for failAt, reached := 1, true; reached; failAt++ {
		d := newDumpWorld(t, source.Options{}, bothDumps)
		d.put("a=1")
		s := d.source()
		d.publish(s)
		d.dump(s)
		d.opts.Sets[0].ResourceDump, d.opts.Sets[0].ChangeDump = nil, nil
		store := faulty(d.docs, failAt, true)
		store.Faults.After = func() {
			if _, err := crawlDumps(reader(d.docs)); err != nil {
				t.Errorf("fault at step %d, step %d: %v", failAt, store.Faults.Steps(), err)
			}
		}
		faulty := *d.world
		faulty.docs = store
		_, err := faulty.source().PublishDumps(context.Background())
		reached = err != nil
		d.dump(d.source())
		if c := d.dumps(); len(c.packages) != 0 {
			t.Errorf("fault at step %d: %q are still named", failAt, c.packages)
		}
	}
}

func TestDumpOfEmptySet(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	s := d.source()
	d.publish(s)
	if r := d.dump(s); !r.Dump || r.Packages != 0 {
		t.Errorf("PublishDumps = %+v, want a dump without packages", r)
	}
	d.put("a=1")
	d.pass(25 * time.Hour)
	d.publish(s)
	d.dump(s)
	d.holds(d.dumps())
	d.put("a")
	d.pass(25 * time.Hour)
	d.publish(s)
	d.dump(s)
	if c := d.dumps(); len(c.state) != 0 || len(c.changes) != 2 {
		t.Errorf("dump has %q, changes %v", c.state, c.changes)
	}
}

// Retention is that of the Change List; an index loses whole parts.
func TestChangeDumpRetention(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{3, 0} {
		d := newDumpWorld(t, source.Options{MaxEntries: entries, Keep: 10 * time.Hour, Grace: time.Hour},
			source.Set{ResourceDump: &source.ResourceDump{Every: 4 * time.Hour}, ChangeDump: &source.ChangeDump{}})
		s := d.source()
		most := 0
		for i := range 40 {
			d.put(fmt.Sprintf("r%d=%d", i%7, i))
			d.publish(s)
			d.dump(s)
			c := d.dumps()
			d.holds(c)
			if c.from.After(c.at) {
				t.Fatalf("change dump from %s, resource dump at %s", c.from, c.at)
			}
			most = max(most, len(c.changes))
			d.pass(time.Hour)
		}
		if most > 20 || most < 10 {
			t.Errorf("MaxEntries %d: up to %d changes were kept, want those of ten hours, and what goes with them", entries, most)
		}
	}
}

// Changes are kept for the sake of dumps: for who reads one, also one that has
// just been replaced, and until they are packed.
func TestHistoryReachesBackToDumps(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{Keep: 2 * time.Hour, Grace: time.Hour, SmallSet: 1}, source.Set{
		ResourceDump: &source.ResourceDump{Every: 10 * time.Hour},
		ChangeDump:   &source.ChangeDump{Every: 5 * time.Hour},
	})
	d.put("a=0", "b=0")
	s := d.source()
	var at, before time.Time // of the dump, and of the one it replaced less than the grace period ago
	var replaced time.Time
	for i := range 50 {
		d.publish(s)
		d.dump(s)
		d.publish(s)
		list, dump := d.crawl(), d.dumps()
		if !dump.at.Equal(at) {
			at, before, replaced = dump.at, at, d.clock.Now()
		}
		oldest := at
		if d.clock.Now().Sub(replaced) < time.Hour && !before.IsZero() {
			oldest = before
		}
		if list.from.After(oldest) || dump.from.After(oldest) {
			t.Fatalf("change list from %s, change dump from %s do not cover the resource dump at %s", list.from, dump.from, oldest)
		}
		if i > 20 && d.clock.Now().Sub(dump.from) > 21*time.Hour {
			t.Fatalf("change dump from %s is never trimmed", dump.from)
		}
		d.put(fmt.Sprintf("a=%d", i))
		d.pass(30 * time.Minute)
	}
}

// Changes that are not packed yet are kept for it, however long that takes.
func TestHistoryWaitsForChangeDump(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{Keep: 2 * time.Hour, Grace: time.Hour, SmallSet: 1}, source.Set{ChangeDump: &source.ChangeDump{Every: 10 * time.Hour}})
	s := d.source()
	d.publish(s)
	d.put("a=0")
	d.publish(s)
	d.dump(s)
	from := d.dumps().until
	for i := range 25 {
		d.put(fmt.Sprintf("a=x%d", i))
		d.pass(30 * time.Minute)
		d.publish(s)
	}
	d.dump(s)
	c := d.dumps()
	if n := len(c.changes); n != 25 || !c.from.Equal(from) {
		t.Errorf("%d changes since %s, want 25 since %s", n, c.from, from)
	}
}

// While a dump is being built, time passes and changes are published: the
// Change List still reaches back to where the dump began.
func TestChangeListWaitsForDumpBeingBuilt(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{Keep: 2 * time.Hour, Grace: time.Hour}, source.Set{ResourceDump: &source.ResourceDump{}})
	d.put("a=0", "b=0")
	s := d.source()
	d.publish(s)
	hooked := false
	d.onOpen = func(string) {
		d.mu.Lock()
		done := hooked
		hooked = true
		d.mu.Unlock()
		if done {
			return
		}
		for i := range 5 {
			d.pass(time.Hour)
			d.put(fmt.Sprintf("c%d=x", i))
			d.publish(s)
		}
	}
	d.opts.Workers = 1
	d.dump(s)
	list, dump := d.crawl(), d.dumps()
	if list.from.After(dump.at) || !hooked {
		t.Errorf("change list from %s does not cover the resource dump at %s", list.from, dump.at)
	}
}

// A length that is wrong is found for itself, and not handed on.
func TestDumpOfWrongLengths(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, source.Set{ResourceDump: &source.ResourceDump{PackageEntries: 1}})
	for i, length := range []int64{1, 7, 100, 400_000} {
		r := record(fmt.Sprintf("%sr%d", baseURL, i), "content")
		r.Length = length
		if i == 0 {
			r.Hashes = nil
		}
		d.write(r.URI, "content", true)
		d.apply(catalog.Update{Record: r})
	}
	s := d.source()
	d.publish(s)
	if r := d.dump(s); r.Deviant != 3 {
		t.Errorf("PublishDumps = %+v, want 3 deviant resources", r)
	}
	d.holds(d.dumps())
}

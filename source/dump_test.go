package source_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/source"
)

var bothDumps = source.Set{ResourceDump: &source.ResourceDump{}, ChangeDump: &source.ChangeDump{}}

func TestDumpFirstThenChanges(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1", "dir/b.txt=22", "c=")
	s := d.source()
	d.publish(s)
	if r := d.dump(s); !r.Dump || r.Packages != 1 || r.Added != 0 {
		t.Errorf("first PublishDumps = %+v", r)
	}
	c := d.dumps()
	d.holds(c)
	if len(c.state) != 3 || len(c.changes) != 0 {
		t.Errorf("dump has %q and changes %v", c.state, c.changes)
	}
	d.pass(time.Minute)
	d.put("a=new", "dir/b.txt", "d=x", "a=newer")
	d.publish(s)
	if r := d.dump(s); r.Dump || r.Added != 1 || r.Changes != 4 {
		t.Errorf("second PublishDumps = %+v, want one package of 4 changes", r)
	}
	c = d.dumps()
	d.holds(c)
	if c.changes[0].content != "new" || c.changes[3].content != "newer" {
		t.Errorf("changes %v: want both of a (RS-CD-07)", c.changes)
	}
	before := d.files()
	for range 2 {
		if r := d.dump(s); r.Dump || r.Added != 0 || r.Removed != 0 {
			t.Errorf("third PublishDumps = %+v, want nothing", r)
		}
		s = d.source()
	}
	if !maps.Equal(before, d.files()) {
		t.Error("files changed though nothing did")
	}
	d.pass(25 * time.Hour)
	if r := d.dump(s); !r.Dump || r.Packages != 1 || r.Reused != 0 {
		t.Errorf("PublishDumps a day later = %+v, want a new dump", r)
	}
	c = d.dumps()
	d.holds(c)
	d.upToDate()
}

// TestHomePageNamesDumps looks at the page of a Source before and after it has
// dumps, and after a restart.
func TestHomePageNamesDumps(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1")
	s := d.source()
	d.publish(s)
	page := func(s *source.Source) string {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, d.opts.BaseURL, nil))
		return w.Body.String()
	}
	if text := page(s); strings.Contains(text, "dump.xml") {
		t.Errorf("the page names dumps that are not there:\n%s", text)
	}
	d.dump(s)
	again := d.source()
	d.publish(again)
	for when, s := range map[string]*source.Source{"after the dump": s, "after a restart": again} {
		if text := page(s); !strings.Contains(text, "resourcedump.xml") {
			t.Errorf("%s the page does not name it:\n%s", when, text)
		}
	}
}

// TestDumpsAfterAClockAhead: dumps that were built by a clock ahead by a year are
// built again when they are due by the right clock.
func TestDumpsAfterAClockAhead(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	d := newDumpWorld(t, source.Options{}, source.Set{
		ResourceDump: &source.ResourceDump{Every: 24 * time.Hour}, ChangeDump: &source.ChangeDump{Every: time.Hour},
	})
	d.put("a=1")
	s := d.source()
	d.publish(s)
	d.dump(s)
	d.pass(year)
	d.put("a=2")
	d.publish(s)
	d.dump(s)
	d.pass(2*time.Hour - year)
	d.put("a=3")
	d.publish(s)
	if r := d.dump(s); !r.Dump || r.Added != 1 {
		t.Errorf("PublishDumps after the clock was set back = %+v, want both dumps", r)
	}
	d.pass(2 * time.Hour)
	d.put("a=4")
	d.publish(s)
	if r := d.dump(s); r.Dump || r.Added != 1 {
		t.Errorf("PublishDumps two hours later = %+v, want a package of changes", r)
	}
	d.holds(d.dumps())
}

func TestDumpKeepsAsManyAsAskedFor(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{Grace: time.Hour}, source.Set{ResourceDump: &source.ResourceDump{Every: 10 * time.Hour, Keep: 3}})
	s := d.source()
	var packages []string
	for i := range 5 {
		d.pass(10*time.Hour + time.Second)
		d.put(fmt.Sprintf("r=%d", i))
		d.publish(s)
		if r := d.dump(s); !r.Dump {
			t.Fatalf("PublishDumps %d = %+v, want a new dump", i, r)
		}
		packages = append(packages, d.dumps().packages...)
	}
	d.dump(s) // what is too old goes at the latest now
	files := d.files()
	for i, name := range packages {
		if _, there := files[name]; there != (i >= 2) {
			t.Errorf("of 5 dumps package %d is there: %v", i, there)
		}
	}
}

func TestDumpReusesPackages(t *testing.T) {
	t.Parallel()
	set := bothDumps
	set.ResourceDump = &source.ResourceDump{PackageEntries: 10, Every: time.Hour}
	d := newDumpWorld(t, source.Options{MaxEntries: 4}, set)
	for i := range 95 {
		d.put(fmt.Sprintf("r%02d=%d", i, i))
	}
	s := d.source()
	d.publish(s)
	if r := d.dump(s); r.Packages != 10 {
		t.Errorf("PublishDumps = %+v, want 10 packages", r)
	}
	first := d.dumps()
	if first.lists != 3 {
		t.Errorf("%d parts of the index, want 3", first.lists)
	}
	old := d.files()
	d.pass(2 * time.Hour)
	d.put("r13=new", "r14", "r41x=1")
	d.publish(s)
	if r := d.dump(s); r.Packages != 11 || r.Reused != 8 {
		t.Errorf("PublishDumps = %+v, want 8 packages reused, one made anew, and one split", r)
	}
	second := d.dumps()
	d.holds(second)
	files, same := d.files(), 0
	for _, name := range first.packages {
		if files[name] != old[name] {
			t.Errorf("%s has changed, or is gone before its time", name)
		}
		if slices.Contains(second.packages, name) {
			same++
		}
	}
	if same != 8 {
		t.Errorf("%d packages have kept their names, want 8", same)
	}
	d.pass(25 * time.Hour)
	if r := d.dump(s); r.Removed == 0 || r.Dump {
		t.Errorf("PublishDumps after the grace period = %+v, want packages removed and no new dump", r)
	}
	d.holds(d.dumps())
	files = d.files()
	for _, name := range first.packages {
		if _, there := files[name]; there != slices.Contains(second.packages, name) {
			t.Errorf("%s: there is %v after the grace period", name, there)
		}
	}
}

package source_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

const dumpStateName = ".lockstep/main.dumps.json"

// A state that is lost or damaged costs work, and no reader anything: no name
// that was used gets other bytes, nothing goes before its time, and all goes in
// the end.
func TestDumpStateLost(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", "{", "null\n"} {
		d := newDumpWorld(t, source.Options{}, bothDumps)
		d.put("a=1", "b=2")
		s := d.source()
		d.publish(s)
		d.dump(s)
		d.put("a=3", "c=4")
		d.publish(s)
		d.dump(s)
		d.holds(d.dumps())
		before := d.files()
		if damage == "" {
			d.remove(dumpStateName)
		} else {
			d.store(dumpStateName, damage)
		}
		d.put("d=5")
		d.publish(s)
		s = d.source()
		d.dump(s)
		c := d.dumps()
		d.holds(c)
		after := d.files()
		for name, content := range before {
			if immutableDump.MatchString(name) && after[name] != content {
				t.Errorf("%s has changed, or is gone before its time", name)
			}
		}
		d.pass(23 * time.Hour)
		d.dump(s)
		d.pass(2 * time.Hour)
		d.dump(s)
		c = d.dumps()
		d.holds(c)
		for name := range d.files() {
			if strings.HasSuffix(name, ".zip") && before[name] != "" {
				t.Errorf("%s is left", name)
			}
		}
	}
}

func (d *dumpWorld) remove(name string) {
	d.Helper()
	if err := d.docs.Remove(context.Background(), name); err != nil {
		d.Fatal(err)
	}
}

func TestDumpStateOfNewerVersion(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1")
	s := d.source()
	d.publish(s)
	d.store(dumpStateName, `{"version": 1000000}`)
	had := len(d.files())
	if _, err := s.PublishDumps(context.Background()); err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("PublishDumps = %v, want an error that names the newer version", err)
	}
	if files := d.files(); len(files) != had {
		t.Errorf("%d files, want the %d there were", len(files), had)
	}
}

// What is removed from under the Source is made again.
func TestDumpPartsMissing(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"resourcedump.xml", "changedump.xml", "resourcedump-.zip", "resourcedump-.xml", "changedump-.zip", "changedump-list"} {
		set := bothDumps
		set.ResourceDump = &source.ResourceDump{PackageEntries: 2}
		set.ChangeDump = &source.ChangeDump{PackageEntries: 2}
		d := newDumpWorld(t, source.Options{MaxEntries: 2}, set)
		d.put("a=1", "b=2", "c=3", "d=4")
		s := d.source()
		d.publish(s)
		d.dump(s)
		d.put("a=5", "b=6", "e=7", "f=8", "g=9")
		d.publish(s)
		d.dump(s)
		prefix, suffix, _ := strings.Cut(missing, "-.")
		for _, name := range d.names("resourcesync/main/" + prefix) {
			if strings.HasSuffix(name, suffix) && !strings.Contains(name, "list") == !strings.Contains(missing, "list") {
				d.remove(name)
				break
			}
		}
		d.dump(s)
		c := d.dumps()
		if c.at.IsZero() || c.from.IsZero() {
			t.Errorf("without %s: dumps at %s, from %s", missing, c.at, c.from)
		}
		d.holds(c)
	}
}

// Other rules for links make other manifests, at once.
func TestDumpFollowsLinkRules(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	d.put("a=1")
	s := d.source()
	d.publish(s)
	d.dump(s)
	d.opts.Sets[0].Links = []source.LinkRule{{Href: "https://mirror.example.org/{path}", Link: resourcesync.Link{Rel: "duplicate"}}}
	s = d.source()
	if r := d.dump(s); !r.Dump || r.Reused != 0 {
		t.Errorf("PublishDumps = %+v, want all packages made anew", r)
	}
	c := d.dumps()
	d.holds(c)
	manifest, err := c.read(strings.TrimSuffix(c.packages[0], ".zip") + ".xml")
	if err != nil || !strings.Contains(string(manifest), `href="https://mirror.example.org/a"`) {
		t.Errorf("manifest without the link: %s, %v", manifest, err)
	}
}

// What the catalog says and no document can is left out, and nothing else; a
// resource larger than a package is one of its own.
func TestDumpOfOddRecords(t *testing.T) {
	t.Parallel()
	set := bothDumps
	set.ResourceDump = &source.ResourceDump{PackageBytes: 100}
	d := newDumpWorld(t, source.Options{}, set)
	d.put("a=1", "b="+strings.Repeat("x", 1000), "c=3")
	s := d.source()
	d.publish(s)
	for _, uri := range []string{"not a URI", baseURL + "type"} {
		r := record(uri, "x")
		r.Type = "no media type"
		d.write(uri, "x", true)
		d.apply(catalog.Update{Record: r})
	}
	d.publish(s)
	if r := d.dump(s); r.Packages != 3 {
		t.Errorf("PublishDumps = %+v, want 3 packages", r)
	}
	c := d.dumps()
	want := maps.Clone(d.now)
	delete(want, "not a URI")
	if !maps.Equal(c.state, want) || len(c.changes) != 1 {
		t.Errorf("dump has %d resources, %d changes", len(c.state), len(c.changes))
	}
}

// Dumps that were cut into parts under other limits are gone on with.
func TestDumpLimitsChange(t *testing.T) {
	t.Parallel()
	set := bothDumps
	set.ResourceDump = &source.ResourceDump{PackageEntries: 1}
	set.ChangeDump = &source.ChangeDump{PackageEntries: 1}
	d := newDumpWorld(t, source.Options{MaxEntries: 2}, set)
	d.put("a=1", "b=2", "c=3", "d=4", "e=5")
	for i, most := range []int{2, 50_000, 3, 1} {
		d.opts.MaxEntries = most
		s := d.source()
		d.put(fmt.Sprintf("a=%d", i))
		d.publish(s)
		for _, doc := range []string{"resourcesync/main/resourcedump.xml", "resourcesync/main/changedump.xml"} {
			d.remove(doc)
		}
		d.dump(s)
		c := d.dumps()
		d.holds(c)
		if i == 2 {
			d.pass(25 * time.Hour)
		} else {
			d.pass(2 * time.Hour)
		}
	}
}

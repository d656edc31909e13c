package source_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/source"
)

func TestPublishFirstThenChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.put("a=1", "b=22", "gone=1")
	w.put("gone")
	s := w.source()
	if r := w.publish(s); !r.Written || !r.Sets[0].List || r.Sets[0].Resources != 2 || r.Sets[0].Changes != 0 {
		t.Errorf("first Publish = %+v", r)
	}
	c := w.upToDate()
	if len(c.events) != 0 || !c.from.Equal(c.at) {
		t.Errorf("first Change List: events %q, from %s, at %s; want none, since at", c.events, c.from, c.at)
	}
	w.pass(time.Minute)
	w.put("a=new!", "b", "c=x")
	if r := w.publish(s); r.Sets[0].Changes != 3 || r.Sets[0].Seq != 7 {
		t.Errorf("second Publish = %+v, want 3 changes through 7", r.Sets[0])
	}
	c = w.upToDate()
	want := []string{"updated a 2026-05-01T02:01:00Z", "deleted b 2026-05-01T02:01:00.000001Z", "created c 2026-05-01T02:01:00.000002Z"}
	if !slices.Equal(c.events, want) {
		t.Errorf("events %q, want %q", c.events, want)
	}
}

func TestPublishWritesNothingWhenNothingChanged(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		w := newWorld(t, source.Options{MaxEntries: 3})
		s := w.source()
		for i := range 10 {
			w.put(fmt.Sprintf("r%d=x", i))
			w.publish(s)
		}
		before := w.files()
		w.pass(time.Hour)
		if restart {
			s = w.source()
		}
		if r := w.publish(s); r.Written {
			t.Errorf("Publish = %+v, want nothing written", r)
		}
		if after := w.files(); !maps.Equal(before, after) {
			t.Errorf("restart %v: files changed", restart)
		}
	}
}

// Requirements: RS-RL-03.
func TestPublishSplitsResourceList(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 10})
	for i := range 95 {
		w.put(fmt.Sprintf("r%02d=x", i))
	}
	s := w.source()
	if r := w.publish(s); r.Sets[0].Parts != 10 || r.Sets[0].Resources != 95 {
		t.Errorf("Publish = %+v, want 10 parts", r.Sets[0])
	}
	if c := w.upToDate(); c.parts != 10 {
		t.Errorf("%d parts, want 10", c.parts)
	}
	first := w.names("resourcesync/main/resourcelist-")
	w.pass(time.Minute)
	w.put("r00")
	w.publish(s)
	w.upToDate()
	for _, name := range first {
		if !slices.Contains(w.names(""), name) {
			t.Errorf("%s is gone within the grace period", name)
		}
	}
	w.pass(25 * time.Hour)
	if r := w.publish(s); r.Sets[0].Removed != 1 || r.Written {
		t.Errorf("Publish after the grace period = %+v, want the part removed that was replaced, and nothing written", r)
	}
	w.upToDate()
	if got := w.names("resourcesync/main/resourcelist-"); len(got) != 10 {
		t.Errorf("%d parts are left, want 10", len(got))
	}
}

// A part is full by its bytes before it is by its entries.
func TestPublishSplitsByBytes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxBytes: 20_000})
	s := w.source()
	w.publish(s)
	w.fill(strings.Repeat("long", 100)+"/%05d", 100)
	w.publish(s)
	c := w.upToDate()
	if c.parts < 3 || c.closed < 3 {
		t.Errorf("%d parts of the Resource List, %d closed ones of the Change List; want 3 or more", c.parts, c.closed)
	}
	for _, name := range c.names {
		data, err := reader(w.docs)(name)
		if err != nil || len(data) > 20_700 {
			t.Errorf("%s has %d bytes, %v", name, len(data), err)
		}
	}
	for i := range 60 { // and grows so
		w.put(fmt.Sprintf("%s/a=%d", strings.Repeat("long", 100), i))
		w.publish(s)
	}
	for _, name := range w.upToDate().names {
		data, err := reader(w.docs)(name)
		if err != nil || len(data) > 20_700 {
			t.Errorf("%s has grown to %d bytes, %v", name, len(data), err)
		}
	}
}

func TestChangeListRotates(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 4})
	s := w.source()
	w.publish(s)
	closed := make(map[string]string)
	open := ""
	for i := range 23 {
		w.pass(time.Second)
		w.put(fmt.Sprintf("r%d=%d", i%3, i), fmt.Sprintf("s%d=%d", i%3, i))
		w.publish(s)
		c := w.upToDate()
		if len(c.events) == 0 {
			t.Fatal("no events")
		}
		parts := w.names("resourcesync/main/changelist-")
		files := w.files()
		for i, name := range parts {
			if was, ok := closed[name]; ok && was != files[name] {
				t.Errorf("closed part %s has changed", name)
			}
			if i < len(parts)-1 {
				closed[name] = files[name]
			} else if open = name; strings.Contains(files[name], "until=") {
				t.Errorf("last part %s is closed", name)
			}
		}
	}
	if len(closed) < 5 || open == "" {
		t.Errorf("%d closed parts, open %q", len(closed), open)
	}
}

// Requirements: RS-CHI-07.
func TestOldChangesAreForgotten(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{4, 1000} {
		w := newWorld(t, source.Options{MaxEntries: limit, Keep: 48 * time.Hour, Grace: time.Hour})
		s := w.source()
		w.publish(s)
		for i := range 60 {
			w.pass(2 * time.Hour)
			w.put(fmt.Sprintf("r=%d", i*100))
			w.put(fmt.Sprintf("r%d=x", i))
			if i%3 == 0 {
				s = w.source()
			}
			w.publish(s)
			if c := w.upToDate(); len(c.events) > 60 {
				t.Fatalf("%d events are kept, want 2 days' or few more", len(c.events))
			}
		}
		st, err := w.cat.Status(context.Background(), w.set)
		if err != nil || st.Kept.Seq < st.Last-60 {
			t.Errorf("catalog keeps changes since %+v of %d, %v", st.Kept, st.Last, err)
		}
		if parts := w.names("resourcesync/main/changelist-"); len(parts) > 20 {
			t.Errorf("%d parts are left", len(parts))
		}
	}
}

// Older clients read no Index: once the changes kept fit one document again,
// it is one again, and who follows the open part is told that it ended.
func TestChangeListBecomesOneDocumentAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 5, Keep: 24 * time.Hour, Grace: time.Hour})
	s := w.source()
	w.publish(s)
	for i := range 8 {
		w.put(fmt.Sprintf("r%d=x", i))
	}
	w.publish(s)
	c := w.upToDate()
	if c.closed != 1 {
		t.Fatalf("%d closed parts, want 1", c.closed)
	}
	open := c.names[len(c.names)-1]
	w.pass(25 * time.Hour)
	w.put("r0=now")
	w.publish(s)
	if c := w.upToDate(); c.closed != 0 || !strings.HasSuffix(c.names[len(c.names)-1], "/changelist.xml") {
		t.Errorf("documents %q, want one Change List", c.names)
	}
	data, err := reader(w.docs)(open)
	if err != nil || !strings.Contains(string(data), "until=") || strings.Count(string(data), "<url>") != 4 {
		t.Errorf("open part %s, %v:\n%s", open, err, data)
	}
}

func TestRestoredCatalogBreaksHistory(t *testing.T) {
	t.Parallel()
	for _, more := range []int{0, 3, 20} { // changes after the restoration
		old := newWorld(t, source.Options{MaxEntries: 4})
		old.publish(old.source())
		for i := range 5 {
			old.put(fmt.Sprintf("r%d=x", i))
		}
		old.publish(old.source())
		old.write("resourcesync/main/resourcedump.xml", "of that history")

		w := newWorld(t, source.Options{})
		w.docs = old.docs
		w.put("other=1")
		if _, err := w.cat.Mark(context.Background(), w.set); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Hour)
		for i := range more {
			w.put(fmt.Sprintf("new%d=x", i))
		}
		w.pass(time.Hour)
		w.publish(w.source())
		c := w.upToDate()
		if c.from.Before(w.now()) || len(c.events) > 0 {
			t.Errorf("after %d changes: Change List from %s with %d events, want a history that begins now, %s", more, c.from, len(c.events), w.now())
		}
		if parts := w.names("resourcesync/main/change"); len(parts) != 1 {
			t.Errorf("%q are there: who follows a part of the old history must not wait for more", parts)
		}
		if dumps := w.names("resourcesync/main/resourcedump"); len(dumps) != 0 {
			t.Errorf("%q are there: who takes a dump of the old history could not go on from it", dumps)
		}
		w.put("again=1")
		w.publish(w.source())
		w.upToDate()
	}
}

func TestLostStateIsMadeAnew(t *testing.T) {
	t.Parallel()
	for _, damage := range []string{"", "not JSON", `{"version":1}`} {
		w := newWorld(t, source.Options{MaxEntries: 4})
		s := w.source()
		w.publish(s)
		for i := range 11 {
			w.put(fmt.Sprintf("r%d=x", i))
			w.publish(s)
		}
		want := w.crawl().events
		w.remove(".lockstep/main.json")
		if damage != "" {
			w.write(".lockstep/main.json", damage)
		}
		w.publish(w.source())
		c := w.upToDate()
		if !slices.Equal(c.events, want) {
			t.Errorf("events %q, want %q", c.events, want)
		}
	}
}

func TestNewerStateIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.write(".lockstep/main.json", `{"version":99}`)
	_, err := w.source().Publish(context.Background())
	if err == nil || !strings.Contains(err.Error(), "newer version") {
		t.Errorf("Publish = %v, want a refusal", err)
	}
	if got := w.names(""); len(got) != 1 {
		t.Errorf("files %q", got)
	}
}

func TestMissingDocumentsAreWrittenAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 4})
	s := w.source()
	w.publish(s)
	for i := range 11 {
		w.put(fmt.Sprintf("r%d=x", i))
		w.publish(s)
	}
	for _, name := range w.crawl().names {
		w.remove(name)
		w.publish(w.source())
		w.upToDate()
	}
}

// TestHistoryRestartsByAClockBehind: when a catalog continues an older state, on a machine whose clock is
// behind, the history that restarts begins after all that readers may have seen.
func TestHistoryRestartsByAClockBehind(t *testing.T) {
	t.Parallel()
	for _, entries := range []int{0, 4} {
		w := newWorld(t, source.Options{MaxEntries: entries})
		s := w.source()
		for i := range 6 {
			w.put(fmt.Sprintf("r%d=x", i))
			w.publish(s)
			w.pass(time.Minute)
		}
		before := w.upToDate()
		w.pass(-10 * time.Minute)
		w.restart("r0=x", "r1=x")
		s = w.source()
		w.publish(s)
		restarted := w.upToDate()
		if !restarted.from.After(before.last) || !restarted.from.After(before.at) || !restarted.at.After(before.at) {
			t.Errorf("the history restarts at %s, with a list of %s; the last change was at %s, the last list of %s", restarted.from, restarted.at, before.last, before.at)
		}
		w.put("r2=y")
		w.publish(s)
		if after := w.upToDate(); !after.last.After(restarted.from) || !after.from.Equal(restarted.from) {
			t.Errorf("the next change is at %s, in a list from %s, which was from %s", after.last, after.from, restarted.from)
		}
	}
}

// TestMarkIsLost: a catalog has all changes that were published, but not the Mark of the Resource List, and
// the clock is behind. Changes that were made since are not taken for ones that readers of the list have.
func TestMarkIsLost(t *testing.T) {
	t.Parallel()
	for _, early := range []bool{false, true} { // whether there is a change before the first publication
		w := newWorld(t, source.Options{})
		begin := w.now()
		w.publish(w.source())
		w.pass(time.Minute)
		w.put("a=1")
		w.pass(time.Hour)
		w.publish(w.source())
		before := w.upToDate()
		w.clock.Set(begin)
		w.restart()
		w.pass(time.Minute)
		w.put("a=1")
		if w.past[len(w.past)-1].at != before.last {
			t.Fatalf("the change is at %s, want %s", w.past[len(w.past)-1].at, before.last)
		}
		w.pass(time.Minute)
		s := w.source()
		if !early {
			w.publish(s)
		}
		w.put("b=1")
		w.publish(s)
		after := w.upToDate()
		if restarted := after.from.After(before.at); restarted != early || !restarted && !after.last.After(before.at) {
			t.Errorf("early %t: the change is at %s, in a list from %s; readers had a list of %s", early, after.last, after.from, before.at)
		}
	}
}

func TestClockSteppingBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{MaxEntries: 4})
	s := w.source()
	w.publish(s)
	var at, last, stamp time.Time
	for i := range 30 {
		if i%5 == 4 {
			w.pass(-3 * time.Hour)
		} else {
			w.pass(time.Minute)
		}
		w.put(fmt.Sprintf("r%d=x", i))
		if i%4 == 0 {
			s = w.source()
		}
		w.publish(s)
		c := w.upToDate()
		info, err := w.docs.Stat(context.Background(), "resourcesync/main/resourcelist.xml")
		if err != nil || c.at.Before(at) || !c.last.After(last) || !info.ModTime.After(stamp) {
			t.Fatalf("step %d: at %s after %s, last event %s after %s, modified %s after %s, %v", i, c.at, at, c.last, last, info.ModTime, stamp, err)
		}
		at, last, stamp = c.at, c.last, info.ModTime
	}
}

func TestForeignRobotsStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	const mine = "User-agent: *\nDisallow: /private\n"
	w.write("robots.txt", mine)
	line := "Sitemap: " + baseURL + "resourcesync/main/resourcelist.xml"
	if r := w.publish(w.source()); !slices.Equal(r.Kept, []string{"robots.txt"}) || !slices.Equal(r.Lacking, []string{line}) {
		t.Errorf("Publish = %+v, want robots.txt kept, that lacks %s", r, line)
	}
	if data, err := reader(w.docs)("robots.txt"); err != nil || string(data) != mine {
		t.Errorf("robots.txt is %q, %v", data, err)
	}
	w.write("robots.txt", mine+line+"\n")
	if r := w.publish(w.source()); len(r.Kept) != 1 || len(r.Lacking) != 0 {
		t.Errorf("Publish = %+v, want robots.txt kept, that lacks nothing", r)
	}
}

package catalogtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

func testOutcomes(t *testing.T, c catalog.Catalog) {
	mark(t, c)
	base := catalog.Record{URI: "u", Lastmod: time.Unix(1, 0), Length: 1, Type: "a/b", Encoding: "gzip",
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: "1"}, {Algorithm: resourcesync.SHA256, Digest: "2"}}}
	unhashed := base
	unhashed.Hashes = nil
	tests := []struct {
		name   string
		from   catalog.Record
		change func(*catalog.Record)
		same   bool
	}{
		{"nothing", base, func(r *catalog.Record) {}, true},
		{"length", base, func(r *catalog.Record) { r.Length = 2 }, false},
		{"unknown length", base, func(r *catalog.Record) { r.Length = -1 }, false},
		{"type", base, func(r *catalog.Record) { r.Type = "" }, false},
		{"encoding", base, func(r *catalog.Record) { r.Encoding = "" }, false},
		{"digest", base, func(r *catalog.Record) {
			r.Hashes = resourcesync.Hashes{r.Hashes[0], {Algorithm: resourcesync.SHA256, Digest: "3"}}
		}, false},
		{"hash order", base, func(r *catalog.Record) { r.Hashes = resourcesync.Hashes{r.Hashes[1], r.Hashes[0]} }, true},
		{"one hash less", base, func(r *catalog.Record) { r.Hashes = r.Hashes[:1] }, false},
		{"no hash", base, func(r *catalog.Record) { r.Hashes = nil }, false},
		{"hashes", unhashed, func(r *catalog.Record) { r.Hashes = base.Hashes }, false},
		{"lastmod with hash", base, func(r *catalog.Record) { r.Lastmod = time.Unix(2, 0) }, true},
		{"lastmod without hash", unhashed, func(r *catalog.Record) { r.Lastmod = time.Unix(2, 0) }, false},
		{"lastmod below a microsecond", unhashed, func(r *catalog.Record) { r.Lastmod = r.Lastmod.Add(999) }, true},
		{"lastmod unknown", unhashed, func(r *catalog.Record) { r.Lastmod = time.Time{} }, false},
		{"links", base, func(r *catalog.Record) {
			r.Links = []resourcesync.Link{{Rel: "collection", Href: "https://example.org/c"}}
		}, false},
		{"a patch", base, func(r *catalog.Record) {
			r.Links = []resourcesync.Link{{Rel: resourcesync.RelPatch, Href: "https://example.org/p", Type: "application/json-patch+json"}}
		}, true},
		{"a memento", base, func(r *catalog.Record) { r.Links = []resourcesync.Link{memento(1)} }, true},
		{"foreign markup", base, func(r *catalog.Record) { r.Foreign = foreign(t, foreignText) }, false},
		{"a link's foreign markup", base, func(r *catalog.Record) {
			r.Links = []resourcesync.Link{{Rel: "collection", Href: "https://example.org/c", Foreign: foreign(t, foreignText)}}
		}, false},
		{"no memento", base, func(r *catalog.Record) { r.Links = []resourcesync.Link{catalog.NoMemento()} }, true},
		{"token", unhashed, func(r *catalog.Record) { r.Token = "t" }, true},
		{"seq and event time", unhashed, func(r *catalog.Record) { r.Seq, r.EventTime = 99, time.Now() }, true},
	}
	for _, tt := range tests {
		apply(t, c, catalog.Applied{Created: 1}, catalog.Update{Record: tt.from})
		last := status(t, c).Last
		to := tt.from
		tt.change(&to)
		want := catalog.Applied{Updated: 1}
		if tt.same {
			want = catalog.Applied{Unchanged: 1}
		}
		got, err := c.Apply(t.Context(), set, []catalog.Update{{Record: to}})
		if err != nil || got != want {
			t.Errorf("%s: Apply = %+v, %v, want %+v", tt.name, got, err, want)
		}
		if got := changes(t, c, last); len(got) != want.Updated {
			t.Errorf("%s: %d changes, want %d", tt.name, len(got), want.Updated)
		}
		apply(t, c, catalog.Applied{Deleted: 1}, gone("u")...)
		apply(t, c, catalog.Applied{Unchanged: 1}, gone("u")...)
	}

	// In order, also for one URI, and with many updates that are neither sorted nor
	// distinct.
	last := status(t, c).Last
	apply(t, c, catalog.Applied{Created: 4, Updated: 1, Deleted: 3, Unchanged: 2},
		put("y", "1"), put("x", "1"), put("y", "1"), put("y", "2"), gone("y")[0], gone("y")[0], put("y", "3"), gone("x")[0],
		put("a", "1"), gone("a")[0])
	var got []string
	for _, ch := range changes(t, c, last) {
		got = append(got, fmt.Sprintf("%s %d %s", ch.URI, ch.Change, ch.Hashes.Get(resourcesync.MD5)))
	}
	want := []string{"y 1 1", "x 1 1", "y 2 2", "y 3 ", "y 1 3", "x 3 ", "a 1 1", "a 3 "}
	if !slices.Equal(got, want) {
		t.Errorf("changes = %q, want %q", got, want)
	}
	if now := resources(t, c, catalog.Range{}); len(now) != 1 || now[0].Hashes.Get(resourcesync.MD5) != "3" || now[0].Seq != last+5 {
		t.Errorf("resources = %v, want y as of change %d", now, last+5)
	}
}

func testRefresh(t *testing.T, c catalog.Catalog) {
	mark(t, c)
	u := put("u", "1")
	u.Lastmod, u.Token = time.Unix(1, 0), "1"
	apply(t, c, catalog.Applied{Created: 1}, u)
	before := resources(t, c, catalog.Range{})[0]
	u.Lastmod, u.Token = time.Unix(2, 0), "2"
	apply(t, c, catalog.Applied{Unchanged: 1}, u)
	after := resources(t, c, catalog.Range{})[0]
	if !after.Lastmod.Equal(u.Lastmod) || after.Token != "2" {
		t.Errorf("lastmod %v and token %q were not refreshed", after.Lastmod, after.Token)
	}
	if after.Seq != before.Seq || !after.EventTime.Equal(before.EventTime) {
		t.Errorf("change %d at %v became %d at %v", before.Seq, before.EventTime, after.Seq, after.EventTime)
	}
	if ch := changes(t, c, 0); len(ch) != 1 || ch[0].Token != "1" || status(t, c).Last != 1 {
		t.Errorf("changes = %v: the history changed", ch)
	}
}

// testRefreshed: what was refreshed without a change is known since each Mark.
func testRefreshed(t *testing.T, c catalog.Catalog) {
	with := func(uri string, lastmod int64, links ...resourcesync.Link) catalog.Update {
		u := put(uri, "1")
		u.Lastmod, u.Links = time.Unix(lastmod, 0), links
		return u
	}
	var marks []catalog.Mark
	check := func(step string, want ...string) {
		t.Helper()
		for i, m := range marks {
			if got := strings.Join(collect(t, c.Refreshed(t.Context(), set, m)), " "); got != want[i] {
				t.Errorf("%s: refreshed since the %d. mark: %q, want %q", step, i+1, got, want[i])
			}
		}
	}
	apply(t, c, catalog.Applied{Created: 4}, with("a", 1), with("b", 1), with("c", 1), with("\xff", 1))
	apply(t, c, catalog.Applied{Unchanged: 1}, with("a", 2)) // nobody has seen it before
	marks = append(marks, mark(t, c))
	check("before the first mark", "")
	apply(t, c, catalog.Applied{Unchanged: 2}, with("\xff", 2), with("b", 2))
	marks = append(marks, mark(t, c))
	check("lastmod", "b \xff", "")
	token := with("c", 1)
	token.Token = "t"
	apply(t, c, catalog.Applied{Unchanged: 2}, token, with("b", 2))
	check("a token, and nothing", "b \xff", "")
	apply(t, c, catalog.Applied{Unchanged: 1, Updated: 1}, with("b", 3), put("a", "2"))
	check("beside a change", "b \xff", "b")
	marks = append(marks, mark(t, c))
	apply(t, c, catalog.Applied{Unchanged: 1}, with("c", 1, memento(1)))
	check("a memento", "b c \xff", "b c", "c")
	marks = append(marks, mark(t, c))
	apply(t, c, catalog.Applied{Unchanged: 1}, with("c", 1, memento(1)))
	check("the same memento", "b c \xff", "b c", "c", "")
	apply(t, c, catalog.Applied{Unchanged: 1}, with("c", 1, catalog.NoMemento()))
	check("no memento", "b c \xff", "b c", "c", "c")
	apply(t, c, catalog.Applied{Updated: 1}, put("a", "3"))
	if err := c.Forget(t.Context(), set, marks[2]); err != nil {
		t.Fatal(err)
	}
	marks = marks[2:]
	check("forgotten", "c", "c")
	for range c.Refreshed(t.Context(), set, marks[0]) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := failed(c.Refreshed(ctx, set, marks[0]), context.Canceled); err != nil {
		t.Error(err)
	}
}

// testMementos: a memento link is not content, and stays with it (RS-REL-51).
func testMementos(t *testing.T, c catalog.Catalog) {
	mark(t, c)
	other := resourcesync.Link{Rel: "collection", Href: "https://example.org/c"}
	with := func(digest string, links ...resourcesync.Link) catalog.Update {
		u := put("u", digest)
		u.Links = links
		return u
	}
	for i, tt := range []struct {
		name   string
		update catalog.Update
		same   bool
		want   []resourcesync.Link
	}{
		{"new, without", with("1", other), false, []resourcesync.Link{other}},
		{"takes one", with("1", other, memento(1)), true, []resourcesync.Link{other, memento(1)}},
		{"keeps it", with("1", other), true, []resourcesync.Link{other, memento(1)}},
		{"takes another", with("1", memento(2), other), true, []resourcesync.Link{other, memento(2)}},
		{"loses it", with("1", other, catalog.NoMemento()), true, []resourcesync.Link{other}},
		{"has none to lose", with("1", catalog.NoMemento(), other), true, []resourcesync.Link{other}},
		{"changes, with one", with("2", memento(3), other), false, []resourcesync.Link{memento(3), other}},
		{"changes, without", with("3", other), false, []resourcesync.Link{other}},
		{"changes, and is to lose one", with("4", catalog.NoMemento(), other), false, []resourcesync.Link{other}},
		{"and takes one again", with("4", other, memento(5)), true, []resourcesync.Link{other, memento(5)}},
	} {
		want := catalog.Applied{Updated: 1}
		switch {
		case tt.same:
			want = catalog.Applied{Unchanged: 1}
		case i == 0:
			want = catalog.Applied{Created: 1}
		}
		last := status(t, c).Last
		said := slices.Clone(tt.update.Links)
		apply(t, c, want, tt.update)
		if diff := cmp.Diff(tt.want, resources(t, c, catalog.Range{})[0].Links, cmp.Comparer(sameTime)); diff != "" {
			t.Errorf("%s: links of the resource (-want +got):\n%s", tt.name, diff)
		}
		if cs := changes(t, c, last); len(cs) == 1 {
			if diff := cmp.Diff(tt.want, cs[0].Links, cmp.Comparer(sameTime)); diff != "" {
				t.Errorf("%s: links of the change (-want +got):\n%s", tt.name, diff)
			}
		}
		if diff := cmp.Diff(said, tt.update.Links, cmp.Comparer(sameTime)); diff != "" {
			t.Errorf("%s: the update handed in was changed (-was +is):\n%s", tt.name, diff)
		}
	}
}

func sameTime(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 }

// memento returns a memento link to the version of a day.
func memento(day int) resourcesync.Link {
	at := time.Date(2026, 11, day, 12, 0, 0, 1000, time.UTC)
	return resourcesync.Link{Rel: resourcesync.RelMemento, Href: at.Format("https://example.org/versions/20060102150405.000000/u"),
		Modified: resourcesync.NewDatetime(at)}
}

func testHistory(t *testing.T, c catalog.Catalog) {
	apply(t, c, catalog.Applied{Created: 2}, put("a", "1"), put("b", "1"))
	if got := changes(t, c, 0); len(got) > 0 {
		t.Errorf("changes before the first Mark = %v, want none", got)
	}
	s := status(t, c)
	if s.Resources != 2 || s.Last != 2 || s.LastTime.IsZero() || s.Kept != (catalog.Mark{}) {
		t.Errorf("Status = %+v", s)
	}
	first := mark(t, c)
	if first.Seq != 2 || first.At.Before(s.LastTime) || time.Since(first.At) > time.Hour {
		t.Errorf("Mark = %v after change 2 at %v", first, s.LastTime)
	}
	for _, ch := range []struct {
		update catalog.Update
		want   catalog.Applied
	}{{put("c", "1"), catalog.Applied{Created: 1}}, {put("a", "2"), catalog.Applied{Updated: 1}}, {gone("b")[0], catalog.Applied{Deleted: 1}}} {
		apply(t, c, ch.want, ch.update)
	}
	got := changes(t, c, 2)
	want := []struct {
		uri    string
		change resourcesync.Change
	}{{"c", resourcesync.Created}, {"a", resourcesync.Updated}, {"b", resourcesync.Deleted}}
	if len(got) != len(want) {
		t.Fatalf("changes = %v, want %v", got, want)
	}
	last := first.At
	for i, ch := range got {
		if ch.URI != want[i].uri || ch.Change != want[i].change || ch.Seq != catalog.Seq(3+i) {
			t.Errorf("change %d = %+v, want %v", i, ch, want[i])
		}
		if !ch.EventTime.After(last) {
			t.Errorf("change %d happened at %v, not after %v", ch.Seq, ch.EventTime, last)
		}
		last = ch.EventTime
	}
	if r := got[2].Record; r.Length != 0 || r.Hashes != nil || !r.Lastmod.IsZero() || r.Type+r.Encoding+r.Token != "" {
		t.Errorf("deletion says %+v of what is gone", r) // RS-CHL-08
	}
	if s := status(t, c); s.Resources != 2 || s.Last != 5 || !s.LastTime.Equal(last) || s.Kept != first {
		t.Errorf("Status = %+v, want 2 resources, change 5 at %v, kept %v", s, last, first)
	}
	for after, n := range map[catalog.Seq]int{-1: 3, 0: 3, 2: 3, 4: 1, 5: 0, 6: 0} {
		if got := len(changes(t, c, after)); got != n {
			t.Errorf("Changes(%d) are %d, want %d", after, got, n)
		}
	}
	if second := mark(t, c); second.Seq != 5 || second.At.Before(last) || status(t, c).Kept != first {
		t.Errorf("second Mark = %v, Kept %v", second, status(t, c).Kept)
	}
}

func testForget(t *testing.T, c catalog.Catalog) {
	forget := func(m catalog.Mark, want error) {
		t.Helper()
		if err := c.Forget(t.Context(), set, m); !errors.Is(err, want) {
			t.Errorf("Forget(%v) = %v, want %v", m, err, want)
		}
	}
	apply(t, c, catalog.Applied{Created: 1}, put("a", "1"))
	forget(catalog.Mark{Seq: 1, At: time.Now()}, catalog.ErrMark)
	first := mark(t, c)
	apply(t, c, catalog.Applied{Created: 3}, put("b", "1"), put("c", "1"), put("d", "1"))
	second := mark(t, c)
	apply(t, c, catalog.Applied{Created: 2}, put("e", "1"), put("f", "1"))
	third := mark(t, c)

	ch := changes(t, c, 0)
	forget(first, nil)
	forget(catalog.Mark{}, nil)
	forget(catalog.Mark{Seq: first.Seq, At: third.At}, nil)
	forget(catalog.Mark{Seq: 7, At: third.At}, catalog.ErrMark)
	forget(catalog.Mark{Seq: 6, At: third.At.Add(time.Microsecond)}, catalog.ErrMark)
	forget(catalog.Mark{Seq: 3, At: ch[1].EventTime.Add(-time.Microsecond)}, catalog.ErrMark)
	forget(catalog.Mark{Seq: 3, At: ch[2].EventTime}, catalog.ErrMark)
	if got := changes(t, c, 0); len(got) != 5 || status(t, c).Kept != first {
		t.Fatalf("what is to be forgotten is not: %v, kept %v", got, status(t, c).Kept)
	}
	for _, step := range []struct {
		mark catalog.Mark
		left int
	}{{catalog.Mark{Seq: ch[0].Seq, At: ch[0].EventTime}, 4}, {second, 2}, {second, 2}, {third, 0}} {
		forget(step.mark, nil)
		if got := changes(t, c, 0); len(got) != step.left || status(t, c).Kept != step.mark {
			t.Errorf("Forget(%v) leaves %v, kept %v", step.mark, got, status(t, c).Kept)
		}
	}
	forget(first, nil)
	if got := status(t, c).Kept; got != third {
		t.Errorf("forgetting what is forgotten: kept %v, want %v", got, third)
	}
	apply(t, c, catalog.Applied{Updated: 1}, put("a", "2"))
	if got := changes(t, c, third.Seq); len(got) != 1 || got[0].Seq != 7 {
		t.Errorf("changes after Forget = %v, want number 7", got)
	}
	if got := len(resources(t, c, catalog.Range{})); got != 6 {
		t.Errorf("%d resources after Forget, want 6", got)
	}
}

func testSets(t *testing.T, c catalog.Catalog) {
	if s := status(t, c); s != (catalog.Status{}) {
		t.Errorf("Status of an unused set = %+v", s)
	}
	if got := len(resources(t, c, catalog.Range{})) + len(changes(t, c, 0)); got > 0 {
		t.Errorf("an unused set has %d rows", got)
	}
	sets := []string{"a", "A", "a/", "\xff", "é"}
	for i, s := range sets {
		if _, err := c.Mark(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		if a, err := c.Apply(t.Context(), s, []catalog.Update{put("u", s)}); err != nil || a.Created != 1 {
			t.Errorf("Apply to set %d = %v, %v", i, a, err)
		}
	}
	for _, s := range sets {
		got := collect(t, c.Resources(t.Context(), s, catalog.Range{}))
		if len(got) != 1 || got[0].Seq != 1 || got[0].Hashes.Get(resourcesync.MD5) != s {
			t.Errorf("set %q has %v", s, got)
		}
		if got := collect(t, c.Changes(t.Context(), s, 0)); len(got) != 1 {
			t.Errorf("set %q changed %v", s, got)
		}
	}
	if _, err := c.Apply(t.Context(), "a", gone("u")); err != nil {
		t.Fatal(err)
	}
	if s, err := c.Status(t.Context(), "A"); err != nil || s.Resources != 1 {
		t.Errorf("Status of another set = %+v, %v", s, err)
	}
}

func testNames(t *testing.T, c catalog.Catalog) {
	for _, name := range []string{"", "\x00", "a\x00b"} {
		if _, err := c.Apply(t.Context(), set, []catalog.Update{put("good", "1"), put(name, "1")}); err == nil {
			t.Errorf("Apply takes the URI %q", name)
		}
		if _, err := c.Apply(t.Context(), name, []catalog.Update{put("good", "1")}); err == nil {
			t.Errorf("Apply takes the set %q", name)
		}
		if _, err := c.Mark(t.Context(), name); err == nil {
			t.Errorf("Mark takes the set %q", name)
		}
		if err := c.Forget(t.Context(), name, catalog.Mark{}); err == nil {
			t.Errorf("Forget takes the set %q", name)
		}
	}
	if s := status(t, c); s.Resources != 0 || s.Last != 0 {
		t.Errorf("half of an Apply was done: %+v", s)
	}
}

package destination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
)

// TestOlderChanges: a Source adds a change before others that were read, to a Change List of
// which it cannot be known that it begins as before. The change is found within a day, also if
// the list is not written again until then, and the changes from before the watermark are
// looked at once a day only.
func TestOlderChanges(t *testing.T) {
	t.Parallel()
	type list struct {
		from    string // of a list that has the days first to last; %02d: the first
		order   func(entries []string, n int)
		changes bool // the Source has no other document
	}
	for name, l := range map[string]list{
		"window":              {from: `from="2024-05-%02dT00:00:00Z"`},
		"window only":         {from: `from="2024-05-%02dT00:00:00Z"`, changes: true},
		"newest first":        {from: `from="2024-05-01T00:00:00Z"`, order: func(e []string, _ int) { slices.Reverse(e) }},
		"newest first window": {from: `from="2024-05-%02dT00:00:00Z"`, order: func(e []string, _ int) { slices.Reverse(e) }},
		"any order":           {from: `from="2024-05-01T00:00:00Z"`, order: func(e []string, n int) { e[n%3], e[4] = e[4], e[n%3] }},
		"rewritten only":      {from: `from="2024-05-01T00:00:00Z"`, changes: true},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, written again %v", name, again), func(t *testing.T) {
				t.Parallel()
				s := newSite(t, style{})
				for _, name := range []string{"a", "b", "c", "d", "e", "late"} {
					s.replace("/"+name, name)
				}
				s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, `<url><loc>`+s.url("/a")+`</loc></url>`))
				if l.changes {
					s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, `<url><loc>`+s.url("/rs/changelist.xml")+`</loc><rs:md capability="changelist"/></url>`))
				}
				written := 0
				write := func(late ...string) {
					written++
					entries := late
					for i := written; i < written+5; i++ {
						entries = append(entries, fmt.Sprintf(`<url><loc>%s</loc><rs:md change="updated" datetime="2024-05-%02dT00:00:00Z"/></url>`, s.url("/"+"bcde"[i%4:i%4+1]), i))
					}
					if l.order != nil {
						l.order(entries, written)
					}
					from := l.from
					if strings.Contains(from, "%") {
						from = fmt.Sprintf(from, written)
					}
					s.replace("/rs/changelist.xml", doc("urlset", `<rs:md capability="changelist" `+from+`/>`, strings.Join(entries, "")))
				}
				m := newMirror(t, s)
				now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
				sync := func() (read int) {
					t.Helper()
					s.reset()
					d := m.destination()
					d.SetClock(func() time.Time { return now })
					if r, err := d.Sync(t.Context(), m.address()); err != nil || written > 1 && r.Mode == destination.ModeBaseline {
						t.Fatalf("Sync %d: mode %s, %v, %q", written, r.Mode, err, r.Warnings)
					}
					now = now.Add(time.Hour)
					return s.resourceGets()
				}
				for range 5 {
					write()
					if n := sync(); written > 1 && n != 1 {
						t.Errorf("Sync %d: %d requests for resources", written, n)
					}
				}
				late := fmt.Sprintf(`<url><loc>%s</loc><rs:md change="created" datetime="2024-05-%02dT12:00:00Z"/></url>`, s.url("/late"), written+2)
				write(late)
				sync()
				now = now.Add(24 * time.Hour)
				if again {
					write(late)
				}
				sync()
				if m.files()["late"] != "late" {
					t.Errorf("the mirror has %v", m.files())
				}
				write(late)
				if n := sync(); n != 1 {
					t.Errorf("then %d requests for resources", n)
				}
			})
		}
	}
}

// TestOlderPart: a part that no index has named before is not left out for ever because its
// changes are from before the watermark.
func TestOlderPart(t *testing.T) {
	t.Parallel()
	for _, change := range []string{"added", "cut otherwise"} {
		t.Run(change, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			for _, name := range []string{"a", "b", "c", "d", "late"} {
				s.replace("/"+name, name)
			}
			write, index := s.changePart, s.changeParts
			s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, `<url><loc>`+s.url("/a")+`</loc></url>`))
			m := newMirror(t, s)
			daily := m.daily()
			sync := func(lists int) {
				t.Helper()
				if r := daily(); lists >= 0 && r.Mode == destination.ModeBaseline {
					t.Fatalf("Sync: mode %s, %q", r.Mode, r.Warnings)
				}
				read := 0
				for _, name := range []string{"one", "two", "three", "four"} {
					read += s.got("/rs/" + name)
				}
				if lists >= 0 && read != lists {
					t.Errorf("%d parts were read, want %d", read, lists)
				}
			}
			one, two := write("one", "01T00", "02T00", "b@01T05"), write("two", "02T00", "", "c@02T05")
			index(one, two)
			sync(-1)
			one, two = write("one", "01T00", "02T00", "b@01T05"), write("two", "02T00", "03T00", "c@02T05", "c@02T10")
			three := write("three", "03T00", "", "d@03T05")
			index(one, two, three)
			sync(2)
			write("three", "03T00", "", "d@03T05", "d@03T06")
			sync(1)
			if change == "added" {
				index(one, two, three, write("four", "03T02", "03T03", "late@03T02"))
			} else {
				index(write("four", "01T00", "03T05", "b@01T05", "late@02T01", "c@02T05", "c@02T10", "d@03T05"), write("three", "03T05", "", "d@03T06"))
			}
			sync(-1)
			sync(-1)
			if m.files()["late"] != "late" {
				t.Errorf("the mirror has %v", m.files())
			}
			s.reset()
			sync(1)
		})
	}
}

// TestOlderPartWrittenAgain: a part that has ended is read again once a day, at most, if its
// index states that it has been written since.
func TestOlderPartWrittenAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for _, name := range []string{"a", "b", "c", "d", "late"} {
		s.replace("/"+name, name)
	}
	s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, `<url><loc>`+s.url("/a")+`</loc></url>`))
	m := newMirror(t, s)
	daily := m.daily()
	sync := func(wantOne int) {
		t.Helper()
		daily()
		if n := s.got("/rs/one"); n != wantOne {
			t.Errorf("the part that has ended was read %d times, want %d", n, wantOne)
		}
	}
	written := func(entry, day string) string {
		return strings.Replace(entry, "</loc>", "</loc><lastmod>2024-05-"+day+"T00:00:00Z</lastmod>", 1)
	}
	one := written(s.changePart("one", "01T00", "02T00", "b@01T05"), "02")
	s.changeParts(one, written(s.changePart("two", "02T00", "", "c@02T05"), "03"))
	sync(1)
	s.changeParts(one, written(s.changePart("two", "02T00", "", "c@02T05", "d@02T06"), "04"))
	sync(0) // only the other one was written
	one = written(s.changePart("one", "01T00", "02T00", "b@01T05", "late@01T06"), "05")
	s.changeParts(one, written(s.changePart("two", "02T00", "", "c@02T05", "d@02T06", "d@02T07"), "05"))
	sync(1)
	if m.files()["late"] != "late" {
		t.Errorf("the mirror has %v", m.files())
	}
	s.changeParts(one, written(s.changePart("two", "02T00", "", "c@02T05", "d@02T06", "d@02T07", "d@02T08"), "06"))
	sync(0)
}

// TestOlderThanList: changes from before the list are not applied again: they could undo what
// it states.
func TestOlderThanList(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	list := func(day int, names ...string) {
		var b strings.Builder
		for _, name := range names {
			s.replace("/"+name, name)
			fmt.Fprintf(&b, `<url><loc>%s</loc></url>`, s.url("/"+name))
		}
		s.replace("/rs/resourcelist.xml", doc("urlset", fmt.Sprintf(`<rs:md capability="resourcelist" at="2024-05-%02dT00:00:00Z"/>`, day), b.String()))
	}
	write := func(first int) {
		var b strings.Builder
		for i, name := range []string{"x", "b", "c"} {
			fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md change="created" datetime="2024-05-%02dT12:00:00Z"/></url>`, s.url("/"+name), first+i*(first-1))
		}
		s.replace("/rs/changelist.xml", doc("urlset", fmt.Sprintf(`<rs:md capability="changelist" from="2024-05-%02dT00:00:00Z"/>`, first), b.String()))
	}
	m := newMirror(t, s)
	sync := m.daily()
	list(5, "b", "c") // and x was deleted
	write(3)
	sync()
	write(4)
	sync()
	if n := s.got("/x"); n != 0 || m.files()["x"] != "" {
		t.Errorf("%d requests for a resource that the list does not name", n)
	}
}

// daily returns a function that syncs m, each time 25 hours later.
func (m *mirror) daily() func() destination.Report {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	return func() destination.Report {
		m.t.Helper()
		m.site.reset()
		d := m.destination()
		d.SetClock(func() time.Time { return now })
		r, err := d.Sync(m.t.Context(), m.address())
		if err != nil {
			m.t.Fatalf("Sync: %v, %q", err, r.Warnings)
		}
		now = now.Add(25 * time.Hour)
		return r
	}
}

// changePart replaces a part of the Change List, which ends at until unless that is empty, and
// returns its entry in the index. Times are days and hours.
func (s *site) changePart(name, from, until string, entries ...string) string {
	said := fmt.Sprintf(`from="2024-05-%s:00:00Z"`, from)
	if until != "" {
		said += fmt.Sprintf(` until="2024-05-%s:00:00Z"`, until)
	}
	var b strings.Builder
	for _, e := range entries {
		uri, at, _ := strings.Cut(e, "@")
		fmt.Fprintf(&b, `<url><loc>%s</loc><rs:md change="updated" datetime="2024-05-%s:00:00Z"/></url>`, s.url("/"+uri), at)
	}
	s.replace("/rs/"+name, doc("urlset", `<rs:md capability="changelist" `+said+`/>`, b.String()))
	return `<sitemap><loc>` + s.url("/rs/"+name) + `</loc><rs:md ` + said + `/></sitemap>`
}

// changeParts replaces the index of the Change List.
func (s *site) changeParts(parts ...string) {
	s.replace("/rs/changelist.xml", doc("sitemapindex", `<rs:md capability="changelist" from="2024-05-01T00:00:00Z"/>`, strings.Join(parts, "")))
}

// TestOlderBeside: a change in one of two lists that both grow is found, although the other has
// a later one.
func TestOlderBeside(t *testing.T) {
	t.Parallel()
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("both %v", both), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, style{})
			for _, name := range []string{"a", "b", "c", "d", "late"} {
				s.replace("/"+name, name)
			}
			s.replace("/rs/resourcelist.xml", doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T00:00:00Z"/>`, `<url><loc>`+s.url("/a")+`</loc></url>`))
			m := newMirror(t, s)
			sync := m.daily()
			s.changeParts(s.changePart("one", "01T00", "", "b@01T05"), s.changePart("two", "02T00", "", "c@02T05"))
			sync()
			s.changePart("one", "01T00", "", "b@01T05", "late@02T03")
			if both {
				s.changePart("two", "02T00", "", "c@02T05", "d@02T06")
			}
			sync()
			sync()
			if m.files()["late"] != "late" {
				t.Errorf("the mirror has %v", m.files())
			}
		})
	}
}

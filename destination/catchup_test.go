package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/resourcesync"
)

// TestCatchUp has a mirror catch up through the archive, however that is
// written: RA-DST-04, with the proof of RA-CHG-05.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		style style
		past  pastStyle
		alter func(p *pastSite)
	}{
		{name: "as it should be"},
		{name: "RA-CHG-06, RA-AMB-07: newest first", past: pastStyle{reversed: true}},
		{name: "RA-DOC-07, RA-AMB-01, RA-AMB-02: no times", past: pastStyle{bare: true}},
		{name: "RA-IDX-01, RA-GEN-04, RA-AMB-06: an index", past: pastStyle{parts: 2}},
		{name: "RA-IDX-04, RA-IDX-06: an index, reversed, without times", past: pastStyle{parts: 2, bare: true, reversed: true}},
		{name: "RA-ADV-03: by the link archives only", past: pastStyle{unnamed: true}},
		{name: "no datetimes, RA-VER-05", style: style{noDatetime: true}},
		{name: "no hashes", style: style{noHash: true}},
		{name: "lists newest first", style: style{newestFirst: true}},
		{name: "RA-ADV-04, RA-AMB-05: another archive by the link", alter: func(p *pastSite) {
			p.doc["/rs/changelist.xml"] = strings.Replace(p.changeListNow(), "<rs:md", `<rs:ln rel="archives" href="`+p.url("/rs/nowhere.xml")+`"/><rs:md`, 1)
		}},
		{name: "RA-ADV-04: that of the Capability List is gone", past: pastStyle{unnamed: true}, alter: func(p *pastSite) {
			p.offer = fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="changelist-archive"/></url>`, p.url("/rs/nowhere.xml"))
		}},
		{name: "RA-ADV-04: it says it is an archive of dumps", alter: func(p *pastSite) {
			p.offer = strings.Replace(p.offer, "changelist-archive\"", "changedump-archive\"", 1)
		}},
		{name: "RA-GEN-11, RA-IDX-06: everything twice", alter: func(p *pastSite) {
			p.doc[archivePath] = strings.Replace(p.doc[archivePath], "</urlset>", between(p.doc[archivePath], "<url>", "</urlset>")+"</urlset>", 1)
		}},
		{name: "RA-AMB-03: an overlap", alter: func(p *pastSite) {
			l := pastList{"/rs/long.xml", p.closed[0].from, p.closed[3].until}
			p.doc[l.path] = p.changeList(l, nil)
			p.add(l)
		}},
		{name: "a hole that another list covers, RA-DST-08", alter: func(p *pastSite) {
			var both []string
			for _, l := range p.closed[2:5] {
				both = append(both, between(p.doc[l.path], "<url>", "</urlset>"))
			}
			l := pastList{"/rs/long.xml", p.closed[2].from, p.closed[4].until}
			p.doc[l.path] = strings.Replace(p.changeList(l, nil), "</urlset>", strings.Join(both, "")+"</urlset>", 1)
			delete(p.doc, p.closed[3].path)
			p.add(l)
		}},
		{name: "RA-DOC-10: entries that are wrong", alter: func(p *pastSite) {
			later := p.time(p.closed[3].from.Add(-30 * time.Millisecond))
			p.doc[archivePath] = strings.ReplaceAll(p.doc[archivePath], p.time(p.closed[3].from), later)
		}},
		{name: "RA-DOC-10: entries that say the times of each other", alter: func(p *pastSite) {
			swapped := append([]pastList{}, p.closed...)
			swapped[2].path, swapped[4].path = swapped[4].path, swapped[2].path
			p.doc[archivePath] = p.archive(false, p.entries(swapped))
		}},
		{name: "RA-CHG-07: an open list, up to its last event", alter: func(p *pastSite) {
			l, next := p.closed[3], &p.closed[4]
			p.doc[l.path] = strings.Replace(p.doc[l.path], fmt.Sprintf(` until="%s"`, p.time(l.until)), "", 1)
			p.doc[next.path] = strings.Replace(p.doc[next.path], p.time(next.from), p.time(l.until.Add(-137*time.Millisecond)), 1)
			next.from = l.from
			p.doc[archivePath] = p.archive(false, p.entries(p.closed))
		}},
		{name: "an event of the current list has the time of an archived one", alter: func(p *pastSite) {
			at := p.time(p.from)
			event := func(change string) string {
				return fmt.Sprintf(`<url><loc>%s</loc><rs:md change="%s" datetime="%s"/></url></urlset>`, p.url("/r/twice"), change, at)
			}
			last := p.closed[len(p.closed)-1].path
			p.doc[last] = strings.Replace(p.doc[last], "</urlset>", event("created"), 1)
			p.doc["/rs/changelist.xml"] = strings.Replace(p.changeListNow(), "</urlset>", event("deleted"), 1)
		}},
		{name: "RA-AMB-04, RA-DOC-06: lastmod of any time", alter: func(p *pastSite) {
			p.doc[archivePath] = strings.ReplaceAll(p.doc[archivePath], "</loc>", "</loc><lastmod>1999-01-01</lastmod>")
		}},
		{name: "RA-VER-01, RA-VER-04: 0.9, entries with lastmod only", style: style{noDatetime: true}, past: pastStyle{bare: true}, alter: func(p *pastSite) {
			p.doc[archivePath] = strings.ReplaceAll(p.doc[archivePath], "</loc>", "</loc><lastmod>2024-05-02T00:00:00Z</lastmod>")
			for _, l := range p.closed {
				p.doc[l.path] = strings.Replace(p.doc[l.path], `rel="up"`, `rel="resourcesync"`, 1)
			}
		}},
		{name: "RA-DOC-08: what does not belong there", alter: func(p *pastSite) {
			p.doc[archivePath] = strings.ReplaceAll(p.doc[archivePath], "<rs:md from", `<rs:md change="updated" type="text/xml" from`)
		}},
		{name: "a list of the future beside", alter: func(p *pastSite) {
			l := pastList{"/rs/future.xml", p.from.AddDate(900, 0, 0), p.from.AddDate(901, 0, 0)}
			p.doc[l.path] = p.changeList(l, nil)
			p.add(l)
		}},
		{name: "RA-GEN-07: an index as one of the lists", alter: func(p *pastSite) {
			l := p.closed[2]
			p.doc["/rs/part.xml"] = p.doc[l.path]
			p.doc[l.path] = doc("sitemapindex", p.up()+fmt.Sprintf(`<rs:md capability="changelist" from="%s" until="%s"/>`, p.time(l.from), p.time(l.until)),
				fmt.Sprintf(`<sitemap><loc>%s</loc><rs:md from="%s" until="%s"/></sitemap>`, p.url("/rs/part.xml"), p.time(l.from), p.time(l.until)))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, m := away(t, tt.style, tt.past)
			if tt.alter != nil {
				tt.alter(p)
			}
			r := m.mustSync()
			if r.Mode != destination.ModeIncremental || p.got("/rs/resourcelist.xml") > 0 {
				t.Errorf("mode %s, the Resource List was read %d times; want incremental, without\n%q", r.Mode, p.got("/rs/resourcelist.xml"), r.Warnings)
			}
			if len(r.Plan) == 0 || !strings.Contains(r.Plan[0], "of its archive") {
				t.Errorf("plan %q, want it to mention the archive", r.Plan)
			}
			if n := p.got(p.closed[0].path); n > 0 && !tt.past.bare {
				t.Errorf("a list from before the last run was read %d times", n)
			}
			if r = m.mustSync(); r.Mode != destination.ModeNone || p.got(archivePath) > 0 {
				t.Errorf("then mode %s, and the archive read %d times; want none", r.Mode, p.got(archivePath))
			}
		})
	}
}

// changeListNow is the current Change List.
func (p *pastSite) changeListNow() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text, _ := p.document("/rs/changelist.xml")
	return text
}

// add lists one more document in the archive.
func (p *pastSite) add(l pastList) {
	p.doc[archivePath] = p.archive(false, append(p.entries(p.closed), p.entries([]pastList{l})...))
}

// between returns the part of text from the first begin up to the last end.
func between(text, begin, end string) string {
	return text[strings.Index(text, begin):strings.LastIndex(text, end)]
}

// TestCatchUpGap has archives that do not prove that nothing is missing: then
// everything is compared, and the mirror is in step.
func TestCatchUpGap(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		past  pastStyle
		alter func(p *pastSite)
		why   string // in a warning
	}{
		{name: "RA-DST-08: 404 in the middle", why: "/rs/past-3.xml: status 404", alter: func(p *pastSite) { delete(p.doc, p.closed[3].path) }},
		{name: "RA-DST-08: 410", why: "410", alter: func(p *pastSite) {
			path := p.closed[3].path
			p.fault = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == path {
					w.WriteHeader(http.StatusGone)
				}
				return r.URL.Path == path
			}
		}},
		{name: "an entry that is missing", why: "do not cover the time between", alter: func(p *pastSite) {
			p.doc[archivePath] = p.archive(false, p.entries(append(append([]pastList{}, p.closed[:3]...), p.closed[4:]...)))
		}},
		{name: "RA-CHG-05: a gap of a second, in the lists alone", why: "do not cover the time between", alter: func(p *pastSite) {
			l := p.closed[3]
			l.from = l.from.Add(time.Second)
			p.doc[l.path] = strings.Replace(p.doc[l.path], p.time(p.closed[3].from), p.time(l.from), 1)
		}},
		{name: "RA-CHG-09: it does not reach up to the current list", why: "do not cover the time between", alter: func(p *pastSite) {
			p.doc[archivePath] = p.archive(false, p.entries(p.closed[:5]))
		}},
		{name: "it begins too late", why: "do not cover the time between", alter: func(p *pastSite) {
			p.doc[archivePath] = p.archive(false, p.entries(p.closed[4:]))
		}},
		{name: "RA-CHG-07: a list that is not closed", why: "do not cover the time between", alter: func(p *pastSite) {
			l := p.closed[3]
			p.doc[l.path] = strings.Replace(p.doc[l.path], fmt.Sprintf(` until="%s"`, p.time(l.until)), "", 1)
		}},
		{name: "a list that ends in the future", why: "do not cover the time between", alter: func(p *pastSite) {
			l := &p.closed[3]
			p.doc[l.path] = strings.Replace(p.doc[l.path], p.time(l.until), "2999-01-01T00:00:00Z", 1)
			l.until = time.Date(2999, 1, 1, 0, 0, 0, 0, time.UTC)
			p.doc[archivePath] = p.archive(false, p.entries(append(append([]pastList{}, p.closed[:4]...), p.closed[5:]...)))
		}},
		{name: "RS-MD-10: a list that ends before it begins", why: "do not cover the time between", alter: func(p *pastSite) {
			l := p.closed[3]
			p.doc[l.path] = strings.Replace(p.doc[l.path], fmt.Sprintf(`from="%s" until="%s"`, p.time(l.from), p.time(l.until)),
				fmt.Sprintf(`from="%s" until="%s"`, p.time(l.until), p.time(l.from)), 1)
		}},
		{name: "a list that breaks off", why: "/rs/past-3.xml", alter: func(p *pastSite) {
			path := p.closed[3].path
			p.doc[path] = p.doc[path][:len(p.doc[path])-20]
		}},
		{name: "a list of another kind", why: "resourcelist", alter: func(p *pastSite) {
			p.doc[p.closed[3].path], _ = p.document("/rs/resourcelist.xml")
		}},
		{name: "RA-DOC-11: an empty archive", why: "do not cover the time between", alter: func(p *pastSite) { p.doc[archivePath] = p.archive(false, nil) }},
		{name: "an archive that names itself", why: "itself", past: pastStyle{parts: 2}, alter: func(p *pastSite) {
			p.doc[archivePath] = p.archive(true, []resourcesync.Entry{{Loc: p.url(archivePath)}})
		}},
		{name: "RA-IDX-07: indexes without end", why: "nested more than", alter: func(p *pastSite) {
			for i := range 9 {
				p.doc[fmt.Sprintf("/rs/deep-%d.xml", i)] = p.archive(true, []resourcesync.Entry{{Loc: p.url(fmt.Sprintf("/rs/deep-%d.xml", i+1))}})
			}
			p.doc[archivePath] = p.archive(true, []resourcesync.Entry{{Loc: p.url("/rs/deep-0.xml")}})
		}},
		{name: "an archive as one of the lists", why: "changelist-archive", alter: func(p *pastSite) {
			p.doc[p.closed[3].path] = p.archive(false, nil)
		}},
		{name: "a part of the archive is gone", why: "/rs/archive-1.xml: status 404", past: pastStyle{parts: 2}, alter: func(p *pastSite) { delete(p.doc, "/rs/archive-1.xml") }},
		{name: "no archive at all", why: "status 404", alter: func(p *pastSite) { delete(p.doc, archivePath) }},
		{name: "a page for people", why: "HTML", alter: func(p *pastSite) { p.doc[archivePath] = "<!doctype html><html><body>Please log in</body></html>" }},
		{name: "a Resource List", why: "resourcelist", alter: func(p *pastSite) { p.doc[archivePath], _ = p.document("/rs/resourcelist.xml") }},
		{name: "RA-VER-02: lists that do not say from when on they are complete", why: "its archived Change Lists", past: pastStyle{bare: true}, alter: func(p *pastSite) {
			for _, l := range p.closed {
				p.doc[l.path] = strings.Replace(p.doc[l.path], fmt.Sprintf(`from="%s" until="%s"`, p.time(l.from), p.time(l.until)), fmt.Sprintf(`modified="%s"`, p.time(l.until)), 1)
			}
			p.doc[archivePath] = strings.ReplaceAll(p.doc[archivePath], "</loc>", "</loc><lastmod>2024-05-01T02:00:01Z</lastmod>")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, m := away(t, style{}, tt.past)
			tt.alter(p)
			r := m.mustSync()
			if r.Mode != destination.ModeBaseline {
				t.Errorf("mode %s, want baseline\n%q", r.Mode, r.Plan)
			}
			if !strings.Contains(strings.Join(r.Warnings, "\n"), tt.why) {
				t.Errorf("warnings do not name the cause, %q:\n%s", tt.why, strings.Join(r.Warnings, "\n"))
			}
			m.mustSync()
		})
	}
}

// TestCatchUpBehindList has a Resource List that is older than the Change List
// reaches back: a first run reads the archive between them (RA-DST-04).
func TestCatchUpBehindList(t *testing.T) {
	t.Parallel()
	p := newPastSite(t, style{}, pastStyle{})
	p.live(0)
	p.rotate()
	p.mu.Lock()
	old, _ := p.document("/rs/resourcelist.xml")
	p.doc["/rs/resourcelist.xml"] = old
	p.mu.Unlock()
	for round := 1; round < 5; round++ {
		p.live(round)
		p.rotate()
	}
	p.live(5)
	m := newMirror(t, p.site)
	r := m.mustSync()
	if r.Mode != destination.ModeBaseline || len(r.Warnings) > 0 || len(r.Plan) == 0 || !strings.Contains(r.Plan[0], "of its archive") {
		t.Errorf("mode %s, plan %q, warnings %q", r.Mode, r.Plan, r.Warnings)
	}
	if r = m.mustSync(); r.Mode != destination.ModeNone {
		t.Errorf("then mode %s, want none", r.Mode)
	}
}

// TestCatchUpLost has an archive without changes that were applied here: its history
// was rewritten, and everything is compared.
func TestCatchUpLost(t *testing.T) {
	t.Parallel()
	p := newPastSite(t, style{}, pastStyle{})
	p.live(0)
	p.rotate()
	p.live(1)
	m := newMirror(t, p.site)
	m.mustSync()
	p.mu.Lock()
	p.log = nil // what the mirror has seen last
	p.mu.Unlock()
	p.put("/r/new", "written after the Source was restored")
	p.rotate()
	p.put("/r/newer", "and after that")
	r := m.mustSync()
	if r.Mode != destination.ModeBaseline || !strings.Contains(strings.Join(r.Warnings, "\n"), "gone from its history") {
		t.Errorf("mode %s, warnings %q", r.Mode, r.Warnings)
	}
}

// TestCatchUpDump has an archive of Change Dumps only: their packages' manifests
// are read as the lists are, and contents come out of the packages.
func TestCatchUpDump(t *testing.T) {
	t.Parallel()
	p := newPastSite(t, style{dumpStyle: dumpStyle{changeDump: true}}, pastStyle{})
	p.live(0)
	m := newMirror(t, p.site)
	m.mustSync()
	p.live(1)
	p.mu.Lock()
	until := p.tick()
	text, _ := p.document("/rs/changedump.xml")
	p.doc["/rs/past-dump.xml"] = strings.Replace(text, `capability="changedump"`, fmt.Sprintf(`capability="changedump" until="%s"`, p.time(until)), 1)
	l := pastList{"/rs/past-dump.xml", p.from, until}
	p.doc["/rs/changedump-archive.xml"] = strings.Replace(p.archive(false, p.entries([]pastList{l})), "changelist-archive", "changedump-archive", 1)
	p.log, p.from = nil, until
	p.offer = fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="changedump-archive"/></url>`, p.url("/rs/changedump-archive.xml"))
	p.mu.Unlock()
	p.live(2)
	r := m.mustSync()
	if r.Mode != destination.ModeIncremental || len(r.Plan) == 0 || !strings.Contains(strings.Join(r.Plan, "\n"), "Change Dump of its archive") {
		t.Errorf("mode %s, plan %q, warnings %q", r.Mode, r.Plan, r.Warnings)
	}
}

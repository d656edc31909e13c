package destination_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/destination"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// describedSite is a site whose entries have the media type kind and the links of
// text, both by path.
func describedSite(t *testing.T, st style) (s *site, kind, links map[string]string) {
	s = newSite(t, st)
	kind, links = map[string]string{}, map[string]string{}
	s.links = func(e siteEvent) string { return links[e.path] }
	s.rewrite = func(path, text string) string {
		lines := strings.SplitAfter(text, "\n")
		for i, line := range lines {
			for at, is := range kind {
				if before, entry, ok := strings.Cut(line, s.url(at)+"</loc>"); ok {
					lines[i] = before + s.url(at) + "</loc>" + strings.Replace(entry, "<rs:md", fmt.Sprintf("<rs:md type=%q", is), 1)
				}
			}
		}
		return strings.Join(lines, "")
	}
	return s, kind, links
}

func ln(rel, href, more string) string {
	return fmt.Sprintf(`<rs:ln rel=%q href=%q %s/>`, rel, href, more)
}

// deliveries makes the changes of a mirror's runs available.
func deliveries(m *mirror) *[]destination.Change {
	var all []destination.Change
	m.opts.Deliver = func(_ context.Context, batch []destination.Change) error {
		all = append(all, batch...)
		return nil
	}
	return &all
}

func (m *mirror) row(path string) journal.Held {
	m.t.Helper()
	hs, err := m.journal.Lookup(m.t.Context(), []string{m.site.url(path)})
	if err != nil {
		m.t.Fatal(err)
	}
	return hs[0]
}

// relationsOf returns the links of a row or change in short.
func relationsOf(links []resourcesync.Link) string {
	var b strings.Builder
	for _, l := range links {
		fmt.Fprintf(&b, "%s=%s ", l.Rel, l.Href)
	}
	return strings.TrimSpace(b.String())
}

// TestKeepsWhatTheSourceStates: a row, its change and its event have the media type,
// the links that relate the resource to others, and the lastmod, length and hashes in
// the Source's own words (RS-REL-20, RS-REL-22, RS-REL-40, RS-REL-51, RS-REL-52,
// RS-REL-60, RS-REL-70).
func TestKeepsWhatTheSourceStates(t *testing.T) {
	t.Parallel()
	s, kind, links := describedSite(t, style{})
	kind["/a"] = "text/x-a"
	links["/a"] = ln("describedby", s.url("/a.xml"), `type="application/xml" modified="2024-05-01"`) + ln("duplicate", s.url("/mirror/a"), "") +
		ln("describes", "urn:d", "") + ln("collection", "urn:c1", "") + ln("collection", "urn:c2", "") + ln("profile", "urn:p", "") +
		ln("via", "http://origin.example/a", `modified="2024-04-01T02:03:04.5Z" length="7" hash="md5:00112233445566778899aabbccddeeff" type="text/y" pri="3"`) +
		ln("canonical", s.url("/any"), "") + ln("alternate", s.url("/a.pdf"), "") + ln("memento", s.url("/v/a"), "") + ln("timegate", s.url("/tg/a"), "") + ln("timemap", s.url("/tm/a"), "")
	s.put("/a", "content")
	s.put("/b", "content of b")
	m := newMirror(t, s)
	all := deliveries(m)
	m.mustSync()
	row := m.row("/a")
	base := s.url("")
	want := fmt.Sprintf("describedby=%[1]s/a.xml describes=urn:d collection=urn:c1 collection=urn:c2 profile=urn:p via=http://origin.example/a canonical=%[1]s/any alternate=%[1]s/a.pdf memento=%[1]s/v/a timegate=%[1]s/tg/a", base)
	if got := relationsOf(row.Links); got != want || row.Type != "text/x-a" {
		t.Errorf("type %q, links\n%s, want text/x-a\n%s", row.Type, got, want)
	}
	via := row.Links[5]
	if via.Modified.String() != "2024-04-01T02:03:04.5Z" || !via.HasLength || via.Length != 7 || via.Hashes.String() != "md5:00112233445566778899aabbccddeeff" || via.Type != "text/y" || via.Pri != 3 {
		t.Errorf("via is %+v", via)
	}
	if d := row.Links[0]; d.Modified.String() != "2024-05-01T00:00:00Z" || d.Type != "application/xml" {
		t.Errorf("describedby is %+v", d)
	}
	f := s.file("/a")
	if is := row.Stated; is == nil || is.Length != 7 || !is.Lastmod.Time().Equal(f.mod) || is.Hashes.Get(resourcesync.MD5) == "" || is.Hashes.Get(resourcesync.SHA256) != row.Hashes.Get(resourcesync.SHA256) || len(row.Hashes) != 1 {
		t.Errorf("stated: %+v of %+v", is, row)
	}
	if is := m.row("/b"); is.Stated == nil || is.Type != "" || len(is.Links) > 0 {
		t.Errorf("of /b: %+v", is)
	}
	same := cmp.Options{cmpopts.EquateEmpty(), cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.String() == b.String() })}
	for _, c := range *all {
		if c.URI == row.URI {
			if d := cmp.Diff(row.Links, c.Links, same); d != "" || c.Type != row.Type || !cmp.Equal(row.Stated, c.Stated, same) {
				t.Errorf("delivered %+v: %s", c, d)
			}
		}
		var again destination.Change
		text, err := c.MarshalJSON()
		if err == nil {
			err = again.UnmarshalJSON(text)
		}
		if d := cmp.Diff(c, again, same); err != nil || d != "" {
			t.Errorf("%s: %v\n%s", text, err, d)
		}
	}
	n := 0
	for _, e := range m.events {
		if e.Kind == destination.EventApplied && e.URI == row.URI {
			n++
			text, err := e.MarshalJSON()
			for _, part := range []string{`"type":"text/x-a"`, `{"rel":"collection","href":"urn:c1"}`, `"modified":"2024-04-01T02:03:04.5Z"`, `"stated":{"lastmod":"`} {
				if err != nil || !strings.Contains(string(text), part) {
					t.Errorf("event %s, %v: has no %s", text, err, part)
				}
			}
		}
	}
	if n != 1 || len(*all) != 2 {
		t.Errorf("%d events, %d changes", n, len(*all))
	}
}

// TestOtherLinksAreAChange: another media type or other links are a change without
// content, however it is read; links to versions and to other copies are not.
func TestOtherLinksAreAChange(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		was, is   func(s *site) (kind, links string)
		unchanged bool
	}{
		{name: "link added", is: func(s *site) (string, string) { return "", ln("describedby", s.url("/a.xml"), "") }},
		{name: "link removed", was: func(s *site) (string, string) { return "", ln("collection", "urn:c", "") }},
		{name: "link changed", was: func(s *site) (string, string) { return "", ln("via", "urn:o", `length="5"`) },
			is: func(s *site) (string, string) { return "", ln("via", "urn:o", `length="6"`) }},
		{name: "media type changed", was: func(s *site) (string, string) { return "text/a", "" }, is: func(s *site) (string, string) { return "text/b", "" }},
		{name: "another origin", was: func(s *site) (string, string) { return "", ln("via", "urn:o", "") + ln("via", "urn:p", "") },
			is: func(s *site) (string, string) { return "", ln("via", "urn:p", "") + ln("via", "urn:o", "") }},
		{name: "media type no longer stated", was: func(s *site) (string, string) { return "text/a", "" }, unchanged: true},
		{name: "another order", was: func(s *site) (string, string) { return "", ln("collection", "urn:c", "") + ln("profile", "urn:p", "") },
			is: func(s *site) (string, string) { return "", ln("profile", "urn:p", "") + ln("collection", "urn:c", "") }, unchanged: true},
		{name: "memento, timegate, duplicate", unchanged: true, is: func(s *site) (string, string) {
			return "", ln("memento", s.url("/v1/a"), "") + ln("timegate", s.url("/tg/a"), "") + ln("duplicate", s.url("/m/a"), "")
		}},
	}
	for _, tt := range tests {
		for _, st := range []style{{}, {noChanges: true}, {noHash: true}} {
			t.Run(fmt.Sprintf("%s/changes %v, hashes %v", tt.name, !st.noChanges, !st.noHash), func(t *testing.T) {
				t.Parallel()
				s, kind, links := describedSite(t, st)
				set := func(to func(*site) (string, string)) {
					kind["/a"], links["/a"] = "", ""
					if to != nil {
						kind["/a"], links["/a"] = to(s)
					}
					if kind["/a"] == "" {
						delete(kind, "/a")
					}
				}
				set(tt.was)
				s.put("/a", "content")
				s.put("/b", "content of b")
				m := newMirror(t, s)
				all := deliveries(m)
				m.mustSync()
				before := m.row("/a")
				*all, m.events = nil, nil
				s.reset()
				set(tt.is)
				s.restate("/a")
				updated := 1
				if tt.unchanged {
					updated = 0
				}
				r := m.mustSync()
				if r.Updated != int64(updated) || r.Failed+r.Created+r.Deleted != 0 || s.resourceGets() != 0 && !st.noHash { // without hashes the server is asked whether the content is the same
					t.Errorf("%s, %d requests for content; want %d updated, none", counts(r), s.resourceGets(), updated)
				}
				if len(*all) != updated {
					t.Fatalf("delivered %+v", *all)
				}
				if updated > 0 {
					c := (*all)[0]
					if c.URI != s.url("/a") || c.Kind != resourcesync.Updated || c.Content != destination.ContentSame || c.Path != before.Path || c.Length != before.Length || relationsOf(c.Links) != relationsOf(m.row("/a").Links) {
						t.Errorf("delivered %+v", c)
					}
				}
				wantKind, wantLinks := kind["/a"], links["/a"]
				if wantKind == "" {
					wantKind = before.Type
				}
				if row := m.row("/a"); row.Type != wantKind || strings.Count(wantLinks, "<rs:ln")-strings.Count(wantLinks, "duplicate") != len(row.Links) {
					t.Errorf("row %+v, want type %q, links %s", row, wantKind, wantLinks)
				}
				m.same()
				if r := m.mustSync(); r.Updated != 0 {
					t.Errorf("the next run: %s", counts(r))
				}
				m.opts.Baseline = true
				if r := m.mustSync(); r.Updated != 0 {
					t.Errorf("a comparison of everything: %s", counts(r))
				}
			})
		}
	}
}

// restate lists a resource as updated although its content is the same.
func (s *site) restate(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log = append(s.log, siteEvent{path, "updated", s.files[path], s.tick()})
}

// A describedBag is a Sink that also takes changes without content.
type describedBag struct {
	*bag
	changes []destination.Change
	fail    bool
}

func (b *describedBag) Describe(_ context.Context, batch []destination.Change) error {
	if b.fail {
		return errBusy
	}
	b.changes = append(b.changes, batch...)
	return nil
}

// TestSinkReceivesOtherLinks: a Sink that takes descriptions receives a change of
// links without content, at least once.
func TestSinkReceivesOtherLinks(t *testing.T) {
	t.Parallel()
	s, _, links := describedSite(t, style{})
	s.put("/a", "content")
	m := newMirror(t, s)
	b := &describedBag{bag: &bag{t: t, has: map[string]string{}}, fail: true}
	m.store = destination.NewSinkStore(b, destination.SinkOptions{})
	mustSync := func() destination.Report {
		t.Helper()
		r, err := m.sync()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	mustSync()
	links["/a"] = ln("describedby", "urn:d", "")
	s.restate("/a")
	var failed *destination.SinkError
	if _, err := m.sync(); !errors.As(err, &failed) {
		t.Errorf("a sink that fails: %v", err)
	}
	b.fail = false
	if r := mustSync(); r.Updated != 1 || len(b.changes) != 1 || relationsOf(b.changes[0].Links) != "describedby=urn:d" || b.changes[0].Content != destination.ContentSame {
		t.Errorf("%s, received %+v", counts(r), b.changes)
	}
	if mustSync(); len(b.changes) != 1 {
		t.Errorf("received again: %+v", b.changes)
	}
	b.same(s)
}

// TestSetsWithOtherLinks: of a resource of two sets, the first decides on its links,
// so that they do not alternate.
func TestSetsWithOtherLinks(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true})
	s.put("/a", "content")
	list := func(collection string) string {
		return doc("urlset", `<rs:md capability="resourcelist" at="2024-05-01T02:00:00Z"/>`, "<url><loc>"+s.url("/a")+"</loc>"+s.describe(s.file("/a"), s.file("/a").mod, "")+ln("collection", collection, "")+"</url>")
	}
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="capabilitylist"/></url><url><loc>%s</loc><rs:md capability="capabilitylist"/></url>`, s.url("/1.xml"), s.url("/2.xml"))))
	for _, n := range []string{"1", "2"} {
		s.replace("/"+n+".xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, "<url><loc>"+s.url("/list"+n+".xml")+`</loc><rs:md capability="resourcelist"/></url>`))
		s.replace("/list"+n+".xml", list("urn:"+n))
	}
	m := newMirror(t, s)
	m.opts.Baseline = true
	all := deliveries(m)
	for range 3 {
		m.mustSync()
		if got := relationsOf(m.row("/a").Links); got != "collection=urn:1" || len(*all) != 1 {
			t.Fatalf("links %s after %d changes", got, len(*all))
		}
	}
	s.replace("/list1.xml", list("urn:other"))
	if r := m.mustSync(); r.Updated != 1 || relationsOf(m.row("/a").Links) != "collection=urn:other" {
		t.Errorf("%s, %s", counts(r), relationsOf(m.row("/a").Links))
	}
}

// TestLeavesTheFirstSet: when a resource leaves the set that decides on its media type,
// links and foreign markup, its row has at once those that the next set states,
// although the documents of that set have not changed and are not read.
func TestLeavesTheFirstSet(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noChanges: true})
	s.put("/a", "content")
	s.put("/b", "content of b")
	at := func(hour int, capability, more string) string {
		return fmt.Sprintf(`<rs:md capability=%q %s="2024-05-01T%02d:00:00Z"%s/>`, capability, map[string]string{"resourcelist": "at", "changelist": "from"}[capability], hour, more)
	}
	entry := func(path, is, more string) string {
		md := strings.Replace(s.describe(s.file(path), s.file(path).mod, more), "<rs:md", fmt.Sprintf(`<rs:md type="text/x-%[1]s" xmlns:g="urn:g" g:of=%[1]q`, is), 1)
		return "<url><loc>" + s.url(path) + "</loc>" + md + ln("collection", "urn:"+is, "") + "</url>"
	}
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="capabilitylist"/></url><url><loc>%s</loc><rs:md capability="capabilitylist"/></url>`, s.url("/1.xml"), s.url("/2.xml"))))
	for _, n := range []string{"1", "2"} {
		s.replace("/"+n+".xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, "<url><loc>"+s.url("/list"+n+".xml")+`</loc><rs:md capability="resourcelist"/></url><url><loc>`+s.url("/changes"+n+".xml")+`</loc><rs:md capability="changelist"/></url>`))
		s.replace("/list"+n+".xml", doc("urlset", at(2, "resourcelist", ""), entry("/a", n, "")+entry("/b", n, "")))
		s.replace("/changes"+n+".xml", doc("urlset", at(2, "changelist", ""), ""))
	}
	m := newMirror(t, s)
	all := deliveries(m)
	m.mustSync()
	check := func(path, is string) {
		t.Helper()
		row := m.row(path)
		if got := relationsOf(row.Links); row.Type != "text/x-"+is || got != "collection=urn:"+is || !strings.Contains(row.Stated.Foreign.String(), `"`+is+`"`) && !strings.Contains(row.Stated.Foreign.String(), "'"+is+"'") {
			t.Errorf("%s has type %q, links %s, foreign %s; want those of %s", path, row.Type, got, row.Stated.Foreign, is)
		}
	}
	check("/a", "1")

	// The first set changes its mind; the second does not, and is not read again.
	s.replace("/changes1.xml", doc("urlset", at(2, "changelist", ""), entry("/b", "x", ` change="updated" datetime="2024-05-01T03:00:00Z"`)))
	if r := m.mustSync(); r.Updated != 1 {
		t.Errorf("after other links: %s", counts(r))
	}
	check("/b", "x")

	*all = nil
	gone := ""
	for _, path := range []string{"/a", "/b"} {
		gone += "<url><loc>" + s.url(path) + `</loc><rs:md change="deleted" datetime="2024-05-01T04:00:00Z"/></url>`
	}
	s.replace("/changes1.xml", doc("urlset", at(2, "changelist", ""), gone))
	lists := s.got("/list2.xml")
	plan := *m
	plan.opts.DryRun = true
	if r := plan.mustSync(); r.Updated != 2 || r.Deleted != 0 {
		t.Errorf("a dry run before they leave the first set: %s", counts(r))
	}
	if r := m.mustSync(); r.Updated != 2 || r.Deleted != 0 || s.got("/list2.xml") != lists {
		t.Errorf("when they left the first set: %s, %d readings of the second list", counts(r), s.got("/list2.xml")-lists)
	}
	check("/a", "2")
	check("/b", "2")
	if len(*all) != 2 {
		t.Errorf("delivered %+v", *all)
	}
	if r := m.mustSync(); r.Updated != 0 {
		t.Errorf("once more: %s", counts(r))
	}
}

// TestFollowOtherLinks: a notified change of links is applied without a request, and
// what documents state afterwards is the same, links to other hosts included.
func TestFollowOtherLinks(t *testing.T) {
	t.Parallel()
	s, _, links := describedSite(t, style{})
	s.put("/a", "content")
	p := newPress(t, s, true, false)
	g := newFollowing(t, s, true)
	taken := make(chan destination.Change, 100)
	g.opts.Deliver = func(_ context.Context, batch []destination.Change) error {
		for _, c := range batch {
			taken <- c
		}
		return nil
	}
	next := func(kind resourcesync.Change, content destination.Content, links string) {
		t.Helper()
		select {
		case c := <-taken:
			if c.Kind != kind || c.Content != content || relationsOf(c.Links) != links {
				t.Errorf("delivered %+v, want %v with links %s", c, kind, links)
			}
		case <-time.After(time.Minute):
			t.Fatal("nothing is delivered")
		}
	}
	g.start(destination.FollowOptions{})
	g.live(destination.ChannelHub)
	next(resourcesync.Created, destination.ContentReplaced, "")
	s.reset()
	s.mu.Lock()
	links["/a"] = ln("describedby", s.url("/a.xml"), "") + ln("via", "https://origin.example/a", "")
	s.mu.Unlock()
	s.restate("/a")
	p.notify()
	want := "describedby=" + s.url("/a.xml") + " via=https://origin.example/a"
	next(resourcesync.Updated, destination.ContentSame, want)
	if n := s.resourceGets() + s.got("/rs/changelist.xml"); n > 0 {
		t.Errorf("%d requests for a notified change of links, want none", n)
	}
	g.end()
	for _, g.opts.Baseline = range []bool{false, true} {
		if r := g.mustSync(); r.Updated != 0 || len(taken) > 0 || relationsOf(g.row("/a").Links) != want {
			t.Errorf("afterwards: %s, %d changes, links %s", counts(r), len(taken), relationsOf(g.row("/a").Links))
		}
	}
}

// countingJournal counts the rows that are written.
type countingJournal struct {
	*journal.Mem
	rows int
}

func (j *countingJournal) Record(ctx context.Context, b journal.Batch) error {
	j.rows += len(b.Put)
	return j.Mem.Record(ctx, b)
}

// TestStatementsAreDeliveredWhereWanted: a resource of which nothing but the lastmod has
// changed is no change, and its content is not requested. With DeliverStatements it is
// delivered all the same, with the new lastmod.
func TestStatementsAreDeliveredWhereWanted(t *testing.T) {
	t.Parallel()
	for _, wanted := range []bool{false, true} {
		for _, st := range []style{{}, {noChanges: true}} {
			s := newSite(t, st)
			s.put("/a", "content")
			s.put("/b", "content of b")
			m := newMirror(t, s)
			all := deliveries(m)
			m.opts.DeliverStatements = wanted
			m.mustSync()
			*all = nil
			s.reset()
			s.now = s.now.Add(time.Hour)
			s.put("/a", "content")
			r := m.mustSync()
			if r.Updated+r.Failed+r.Created+r.Deleted != 0 || s.resourceGets() != 0 {
				t.Errorf("%s, %d requests for content", counts(r), s.resourceGets())
			}
			n := 0
			if wanted {
				n = 1
			}
			if len(*all) != n {
				t.Fatalf("wanted %v: delivered %+v", wanted, *all)
			}
			if n == 0 {
				continue
			}
			if c := (*all)[0]; c.URI != s.url("/a") || c.Kind != resourcesync.Updated || c.Content != destination.ContentSame || !c.Stated.Lastmod.Time().Equal(s.file("/a").mod) {
				t.Errorf("delivered %+v, want the lastmod %v", c, s.file("/a").mod)
			}
			*all, m.opts.Baseline = nil, true
			if m.mustSync(); len(*all) != 0 {
				t.Errorf("nothing has changed: delivered %+v", *all)
			}
		}
	}
}

// TestSameStatementWritesNothing: a comparison of everything writes no rows if the
// Source states the same as before.
func TestSameStatementWritesNothing(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noLength: true}, {noLastmod: true}, {listParts: 2}} {
		s, kind, links := describedSite(t, st)
		kind["/a"], links["/a"] = "text/a", ln("via", "urn:o", `modified="2024-01-01T00:00:00Z"`)+ln("duplicate", s.url("/m/a"), "")+ln("collection", "urn:c", "")
		s.put("/a", "content")
		s.put("/b", "content of b")
		s.put("/c", "content of c")
		m := newMirror(t, s)
		j := &countingJournal{Mem: new(journal.Mem)}
		m.journal = j
		m.mustSync()
		j.rows, m.opts.Baseline = 0, true
		if m.mustSync(); j.rows != 0 {
			t.Errorf("%d rows were written", j.rows)
		}
	}
}

// TestMoreLinksThanAreKept: a Source cannot make a row larger than is allowed; the
// first links are kept, and a warning names the resource.
func TestMoreLinksThanAreKept(t *testing.T) {
	t.Parallel()
	s, _, links := describedSite(t, style{})
	s.put("/many", "many")
	s.put("/long", "long")
	s.put("/few", "few")
	for i := range 100 {
		links["/many"] += ln("collection", fmt.Sprintf("urn:%d", i), "")
	}
	long := strings.Repeat("x", 3000)
	for i := range 4 {
		links["/long"] += ln("collection", fmt.Sprintf("urn:%d%s", i, long), "")
	}
	links["/few"] = ln("via", "urn:few", "")
	m := newMirror(t, s)
	r := m.mustSync()
	for path, want := range map[string]int{"/many": 64, "/long": 2, "/few": 1} {
		if got := len(m.row(path).Links); got != want {
			t.Errorf("%s: %d links, want %d", path, got, want)
		}
	}
	if text := strings.Join(r.Warnings, "\n"); !strings.Contains(text, "has more than 64 links or 8192 bytes of them") {
		t.Errorf("warnings: %s", text)
	}
	m.opts.Baseline = true
	if r := m.mustSync(); r.Updated != 0 {
		t.Errorf("the next comparison: %s", counts(r))
	}
}

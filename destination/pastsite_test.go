package destination_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/resourcesync"
)

// A pastSite is a site that moves what leaves its Change List into an archive.
type pastSite struct {
	*site
	closed []pastList
	style  pastStyle
}

// pastStyle is how the archive is published.
type pastStyle struct {
	unnamed  bool // not in the Capability List: the Change List links to it
	bare     bool // entries do not say of what times the lists are
	reversed bool
	parts    int // entries of one archive; beyond, there is an index
}

// A pastList is an archived Change List.
type pastList struct {
	path        string
	from, until time.Time
}

func newPastSite(t testing.TB, st style, past pastStyle) *pastSite {
	p := &pastSite{site: newSite(t, st), style: past}
	p.publish()
	return p
}

// rotate closes the Change List and moves it into the archive.
func (p *pastSite) rotate() pastList {
	p.mu.Lock()
	until := p.tick()
	l := pastList{fmt.Sprintf("/rs/past-%d.xml", len(p.closed)), p.from, until}
	p.doc[l.path] = p.changeList(l, p.log)
	p.log, p.from = nil, until
	p.closed = append(p.closed, l)
	p.mu.Unlock()
	p.publish()
	return l
}

// changeList is a closed Change List.
func (p *pastSite) changeList(l pastList, log []siteEvent) string {
	return doc("urlset", p.up()+fmt.Sprintf(`<rs:md capability="changelist" from="%s" until="%s"/>`, p.time(l.from), p.time(l.until)), p.changesBody(log))
}

func (p *pastSite) up() string {
	return fmt.Sprintf(`<rs:ln rel="up" href="%s"/>`, p.url("/rs/capabilitylist.xml"))
}

const archivePath = "/rs/changelist-archive.xml"

// publish writes the archive.
func (p *pastSite) publish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.doc, "/rs/changelist.xml")
	p.offer = fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="changelist-archive"/></url>`, p.url(archivePath))
	if p.style.unnamed {
		p.offer = ""
		p.doc["/rs/changelist.xml"] = doc("urlset", p.up()+fmt.Sprintf(`<rs:ln rel="archives" href="%s"/><rs:md capability="changelist" from="%s"/>`,
			p.url(archivePath), p.time(p.from)), p.changesBody(p.log))
	}
	lists := slices.Clone(p.closed)
	if p.style.reversed {
		slices.Reverse(lists)
	}
	if n := p.style.parts; n > 0 && len(lists) > n {
		var parts []resourcesync.Entry
		for i := 0; i < len(lists); i += n {
			path := fmt.Sprintf("/rs/archive-%d.xml", i/n)
			p.doc[path] = p.archive(false, p.entries(lists[i:min(i+n, len(lists))]))
			parts = append(parts, resourcesync.Entry{Loc: p.url(path)})
		}
		p.doc[archivePath] = p.archive(true, parts)
		return
	}
	p.doc[archivePath] = p.archive(false, p.entries(lists))
}

func (p *pastSite) entries(lists []pastList) []resourcesync.Entry {
	var es []resourcesync.Entry
	for _, l := range lists {
		e := resourcesync.Entry{Loc: p.url(l.path)}
		if !p.style.bare {
			e.From, e.Until = resourcesync.NewDatetime(l.from), resourcesync.NewDatetime(l.until)
		}
		es = append(es, e)
	}
	return es
}

// archive is a Change List Archive, or an index of them.
func (p *pastSite) archive(index bool, entries []resourcesync.Entry) string {
	return written(p.t, resourcesync.Header{
		Capability: resourcesync.ChangeListArchive, Index: index,
		Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: p.url("/rs/capabilitylist.xml")}},
	}, entries)
}

// written is a document as the Writer writes it.
func written(t testing.TB, h resourcesync.Header, entries []resourcesync.Entry) string {
	t.Helper()
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.String()
}

// live makes some random changes.
func (p *pastSite) live(round int) {
	for i := range 3 {
		p.put(fmt.Sprintf("/r/%d", (round*2+i)%9), fmt.Sprintf("round %d of %d", round, i))
	}
	if round%2 == 1 {
		p.del(fmt.Sprintf("/r/%d", round%9))
	}
}

// away returns a site and a mirror that was in step with it before the last
// five of its archived lists.
func away(t testing.TB, st style, past pastStyle) (*pastSite, *mirror) {
	t.Helper()
	p := newPastSite(t, st, past)
	p.live(0)
	p.rotate()
	p.live(1)
	p.publish()
	m := newMirror(t, p.site)
	m.mustSync()
	for round := 2; round < 7; round++ {
		p.live(round)
		p.rotate()
	}
	p.live(7)
	p.publish()
	return p, m
}

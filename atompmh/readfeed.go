package atompmh

import (
	"io"
	"strings"
	"time"

	"lockstep/internal/iri"
	"lockstep/internal/xmlscan"
)

// A head is the state of a document that is not part of its Feed.
type head struct {
	id, title, updated bool
	author             bool
	anonymous          bool // an entry has no author of its own
	ahead              bool // an entry is updated later than the feed
	text               int  // bytes stored
}

// children reads the children of the root up to the start of the next entry; at
// the end of the document it returns io.EOF.
func (r *Reader) children() error {
	for {
		m, err := r.s.Next()
		if err != nil {
			return err
		}
		if m == xmlscan.End {
			return r.end()
		}
		name := string(r.s.Local)
		switch r.s.Space {
		case spaceAtom:
			if name == "entry" {
				return nil
			}
			err = r.feedChild(name)
		case spaceHistory:
			r.historyChild(name)
			err = r.s.Skip()
		case spaceTombstones:
			if name == "deleted-entry" {
				return nil
			}
			err = r.s.Skip()
		default:
			r.foreignChild(name)
			err = r.s.Skip() // AP-DOC-10
		}
		if err != nil {
			return err
		}
		if r.head.text > maxEntryText {
			return r.s.Errorf("%w: a feed that says more than %d bytes of itself", ErrLimit, maxEntryText)
		}
	}
}

// foreignChild counts elements with the name of an entry that are not in the
// namespace of Atom: the namespace is misspelt, or was removed by xmlns="".
func (r *Reader) foreignChild(name string) {
	if strings.EqualFold(name, "entry") || strings.EqualFold(name, "deleted-entry") {
		r.note("AP-DOC-10", "an element "+xmlscan.Clip(name)+" that is not in the namespace of Atom, skipped")
		r.stats.Skipped++
		r.stats.Nameless++
	}
}

// feedChild reads a child in the Atom namespace.
func (r *Reader) feedChild(name string) error {
	f := &r.feed
	switch name {
	case "id":
		return r.feedText(&f.ID, &r.head.id, name)
	case "title":
		return r.feedText(&f.Title, &r.head.title, name)
	case "updated":
		text, _, err := r.s.Text()
		if err != nil {
			return err
		}
		if r.head.updated {
			r.warn("AP-DOC-02", "a second updated in the feed, ignored")
			return nil
		}
		f.Updated, r.head.updated = r.datetime(text)
		return nil
	case "author":
		return r.author()
	case "link":
		r.feedLink()
	}
	return r.s.Skip()
}

// feedText reads the text of the current element into p, the first time.
func (r *Reader) feedText(p *string, seen *bool, name string) error {
	text, err := r.s.AllText()
	switch {
	case err != nil:
		return err
	case *seen:
		r.warn("AP-DOC-02", "a second "+name+" in the feed, ignored")
	case len(text) > 0 || name == "title":
		*p, *seen = string(text), true
		r.head.text += len(text)
		if name == "id" {
			r.checkID(text)
		}
	}
	return nil
}

// author reads the author of a feed, and stores the name.
func (r *Reader) author() error {
	r.head.author = true
	for {
		m, err := r.s.Next()
		if err != nil || m == xmlscan.End {
			return err
		}
		if r.s.Space != spaceAtom || string(r.s.Local) != "name" || r.feed.Author != "" {
			if err := r.s.Skip(); err != nil {
				return err
			}
			continue
		}
		text, _, err := r.s.Text()
		if err != nil {
			return err
		}
		r.feed.Author = string(text)
		r.head.text += len(text)
	}
}

// historyChild reads an element of RFC 5005.
func (r *Reader) historyChild(name string) {
	switch name {
	case "archive":
		r.feed.Archive = true
	case "complete":
		r.feed.Complete = true
	case "comlete":
		// AP-AMB-04: the draft once spells it like this. If it meant complete, records
		// would be deleted because of what may be a typing error.
		r.warn("AP-AMB-04", "fh:comlete, which is spelt fh:complete; the feed is not taken for a complete one")
	}
}

// feedLink reads a link of the feed.
func (r *Reader) feedLink() {
	f := &r.feed
	r.draft.reset()
	if !r.link(r.base) {
		return
	}
	l := r.draft.links[0].cut(string(r.draft.text))
	r.head.text += r.draft.size()
	var place *string
	switch l.Rel {
	case "self":
		place = &f.Self
	case "current":
		place = &f.Current
	case "prev-archive":
		place = &f.PrevArchive
	case "next-archive":
		place = &f.NextArchive
	case "first", "last", "next", "previous":
		// AP-TS-10: a paged feed is no archived feed.
	}
	switch {
	case place == nil && len(f.Links) == maxLinks:
		r.warn("AP-DOC-01", "too many links in the feed; the rest is ignored")
	case place == nil:
		f.Links = append(f.Links, l)
	case *place == "":
		*place = l.Href
	case *place != l.Href:
		r.warn("AP-DOC-01", "a second link "+l.Rel+" in the feed, ignored")
	}
}

// end reads what may follow the root, and checks the document as a whole.
func (r *Reader) end() error {
	// Next refuses elements and text after the root: nil is impossible here.
	_, err := r.s.Next()
	if err != nil {
		return err
	}
	f, h := &r.feed, &r.head
	switch {
	case !h.id:
		r.warn("AP-DOC-02", "the feed has no id")
	case !h.title:
		r.warn("AP-DOC-02", "the feed has no title")
	}
	if !h.updated {
		r.warn("AP-DOC-02", "the feed has no updated")
	} else if f.Updated.Before(r.stats.Latest) && !h.ahead {
		r.warn("AP-TS-01", "an entry is updated later than its feed")
	}
	if !h.author && (h.anonymous || r.stats.Entries == 0) {
		r.warn("AP-DOC-02", "neither the feed nor every entry has an author")
	}
	if f.Complete && f.PrevArchive != "" {
		r.warn("AP-CMP-03", "a complete feed with a link prev-archive")
	}
	if f.Complete && r.stats.Deletions > 0 {
		r.warn("AP-CMP-03", "a complete feed with deletion entries")
	}
	return io.EOF
}

// datetime parses text as an instant, in UTC, and reports whether it is valid.
func (r *Reader) datetime(text []byte) (time.Time, bool) {
	t, exact, ok := parseTime(text)
	switch {
	case !ok:
		r.warn("AP-DOC-08", "a datetime that is none: \""+xmlscan.Clip(string(text))+"\"")
	case !exact:
		r.warn("AP-DOC-08", "a datetime that RFC 3339 does not allow: \""+xmlscan.Clip(string(text))+"\"")
	}
	return t, ok
}

// checkID warns of an id that is not an absolute IRI. It is used unchanged.
func (r *Reader) checkID(id []byte) {
	if !iri.Absolute(id) {
		r.warn("AP-DOC-09", "id \""+shown(string(id))+"\" is no absolute IRI")
	}
}

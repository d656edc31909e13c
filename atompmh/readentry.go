package atompmh

import (
	"net/url"
	"time"

	"lockstep/internal/xmlscan"
)

// A span is a piece of a draft's text.
type span struct{ from, to int32 }

// A draft is the state of the current entry. Its texts are collected in one
// buffer, so that a finished entry costs one string, of which its fields are
// slices.
type draft struct {
	text               []byte
	shared             int // bytes of its strings that are not in text
	id, title, summary span
	links              []draftLink
	updated            time.Time
	src                draftLink // target of content

	hasID, hasTitle, hasUpdated bool
	hasAuthor, hasSummary       bool
	alternates                  int // number of usable ones
	broken                      int // number of others
	content                     content
	inline                      bool // it is skipped for content that it has, not for something missing
}

// content describes the content element of an entry.
type content uint8

const (
	contentNone  content = iota
	contentEmpty         // the element is empty
	contentSrc           // the content is at another address
	contentFull          // the element has content
)

// A draftLink is a link whose texts have not been sliced yet.
type draftLink struct {
	Link
	href, title span
}

func (d *draft) reset() {
	*d = draft{text: d.text[:0], links: d.links[:0]}
}

// keep appends b to the draft's text.
func (d *draft) keep(b []byte) span {
	from := len(d.text)
	d.text = append(d.text, b...)
	return span{int32(from), int32(len(d.text))}
}

// size returns the number of bytes of all texts.
func (d *draft) size() int { return len(d.text) + d.shared }

// cut returns the finished link.
func (l *draftLink) cut(text string) Link {
	out := l.Link
	out.Href = text[l.href.from:l.href.to]
	out.Title = text[l.title.from:l.title.to]
	return out
}

// entry reads the entry whose start tag was just read. It reports whether the
// entry is usable; a document remains readable if some are not.
func (r *Reader) entry(e *Entry) (ok bool, err error) {
	*e = Entry{}
	d := &r.draft
	d.reset()
	if r.s.Space == spaceTombstones {
		return r.tombstone(e)
	}
	base := r.baseOf(r.base)
	for {
		m, err := r.s.Next()
		if err != nil {
			return false, err
		}
		if m == xmlscan.End {
			break
		}
		if r.s.Space != spaceAtom {
			err = r.s.Skip() // AP-DOC-10
		} else {
			err = r.entryChild(base)
		}
		if err != nil {
			return false, err
		}
		if d.size() > maxEntryText {
			return false, r.s.Errorf("%w: an entry with more than %d bytes", ErrLimit, maxEntryText)
		}
	}
	r.head.anonymous = r.head.anonymous || !d.hasAuthor
	if !d.hasTitle {
		r.warn("AP-DOC-05", "an entry without a title")
	}
	switch {
	case !d.hasID:
		r.warn("AP-DOC-05", "an entry without an id, skipped")
		return false, nil
	case !d.hasUpdated:
		r.warn("AP-DOC-05", "an entry without a time at which it was updated, skipped")
		return false, nil
	}
	if e.Kind = r.classify(); e.Kind == 0 {
		return false, nil
	}
	r.finish(e)
	return true, nil
}

// entryChild reads a child of an entry.
func (r *Reader) entryChild(base *url.URL) error {
	d := &r.draft
	switch string(r.s.Local) {
	case "id":
		text, _, err := r.s.Text()
		switch {
		case err != nil:
			return err
		case d.hasID:
			r.warn("AP-DOC-05", "a second id in an entry, ignored")
		case len(text) > 0:
			d.id, d.hasID = d.keep(text), true
			r.checkID(text)
		}
		return nil
	case "updated":
		text, _, err := r.s.Text()
		switch {
		case err != nil:
			return err
		case d.hasUpdated:
			r.warn("AP-DOC-05", "a second updated in an entry, ignored")
		default:
			d.updated, d.hasUpdated = r.datetime(text)
		}
		return nil
	case "title":
		text, err := r.s.AllText()
		if err == nil && d.hasTitle {
			r.warn("AP-DOC-05", "a second title in an entry, ignored")
		} else if err == nil {
			d.title, d.hasTitle = d.keep(text), true
		}
		return err
	case "summary":
		text, err := r.s.AllText()
		if err == nil && !d.hasSummary {
			d.summary, d.hasSummary = d.keep(text), true
		}
		return err
	case "link":
		r.link(base)
	case "content":
		return r.content(base)
	case "author":
		d.hasAuthor = true
	case "source":
		return r.source()
	}
	return r.s.Skip()
}

// source reads the origin of a copied entry: its author is that of the entry
// (RFC 4287, 4.2.1).
func (r *Reader) source() error {
	for {
		m, err := r.s.Next()
		if err != nil || m == xmlscan.End {
			return err
		}
		if r.s.Space == spaceAtom && string(r.s.Local) == "author" {
			r.draft.hasAuthor = true
		}
		if err := r.s.Skip(); err != nil {
			return err
		}
	}
}

// content reads the content of an entry, and discards it: white space counts as
// empty (AP-CLS-04).
func (r *Reader) content(base *url.URL) error {
	d := &r.draft
	was := d.content
	if was != contentNone {
		r.warn("AP-DOC-05", "a second content in an entry")
	}
	if src, ok := r.s.Attr("src"); ok {
		d.content = max(was, contentSrc)
		if was != contentSrc {
			d.src.Rel = RelAlternate
			if typ, ok := r.s.Attr("type"); ok {
				d.src.Type = r.strings.Get(xmlscan.Trim(typ))
				d.shared += len(d.src.Type)
			}
			d.src.href, ok = r.href(src, r.baseOf(base))
			if !ok {
				d.broken++
			}
		}
		return r.s.Skip()
	}
	blank, err := r.s.Blank()
	switch {
	case err != nil:
		return err
	case blank:
		d.content = max(was, contentEmpty)
	default:
		d.content = contentFull
	}
	return nil
}

// classify returns the kind of the entry, or 0 if it is unknown.
func (r *Reader) classify() Kind {
	d := &r.draft
	switch {
	case d.alternates > 0 && d.content == contentNone: // AP-CLS-02
		return Active
	case d.alternates > 0: // AP-CLS-04
		r.warn("AP-CLS-04", "an entry with both alternate link and content, taken as active")
		return Active
	case d.broken > 0: // the links to the record are unusable: this is no deletion
		r.warn("AP-CLS-04", "an entry without an alternate link that can be followed, skipped")
		return 0
	case d.content == contentEmpty: // AP-CLS-01
		return Deletion
	case d.content == contentSrc:
		r.warn("AP-CLS-04", "an entry whose content leads elsewhere and that has no alternate link; that is taken for one")
		d.links = append(d.links, d.src)
		return Active
	case d.content == contentFull:
		d.inline = true
		r.warn("AP-CLS-04", "an entry with content and without alternate link, skipped")
		return 0
	}
	r.warn("AP-CLS-04", "an entry with neither alternate link nor content, skipped")
	return 0
}

// tombstone reads an at:deleted-entry (AP-CLS-05).
func (r *Reader) tombstone(e *Entry) (bool, error) {
	d := &r.draft
	ref, _ := r.s.Attr("ref")
	when, _ := r.s.Attr("when")
	if ref = xmlscan.Trim(ref); len(ref) > 0 {
		d.id, d.hasID = d.keep(ref), true
		r.checkID(ref)
	}
	if when = xmlscan.Trim(when); len(when) > 0 {
		d.updated, d.hasUpdated = r.datetime(when)
	}
	if err := r.s.Skip(); err != nil {
		return false, err
	}
	if !d.hasID || !d.hasUpdated {
		r.warn("AP-CLS-05", "a tombstone without ref and when, skipped")
		return false, nil
	}
	r.warn("AP-CLS-05", "a tombstone of RFC 6721, taken as a deletion entry")
	e.Kind = Deletion
	r.finish(e)
	return true, nil
}

// finish slices the texts of the entry.
func (r *Reader) finish(e *Entry) {
	d := &r.draft
	text := string(d.text)
	e.ID = text[d.id.from:d.id.to]
	e.Title = text[d.title.from:d.title.to]
	e.Summary = text[d.summary.from:d.summary.to]
	e.Updated = d.updated
	if len(d.links) == 0 {
		return
	}
	e.Links = make([]Link, len(d.links))
	for i := range d.links {
		e.Links[i] = d.links[i].cut(text)
	}
	if d.alternates < 2 {
		return
	}
	for i := range e.Links {
		for j := range e.Links[:i] {
			if a, b := &e.Links[i], &e.Links[j]; a.Rel == RelAlternate && b.Rel == RelAlternate && a.Type == b.Type && a.Hreflang == b.Hreflang {
				r.warn("AP-DOC-07", "two alternate links of one type in an entry")
				return
			}
		}
	}
}

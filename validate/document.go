package validate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"lockstep/resourcesync"
)

// A document is one that was read.
type document struct {
	uri, final string
	kind       Kinds
	header     resourcesync.Header
	entries    []resourcesync.Entry // of those whose entries are documents or packages
	places     []string             // of the entries
	modified   time.Time            // Last-Modified; zero if not known
	sum        [sha256.Size]byte    // of its bytes
	whole      bool                 // it could be read to its end
	faulted    bool                 // its capability was found to be missing
	root, part unusable             // attributes of the root and of the entry at hand
}

const (
	// maxListed caps the entries kept of one document: memory filled by an
	// index without end.
	maxListed = 2 * resourcesync.MaxEntries

	// keptKinds are those whose entries are kept.
	keptKinds = KindDescription | KindDescriptionIndex | KindCapabilityList | KindResourceDump | KindChangeDump | KindArchive | anyIndex
)

// An eachFunc is called for each entry of a document; at tells where it stands.
type eachFunc func(doc *document, at func() string, e *resourcesync.Entry)

// read reads a document and checks all that it shows by itself. Its entries go
// to each, which may be nil, and into the tally of the set. The error is that
// of reading, not of what was read.
func (w *walk) read(src *source, each eachFunc) (*document, error) {
	body := newFaithful(src)
	p := w.collector.in(src.uri)
	doc := &document{uri: src.uri, final: src.final}
	var early []resourcesync.Warning
	root := "" // where the Reader stands when it looks at the root as a whole
	warn := func(u *unusable, n int, x resourcesync.Warning) {
		at := position(x.Line, x.Column)
		if at == root {
			at = "root"
		}
		if u.note(n, x); u.has(n, missing(x)) {
			return
		}
		if rule, level := translate(x, doc.kind); rule != "" {
			doc.faulted = doc.faulted || rule == "RS-MD-01"
			p.add(rule, level, at, x.Message)
		}
	}
	var r *resourcesync.Reader
	r = resourcesync.NewReader(body, resourcesync.ReaderOptions{
		Base: src.final, Exact: true, MaxBytes: w.opts.DocumentBytes,
		OnWarning: func(x resourcesync.Warning) {
			if doc.kind == 0 {
				early = append(early, x)
				return
			}
			warn(&doc.part, before(r), x)
		},
	})
	h, err := r.Header()
	if err == nil || doc.kind == 0 {
		doc.kind = kindOf(&h)
	}
	root = position(r.Position())
	for _, x := range early {
		warn(&doc.root, 0, x)
	}
	root = ""
	if err == nil {
		doc.header = h
		err = w.entries(doc, p, r, each)
	}
	if stop := w.ctx.Err(); stop != nil {
		return nil, context.Cause(w.ctx)
	}
	if err != nil && body.readError() != nil {
		return nil, fmt.Errorf("read %s: %w", printable(src.uri), body.readError())
	}
	if err != nil {
		location := ""
		if syntax, ok := errors.AsType[*resourcesync.SyntaxError](err); ok {
			location, err = position(syntax.Line, syntax.Column), syntax.Err
		}
		p.errorf(ruleOfError(err), location, "cannot be read: %v", err)
	}
	doc.whole = err == nil
	w.count(doc.uri)
	doc.sum = body.rest()
	return doc, nil
}

// entries reads the entries of doc.
func (w *walk) entries(doc *document, p place, r *resourcesync.Reader, each eachFunc) error {
	c := newChecker(p, doc, w.opts.Now(), r)
	number := w.tally.begin(doc.uri)
	for n := 1; ; n++ {
		var e resourcesync.Entry
		err := r.Read(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		w.collector.report.Entries++
		c.entry(&e)
		if err := w.tallyEntry(number, n, doc, &e); err != nil {
			return err
		}
		if doc.kind&keptKinds != 0 && len(doc.entries) < maxListed {
			doc.entries = append(doc.entries, e)
			doc.places = append(doc.places, c.at())
		}
		if each != nil {
			each(doc, c.at, &e)
		}
		if n%1024 == 0 && w.ctx.Err() != nil {
			return context.Cause(w.ctx)
		}
	}
	if h, err := r.Header(); err == nil {
		doc.header = h // RS-XML-03: some of it may stand behind the entries
	}
	c.end(&doc.header)
	return nil
}

// before returns the number of entries that r has left behind.
func before(r *resourcesync.Reader) int {
	st := r.Stats()
	return int(st.Entries + st.Skipped)
}

// kindOf returns the kind of a document that says h of itself (RS-GEN-05).
func kindOf(h *resourcesync.Header) Kinds {
	list, index := KindUnknown, KindUnknown
	switch h.Capability {
	case "":
		return KindSitemap
	case resourcesync.Description:
		list, index = KindDescription, KindDescriptionIndex
	case resourcesync.CapabilityList:
		list, index = KindCapabilityList, KindCapabilityList
	case resourcesync.ResourceList:
		list, index = KindResourceList, KindResourceListIndex
	case resourcesync.ResourceDump:
		list, index = KindResourceDump, KindResourceDumpIndex
	case resourcesync.ResourceDumpManifest:
		list, index = KindResourceDumpManifest, KindResourceDumpManifest
	case resourcesync.ChangeList:
		list, index = KindChangeList, KindChangeListIndex
	case resourcesync.ChangeDump:
		list, index = KindChangeDump, KindChangeDumpIndex
	case resourcesync.ChangeDumpManifest:
		list, index = KindChangeDumpManifest, KindChangeDumpManifest
	case resourcesync.ResourceListArchive, resourcesync.ResourceDumpArchive, resourcesync.ChangeListArchive, resourcesync.ChangeDumpArchive:
		list, index = KindArchive, KindArchiveIndex
	case resourcesync.ChangeNotification:
		list = KindNotification
	}
	if h.Index {
		return index
	}
	return list
}

package validate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"time"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
)

// A document is a document that was read.
type document struct {
	uri, final string
	kind       finding.Kinds
	header     resourcesync.Header
	entries    []resourcesync.Entry // if they are documents or packages
	places     []string             // of the entries
	modified   time.Time            // Last-Modified; zero if unknown
	sum        [sha256.Size]byte    // of its bytes
	whole      bool                 // it could be read to its end
	faulted    bool                 // its capability was found to be missing
	root, part unusable             // attributes of the root and of the current entry
}

const (
	// maxListed caps the entries kept of one document: memory filled by an endless
	// index.
	maxListed = 2 * resourcesync.MaxEntries

	// keptKinds are those whose entries are kept.
	keptKinds = finding.KindDescription | finding.KindDescriptionIndex | finding.KindCapabilityList | finding.KindResourceDump | finding.KindChangeDump | finding.KindArchive | finding.AnyIndex
)

// An eachFunc is called for each entry of a document; at returns its location.
type eachFunc func(doc *document, at func() string, e *resourcesync.Entry)

// read reads a document and checks it by itself. It passes its entries to each,
// which may be nil, and adds them to the tally of the set. The error is that of
// reading, not about the content.
func (w *walk) read(ctx context.Context, src *visit.Source, each eachFunc) (*document, error) {
	body := visit.NewHashed(src)
	p := w.visitor.Collector.In(src.URI)
	doc := &document{uri: src.URI, final: src.Final}
	var early []resourcesync.Warning
	root := "" // location while the Reader checks the root as a whole
	warn := func(u *unusable, n int, x resourcesync.Warning) {
		at := finding.Position(x.Line, x.Column)
		if at == root {
			at = "root"
		}
		if u.note(n, x); u.has(n, missing(x)) {
			return
		}
		if rule, level := translate(x, doc.kind); rule != "" {
			doc.faulted = doc.faulted || rule == "RS-MD-01"
			p.Add(rule, level, at, x.Message)
		}
	}
	var r *resourcesync.Reader
	r = resourcesync.NewReader(body, resourcesync.ReaderOptions{
		Base: src.Final, Exact: true, MaxBytes: w.visitor.Settings.DocumentBytes,
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
	root = finding.Position(r.Position())
	for _, x := range early {
		warn(&doc.root, 0, x)
	}
	root = ""
	if err == nil {
		doc.header = h
		err = w.entries(ctx, doc, p, r, each)
	}
	if stop := ctx.Err(); stop != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && body.Err() != nil {
		return nil, fmt.Errorf("read %s: %w", finding.Printable(src.URI), body.Err())
	}
	if err != nil {
		location := ""
		if syntax, ok := errors.AsType[*resourcesync.SyntaxError](err); ok {
			location, err = finding.Position(syntax.Line, syntax.Column), syntax.Err
		}
		p.Errorf(ruleOfError(err), location, "cannot be read: %v", err)
	}
	doc.whole = err == nil
	w.visitor.Count(doc.uri)
	doc.sum = body.Rest()
	return doc, nil
}

// entries reads the entries of doc.
func (w *walk) entries(ctx context.Context, doc *document, p finding.Place, r *resourcesync.Reader, each eachFunc) error {
	c := newChecker(p, doc, w.visitor.Settings.Now(), r)
	number, counted := w.tally.Begin(doc.uri), w.visitor.CountedBefore(doc.uri)
	for n := 1; ; n++ {
		var e resourcesync.Entry
		err := r.Read(&e)
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		if !counted {
			w.visitor.Collector.Report.Entries++
		}
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
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
	if h, err := r.Header(); err == nil {
		doc.header = h // RS-XML-03: some of it may follow the entries
	}
	c.end(&doc.header)
	return nil
}

// before returns the number of entries that r has read.
func before(r *resourcesync.Reader) int {
	st := r.Stats()
	return int(st.Entries + st.Skipped)
}

// kindOf returns the kind of a document with header h (RS-GEN-05).
func kindOf(h *resourcesync.Header) finding.Kinds {
	list, index := finding.KindUnknown, finding.KindUnknown
	switch h.Capability {
	case "":
		return finding.KindSitemap
	case resourcesync.Description:
		list, index = finding.KindDescription, finding.KindDescriptionIndex
	case resourcesync.CapabilityList:
		list, index = finding.KindCapabilityList, finding.KindCapabilityList
	case resourcesync.ResourceList:
		list, index = finding.KindResourceList, finding.KindResourceListIndex
	case resourcesync.ResourceDump:
		list, index = finding.KindResourceDump, finding.KindResourceDumpIndex
	case resourcesync.ResourceDumpManifest:
		list, index = finding.KindResourceDumpManifest, finding.KindResourceDumpManifest
	case resourcesync.ChangeList:
		list, index = finding.KindChangeList, finding.KindChangeListIndex
	case resourcesync.ChangeDump:
		list, index = finding.KindChangeDump, finding.KindChangeDumpIndex
	case resourcesync.ChangeDumpManifest:
		list, index = finding.KindChangeDumpManifest, finding.KindChangeDumpManifest
	case resourcesync.ResourceListArchive, resourcesync.ResourceDumpArchive, resourcesync.ChangeListArchive, resourcesync.ChangeDumpArchive:
		list, index = finding.KindArchive, finding.KindArchiveIndex
	case resourcesync.ChangeNotification:
		list = finding.KindNotification
	}
	if h.Index {
		return index
	}
	return list
}

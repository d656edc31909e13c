// Package feed checks the feeds of Atom-PMH: each document by itself, the chain of
// archive documents behind a subscription document, the entries of all of them
// about each record, how they are served, and a sample of the representations to
// which their entries link.
package feed

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"lockstep/internal/nesting"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// A walk reads a logical feed once: its subscription document, and the archive
// documents that follow by prev-archive, newest first.
type walk struct {
	visitor *visit.Visitor
	tally   *tally.Tally // of the entries
	chain   []*document
	known   map[string]bool // addresses of the documents in chain
	start   string          // starting address, if that is an archive document
	single  bool            // check only one document
	broke   bool            // the chain could not be followed to its end
	mu      sync.Mutex      // guards the collector while alternate links are followed
}

// Check checks the logical feed one of whose documents is at uri. If its
// documents are replaced while they are read, all are read again before
// contradictions between them become findings.
func Check(ctx context.Context, v *visit.Visitor, uri string) error {
	for attempt := 1; ; attempt++ {
		before := *v.Collector.Report
		v.Collector.Hold()
		v.Flaky.Store(false)
		f := newWalk(v)
		err := f.visit(ctx, uri)
		f.tally.Close()
		if err != nil || !v.Collector.IsWaiting() || attempt == visit.MaxAttempts || !v.Flaky.Load() && !f.replaced(ctx) {
			v.Collector.Release()
			return err
		}
		v.Collector.Drop()
		before.Documents = v.Collector.Report.Documents // each counts once
		*v.Collector.Report = before
	}
}

// CheckDocument checks one feed document, and nothing else.
func CheckDocument(ctx context.Context, v *visit.Visitor, src *visit.Source) error {
	f := newWalk(v)
	defer f.tally.Close()
	doc, err := f.read(ctx, src)
	if err != nil {
		return err
	}
	f.join(doc)
	f.single = true
	return f.entriesOnce(ctx)
}

func newWalk(v *visit.Visitor) *walk {
	return &walk{visitor: v, tally: tally.New(v.Settings.TempDir), known: make(map[string]bool)}
}

// replaced reports whether the subscription document has been replaced by now.
func (f *walk) replaced(ctx context.Context) bool {
	if len(f.chain) == 0 || f.single {
		return false
	}
	doc, err := f.aside(ctx, f.chain[0].uri)
	return err == nil && doc.sum != f.chain[0].sum
}

// aside reads a document without findings, and discards it.
func (f *walk) aside(ctx context.Context, uri string) (*document, error) {
	q := &walk{visitor: f.visitor.Quiet()}
	return q.open(ctx, uri)
}

// open opens a feed document and reads it. The caller reports an error that
// IsMissing as a finding of the document that named it.
func (f *walk) open(ctx context.Context, uri string) (*document, error) {
	if err := f.visitor.Room(uri); err != nil {
		return nil, err
	}
	if f.visitor.Settings.OnDocument != nil {
		f.visitor.Settings.OnDocument(uri)
	}
	a, err := f.visitor.Ask(ctx, opener.Request{URI: uri, Document: true})
	if err != nil {
		return nil, err
	}
	defer a.Body.Close() // read as far as needed
	body := bufio.NewReader(a.Body)
	if head, _ := body.Peek(2); a.Header != nil && bytes.Equal(head, []byte{0x1f, 0x8b}) {
		f.visitor.Collector.In(uri).Errorf("AP-DOC-11", "Content-Encoding", "compressed, which the header does not say: most readers see no XML")
	}
	doc, err := f.read(ctx, &visit.Source{Reader: body, URI: uri, Final: a.URI, Header: a.Header})
	if err != nil {
		return nil, f.visitor.Broken(ctx, uri, err)
	}
	f.headers(doc, a.Header)
	return doc, nil
}

// visit reads the documents and compares them.
func (f *walk) visit(ctx context.Context, uri string) error {
	doc, err := f.open(ctx, uri)
	switch {
	case err != nil:
		return err
	case f.visitor.Settings.Single || !doc.feed:
		f.single = true
		f.join(doc)
		return f.entriesOnce(ctx)
	}
	if doc.current != "" && !doc.named(doc.current) {
		if doc, err = f.fromCurrent(ctx, doc); err != nil {
			return err
		}
	}
	f.join(doc)
	if err := f.conditional(ctx, doc); err != nil {
		return err
	}
	if err := f.follow(ctx); err != nil {
		return err
	}
	if err := f.unchanged(ctx); err != nil {
		return err
	}
	f.documents()
	if f.start != "" && !f.known[f.start] && !f.broke {
		f.visitor.Collector.In(f.start).Errorf("AP-TS-05", "", "the chain of prev-archive from %s does not lead here", f.chain[0].uri)
	}
	return f.entriesOnce(ctx)
}

// join adds a document to the chain.
func (f *walk) join(doc *document) {
	doc.entrySum, doc.entryHash = string(doc.entryHash.Sum(nil)), nil
	f.chain = append(f.chain, doc)
	f.known[doc.uri], f.known[doc.final] = true, true
}

// fromCurrent goes from an archive document to its subscription document
// (AP-HV-14).
func (f *walk) fromCurrent(ctx context.Context, doc *document) (*document, error) {
	p := f.visitor.Collector.In(doc.uri)
	current, err := f.open(ctx, doc.current)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		f.visitor.Collector.Report.Unseen++
	case visit.IsMissing(err):
		p.Warnf("AP-TS-06", "", "the link current leads to %s: %v", doc.current, err)
	case err != nil:
		return nil, err
	case !current.feed:
		p.Warnf("AP-TS-06", "", "the link current leads to %s, which is no feed document", doc.current)
	default:
		f.start = doc.uri
		f.tally.Close() // of the archive document, which is read again with its findings
		f.tally = tally.New(f.visitor.Settings.TempDir)
		f.visitor.Collector.Drop()
		f.visitor.Collector.Hold()
		return f.open(ctx, doc.current)
	}
	return doc, nil
}

// chainShare is the part of the documents of a run that one feed may have, 10,000 by
// default: it bounds a chain without end in which each document has entries of its
// own.
const chainShare = 10

// follow follows the chain, to its end or as far as possible.
func (f *walk) follow(ctx context.Context) error {
	var chain nesting.Walk
	for {
		d := f.chain[len(f.chain)-1]
		if d.prev == "" || !d.whole {
			f.broke = f.broke || !d.whole
			return nil
		}
		p := f.visitor.Collector.In(d.uri)
		if f.known[d.prev] {
			p.Errorf("AP-TS-02", "root", "(I2) prev-archive leads in a circle, back to %s", d.prev)
			f.broke = true
			return nil
		}
		if most := f.visitor.Settings.Documents / chainShare; len(f.chain) >= most {
			return fmt.Errorf("stopped at %s: %d documents of one feed are enough", finding.Printable(d.prev), most)
		}
		older, err := f.open(ctx, d.prev)
		f.broke = err != nil
		switch {
		case errors.Is(err, opener.ErrUnseen):
			f.visitor.Collector.Report.Unseen++
			return nil
		case errors.Is(err, fs.ErrNotExist):
			p.Errorf("AP-TS-02", "root", "(I2) prev-archive leads to %s: nothing is there", d.prev)
			return nil
		case visit.IsMissing(err):
			p.Errorf("AP-TS-02", "root", "(I2) prev-archive leads to %s: %v", d.prev, err)
			return nil
		case err != nil:
			return err
		case !older.feed:
			p.Errorf("AP-TS-02", "root", "(I2) prev-archive leads to %s, which is no feed document", d.prev)
			f.broke = true
			return nil
		case f.known[older.final]:
			p.Errorf("AP-TS-02", "root", "(I2) prev-archive leads in a circle, back to %s", older.final)
			f.broke = true
			return nil
		}
		f.neighbours(d, older)
		f.join(older)
		if older.entries > 0 && older.entrySum != d.entrySum {
			chain.Yield()
		} else if err := chain.Barren(); err != nil {
			f.visitor.Collector.In(older.uri).Errorf("AP-TS-02", "root", "(I2) the chain of prev-archive has no end: %v", err)
			f.broke = true
			return nil
		}
	}
}

// neighbours compares two adjacent documents.
func (f *walk) neighbours(d, older *document) {
	p, q := f.visitor.Collector.In(d.uri), f.visitor.Collector.In(older.uri)
	switch {
	case older.updated.IsZero() || d.entries > 0 && d.oldest.IsZero():
	case d.entries == 0 && !d.updated.Equal(older.updated):
		p.Advisef("AP-TS-13", "root", "the document is empty and of %s, its archive of %s", stamp(d.updated), stamp(older.updated))
	case d.entries == 0:
	case older.updated.After(d.oldest):
		p.Errorf("AP-TS-03", d.oldestAt, "(I3) the entry is of %s, but the archive before it of %s: %s", stamp(d.oldest), stamp(older.updated), older.uri)
	case older.updated.Equal(d.oldest):
		p.Advisef("AP-TS-12", d.oldestAt, "the feed was cut between entries of the same time, %s", stamp(d.oldest))
	}
	first := f.chain[0]
	if d.id != "" && older.id != "" && older.id != first.id && first.id != "" {
		q.Advisef("AP-DOC-04", "root", "its id is %s, that of the feed %s", older.id, first.id)
	}
	switch {
	case older.next == "":
	case d == first:
		q.Warnf("AP-TS-06", "root", "next-archive leads to %s, but this is the newest archive", older.next)
	case !d.named(older.next):
		q.Warnf("AP-TS-06", "root", "next-archive leads to %s, but the document after this one is %s", older.next, d.uri)
	}
}

// documents checks which documents are archives.
func (f *walk) documents() {
	first := f.chain[0]
	if p := (f.visitor.Collector.In(first.uri)); len(f.chain) > 1 && first.archive && f.start == "" {
		p.Warnf("AP-TS-06", "root", "fh:archive in the subscription document")
	}
	for _, d := range f.chain[1:] {
		p := f.visitor.Collector.In(d.uri)
		if !d.archive && d.whole {
			p.Warnf("AP-TS-06", "root", "no fh:archive in an archive document")
		}
		switch {
		case !d.whole:
		case d.current == "":
			p.Warnf("AP-TS-06", "root", "no link current to the subscription document")
		case !first.named(d.current) && f.start == "":
			p.Warnf("AP-TS-06", "root", "the link current leads to %s, not to %s", d.current, first.uri)
		}
		if d.complete {
			p.Advisef("AP-CMP-03", "root", "an archive document says it is complete")
		}
	}
}

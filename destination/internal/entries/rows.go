package entries

import (
	"context"
	"fmt"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/known"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// proven returns what is recorded of a part that need not be read again unless it has
// changed, because the rows of the Journal state the same, and its validators. It returns nil
// if the part has to be read in any case.
func (l *listReading) proven(ctx context.Context, p listPart, depth int) (*known.Part, saved.Validators, error) {
	if depth == 0 || l.Only != nil || l.Prefetch != nil {
		return nil, saved.Validators{}, nil
	}
	part, err := l.Known.Proven(ctx, p.uri, l.entry)
	if part == nil || err != nil || part.Taken().Compare(p.at) < 0 || !part.Named(p.lastmod) { // RS-IDX-07
		return nil, saved.Validators{}, err
	}
	return part, part.Validators, nil
}

// record records what a part stated that was read to its end.
func (l *listReading) record(p listPart, doc *discover.Document, stated *known.Digest) {
	part := stated.Part(saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}, doc.Header.At)
	part.Lastmod = p.lastmod.String()
	for _, w := range doc.Warnings() {
		part.Warnings = append(part.Warnings, w.String())
	}
	l.Known.Record(p.uri, part)
}

// stageRows stages, as the n-th document, what the rows of the Journal state in place of a
// part that has not changed since it was recorded.
func (l *listReading) stageRows(ctx context.Context, p listPart, part *known.Part, n int) error {
	if err := l.beginPart(p, part.Taken()); err != nil {
		return err
	}
	out := l.Stage.Writer()
	defer out.Release()
	var stated known.Digest
	var pos int64
	for w, err := range l.Known.Rows(ctx, part, l.entry) {
		if err != nil {
			return err
		}
		l.Future.Note(w.URI, w.Lastmod)
		stated.Add(&w)
		w.Rank = desired.Rank{Class: desired.Listed, Doc: n, Pos: pos}
		pos++
		if err := out.Add(&w); err != nil {
			return err
		}
	}
	if !stated.Matches(part) {
		return fmt.Errorf("read %s: the state of the mirror has changed meanwhile", fetch.Printable(p.uri)) // unreachable: one run at a time
	}
	now := *part
	now.Lastmod = p.lastmod.String()
	l.Known.Record(p.uri, &now)
	for _, w := range part.Warnings {
		l.ReportWarning(p.uri, fmt.Sprintf("read %s: %s", fetch.Printable(p.uri), w))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nested.Yield()
	l.snap.entries += pos
	if len(l.snap.Parts) <= maxPolledParts {
		l.snap.Parts[p.uri] = part.Validators
	}
	return nil
}

// entry describes the resource of an entry that is not read off a document.
func (l *listReading) entry(e *resourcesync.Entry) desired.Resource { return describe(l.Reader, e) }

package entries

import (
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// An Archived is a document that an archive lists, or a current document of the
// set. Its times are those that the archive states, where it states any; see
// [Reader.Confirm].
type Archived struct {
	Uri     string
	Kind    resourcesync.Capability // ResourceList, ResourceDump, ChangeList or ChangeDump; it may be an index of that (RA-GEN-07)
	Current bool                    // it is listed in the Capability List, or is an open part of such a document
	Approx  bool                    // its times are inferred from its modification time (RA-VER-02)

	At, Completed resourcesync.Datetime // of a snapshot
	From, Until   resourcesync.Datetime // of changes; Until is zero if the document may still grow or does not state its end

	Lastmod resourcesync.Datetime // of the document (RA-DOC-06)
	Place   int                   // position in reading order
	Dated   bool                  // the root element of the document was read
}

// Take copies the times that the document itself states.
func (d *Archived) Take(h *resourcesync.Header) {
	d.Dated = true
	if h.Capability.Changes() {
		if !h.FromUnproven {
			d.From = h.From
		}
		if d.Until = h.Until; h.Living && d.Current {
			d.Until = resourcesync.Datetime{} // RS-VER-10
		}
		return
	}
	if !h.At.IsZero() {
		d.At, d.Completed, d.Approx = h.At, h.Completed, h.Approximate
	}
}

// Confirm opens a document to read its times, unless that was done before. If they
// differ from those in the archive, the document takes precedence and a warning is
// reported (RA-DOC-10). The error is not nil if the document is now of another kind
// than the archive states.
func (r *Reader) Confirm(ctx context.Context, d *Archived) error {
	if d.Dated {
		return nil
	}
	doc, err := r.Open(ctx, d.Uri, saved.Validators{})
	if err != nil {
		return err
	}
	defer doc.Close()
	if err := Expect(doc, d.Kind); err != nil {
		return err
	}
	said := *d
	d.Take(&doc.Header)
	d.differs(r, &said)
	return nil
}

// differs warns if a document states other times than its archive.
func (d *Archived) differs(r *Reader, said *Archived) {
	for _, t := range [...]struct {
		name      string
		said, own resourcesync.Datetime
	}{{"at", said.At, d.At}, {"completed", said.Completed, d.Completed}, {"from", said.From, d.From}, {"until", said.Until, d.Until}} {
		if t.said.IsZero() || t.own.IsZero() || t.said.Compare(t.own) == 0 {
			continue
		}
		r.mu.Lock()
		r.Warn(d.Uri, fmt.Sprintf("read %s: its %s is %s, the archive says %s; the document is right", fetch.Printable(d.Uri), t.name, wording.Time(t.own.Time()), wording.Time(t.said.Time())))
		r.mu.Unlock()
	}
}

// Begins returns the time by which a is sorted: its beginning or, if that is
// unknown, its end.
func (a *Archived) Begins() resourcesync.Datetime {
	if a.From.IsZero() {
		return a.Until
	}
	return a.From
}

// Closed returns the end of the range that a is known to cover at now: an end in
// the future does not count (RS-AMB-25).
func (a *Archived) Closed(now time.Time) resourcesync.Datetime {
	if a.Until.Time().After(now) {
		return resourcesync.Datetime{}
	}
	return a.Until
}

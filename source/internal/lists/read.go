package lists

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// A reader reads the Change Lists of a set that are published.
type reader struct {
	docs  *document.Store
	set   string
	there sizes
}

func (p *publication) reader() *reader { return &reader{p.docs, p.set.Name, p.there} }

// readIndex returns the parts the published index of the Change List names;
// none if there is no index, or none of ours.
func (r *reader) readIndex(ctx context.Context) ([]closedPart, error) {
	name := names.Set(r.set).ChangeList()
	if !r.there.Known(name) {
		return nil, nil
	}
	doc, err := r.docs.Open(ctx, name)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer doc.Close() // opened for reading only
	d := resourcesync.NewReader(doc, resourcesync.ReaderOptions{Base: r.docs.Base.URI(name), Strict: true})
	h, err := d.Header()
	if err != nil || !h.Index || h.Capability != resourcesync.ChangeList || h.Link(resourcesync.RelUp) != r.docs.CapabilityList(r.set) {
		return nil, nil // not ours
	}
	var parts []closedPart
	until := h.From.Time()
	for e, err := range d.Entries() {
		part := closedPart{Name: strings.TrimPrefix(e.Loc, r.docs.Base.Prefix), From: e.From.Time(), Until: e.Until.Time()}
		if err != nil || !names.Set(r.set).IsChangePart(part.Name) || !r.there.Known(part.Name) || !part.From.Equal(until) || until.IsZero() {
			return nil, nil // not as we wrote it
		}
		until = part.Until
		parts = append(parts, part)
	}
	if until != (time.Time{}) {
		return nil, nil
	}
	return r.followParts(ctx, parts)
}

// followParts goes on from the part that an index takes for open, if that has
// been closed since: what the part says of itself holds (RS-CHI-10).
func (r *reader) followParts(ctx context.Context, parts []closedPart) ([]closedPart, error) {
	for {
		last := &parts[len(parts)-1]
		h, err := r.readHeader(ctx, last.Name)
		if err != nil || h.Until.IsZero() {
			return parts, err
		}
		last.Until = h.Until.Time()
		next := closedPart{From: last.Until}
		for n := 1; ; n++ {
			name := names.Set(r.set).ChangeListPart(next.From, n)
			if !r.there.Known(name) {
				break
			}
			next.Name = name
		}
		if next.Name == "" {
			return nil, nil // not as we wrote it
		}
		parts = append(parts, next)
	}
}

// readHeader returns what a document says of itself; nothing if it is none.
func (r *reader) readHeader(ctx context.Context, name string) (resourcesync.Header, error) {
	doc, err := r.docs.Open(ctx, name)
	if err != nil {
		return resourcesync.Header{}, err
	}
	defer doc.Close() // opened for reading only
	h, err := resourcesync.NewReader(doc, resourcesync.ReaderOptions{Base: r.docs.Base.URI(name), Strict: true}).Header()
	if err != nil {
		return resourcesync.Header{}, nil // whatever it is, it is written again
	}
	return h, nil
}

// readChanges reads a published Change List that is no index; the zero Header
// says that it is none of ours.
func (r *reader) readChanges(ctx context.Context, name string) (h resourcesync.Header, entries []resourcesync.Entry, err error) {
	h, entries, wrong, err := r.docs.ReadDocument(ctx, name, func(h *resourcesync.Header) bool {
		return !h.Index && h.Capability == resourcesync.ChangeList && h.Link(resourcesync.RelUp) == r.docs.CapabilityList(r.set)
	})
	if wrong != nil {
		r.docs.Log.WarnContext(ctx, "what was published of changes is unreadable and cannot be archived", slog.String("doc", name), slog.Any("err", wrong))
	}
	return h, entries, err
}

package notify

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
)

// Limits of a notification (RN-PL-06), except for a single change that is larger.
const (
	notifiedEntries = 1000
	notifiedBytes   = 1 << 20
)

// A notification is a payload: some changes of a set, oldest first. It is immutable.
type notification struct {
	from, to Place
	entries  int
	body     []byte

	encode sync.Once
	event  []byte // encoded for event streams, once it was sent to one
}

// weight returns how many bytes it takes in memory, as a payload and as an event.
func (n *notification) weight() int64 { return 2 * int64(len(n.body)) }

// empty reports that it has no entries, because no document can state the changes that
// it covers. It is not sent (RN-PL-10).
func (n *notification) empty() bool { return n.entries == 0 }

// buildNotification builds a notification of the changes after p from the catalog, as
// many as fit, at most through the change numbered upto.
func (s *Channels) buildNotification(ctx context.Context, c *Channel, p Place, upto catalog.Seq) (*notification, error) {
	changes, err := s.readChanges(ctx, c, p.Seq, upto, notifiedBytes)
	if err != nil {
		return nil, err
	}
	for {
		n, fit, err := s.encodeNotification(c, p, changes)
		if err != nil || fit == len(changes) {
			return n, err
		}
		changes = changes[:fit]
	}
}

// readChanges returns the changes after one number and through another, as many as a
// notification may have, or as most bytes of URIs and links allow, if that is less. It
// never ends between two changes of the same instant.
func (s *Channels) readChanges(ctx context.Context, c *Channel, after, upto catalog.Seq, most int) ([]catalog.Change, error) {
	var changes []catalog.Change
	size := 0
	for change, err := range s.opts.Catalog.Changes(ctx, s.opts.Docs.CapabilityList(c.set.Name), after) {
		if err != nil {
			return nil, err
		}
		if change.Seq > upto {
			break
		}
		if n := len(changes); n > 0 && (n >= notifiedEntries || size > most) && change.EventTime.After(changes[n-1].EventTime) {
			break
		}
		size += len(change.URI) + len(change.Foreign.String())
		for i := range change.Links {
			size += len(change.Links[i].Href) + len(change.Links[i].Foreign.String())
		}
		changes = append(changes, change)
	}
	if len(changes) == 0 {
		return nil, errors.New("they are not in the catalog")
	}
	return changes, nil
}

// encodeNotification encodes the payload for changes. If it is too large, n is nil and
// fit is how many of the changes fit, never ending between two changes of the same
// instant.
func (s *Channels) encodeNotification(c *Channel, p Place, changes []catalog.Change) (n *notification, fit int, err error) {
	last := &changes[len(changes)-1]
	n = &notification{from: p, to: Place{last.Seq, last.EventTime.Add(document.Boundary)}}
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, resourcesync.Header{
		Capability: resourcesync.ChangeNotification,                                                              // RN-PL-01, RN-PL-02
		From:       resourcesync.NewDatetime(n.from.Until),                                                       // RN-PL-07: where the one before ended
		Until:      resourcesync.NewDatetime(n.to.Until),                                                         // behind the last event, as in the Change List's parts
		Links:      []resourcesync.Link{{Rel: resourcesync.RelUp, Href: s.opts.Docs.CapabilityList(c.set.Name)}}, // RN-PL-03
	})
	if err != nil {
		return nil, 0, err
	}
	d := document.NewWriter(w, resourcesync.MaxEntries, resourcesync.MaxBytes, slog.New(slog.DiscardHandler)) // problems were logged with the Change List
	describe := c.set.Rules.Describer()
	var e resourcesync.Entry
	for i := range changes { // RN-PL-04: in the order of their times
		describe.Event(&e, &changes[i]) // RN-PL-05, RN-PL-08: as the Change List says it
		if err := d.Add(&e); err != nil {
			return nil, 0, err
		}
		if d.Bytes() > notifiedBytes && fit > 0 {
			return nil, fit, nil
		}
		if i+1 < len(changes) && changes[i+1].EventTime.After(changes[i].EventTime) {
			fit = i + 1
		}
	}
	if err := d.Close(); err != nil {
		return nil, 0, err
	}
	n.entries, n.body = d.Entries(), buf.Bytes()
	if n.empty() {
		n.to.Until = n.from.Until // the interval continues to what is sent next
	}
	return n, len(changes), nil
}

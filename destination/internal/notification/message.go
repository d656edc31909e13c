package notification

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// maxEntries is the number of entries a notification may have (RN-PL-06).
	maxEntries = 50_000

	// maxBytes limits a notification once it is decompressed: it is held in memory,
	// and a few bytes of gzip can expand to many.
	maxBytes = 32 << 20
)

// A message is the content of a message that arrived on a channel.
type message struct {
	kind        kind
	from, until resourcesync.Datetime
	up          string
	doc         int                // its number in the stage
	resources   []desired.Resource // placed in doc, in the order of the entries
	refused     int                // entries that were left out, see RS-SEC-01
	refusal     string             // why the first of them was
	newest      resourcesync.Datetime
	unlocated   error // entries without a readable loc; nil: there are none
}

// A kind says how a message is processed.
type kind uint8

const (
	changes  kind = iota + 1 // its changes are applied
	document                 // another document of the Source: the Source has to be read (RN-FW-05)
	other                    // not about changes: it is discarded (RN-FW-04)
)

// kindOf determines the kind of a message from its header. The topic is known from
// the callback, so the root need not state it (RN-PL-11).
func kindOf(h *resourcesync.Header) kind {
	switch h.Capability {
	case "", resourcesync.ChangeNotification, resourcesync.ChangeList, "changenotification", "change-notifications", "notification": // RN-CH-10
		if h.Index {
			return document
		}
		return changes
	}
	if strings.HasSuffix(strings.ToLower(string(h.Capability)), "notification") {
		return other
	}
	return document
}

// read reads all of a message of the channel topic before any of it is processed: an
// error means that it is malformed (RN-RX-09). It stages nothing but the number of
// the document.
func read(r *entries.Reader, topic string, body []byte) (*message, error) {
	// RN-PL-11: old publishers begin with a line feed.
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 {
		return nil, errors.New("it is empty")
	}
	in := resourcesync.NewReader(bytes.NewReader(body), resourcesync.ReaderOptions{Base: topic, MaxBytes: maxBytes})
	h, err := in.Header()
	if err != nil {
		return nil, err
	}
	m := &message{kind: kindOf(&h)}
	if m.kind != changes {
		return m, nil
	}
	c := &entries.ChangeReader{Reader: r, State: &saved.Set{}, Chain: entries.Chain{Search: entries.NewEventSearch(nil)}}
	d := entries.DocReading{Changes: c, Prefix: sha256.New()}
	d.N, d.Info = r.Stage.AddOrdered("")
	m.doc = d.N
	plain := 0 // entries that state no change
	for e, err := range in.Entries() {
		if err != nil {
			return nil, err
		}
		if len(m.resources)+m.refused+plain == maxEntries {
			return nil, fmt.Errorf("it has more than %d entries", maxEntries)
		}
		if e.Change == 0 {
			plain++
			continue
		}
		w := r.Resource(&e)
		// The Source did not send this itself: its hashes prove nothing about content
		// from hosts that the Source may not name. Other links are never followed without
		// a check of their own.
		w.Links = slices.DeleteFunc(w.Links, func(l resourcesync.Link) bool {
			return (l.Rel == resourcesync.RelMemento || !journal.KeepsLink(l.Rel)) && r.Refuse(l.Href) != ""
		})
		d.Place(&w, &e)
		w.Unconfirmed = true
		if refusal := r.Refuse(w.URI); refusal != "" { // WS-SEC-08, deletions not excepted
			if m.refused++; m.refused == 1 {
				m.refusal = fmt.Sprintf("%s: %s", fetch.Printable(w.URI), refusal)
			}
			continue
		}
		m.resources = append(m.resources, w)
	}
	if h, err = in.Header(); err != nil { // it is complete now
		return nil, err
	}
	m.unlocated = in.Unlocated()
	m.from, m.until, m.up = h.From, h.Until, h.Link(resourcesync.RelUp)
	if len(m.resources)+m.refused == 0 && plain > 0 {
		m.kind = document // a Sitemap, or a list that does not say what it is
		return m, nil
	}
	r.Stage.Documents[m.doc].AllNew = true // a Pass omits what is known
	for i := range m.resources {
		if t := r.Stage.EventTime(&m.resources[i]); !t.IsZero() && (m.newest.IsZero() || t.Compare(m.newest) > 0) {
			m.newest = t
		}
	}
	if m.until.IsZero() {
		m.until = m.newest // its newest event is covered
	}
	return m, nil
}

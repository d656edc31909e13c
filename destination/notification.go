package destination

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
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// maxNotified is how many entries a notification may have (RN-PL-06).
	maxNotified = 50_000

	// maxNotification caps a notification once it is decompressed: it is held
	// in memory, and a few bytes of gzip can expand to many.
	maxNotification = 32 << 20
)

// A notification is what a message on a channel says.
type notification struct {
	kind        messageKind
	from, until resourcesync.Datetime
	up          string
	doc         int                // its number in the stage
	wants       []desired.Resource // placed in doc, in order of the entries
	refused     int                // entries that were left out, see RS-SEC-01
	refusal     string             // why the first was
	newest      resourcesync.Datetime
	unlocated   error // entries without a readable loc; nil: there are none
}

// A messageKind says what is to be done about a message.
type messageKind uint8

const (
	messageChanges messageKind = iota + 1 // apply them
	messageLook                           // another document of the Source: there is something to look at (RN-FW-05)
	messageOther                          // none of ours: discard it (RN-FW-04)
)

// kindOfMessage determines the kind of a message from its header. The topic is
// known from the callback, so the root need not state it (RN-PL-11).
func kindOfMessage(h *resourcesync.Header) messageKind {
	switch h.Capability {
	case "", resourcesync.ChangeNotification, resourcesync.ChangeList, "changenotification", "change-notifications", "notification": // RN-CH-10
		if h.Index {
			return messageLook
		}
		return messageChanges
	}
	if strings.HasSuffix(strings.ToLower(string(h.Capability)), "notification") {
		return messageOther
	}
	return messageLook
}

// readNotification reads a message of the channel topic, all of it before
// anything is done about it: an error says that it is malformed (RN-RX-09).
// Nothing is staged but the number of the document.
func readNotification(r *entries.Reader, topic string, body []byte) (*notification, error) {
	// RN-PL-11: old publishers begin with a line feed.
	body = bytes.TrimLeft(body, " \t\r\n")
	if len(body) == 0 {
		return nil, errors.New("it is empty")
	}
	in := resourcesync.NewReader(bytes.NewReader(body), resourcesync.ReaderOptions{Base: topic, MaxBytes: maxNotification})
	h, err := in.Header()
	if err != nil {
		return nil, err
	}
	n := &notification{kind: kindOfMessage(&h)}
	if n.kind != messageChanges {
		return n, nil
	}
	c := &entries.ChangeReader{Reader: r, State: &saved.Set{}, Chain: entries.Chain{Search: entries.NewEventSearch(nil)}}
	d := entries.DocReading{Changes: c, Prefix: sha256.New()}
	d.N, d.Info = r.Stage.AddOrdered("")
	n.doc = d.N
	plain := 0 // entries that say of no change
	for e, err := range in.Entries() {
		if err != nil {
			return nil, err
		}
		if len(n.wants)+n.refused+plain == maxNotified {
			return nil, fmt.Errorf("it has more than %d entries", maxNotified)
		}
		if e.Change == 0 {
			plain++
			continue
		}
		w := r.Resource(&e)
		// The Source did not send this itself: its hashes vouch for nothing that
		// comes from hosts the Source may not name.
		w.Links = slices.DeleteFunc(w.Links, func(l resourcesync.Link) bool { return r.Refuse(l.Href) != "" })
		d.Place(&w, &e)
		w.Unconfirmed = true
		if refusal := r.Refuse(w.URI); refusal != "" { // WS-SEC-08, deletions not excepted
			if n.refused++; n.refused == 1 {
				n.refusal = fmt.Sprintf("%s: %s", fetch.Printable(w.URI), refusal)
			}
			continue
		}
		n.wants = append(n.wants, w)
	}
	if h, err = in.Header(); err != nil { // all of it, now
		return nil, err
	}
	n.unlocated = in.Unlocated()
	n.from, n.until, n.up = h.From, h.Until, h.Link(resourcesync.RelUp)
	if len(n.wants)+n.refused == 0 && plain > 0 {
		n.kind = messageLook // a Sitemap, or a list that does not say what it is
		return n, nil
	}
	r.Stage.Documents[n.doc].AllNew = true // what is known is left out by us
	for i := range n.wants {
		if t := r.Stage.EventTime(&n.wants[i]); !t.IsZero() && (n.newest.IsZero() || t.Compare(n.newest) > 0) {
			n.newest = t
		}
	}
	if n.until.IsZero() {
		n.until = n.newest // it covers that much
	}
	return n, nil
}

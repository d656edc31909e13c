package entries

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"iter"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// A changeDoc is a list of changes being read: a Change List, or the manifest of a
// package of a Change Dump.
type changeDoc struct {
	uri        string // of the list, or the package
	pkg        int    // number of the package; zero: a Change List
	validators saved.Validators
	doc        interface {
		Entries() iter.Seq2[resourcesync.Entry, error]
		Close() error
	}
	header    *resourcesync.Header
	warn      func()       // reports the warnings of the document after it was read
	unlocated func() error // returns an error if entries were skipped because they have no readable loc
}

func (c *ChangeReader) newChangeDoc(doc *discover.Document) *changeDoc {
	return &changeDoc{uri: doc.URI, validators: saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}, doc: doc, header: &doc.Header,
		warn: func() { c.ReportWarnings(doc) }, unlocated: doc.Unlocated}
}

func (c *ChangeReader) newPackageDoc(pkg int, m *dump.Manifest) *changeDoc {
	ref, _ := c.Packages.Get(pkg)
	return &changeDoc{uri: ref.URI, pkg: pkg, doc: m, header: &m.Header, warn: func() { reportManifest(c.Reader, m) }, unlocated: m.Unlocated}
}

// again opens the list once more.
func (t *changeDoc) again(ctx context.Context, c *ChangeReader) (*changeDoc, error) {
	if t.pkg == 0 {
		doc, err := c.Open(ctx, t.uri, saved.Validators{})
		if err != nil {
			return nil, err
		}
		return c.newChangeDoc(doc), nil
	}
	m, err := c.openNumbered(ctx, t.pkg, true)
	if err != nil {
		return nil, err
	}
	return c.newPackageDoc(t.pkg, m), nil
}

// maxSeen limits the number of events remembered for one instant, so that a Source
// that gives all its changes the same time costs no more than this. Events beyond
// the limit are processed again, which does no harm.
const maxSeen = 20_000

// errRewritten reports that a list no longer begins with the entries already read.
var errRewritten = errors.New("rewritten")

// mayResume reports whether t looks like the list the cursor was set in.
func (c *ChangeReader) mayResume(t *changeDoc) bool {
	k := &c.State.Cursor
	if k.Prefix == "" || c.since.IsZero() || c.Chain.Resumed {
		return false
	}
	if from := saved.Time(t.header.From); !from.IsZero() || !k.From.IsZero() {
		return from.Equal(k.From)
	}
	return t.uri == k.URI
}

// readEntries stages the entries of one list that may be new.
func (c *ChangeReader) readEntries(ctx context.Context, t *changeDoc, said resourcesync.Metadata, resume bool) error {
	d, older := DocReading{Changes: c, Prefix: sha256.New()}, false
	d.N, d.Info = c.Stage.AddOrdered(c.order)
	k := c.State.Cursor
	for e, err := range t.doc.Entries() {
		if err != nil {
			return err
		}
		if resume && d.pos == k.Count {
			if d.sum() != k.Prefix {
				return errRewritten
			}
			c.resume(d.N)
		}
		if e.Change == 0 {
			continue // not a change; the Reader has warned
		}
		w := c.Resource(&e)
		if c.overtakes && c.Future.Has(e.EventTime()) {
			doubt(&w)
		}
		if t.pkg > 0 && !w.Gone {
			w.Member, w.ManifestPackage = memberOf(t.pkg, &e), t.pkg
		}
		d.Place(&w, &e)
		c.saw(&w, &e)
		if t := e.EventTime(); !t.IsZero() && t.Compare(c.since) < 0 && !t.Time().Before(c.State.ListAt) {
			older = true
		}
		if resume && w.Pos < k.Count || !c.behind && !c.Chain.Resumed && d.old(&w) {
			continue
		}
		if c.latest != nil && c.latest.Has(&w, &e) {
			continue
		}
		if err := c.add(ctx, &w); err != nil {
			return &content.LocalError{Err: err}
		}
	}
	if resume && !c.Chain.Resumed {
		if d.pos != k.Count || d.sum() != k.Prefix {
			return errRewritten
		}
		c.resume(d.N)
	}
	c.skip(t.uri, t.unlocated())
	c.Chain.Grew = c.Chain.Grew || resume && k.Count > 0 && d.pos > k.Count
	grows := d.end(t, said)
	if older && !c.Chain.Resumed {
		c.Chain.Older = true
		c.Chain.added = c.Chain.added || grows // a later list does not show whether it begins as it did
	}
	return nil
}

// add stages w.
func (c *ChangeReader) add(ctx context.Context, w *desired.Resource) error {
	if !concerns(c.Reader, w.URI) {
		return nil
	}
	if c.out != nil {
		return c.out.Add(w)
	}
	return c.Stage.Add(ctx, *w)
}

// saw records that a list contains w, if notifications wait for that.
func (c *ChangeReader) saw(w *desired.Resource, e *resourcesync.Entry) {
	if p := c.Pushed(); p.HasEvents() {
		c.mu.Lock()
		defer c.mu.Unlock()
		p.Listed(w.URI, e.EventTime(), w.Gone)
	}
}

// resume records that the cursor was found in the n-th document: the documents
// before it were read to their ends.
func (c *ChangeReader) resume(n int) {
	c.Chain.Resumed = true
	for i := range n {
		c.Stage.Documents[i].Passed = true
	}
}

// A DocReading is the state of reading one list.
type DocReading struct {
	Changes    *ChangeReader
	N          int // number of the document in the stage
	Info       *stage.Document
	pos        int64
	Prefix     hash.Hash
	event, mod resourcesync.Datetime // of the previous entry, see [desired.Rank]
	first      resourcesync.Datetime
	buf        []byte
	alone      string           // fingerprint of the first event of an instant
	before     desired.Resource // that event itself, where its fingerprint is not computed yet
	twins      map[string]int   // occurrences of each fingerprint at that instant; nil: there was one event
	newest     [2]newest        // by event time and by modification time
}

// newest contains the events with the greatest time so far.
type newest struct {
	at   resourcesync.Datetime
	seen []string
	one  desired.Resource // an event whose fingerprint is not in seen yet
	only bool             // one is set
}

func (d *DocReading) sum() string {
	return base64.RawStdEncoding.EncodeToString(d.Prefix.Sum(nil)[:18])
}

// Place sets the position of w among the changes.
func (d *DocReading) Place(w *desired.Resource, e *resourcesync.Entry) {
	info := d.Info
	before, beforeMod := d.event, d.mod
	if !e.Datetime.IsZero() {
		d.event = e.Datetime
		info.Dated = true
	}
	if !e.Lastmod.IsZero() {
		d.mod = e.Lastmod
	}
	now, then := d.mod, beforeMod
	if info.Dated {
		now, then = d.event, before
	}
	if d.pos > 0 {
		info.Rising = info.Rising || now.Compare(then) > 0
		info.Falling = info.Falling || now.Compare(then) < 0
	}
	w.Rank = desired.Rank{Class: desired.Changed, Doc: d.N, Pos: d.pos, Event: d.event, Modified: d.mod}
	plain := d.number(w, now, d.pos == 0 || now.Compare(then) != 0)
	d.pos++

	if look := d.Changes.Chain.Search; len(look.marks) > 0 && now.Time().After(d.Changes.State.SeenTime) {
		if later, ok := look.marks[desired.MarkOf(w.URI)]; ok {
			later.Store(true)
		}
	}
	if !d.Changes.isPast() {
		d.buf = desired.AppendString(d.buf[:0], plain)
		d.Prefix.Write(d.buf) // writing to a hash never fails
	}
	if t := e.EventTime(); !t.IsZero() && (d.first.IsZero() || t.Compare(d.first) < 0) {
		d.first = t
	}
	if w.Nth > 0 {
		plain = "" // it is the fingerprint of the first of them
	}
	for i, t := range [2]resourcesync.Datetime{d.event, d.mod} {
		if t.Compare(now) == 0 {
			d.note(i, w, t, plain)
		} else {
			d.note(i, w, t, "")
		}
	}
}

// isPast reports whether the documents are archived ones, which need no cursor and
// only few fingerprints.
func (c *ChangeReader) isPast() bool { return c.order != "" }

// number counts how often the same change was listed at the instant now; first says
// that w is the first change of that instant. It returns the fingerprint of w
// without its count, or "" if it is not needed.
func (d *DocReading) number(w *desired.Resource, now resourcesync.Datetime, first bool) string {
	if first {
		d.twins = nil
		if d.Changes.isPast() {
			d.before = bare(w)
			return ""
		}
		plain := desired.Fingerprint(w, now)
		d.alone = plain
		return plain
	}
	if d.twins == nil {
		if d.Changes.isPast() {
			d.alone = desired.Fingerprint(&d.before, now)
		}
		d.twins = map[string]int{d.alone: 1}
	}
	plain := desired.Fingerprint(w, now)
	w.Nth = d.twins[plain]
	d.twins[plain]++
	return plain
}

// bare returns the fields of w that a fingerprint is computed from.
func bare(w *desired.Resource) desired.Resource {
	return desired.Resource{URI: w.URI, Change: w.Change, Lastmod: w.Lastmod, Length: w.Length, Hashes: w.Hashes, Rank: w.Rank}
}

func hasKey(m map[string]bool, k string) bool {
	_, ok := m[k]
	return ok
}

// note remembers w if it is among the newest events, and records whether it is one
// of the events seen in the last reading. f is its fingerprint at t, or "" if that
// is not known.
func (d *DocReading) note(i int, w *desired.Resource, t resourcesync.Datetime, f string) {
	if t.IsZero() {
		return
	}
	n := &d.newest[i]
	c := t.Compare(n.at)
	if c > 0 || n.at.IsZero() {
		n.at, n.seen, n.only = t, nil, false
	}
	seen := saved.Time(t).Equal(d.Changes.State.SeenTime)
	switch {
	case c < 0 && !seen:
		return
	case f == "" && !seen && len(n.seen) == 0 && !n.only:
		n.one, n.only = bare(w), true // most events are followed by a newer one, so the fingerprint is computed later
		return
	case f == "":
		f = desired.Fingerprint(w, t)
	}
	if c >= 0 {
		n.settle()
		if len(n.seen) < maxSeen {
			n.seen = append(n.seen, f)
		}
	}
	if seen {
		if found, ok := d.Changes.Chain.Search.want[f]; ok {
			found.Store(true)
		}
	}
}

// settle computes the fingerprint of an event that was remembered without one.
func (n *newest) settle() {
	if n.only {
		n.seen, n.only = append(n.seen, desired.Fingerprint(&n.one, n.at)), false
	}
}

// old reports whether w was certainly processed before.
func (d *DocReading) old(w *desired.Resource) bool {
	if d.Changes.since.IsZero() || w.Event.IsZero() || w.Modified.IsZero() {
		return false
	}
	return w.Event.Compare(d.Changes.since) < 0 && w.Modified.Compare(d.Changes.since) < 0
}

// end records what the header of the list states about the list as a whole. It reports whether
// the list grows, also by what its index states.
func (d *DocReading) end(t *changeDoc, said resourcesync.Metadata) (grows bool) {
	c, h, info := &d.Changes.Chain, t.header, d.Info
	from, until := h.From, h.Until // RS-CHI-10: the list takes precedence
	stated := !from.IsZero() && !h.FromUnproven
	if !stated {
		from, stated = said.From, !said.From.IsZero()
	}
	if !stated {
		from = d.first // RS-MD-14
	}
	if c.Lists++; c.Lists == 1 {
		c.From, c.Proven = from, stated
		if t.pkg > 0 && !said.From.IsZero() && said.From.Compare(from) < 0 {
			c.From, c.Proven = said.From, true
		}
	}
	if !d.Changes.last.IsZero() && !from.IsZero() && d.Changes.last.Compare(from) < 0 {
		c.Gap = true
	}
	if until.IsZero() && t.pkg > 0 {
		until = said.Until // a package does not grow (RS-CD-06)
	}
	d.Changes.last = until
	grows = until.IsZero() || until.Time().After(time.Now()) // RS-AMB-25
	c.loose = c.loose || grows
	c.falling = c.falling || info.Falling
	info.AllNew = d.Changes.behind || c.Resumed
	if c.Resumed {
		d.Changes.behind = true
	}
	if grows && t.pkg == 0 {
		c.Open = append(c.Open, t.uri)
		c.Polled[t.uri] = t.validators
	}
	if until.Compare(c.Until) > 0 { // without one, only its events show how far it reaches
		c.Until = until
	}
	if t.uri == d.Changes.State.Changes {
		c.Open = nil // it is polled in any case
		c.Polled[t.uri] = t.validators
	}
	n := &d.newest[1]
	if info.Dated {
		n = &d.newest[0]
	}
	n.settle()
	switch cmp := n.at.Compare(c.Newest); {
	case n.at.IsZero():
	case cmp > 0 || c.Newest.IsZero():
		c.Newest, c.Seen = n.at, n.seen
	case cmp == 0:
		c.Seen = append(c.Seen, n.seen...)
	}
	c.Cursor = saved.Cursor{URI: t.uri, From: saved.Time(h.From), Count: d.pos, Prefix: d.sum()}
	return grows && (said.Until.IsZero() || said.Until.Time().After(time.Now()))
}

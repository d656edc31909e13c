package destination

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"slices"

	"lockstep/discover"
	"lockstep/resourcesync"
)

// A chain is what a reading of a set's Change Lists found.
type chain struct {
	unchanged bool                  // nothing was written since the last reading
	complete  bool                  // all that had to be read was
	lists     int                   // read
	history   resourcesync.Datetime // from as the first document read states it, list or index
	from      resourcesync.Datetime // what is covered begins here; zero if not known
	proven    bool                  // from was stated, not guessed from the events
	gap       bool                  // between two lists
	until     resourcesync.Datetime // end of the last closed list
	newest    resourcesync.Datetime // event
	seen      []string              // fingerprints of the newest events
	cursor    cursor
	resumed   bool // the cursor of the last reading was found: nothing is missing behind it
	grew      bool // there was something before it, and there was more behind it
	rewritten bool // the list the cursor was set in does not begin as it did
	lost      bool // events that were read then are gone
	polled    map[string]validators
	open      []string
}

// A changeReader reads the Change Lists of a set from the watermark on.
type changeReader struct {
	*setReader
	since  resourcesync.Datetime
	state  *setState // of the last reading; its cursor and events are looked for
	chain  chain
	last   resourcesync.Datetime // until of the list before
	behind bool                  // the lists to come begin behind the cursor
	want   map[string]bool       // fingerprints looked for
	marks  map[string]bool       // their resources; true with an event after those
}

// readChanges stages the changes since a watermark. Of state are used: the
// validators, if polling; the cursor and the newest events.
func (r *setReader) readChanges(ctx context.Context, since resourcesync.Datetime, state *setState, poll bool) (chain, error) {
	for again := false; ; again = true {
		c := &changeReader{setReader: r, since: since, state: state}
		c.begin()
		err := c.read(ctx, poll && !again, again)
		if errors.Is(err, errAgain) {
			r.stage.voidChanges()
			continue
		}
		c.chain.lost = c.judge()
		return c.chain, err
	}
}

func (c *changeReader) begin() {
	c.chain = chain{complete: true, polled: map[string]validators{}}
	c.visited, c.parts = map[string]bool{}, 0
	c.want, c.marks = map[string]bool{}, map[string]bool{}
	for _, f := range c.state.Seen {
		c.want[f] = true
		c.marks[resourceMark(f)] = false
	}
	c.stage.since = c.since
	c.stage.seen = map[string]bool{}
	for _, f := range c.state.Seen {
		c.stage.seen[f] = true
	}
}

// read polls what can have changed, and reads from the top what did.
func (c *changeReader) read(ctx context.Context, poll, again bool) error {
	top := c.state.Changes
	var v validators
	if poll {
		v = c.state.Polled[top]
	}
	doc, err := c.open(ctx, top, v)
	if errors.Is(err, discover.ErrNotModified) {
		c.chain.polled[top] = v
		if len(c.state.Open) == 0 {
			c.chain.unchanged = true
			return nil
		}
		return c.pollOpen(ctx)
	}
	if err != nil {
		return c.broken(ctx, top, err, &c.chain.complete, 0, again)
	}
	_ = c.enter(top, 0) // the first cannot have been visited
	return c.readDoc(ctx, doc, resourcesync.Metadata{}, 0, again)
}

// pollOpen looks at the open lists of an index that did not change.
func (c *changeReader) pollOpen(ctx context.Context) error {
	c.chain.unchanged = true
	for _, uri := range c.state.Open {
		v := c.state.Polled[uri]
		doc, err := c.open(ctx, uri, v)
		switch {
		case errors.Is(err, discover.ErrNotModified):
			c.chain.polled[uri] = v
			c.chain.open = append(c.chain.open, uri)
			continue
		case err != nil && ctx.Err() == nil:
			return errAgain // RS-AMB-26: the index tells what became of it
		case err != nil:
			return context.Cause(ctx)
		}
		c.chain.unchanged = false
		if err := c.readDoc(ctx, doc, resourcesync.Metadata{}, 1, true); err != nil {
			return err
		}
	}
	return nil
}

// readDoc reads a Change List or index, and closes it.
func (c *changeReader) readDoc(ctx context.Context, doc *discover.Document, said resourcesync.Metadata, depth int, again bool) error {
	defer doc.Close()
	if err := expect(doc, resourcesync.ChangeList, depth); err != nil {
		return c.broken(ctx, doc.URI, err, &c.chain.complete, depth, again)
	}
	if depth == 0 {
		c.chain.history = doc.Header.From
	}
	if doc.Header.Index {
		return c.readIndex(ctx, doc, depth, again)
	}
	err := c.readEntries(ctx, doc, said, c.mayResume(doc))
	if errors.Is(err, errRewritten) {
		c.chain.rewritten = true
		// It is not what the cursor was set in: read it by the times.
		doc.Close()
		fresh, oerr := c.open(ctx, doc.URI, validators{})
		if oerr != nil {
			return c.broken(ctx, doc.URI, oerr, &c.chain.complete, depth, again)
		}
		defer fresh.Close()
		doc, err = fresh, c.readEntries(ctx, fresh, said, false)
	}
	if err != nil {
		var local *localError
		if errors.As(err, &local) {
			return local.err
		}
		return c.broken(ctx, doc.URI, err, &c.chain.complete, depth, again)
	}
	c.tellWarnings(doc)
	return nil
}

// readIndex reads the lists of an index that may hold changes since the
// watermark, oldest first.
func (c *changeReader) readIndex(ctx context.Context, doc *discover.Document, depth int, again bool) error {
	parts, err := c.partsOf(doc)
	if err != nil {
		if berr := c.broken(ctx, doc.URI, err, &c.chain.complete, depth, again); berr != nil {
			return berr
		}
	} else {
		c.chain.polled[doc.URI] = validators{doc.ETag, doc.LastModified}
	}
	// RS-CHI-02 wants them in order; who does not keep it must not show a gap.
	if !slices.ContainsFunc(parts, func(e resourcesync.Entry) bool { return e.From.IsZero() }) {
		slices.SortStableFunc(parts, func(a, b resourcesync.Entry) int { return a.From.Compare(b.From) })
	}
	for i := range parts {
		p := &parts[i]
		if !p.Until.IsZero() && !c.since.IsZero() && p.Until.Compare(c.since) < 0 {
			c.last = p.Until
			continue // RS-CHI-08
		}
		if err := c.enter(p.Loc, depth+1); err != nil {
			c.fail(p.Loc, err)
			c.chain.complete = false
			continue
		}
		part, err := c.open(ctx, p.Loc, validators{})
		if err != nil {
			if berr := c.broken(ctx, p.Loc, err, &c.chain.complete, depth+1, again); berr != nil {
				return berr
			}
			continue
		}
		if err := c.readDoc(ctx, part, p.Metadata, depth+1, again); err != nil {
			return err
		}
	}
	return nil
}

// errRewritten says that a list does not begin with what we know of it.
var errRewritten = errors.New("rewritten")

// mayResume reports whether doc looks like the list the cursor was set in.
func (c *changeReader) mayResume(doc *discover.Document) bool {
	k := &c.state.Cursor
	if k.Prefix == "" || c.since.IsZero() || c.chain.resumed {
		return false
	}
	if from := stateTime(doc.Header.From); !from.IsZero() || !k.From.IsZero() {
		return from.Equal(k.From)
	}
	return doc.URI == k.URI
}

// readEntries stages the entries of one list that may be new.
func (c *changeReader) readEntries(ctx context.Context, doc *discover.Document, said resourcesync.Metadata, resume bool) error {
	d := docReading{changeReader: c, n: c.stage.addDoc(), prefix: sha256.New()}
	k := c.state.Cursor
	for e, err := range doc.Entries() {
		if err != nil {
			return err
		}
		if resume && d.pos == k.Count {
			if d.sum() != k.Prefix {
				return errRewritten
			}
			c.chain.resumed = true
		}
		if e.Change == 0 {
			continue // not a change; the Reader has warned
		}
		w := c.wantOf(&e)
		d.place(&w, &e)
		if resume && w.pos < k.Count || !c.behind && !c.chain.resumed && d.old(&w) {
			continue
		}
		if err := c.stage.add(ctx, w); err != nil {
			return &localError{err}
		}
	}
	if resume && !c.chain.resumed {
		if d.pos != k.Count || d.sum() != k.Prefix {
			return errRewritten
		}
		c.chain.resumed = true
	}
	c.chain.grew = c.chain.grew || resume && k.Count > 0 && d.pos > k.Count
	d.end(doc, said)
	return nil
}

// A docReading is one list being read.
type docReading struct {
	*changeReader
	n          int // number of the document in the stage
	pos        int64
	prefix     hash.Hash
	event, mod resourcesync.Datetime // of the entry before, see rank
	first      resourcesync.Datetime
	buf        []byte
	twins      map[string]int // how often the same was said at d.event
	newest     [2]newest      // by event, by mod
}

// newest are the events with the greatest time so far.
type newest struct {
	at   resourcesync.Datetime
	seen []string
}

func (d *docReading) sum() string {
	return base64.RawStdEncoding.EncodeToString(d.prefix.Sum(nil)[:18])
}

// place gives w its place among the changes.
func (d *docReading) place(w *want, e *resourcesync.Entry) {
	info := &d.stage.docs[d.n]
	before, beforeMod := d.event, d.mod
	if !e.Datetime.IsZero() {
		d.event = e.Datetime
		info.dated = true
	}
	if !e.Lastmod.IsZero() {
		d.mod = e.Lastmod
	}
	now, then := d.mod, beforeMod
	if info.dated {
		now, then = d.event, before
	}
	if d.pos > 0 {
		info.rising = info.rising || now.Compare(then) > 0
		info.falling = info.falling || now.Compare(then) < 0
	}
	if now.Compare(then) != 0 || d.twins == nil {
		d.twins = map[string]int{}
	}
	w.rank = rank{class: wantChange, doc: d.n, pos: d.pos, event: d.event, mod: d.mod}
	plain := fingerprint(w, now)
	w.nth = d.twins[plain]
	d.twins[plain]++
	d.pos++

	if len(d.marks) > 0 && now.Time().After(d.state.SeenTime) {
		if m := resourceMark(plain); hasKey(d.marks, m) {
			d.marks[m] = true
		}
	}
	d.buf = appendString(d.buf[:0], plain)
	d.prefix.Write(d.buf) // a hash never fails
	if t := e.EventTime(); !t.IsZero() && (d.first.IsZero() || t.Compare(d.first) < 0) {
		d.first = t
	}
	if w.nth > 0 {
		plain = fingerprint(w, now)
	}
	for i, t := range [2]resourcesync.Datetime{d.event, d.mod} {
		if t.Compare(now) == 0 {
			d.note(i, w, t, plain)
		} else {
			d.note(i, w, t, "")
		}
	}
}

func hasKey(m map[string]bool, k string) bool {
	_, ok := m[k]
	return ok
}

// note remembers w if it is among the newest events, and looks whether it is
// one of those seen before. f is its fingerprint at t, if it is known.
func (d *docReading) note(i int, w *want, t resourcesync.Datetime, f string) {
	if t.IsZero() {
		return
	}
	n := &d.newest[i]
	c := t.Compare(n.at)
	if c > 0 || n.at.IsZero() {
		n.at, n.seen = t, nil
	}
	seen := stateTime(t).Equal(d.state.SeenTime)
	if c < 0 && !seen {
		return
	}
	if f == "" {
		f = fingerprint(w, t)
	}
	if c >= 0 && len(n.seen) < maxSeen {
		n.seen = append(n.seen, f)
	}
	if seen {
		delete(d.want, f)
	}
}

// old reports whether w was certainly processed before.
func (d *docReading) old(w *want) bool {
	if d.since.IsZero() || w.event.IsZero() || w.mod.IsZero() {
		return false
	}
	return w.event.Compare(d.since) < 0 && w.mod.Compare(d.since) < 0
}

// end books what the list as a whole tells.
func (d *docReading) end(doc *discover.Document, said resourcesync.Metadata) {
	c, h, info := &d.chain, &doc.Header, &d.stage.docs[d.n]
	from, until := h.From, h.Until // RS-CHI-10: the list wins
	stated := !from.IsZero()
	if !stated {
		from, stated = said.From, !said.From.IsZero()
	}
	if !stated {
		from = d.first // RS-MD-14
	}
	if c.lists++; c.lists == 1 {
		c.from, c.proven = from, stated
	}
	if !d.last.IsZero() && !from.IsZero() && d.last.Compare(from) < 0 {
		c.gap = true
	}
	d.last = until
	info.allNew = d.behind || c.resumed
	if c.resumed {
		d.behind = true
	}
	if until.IsZero() {
		c.open = append(c.open, doc.URI)
		c.polled[doc.URI] = validators{doc.ETag, doc.LastModified}
	} else if until.Compare(c.until) > 0 {
		c.until = until
	}
	if doc.URI == d.state.Changes {
		c.open = nil // it is polled anyway
		c.polled[doc.URI] = validators{doc.ETag, doc.LastModified}
	}
	n := d.newest[1]
	if info.dated {
		n = d.newest[0]
	}
	switch cmp := n.at.Compare(c.newest); {
	case n.at.IsZero():
	case cmp > 0 || c.newest.IsZero():
		c.newest, c.seen = n.at, n.seen
	case cmp == 0:
		c.seen = append(c.seen, n.seen...)
	}
	c.cursor = cursor{URI: doc.URI, From: stateTime(h.From), Count: d.pos, Prefix: d.sum()}
}

// judge reports whether the history was rewritten: events that were read before
// are gone though it claims to reach back to them, its beginning, which only
// moves forward, is earlier than it was (RS-CHI-07), or a Source that only ever
// appended did something else (RS-CHL-06). Of others, events whose resource has
// a later one may have been dropped for it.
func (c *changeReader) judge() bool {
	k := &c.chain
	if k.unchanged || k.resumed || !k.complete || k.lists == 0 {
		return false
	}
	if t := stateTime(k.history); !t.IsZero() && t.Before(c.state.History) || k.rewritten && c.state.Appends {
		return true
	}
	if len(c.want) == 0 {
		return false
	}
	seenTime := resourcesync.NewDatetime(c.state.SeenTime)
	if !k.proven || k.from.Compare(seenTime) >= 0 {
		return false
	}
	if k.newest.Compare(seenTime) < 0 {
		return true
	}
	for f := range c.want {
		if !c.marks[resourceMark(f)] {
			return true
		}
	}
	return false
}

package destination

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"hash"
	"iter"
	"slices"

	"lockstep/discover"
	"lockstep/resourcesync"
)

// A chain is what a reading of a set's Change Lists found.
type chain struct {
	unchanged bool                  // nothing was written since the last reading
	dump      bool                  // it was a Change Dump: the manifests of its packages are the lists
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
	resumed   bool  // the cursor of the last reading was found: nothing is missing behind it
	grew      bool  // there was something before it, and there was more behind it
	rewritten bool  // the list the cursor was set in does not begin as it did
	lost      bool  // events that were read then are gone
	vanished  error // why a part cannot be had, if there is none any more: what it told may be missing
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
	wanted := resourcesync.ChangeList
	if depth == 0 {
		c.chain.history = doc.Header.From
		c.chain.dump = doc.Header.Capability == resourcesync.ChangeDump
	}
	if c.chain.dump {
		wanted = resourcesync.ChangeDump
	}
	if err := expect(doc, wanted, depth); err != nil {
		return c.missing(ctx, doc.URI, err, depth, again)
	}
	switch {
	case doc.Header.Index:
		return c.readIndex(ctx, doc, depth, again)
	case c.chain.dump:
		return c.readDump(ctx, doc, depth, again)
	}
	return c.readList(ctx, c.tellingOf(doc), said, depth, again)
}

// A telling is a list of changes being read: a Change List, or the manifest of
// a package of a Change Dump.
type telling struct {
	uri string // of the list, or the package
	pkg int    // number of the package; zero: it is a list
	validators
	doc interface {
		Entries() iter.Seq2[resourcesync.Entry, error]
		Close() error
	}
	header *resourcesync.Header
	told   func() // what there is to be told when it was read
}

func (c *changeReader) tellingOf(doc *discover.Document) *telling {
	return &telling{uri: doc.URI, validators: validators{doc.ETag, doc.LastModified}, doc: doc, header: &doc.Header,
		told: func() { c.tellWarnings(doc) }}
}

func (c *changeReader) tellingOfPackage(pkg int, m *packedManifest) *telling {
	ref, _ := c.packages.get(pkg)
	return &telling{uri: ref.entry.Loc, pkg: pkg, doc: m, header: &m.Header, told: func() { c.tellManifest(m) }}
}

// again opens the list once more.
func (t *telling) again(ctx context.Context, c *changeReader) (*telling, error) {
	if t.pkg == 0 {
		doc, err := c.open(ctx, t.uri, validators{})
		if err != nil {
			return nil, err
		}
		return c.tellingOf(doc), nil
	}
	m, err := c.openNumbered(ctx, t.pkg)
	if err != nil {
		return nil, err
	}
	return c.tellingOfPackage(t.pkg, m), nil
}

// readList reads a list of changes.
func (c *changeReader) readList(ctx context.Context, t *telling, said resourcesync.Metadata, depth int, again bool) error {
	err := c.readEntries(ctx, t, said, c.mayResume(t))
	if errors.Is(err, errRewritten) {
		c.chain.rewritten = true
		// It is not what the cursor was set in: read it by the times.
		_ = t.doc.Close() // read as far as it was of use
		fresh, oerr := t.again(ctx, c)
		if oerr != nil {
			return c.missing(ctx, t.uri, oerr, depth, again)
		}
		defer fresh.doc.Close()
		t, err = fresh, c.readEntries(ctx, fresh, said, false)
	}
	if err != nil {
		var local *localError
		if errors.As(err, &local) {
			return local.err
		}
		return c.missing(ctx, t.uri, err, depth, again)
	}
	t.told()
	return nil
}

// missing deals with a document that could not be read. Where it is gone for
// good nothing is told yet: comparing all may make up for it (RS-IDX-07).
func (c *changeReader) missing(ctx context.Context, uri string, err error, depth int, again bool) error {
	if depth > 0 && again && isGone(err) && ctx.Err() == nil {
		c.chain.vanished, c.chain.complete = err, false
		return nil
	}
	return c.broken(ctx, uri, err, &c.chain.complete, depth, again)
}

// readDump reads the manifests of a Change Dump's packages that may hold
// changes since the watermark, as if they were Change Lists (RS-DST-26).
func (c *changeReader) readDump(ctx context.Context, doc *discover.Document, depth int, again bool) error {
	from := doc.Header.From
	entries, err := c.partsInOrder(ctx, doc, depth, again)
	if err != nil {
		return err
	}
	var parts []changePackage
	var numbers []int
	var last resourcesync.Datetime // until of the package before, if that is done
	for i := range entries {
		e := &entries[i]
		if c.done(e) {
			last = e.Until
			continue
		}
		if err := c.enter(e.Loc, depth); err != nil {
			c.fail(e.Loc, err)
			c.chain.complete = false
			continue
		}
		ref := c.refOf(e)
		ref.origin = true
		numbers = append(numbers, c.packages.add(ref))
		if i == 0 && !from.IsZero() && !e.From.IsZero() && from.Compare(e.From) < 0 {
			e.From = from // there was nothing before it
		}
		parts, last = append(parts, changePackage{e.Metadata, last}), resourcesync.Datetime{}
	}
	if len(entries) == 0 && c.chain.lists == 0 {
		c.chain.from = from // it covers that, though nothing happened
	}
	return c.eachManifest(ctx, numbers, func(i int, m *packedManifest, err error) error {
		if err == nil {
			defer m.Close()
			err = checkManifest(m, resourcesync.ChangeDumpManifest)
		}
		if err != nil {
			ref, _ := c.packages.get(numbers[i])
			return c.missing(ctx, ref.entry.Loc, err, depth+1, again)
		}
		if t := parts[i].last; !t.IsZero() {
			c.last = t
		}
		return c.readList(ctx, c.tellingOfPackage(numbers[i], m), parts[i].said, depth+1, again)
	})
}

// A changePackage is what a Change Dump says of a package.
type changePackage struct {
	said resourcesync.Metadata
	last resourcesync.Datetime // until of those before it that were left out; zero if none were
}

// partsInOrder reads an index, or a Change Dump, to its end, closes it, and
// returns its parts, oldest first.
func (c *changeReader) partsInOrder(ctx context.Context, doc *discover.Document, depth int, again bool) ([]resourcesync.Entry, error) {
	parts, err := c.partsOf(doc)
	if err != nil {
		if berr := c.broken(ctx, doc.URI, err, &c.chain.complete, depth, again); berr != nil {
			return nil, berr
		}
	} else {
		c.chain.polled[doc.URI] = validators{doc.ETag, doc.LastModified}
	}
	// RS-CHI-02 wants them in order; who does not keep it must not show a gap.
	if !slices.ContainsFunc(parts, func(e resourcesync.Entry) bool { return e.From.IsZero() }) {
		slices.SortStableFunc(parts, func(a, b resourcesync.Entry) int { return a.From.Compare(b.From) })
	}
	return parts, nil
}

// done reports whether all that a part tells lies before the watermark
// (RS-CHI-08).
func (c *changeReader) done(p *resourcesync.Entry) bool {
	return !p.Until.IsZero() && !c.since.IsZero() && p.Until.Compare(c.since) < 0
}

// readIndex reads the lists of an index that may hold changes since the
// watermark, oldest first.
func (c *changeReader) readIndex(ctx context.Context, doc *discover.Document, depth int, again bool) error {
	parts, err := c.partsInOrder(ctx, doc, depth, again)
	if err != nil {
		return err
	}
	for i := range parts {
		p := &parts[i]
		if c.done(p) {
			c.last = p.Until
			continue
		}
		if err := c.enter(p.Loc, depth+1); err != nil {
			c.fail(p.Loc, err)
			c.chain.complete = false
			continue
		}
		part, err := c.open(ctx, p.Loc, validators{})
		if err != nil {
			if berr := c.missing(ctx, p.Loc, err, depth+1, again); berr != nil {
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

// mayResume reports whether t looks like the list the cursor was set in.
func (c *changeReader) mayResume(t *telling) bool {
	k := &c.state.Cursor
	if k.Prefix == "" || c.since.IsZero() || c.chain.resumed {
		return false
	}
	if from := stateTime(t.header.From); !from.IsZero() || !k.From.IsZero() {
		return from.Equal(k.From)
	}
	return t.uri == k.URI
}

// readEntries stages the entries of one list that may be new.
func (c *changeReader) readEntries(ctx context.Context, t *telling, said resourcesync.Metadata, resume bool) error {
	d := docReading{changeReader: c, n: c.stage.addDoc(), prefix: sha256.New()}
	k := c.state.Cursor
	for e, err := range t.doc.Entries() {
		if err != nil {
			return err
		}
		if resume && d.pos == k.Count {
			if d.sum() != k.Prefix {
				return errRewritten
			}
			c.resume(d.n)
		}
		if e.Change == 0 {
			continue // not a change; the Reader has warned
		}
		w := c.wantOf(&e)
		if t.pkg > 0 && !w.Gone {
			w.Member = memberOf(t.pkg, &e)
		}
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
		c.resume(d.n)
	}
	c.chain.grew = c.chain.grew || resume && k.Count > 0 && d.pos > k.Count
	d.end(t, said)
	return nil
}

// resume notes that the cursor was found in the n-th document: those before it
// were read to their ends.
func (c *changeReader) resume(n int) {
	c.chain.resumed = true
	for i := range n {
		c.stage.docs[i].passed = true
	}
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
func (d *docReading) end(t *telling, said resourcesync.Metadata) {
	c, h, info := &d.chain, t.header, &d.stage.docs[d.n]
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
		if t.pkg > 0 && !said.From.IsZero() && said.From.Compare(from) < 0 {
			c.from, c.proven = said.From, true
		}
	}
	if !d.last.IsZero() && !from.IsZero() && d.last.Compare(from) < 0 {
		c.gap = true
	}
	if until.IsZero() && t.pkg > 0 {
		until = said.Until // a package does not grow (RS-CD-06)
	}
	d.last = until
	info.allNew = d.behind || c.resumed
	if c.resumed {
		d.behind = true
	}
	if until.IsZero() && t.pkg > 0 {
		// Nothing is known of how far it goes but its events.
	} else if until.IsZero() {
		c.open = append(c.open, t.uri)
		c.polled[t.uri] = t.validators
	} else if until.Compare(c.until) > 0 {
		c.until = until
	}
	if t.uri == d.state.Changes {
		c.open = nil // it is polled anyway
		c.polled[t.uri] = t.validators
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
	c.cursor = cursor{URI: t.uri, From: stateTime(h.From), Count: d.pos, Prefix: d.sum()}
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

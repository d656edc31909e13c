package destination

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// A chain is what a reading of a set's Change Lists found.
type chain struct {
	unchanged bool                  // nothing was written since the last reading
	dump      bool                  // it was a Change Dump: the manifests of its packages are the lists
	complete  bool                  // all documents that had to be read were
	skipped   bool                  // entries without a readable loc were left out
	lists     int                   // read
	history   resourcesync.Datetime // from as the first document read states it, list or index
	from      resourcesync.Datetime // what is covered begins here; zero if not known
	proven    bool                  // from was stated, not guessed from the events
	gap       bool                  // between two lists
	until     resourcesync.Datetime // end of the last closed list
	newest    resourcesync.Datetime // event
	seen      []string              // fingerprints of the newest events
	cursor    saved.Cursor
	resumed   bool   // the cursor of the last reading was found: nothing is missing behind it
	grew      bool   // there was something before it, and there was more behind it
	rewritten bool   // the list the cursor was set in does not begin as it did
	lost      bool   // events that were read then are gone
	other     bool   // it is the Change Dump in place of the Change List: of that, nothing new is known
	vanished  error  // why a part that no longer exists is unavailable: changes it listed may be missing
	loose     bool   // a list does not say how far it goes
	archives  string // what the first document read names as its archive
	look      *look
	polled    map[string]saved.Validators
	open      []string
}

// whole reports whether all changes were read.
func (k *chain) whole() bool { return k.complete && !k.skipped }

// skip records that entries of a document have no readable loc, if err is not
// nil. Changes from before the watermark do not matter.
func (c *changeReader) skip(uri string, err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var u *resourcesync.UnlocatedError
	if errors.As(err, &u) && u.Before(c.since) {
		c.warn(uri, fmt.Sprintf("read %s: %v; what they are about is older than what is known of the set", fetch.Printable(uri), u))
		return
	}
	c.chain.skipped = true
	c.fail(uri, err)
}

// A look is for events that were read before. Several readers share one.
type look struct {
	want  map[string]*atomic.Bool // fingerprints looked for; true once found
	marks map[string]*atomic.Bool // their resources; true with an event after those
}

func newLook(seen []string) *look {
	l := &look{want: make(map[string]*atomic.Bool, len(seen)), marks: make(map[string]*atomic.Bool, len(seen))}
	for _, f := range seen {
		l.want[f] = new(atomic.Bool)
		l.marks[desired.ResourceMark(f)] = new(atomic.Bool)
	}
	return l
}

// A changeReader reads the Change Lists of a set from the watermark on.
type changeReader struct {
	*setReader
	since     resourcesync.Datetime
	state     *saved.Set // of the last reading; its cursor and events are looked for
	chain     chain
	overtakes bool                  // a list was read that is not of our future: it may be newer than changes that are
	last      resourcesync.Datetime // until of the list before
	behind    bool                  // the lists to come begin behind the cursor
	out       *stage.Writer         // takes what is staged, where others read beside; nil: none do
	order     string                // of the documents, likewise
	latest    *stage.Latest         // likewise; nil: every change counts
	below     map[string]bool       // documents read, likewise: what two archived ones lead to is read twice
}

// enter guards against documents that lead back to themselves.
func (c *changeReader) enter(uri string, depth int) error {
	if c.below == nil {
		return c.setReader.enter(uri, depth)
	}
	return notTwice(c.below, uri, depth)
}

// readChanges stages the changes since a watermark. Of state are used: the
// validators, if polling; the cursor and the newest events.
func (r *setReader) readChanges(ctx context.Context, since resourcesync.Datetime, state *saved.Set, poll bool) (chain, error) {
	for again := false; ; again = true {
		c := &changeReader{setReader: r, since: since, state: state, overtakes: r.overtakes}
		c.begin()
		err := c.read(ctx, poll && !again, again)
		if errors.Is(err, errAgain) {
			r.stage.DiscardChanges()
			continue
		}
		c.chain.lost = c.chain.judge(state)
		return c.chain, err
	}
}

func (c *changeReader) begin() {
	c.chain = chain{complete: true, polled: map[string]saved.Validators{}, look: newLook(c.state.Seen)}
	c.visited, c.parts, c.named, c.nested = map[string]bool{}, 0, 0, nesting.Walk{}
	c.stage.Since = c.since
	c.stage.Seen = map[string]bool{}
	for _, f := range c.state.Seen {
		c.stage.Seen[f] = true
	}
}

// read polls what can have changed, and reads from the top what did.
func (c *changeReader) read(ctx context.Context, poll, again bool) error {
	top := c.state.Changes
	var v saved.Validators
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
			return errAgain // RS-AMB-26: the index shows what replaced it
		case err != nil:
			return context.Cause(ctx)
		}
		c.chain.unchanged, c.chain.dump = false, doc.Header.Capability == resourcesync.ChangeDump
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
		c.chain.archives = doc.Header.Link(resourcesync.RelArchives)
		c.chain.dump = doc.Header.Capability == resourcesync.ChangeDump
	}
	if c.chain.dump {
		wanted = resourcesync.ChangeDump
	}
	err := expect(doc, wanted, depth)
	if err == nil {
		err = c.bound(doc, depth)
	}
	if err != nil {
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
		var local *content.LocalError
		if errors.As(err, &local) {
			return local.Err
		}
		return c.missing(ctx, t.uri, err, depth, again)
	}
	t.told()
	return nil
}

// missing handles a document that could not be read. If it is permanently gone,
// missing does not report a failure yet: comparing everything may make up for
// it (RS-IDX-07).
func (c *changeReader) missing(ctx context.Context, uri string, err error, depth int, again bool) error {
	if depth > 0 && again && (isGone(err) || dump.IsUnverified(err)) && ctx.Err() == nil {
		c.chain.vanished, c.chain.complete = err, false
		return nil
	}
	return c.broken(ctx, uri, err, &c.chain.complete, depth, again)
}

// spurn leaves out a document that must not be read.
func (c *changeReader) spurn(uri string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fail(uri, err)
	c.chain.complete = false
}

// partsInOrder reads an index, or a Change Dump, to its end, closes it, and
// returns its parts, oldest first.
func (c *changeReader) partsInOrder(ctx context.Context, doc *discover.Document, depth int, again bool) ([]resourcesync.Entry, error) {
	read := c.partsOf
	if c.chain.dump && !doc.Header.Index {
		read = c.packagesOfDump
	}
	parts, err := read(doc)
	if err != nil {
		if berr := c.broken(ctx, doc.URI, err, &c.chain.complete, depth, again); berr != nil {
			return nil, berr
		}
	} else {
		c.chain.polled[doc.URI] = saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}
		c.skip(doc.URI, doc.Unlocated())
	}
	// RS-CHI-02 requires this order; a Source that does not keep it must not
	// cause a gap.
	if !slices.ContainsFunc(parts, func(e resourcesync.Entry) bool { return e.From.IsZero() }) {
		slices.SortStableFunc(parts, func(a, b resourcesync.Entry) int { return a.From.Compare(b.From) })
	}
	return parts, nil
}

// done reports whether all changes in a part are before the watermark
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
		if c.ended() {
			return nil
		}
		if err := c.enter(p.Loc, depth+1); err != nil {
			c.spurn(p.Loc, err)
			continue
		}
		part, err := c.open(ctx, p.Loc, saved.Validators{})
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

// judge reports whether the history was rewritten: events that were read before
// are gone though it claims to reach back to them, its beginning, which only
// moves forward, is earlier than it was (RS-CHI-07), or a Source that only ever
// appended did something else (RS-CHL-06). Of others, events whose resource has
// a later one may have been dropped for it.
func (k *chain) judge(state *saved.Set) bool {
	if k.unchanged || k.resumed || !k.whole() || k.lists == 0 {
		return false
	}
	if t := saved.Time(k.history); !t.IsZero() && t.Before(state.History) || k.rewritten && state.Appends {
		return true
	}
	sought := 0
	for _, found := range k.look.want {
		if !found.Load() {
			sought++
		}
	}
	if sought == 0 {
		return false
	}
	seenTime := resourcesync.NewDatetime(state.SeenTime)
	if !k.proven || k.from.Compare(seenTime) >= 0 {
		return false
	}
	if k.newest.Compare(seenTime) < 0 {
		return true
	}
	for f, found := range k.look.want {
		if !found.Load() && !k.look.marks[desired.ResourceMark(f)].Load() {
			return true
		}
	}
	return false
}

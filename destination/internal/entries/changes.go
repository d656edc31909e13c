package entries

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

// A Chain is what a reading of a set's Change Lists found.
type Chain struct {
	Unchanged bool                  // nothing was written since the last reading
	Dump      bool                  // it was a Change Dump: the manifests of its packages are the lists
	Complete  bool                  // all documents that had to be read were
	skipped   bool                  // entries without a readable loc were left out
	Lists     int                   // read
	History   resourcesync.Datetime // From as the first document read states it, list or index
	From      resourcesync.Datetime // what is covered begins here; zero if not known
	Proven    bool                  // From was stated, not guessed from the events
	Gap       bool                  // Between two lists
	Until     resourcesync.Datetime // end of the last closed list
	Newest    resourcesync.Datetime // event
	Seen      []string              // fingerprints of the newest events
	Cursor    saved.Cursor
	Resumed   bool   // the cursor of the last reading was found: nothing is missing behind it
	Grew      bool   // there was something before it, and there was more behind it
	rewritten bool   // the list the cursor was set in does not begin as it did
	Lost      bool   // events that were read then are gone
	Other     bool   // it is the Change Dump in place of the Change List: of that, nothing new is known
	Vanished  error  // why a part that no longer exists is unavailable: changes it listed may be missing
	loose     bool   // a list does not say how far it goes
	Archives  string // what the first document read names as its archive
	Look      *Look
	Polled    map[string]saved.Validators
	Open      []string
}

// Whole reports whether all changes were read.
func (k *Chain) Whole() bool { return k.Complete && !k.skipped }

// skip records that entries of a document have no readable loc, if err is not
// nil. Changes from before the watermark do not matter.
func (c *ChangeReader) skip(uri string, err error) {
	if err == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var u *resourcesync.UnlocatedError
	if errors.As(err, &u) && u.Before(c.since) {
		c.Warn(uri, fmt.Sprintf("read %s: %v; what they are about is older than what is known of the set", fetch.Printable(uri), u))
		return
	}
	c.Chain.skipped = true
	c.Fail(uri, err)
}

// A Look is for events that were read before. Several readers share one.
type Look struct {
	want  map[string]*atomic.Bool // fingerprints looked for; true once found
	marks map[string]*atomic.Bool // their resources; true with an event after those
}

// NewLook returns a Look for events with these fingerprints.
func NewLook(seen []string) *Look {
	l := &Look{want: make(map[string]*atomic.Bool, len(seen)), marks: make(map[string]*atomic.Bool, len(seen))}
	for _, f := range seen {
		l.want[f] = new(atomic.Bool)
		l.marks[desired.ResourceMark(f)] = new(atomic.Bool)
	}
	return l
}

// A ChangeReader reads the Change Lists of a set from the watermark on.
type ChangeReader struct {
	*Reader
	since     resourcesync.Datetime
	State     *saved.Set // of the last reading; its cursor and events are looked for
	Chain     Chain
	overtakes bool                  // a list was read that is not of our future: it may be newer than changes that are
	last      resourcesync.Datetime // Until of the list before
	behind    bool                  // the lists to come begin behind the cursor
	out       *stage.Writer         // takes what is staged, where others read beside; nil: none do
	order     string                // of the documents, likewise
	latest    *stage.Latest         // likewise; nil: every change counts
	below     map[string]bool       // documents read, likewise: what two archived ones lead to is read twice
}

// enter guards against documents that lead back to themselves.
func (c *ChangeReader) enter(uri string, depth int) error {
	if c.below == nil {
		return c.Reader.enter(uri, depth)
	}
	return notTwice(c.below, uri, depth)
}

// ReadChanges stages the changes since a watermark. Of state are used: the
// validators, if polling; the cursor and the newest events.
func (r *Reader) ReadChanges(ctx context.Context, since resourcesync.Datetime, state *saved.Set, poll bool) (Chain, error) {
	for again := false; ; again = true {
		c := &ChangeReader{Reader: r, since: since, State: state, overtakes: r.Overtakes}
		c.begin()
		err := c.read(ctx, poll && !again, again)
		if errors.Is(err, errAgain) {
			r.Stage.DiscardChanges()
			continue
		}
		c.Chain.Lost = c.Chain.Judge(state)
		return c.Chain, err
	}
}

func (c *ChangeReader) begin() {
	c.Chain = Chain{Complete: true, Polled: map[string]saved.Validators{}, Look: NewLook(c.State.Seen)}
	c.visited, c.parts, c.named, c.nested = map[string]bool{}, 0, 0, nesting.Walk{}
	c.Stage.Since = c.since
	c.Stage.Seen = map[string]bool{}
	for _, f := range c.State.Seen {
		c.Stage.Seen[f] = true
	}
}

// read polls what can have changed, and reads from the top what did.
func (c *ChangeReader) read(ctx context.Context, poll, again bool) error {
	top := c.State.Changes
	var v saved.Validators
	if poll {
		v = c.State.Polled[top]
	}
	doc, err := c.Open(ctx, top, v)
	if errors.Is(err, discover.ErrNotModified) {
		c.Chain.Polled[top] = v
		if len(c.State.Open) == 0 {
			c.Chain.Unchanged = true
			return nil
		}
		return c.pollOpen(ctx)
	}
	if err != nil {
		return c.broken(ctx, top, err, &c.Chain.Complete, 0, again)
	}
	_ = c.enter(top, 0) // the first cannot have been visited
	return c.readDoc(ctx, doc, resourcesync.Metadata{}, 0, again)
}

// pollOpen looks at the open lists of an index that did not change.
func (c *ChangeReader) pollOpen(ctx context.Context) error {
	c.Chain.Unchanged = true
	for _, uri := range c.State.Open {
		v := c.State.Polled[uri]
		doc, err := c.Open(ctx, uri, v)
		switch {
		case errors.Is(err, discover.ErrNotModified):
			c.Chain.Polled[uri] = v
			c.Chain.Open = append(c.Chain.Open, uri)
			continue
		case err != nil && ctx.Err() == nil:
			return errAgain // RS-AMB-26: the index shows what replaced it
		case err != nil:
			return context.Cause(ctx)
		}
		c.Chain.Unchanged, c.Chain.Dump = false, doc.Header.Capability == resourcesync.ChangeDump
		if err := c.readDoc(ctx, doc, resourcesync.Metadata{}, 1, true); err != nil {
			return err
		}
	}
	return nil
}

// readDoc reads a Change List or index, and closes it.
func (c *ChangeReader) readDoc(ctx context.Context, doc *discover.Document, said resourcesync.Metadata, depth int, again bool) error {
	defer doc.Close()
	wanted := resourcesync.ChangeList
	if depth == 0 {
		c.Chain.History = doc.Header.From
		c.Chain.Archives = doc.Header.Link(resourcesync.RelArchives)
		c.Chain.Dump = doc.Header.Capability == resourcesync.ChangeDump
	}
	if c.Chain.Dump {
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
	case c.Chain.Dump:
		return c.readDump(ctx, doc, depth, again)
	}
	return c.readList(ctx, c.tellingOf(doc), said, depth, again)
}

// ReadList reads a list of changes.
func (c *ChangeReader) readList(ctx context.Context, t *telling, said resourcesync.Metadata, depth int, again bool) error {
	err := c.readEntries(ctx, t, said, c.mayResume(t))
	if errors.Is(err, errRewritten) {
		c.Chain.rewritten = true
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
func (c *ChangeReader) missing(ctx context.Context, uri string, err error, depth int, again bool) error {
	if depth > 0 && again && (IsGone(err) || dump.IsUnverified(err)) && ctx.Err() == nil {
		c.Chain.Vanished, c.Chain.Complete = err, false
		return nil
	}
	return c.broken(ctx, uri, err, &c.Chain.Complete, depth, again)
}

// spurn leaves out a document that must not be read.
func (c *ChangeReader) spurn(uri string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Fail(uri, err)
	c.Chain.Complete = false
}

// partsInOrder reads an index, or a Change Dump, to its end, closes it, and
// returns its parts, oldest first.
func (c *ChangeReader) partsInOrder(ctx context.Context, doc *discover.Document, depth int, again bool) ([]resourcesync.Entry, error) {
	read := c.partsOf
	if c.Chain.Dump && !doc.Header.Index {
		read = c.packagesOfDump
	}
	parts, err := read(doc)
	if err != nil {
		if berr := c.broken(ctx, doc.URI, err, &c.Chain.Complete, depth, again); berr != nil {
			return nil, berr
		}
	} else {
		c.Chain.Polled[doc.URI] = saved.Validators{ETag: doc.ETag, Modified: doc.LastModified}
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
func (c *ChangeReader) done(p *resourcesync.Entry) bool {
	return !p.Until.IsZero() && !c.since.IsZero() && p.Until.Compare(c.since) < 0
}

// readIndex reads the lists of an index that may hold changes since the
// watermark, oldest first.
func (c *ChangeReader) readIndex(ctx context.Context, doc *discover.Document, depth int, again bool) error {
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
		if ended(c.Reader) {
			c.Chain.Complete = false // a document read at the same time may have ended it
			return nil
		}
		if err := c.enter(p.Loc, depth+1); err != nil {
			c.spurn(p.Loc, err)
			continue
		}
		part, err := c.Open(ctx, p.Loc, saved.Validators{})
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

// Judge reports whether the history was rewritten: events that were read before
// are gone though it claims to reach back to them, its beginning, which only
// moves forward, is earlier than it was (RS-CHI-07), or a Source that only ever
// appended did something else (RS-CHL-06). Of others, events whose resource has
// a later one may have been dropped for it.
func (k *Chain) Judge(state *saved.Set) bool {
	if k.Unchanged || k.Resumed || !k.Whole() || k.Lists == 0 {
		return false
	}
	if t := saved.Time(k.History); !t.IsZero() && t.Before(state.History) || k.rewritten && state.Appends {
		return true
	}
	sought := 0
	for _, found := range k.Look.want {
		if !found.Load() {
			sought++
		}
	}
	if sought == 0 {
		return false
	}
	seenTime := resourcesync.NewDatetime(state.SeenTime)
	if !k.Proven || k.From.Compare(seenTime) >= 0 {
		return false
	}
	if k.Newest.Compare(seenTime) < 0 {
		return true
	}
	for f, found := range k.Look.want {
		if !found.Load() && !k.Look.marks[desired.ResourceMark(f)].Load() {
			return true
		}
	}
	return false
}

package entries

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync/atomic"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/internal/wording"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A Chain is the result of reading a set's Change Lists.
type Chain struct {
	Unchanged bool                  // no document was modified since the last reading
	Dump      bool                  // it was a Change Dump: the manifests of its packages serve as Change Lists
	Complete  bool                  // every document that had to be read was read
	skipped   bool                  // entries without a readable loc were skipped
	Lists     int                   // number of lists read
	History   resourcesync.Datetime // From as stated by the first document read, list or index
	From      resourcesync.Datetime // beginning of the range that is covered; zero if unknown
	Proven    bool                  // From was stated, not inferred from the events
	Gap       bool                  // there is a gap between two lists
	Until     resourcesync.Datetime // end of the last closed list
	Newest    resourcesync.Datetime // time of the newest event
	Seen      []string              // fingerprints of the newest events
	Cursor    saved.Cursor
	Resumed   bool   // the cursor of the last reading was found: no change after it is missing
	Grew      bool   // there were entries before the cursor and more after it
	rewritten bool   // the list with the cursor no longer begins as it did
	falling   bool   // a list has its newest events first, so that none begins as it did
	Lost      bool   // events seen in the last reading are gone
	Doubtful  bool   // events read before may be gone, or others may have been added before them: a list no longer begins as it did
	Older     bool   // changes since the list were left out only because they are from before the watermark: some may be new
	Parts     []byte // prints of the parts that the indexes name, see [partPrint]
	added     bool   // a part may have been added, or changes to it, before those that were read
	partly    bool   // an open list did not change, and was not read again
	Other     bool   // the Change Dump was read instead of the Change List, so nothing was learned about the latter
	Vanished  error  // why a part that no longer exists is unavailable: changes that it listed may be missing
	loose     bool   // a list does not state how far it reaches
	Archives  string // the archive to which the first document read links
	Search    *EventSearch
	Polled    map[string]saved.Validators
	Open      []string
}

// Whole reports whether all changes were read.
func (k *Chain) Whole() bool { return k.Complete && !k.skipped }

// GapAfter returns why changes may be missing between the watermark since and
// what was read, or "" (RS-CHI-09, RS-DST-21).
func (k *Chain) GapAfter(since resourcesync.Datetime) string {
	switch {
	case k.Vanished != nil:
		return fmt.Sprintf("a part of its changes cannot be used (%v)", k.Vanished)
	case k.Lists == 0 && !k.Unchanged && k.Complete && !since.IsZero() && k.From.Compare(since) > 0:
	case k.Unchanged || k.Lists == 0 || !k.Complete:
		return ""
	case k.Gap:
		return "its Change Lists leave a gap between them"
	case k.Resumed || since.IsZero() || k.From.IsZero() || k.From.Compare(since) <= 0:
		return ""
	}
	return fmt.Sprintf("its changes are listed from %s on, but our last sync is of %s", wording.Time(k.From.Time()), wording.Time(since.Time()))
}

// Doubt records in d from when on the changes are complete, as far as their
// documents prove it. With changesOnly there is no list to compare with.
func (k *Chain) Doubt(d *saved.Doubts, changesOnly bool) {
	*d = saved.Doubts{Gap: d.Gap, NoAt: d.NoAt, ChangesOnly: d.ChangesOnly || changesOnly && (k.Complete || k.Lists > 0)}
	if d.ChangesOnly && k.Proven {
		d.Reach = saved.Time(k.From)
	}
	d.NoFrom = k.Lists > 0 && !k.Proven
}

// skip records that entries of a document have no readable loc, unless err is nil.
// Changes from before the watermark do not matter.
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

// An EventSearch tracks which events of an earlier reading were found again. Several
// readers can share one.
type EventSearch struct {
	want  map[string]*atomic.Bool // fingerprints to find; true once found
	marks map[string]*atomic.Bool // their resources; true once a later event of the resource was read
}

// NewEventSearch returns an EventSearch for the events with these fingerprints.
func NewEventSearch(seen []string) *EventSearch {
	l := &EventSearch{want: make(map[string]*atomic.Bool, len(seen)), marks: make(map[string]*atomic.Bool, len(seen))}
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
	State     *saved.Set // state of the last reading, with its cursor and newest events
	Chain     Chain
	overtakes bool                  // a list whose time is not in the future was read: it may be newer than changes with times in the future
	last      resourcesync.Datetime // Until of the previous list
	behind    bool                  // the remaining lists begin after the cursor
	out       *stage.Writer         // receives the staged entries when several readers run concurrently; otherwise nil
	order     string                // order of the documents, in the same case
	parts     map[string]bool       // prints of the parts that the indexes named when they were last read; nil: unknown
	latest    *stage.Latest         // newest changes staged, in the same case; nil: every change counts
	below     map[string]bool       // documents read, in the same case: a document below two archived ones is read twice
}

// enter rejects documents that lead back to themselves.
func (c *ChangeReader) enter(uri string, depth int) error {
	if c.below == nil {
		return c.Reader.Enter(uri, depth)
	}
	return notTwice(c.below, uri, depth)
}

// ReadChanges stages the changes since a watermark. It uses from state the
// validators, if poll is set, the cursor and the newest events.
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
		c.Chain.Doubtful = c.Chain.rewritten && !c.Chain.falling && c.Chain.Whole()
		c.Chain.Older = (c.Chain.Older && !c.Chain.Resumed || c.Chain.added) && state.Cursor.Prefix != ""
		return c.Chain, err
	}
}

func (c *ChangeReader) begin() {
	c.Chain = Chain{Complete: true, Polled: map[string]saved.Validators{}, Search: NewEventSearch(c.State.Seen)}
	c.Restart()
	c.named = 0
	for p := range slices.Chunk(c.State.Parts, printBytes) {
		if c.parts == nil {
			c.parts = map[string]bool{}
		}
		c.parts[string(p)] = true
	}
	c.Stage.Since = c.since
	c.Stage.Seen = map[string]bool{}
	for _, f := range c.State.Seen {
		c.Stage.Seen[f] = true
	}
}

// read polls the documents that may have changed, and reads those that did from the
// top index.
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
	_ = c.enter(top, 0) // the first cannot have been visited before
	return c.readDoc(ctx, doc, resourcesync.Metadata{}, 0, again)
}

// pollOpen polls the open lists of an index that did not change.
func (c *ChangeReader) pollOpen(ctx context.Context) error {
	c.Chain.Unchanged, c.Chain.Parts = true, slices.Clone(c.State.Parts)
	for _, uri := range c.State.Open {
		v := c.State.Polled[uri]
		doc, err := c.Open(ctx, uri, v)
		switch {
		case errors.Is(err, discover.ErrNotModified):
			c.Chain.Polled[uri] = v
			c.Chain.Open, c.Chain.partly = append(c.Chain.Open, uri), true
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

// readDoc reads a Change List or an index and closes it.
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
	err := Expect(doc, wanted)
	if err == nil {
		err = c.Bound(doc, depth)
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
	return c.readList(ctx, c.newChangeDoc(doc), said, depth, again)
}

// readList reads a list of changes.
func (c *ChangeReader) readList(ctx context.Context, t *changeDoc, said resourcesync.Metadata, depth int, again bool) error {
	err := c.readEntries(ctx, t, said, c.mayResume(t))
	if errors.Is(err, errRewritten) {
		c.Chain.rewritten = true
		// This is not the list the cursor was set in: select its entries by time.
		_ = t.doc.Close() // everything useful was read
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
	t.warn()
	return nil
}

// missing handles a document that could not be read. If it is permanently gone,
// missing does not report a failure yet: a comparison of all resources may make up
// for it (RS-IDX-07).
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

// partsInOrder reads an index, or a Change Dump, to its end, closes it, and returns
// its parts, oldest first.
func (c *ChangeReader) partsInOrder(ctx context.Context, doc *discover.Document, depth int, again bool) ([]resourcesync.Entry, error) {
	read := c.PartsOf
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
	// RS-CHI-02 requires this order; a Source that violates it must not cause a
	// gap.
	if !slices.ContainsFunc(parts, func(e resourcesync.Entry) bool { return e.From.IsZero() }) {
		sort.SliceStable(parts, func(i, j int) bool { return parts[i].From.Compare(parts[j].From) < 0 })
	}
	return parts, nil
}

// done reports whether all changes in a part are from before the watermark
// (RS-CHI-08). It is called once for each part, which it records.
func (c *ChangeReader) done(p *resourcesync.Entry) bool {
	done := !p.Until.IsZero() && !c.since.IsZero() && p.Until.Compare(c.since) < 0
	if c.isPast() {
		return done
	}
	part := partPrint(p, p.Until)
	c.Chain.Parts = append(c.Chain.Parts, part...)
	if done && c.parts != nil && !p.Until.Time().Before(c.State.ListAt) && !c.parts[part] && !c.parts[partPrint(p, resourcesync.Datetime{})] {
		c.Chain.added = true
	}
	return done
}

// printBytes is the length of a print of a part.
const printBytes = 6

// partPrint returns a short hash of the name and the times of a part that ends at until; zero:
// it grows. One that has ended is another one when it has been written again.
func partPrint(p *resourcesync.Entry, until resourcesync.Datetime) string {
	var written resourcesync.Datetime
	if !until.IsZero() {
		written = p.Lastmod
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %v %v %v", p.Loc, p.From, until, written))
	return string(sum[:printBytes])
}

// readIndex reads the lists of an index that may contain changes since the
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
		if c.Ended() {
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

// Judge reports whether the history was rewritten. There are three signs of that:
// events that were read before are gone although the history claims to reach back
// to them; its beginning, which may only move forward, is earlier than it was
// (RS-CHI-07); or a Source that only ever appended did something else (RS-CHL-06).
// Sources that do not only append may drop an event when its resource has a later
// one.
func (k *Chain) Judge(state *saved.Set) bool {
	if k.Unchanged || k.Resumed || !k.Whole() || k.Lists == 0 {
		return false
	}
	if t := saved.Time(k.History); !t.IsZero() && t.Before(state.History) || k.rewritten && state.Appends {
		return true
	}
	if k.partly { // its events are there
		return false
	}
	sought := 0
	for _, found := range k.Search.want {
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
	for f, found := range k.Search.want {
		if !found.Load() && !k.Search.marks[desired.ResourceMark(f)].Load() {
			return true
		}
	}
	return false
}

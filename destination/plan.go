package destination

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A verb is what an action does.
type verb uint8

const (
	verbSkip    verb = iota // no concern of this set
	verbNone                // in step
	verbTouch               // the content is right, what we know of it is not
	verbFetch               // get the content
	verbRefuse              // must not be fetched
	verbRelease             // this set no longer contains it, another does
	verbRemove              // no set contains it any longer
	verbDefer               // get the content, but not yet: it stays pending
)

// An action closes the gap between what the Source says of one URI and what we
// hold.
type action struct {
	desired.Resource
	verb        verb
	held        journal.Held      // zero when it is not held
	conditional bool              // the content may be what we hold: ask with its validators
	rehash      bool              // the stated hashes are of other algorithms than are recorded: compute them from the file that is held
	unselected  bool              // the Source has it, but it is not selected any more
	gone        bool              // verbFetch: the file is not there any more, whatever the Journal says
	moves       bool              // verbFetch: the file at its path is not ours; it gets another path
	place       string            // verbFetch: the place of its file, which is being made free; "": one that is
	from        string            // where the content is, if not at the URI
	pending     error             // verbDefer: why
	stated      *desired.Resource // what the Source said of the URI, if the content is another representation
	preferred   bool              // and it is one that is preferred to the resource's own
	tried       bool              // its package was read, and did not yield its content
}

// isHeld reports whether there is a row for the action's resource.
func (a *action) isHeld() bool { return a.held.URI != "" }

// A planner compares wants with what is held by one set.
type planner struct {
	d       *Destination
	set     int
	files   bool // also look whether the files are there
	partial bool // changes may be missing: what is held stays, but for what is surely later
	prune   bool // what is not wanted at all is to go: the wants are all there is

	others bool // what is held may be another representation than the one preferred now

	settled bool // what the set holds was selected by this selection
	sift    bool // what is not wanted at all is to go if it is not selected

	version bool   // the wants are versions that are not the last
	past    *state // the wants are of a time gone by

	confirmed map[push.Key]bool // deletions that were notified and that the Source confirms; others are not planned
	believes  bool              // they all are

	dated bool // what is listed with the time of what is held is the same

	lookUp bool // of a change of unknown kind the resource's own address is asked

	refuse func(uri string) string // says why content must not be fetched from there

	push   *push.State // what notifications brought stays, where it is newer than what is planned; may be nil
	stage  *stage.Stage
	listAt resourcesync.Datetime // of the list that is staged
}

// isPushed reports whether a notification brought a later state of the resource
// than w describes, or than the list that does not name the resource: documents
// may lag behind.
func (p *planner) isPushed(w *desired.Resource, h *journal.Held) bool {
	switch {
	case !p.push.HasEvents():
		return false
	case w == nil:
		return p.prune && p.push.IsNewer(h.URI, p.listAt)
	case w.Class == desired.Listed:
		return p.push.IsNewer(w.URI, p.listAt)
	case w.Class == desired.Changed:
		return p.push.IsNewer(w.URI, p.stage.EventTime(w))
	}
	return false
}

func (p *planner) may(uri string) bool { return p.refuse != nil && p.refuse(uri) == "" }

// decide says what to do about one resource: w is what the Source says, nil
// when it does not list it; h is what we hold, zero when nothing.
func (p *planner) decide(ctx context.Context, w *desired.Resource, h journal.Held) (action, error) {
	a, err := p.decideLast(ctx, w, h)
	if p.version && err == nil {
		p.becomeVersion(&a)
	}
	if p.past != nil && err == nil {
		p.becomePast(&a)
	}
	return a, err
}

func (p *planner) decideLast(ctx context.Context, w *desired.Resource, h journal.Held) (action, error) {
	held := h.URI != ""
	a := action{held: h}
	ours := held && contains(h.Sets, p.set)
	if p.isPushed(w, &h) {
		return a, nil // and what is owed stays owed
	}
	switch {
	case w != nil && w.Applied && !w.Gone:
		return a, nil
	case w != nil:
		a.Resource = *w
	case p.prune:
		a.Resource = desired.Resource{URI: h.URI, Gone: true, Length: -1}
	case p.d.selects.mayWant(&h):
		return a, nil
	default:
		a.Resource, a.unselected = desired.Resource{URI: h.URI, Gone: true, Length: -1}, true
	}
	if l := p.d.selects.preferred(&a.Resource); l != nil && !a.Gone && p.may(l.Href) {
		a.represent(l)
	}
	if a.Gone && a.Unconfirmed && !p.believes && !p.confirmed[push.KeyOf(a.URI)] {
		return action{held: h}, nil
	}
	if a.Gone || !p.d.selects.wants(&a.Resource, ours && p.settled) {
		a.unselected = a.unselected || !a.Gone
		switch {
		case !ours:
		case len(h.Sets) > 1:
			a.verb = verbRelease
		default:
			a.verb = verbRemove
		}
		return a, nil
	}
	if a.Refused != "" {
		a.verb = verbRefuse
		return a, nil
	}
	a.verb = verbFetch
	if !held {
		return a, nil
	}
	if p.partial && a.Class != desired.Pending && !laterThanHeld(&a.Resource, &h) {
		a.verb = verbNone // what could not be read may have made it what it is
		return a, nil
	}
	if p.files || a.Class == desired.Pending { // it may be owed because it was not there
		there, err := p.d.onDisk(ctx, &h)
		if err != nil {
			return a, err
		}
		if !there {
			a.gone = true
			return a, nil
		}
	}
	switch like := compare(&h, &a.Resource); {
	case p.others && content.Compare(h.Hashes, a.Hashes) != content.Same:
		// Neither times nor validators are of the same thing.
	case like == content.Same && p.lookUp && a.Change == resourcesync.UnknownChange:
		a.conditional = true
	case like != content.Different && isStatedOtherwise(&h, &a.Resource):
		a.conditional, a.rehash = true, true
	case like == content.Same:
		a.verb = verbNone
		if !ours || !a.Lastmod.IsZero() && !desired.SameLastmod(h.Lastmod, a.Lastmod) {
			a.verb = verbTouch
		}
	case like == content.Unknown && p.dated && a.Class == desired.Listed && desired.SameLastmod(h.Lastmod, a.Lastmod):
		a.verb = verbNone
	case like == content.Unknown:
		a.conditional = true
	}
	return a, nil
}

// becomePast makes a the action for content of the past.
func (p *planner) becomePast(a *action) {
	if p.past.during && a.Class == desired.Listed && a.Lastmod.Time().After(p.past.asOf) && (a.verb == verbFetch || a.verb == verbNone || a.verb == verbTouch) {
		a.verb, a.Refused = verbRefuse, "the list of that time was still being taken, and names a later version"
		return
	}
	if a.verb != verbFetch {
		return
	}
	a.rehash = false
	if a.conditional && a.Length >= 0 && a.Length == a.held.Length && desired.SameLastmod(a.held.Lastmod, a.Lastmod) {
		a.verb, a.conditional = verbNone, false // RA-DST-06: there is nothing better to compare
		if !contains(a.held.Sets, p.set) {
			a.verb = verbTouch
		}
		return
	}
	a.conditional = false // the Source's validators are of what is there now
	if !content.HasKnown(a.Hashes) {
		a.Patches = nil
	}
}

// laterThanHeld reports whether w certainly describes a later state than what
// is held.
func laterThanHeld(w *desired.Resource, h *journal.Held) bool {
	return !w.Lastmod.IsZero() && !h.Lastmod.IsZero() && w.Lastmod.Time().After(h.Lastmod)
}

// onDisk reports whether the file of h exists, with the recorded length.
// Anything else at its path is not our file.
func (d *Destination) onDisk(ctx context.Context, h *journal.Held) (bool, error) {
	if d.isForgetful() {
		return true, nil // where it went is not ours to look
	}
	info, err := d.store.Stat(ctx, h.Path)
	switch {
	case err == nil:
		return info.Size == h.Length, nil
	case ctx.Err() != nil:
		return false, err
	case isDown(err): // it says nothing about the file
		return false, fmt.Errorf("look at what is held%s: %w", d.inDest(), err)
	}
	return false, nil // fetching it again reports the error
}

// compare says whether what we hold is what the Source describes: by hash
// where both sides know the same algorithm, else by length and lastmod
// (RS-DST-02, RS-DST-05).
func compare(h *journal.Held, w *desired.Resource) content.Likeness {
	common := false
	for _, stated := range w.Hashes {
		if digest := h.Hashes.Get(stated.Algorithm); digest != "" {
			if digest != stated.Digest {
				return content.Different
			}
			common = true
		}
	}
	switch {
	case common:
		return content.Same
	case len(h.Hashes) == 0: // in doubt since a crash
		return content.Different
	case w.Length >= 0 && w.Length != h.Length:
		return content.Different
	case w.Lastmod.IsZero() || h.Lastmod.IsZero():
		return content.Unknown
	case !desired.SameLastmod(h.Lastmod, w.Lastmod):
		return content.Different
	case w.Length >= 0 && (w.Change == 0 || w.Lastmod.Time().Nanosecond() != 0):
		return content.Same
	}
	// Of a change that was announced, a lastmod in whole seconds proves
	// nothing: it may be the second one of that second.
	return content.Unknown
}

// regressed reports whether following w would put older content in the place
// of newer.
func regressed(a *action) bool {
	return a.verb == verbFetch && a.isHeld() && !a.gone && !a.conditional &&
		!a.Lastmod.IsZero() && !a.held.Lastmod.IsZero() && !a.held.Lastmod.After(time.Now().Add(maxClockSkew)) && a.Lastmod.Time().Before(a.held.Lastmod.Truncate(time.Second))
}

// A tally is the totals of a plan.
type tally struct {
	created, updated, deleted, released, unchanged, refused, touched int64
	bytes                                                            int64 // to be fetched, as far as it is stated
	regressed                                                        int64
	unselected                                                       int64 // deletions of what the Source has still
	unexplained                                                      int64 // deletions that no Change List has
	replaced                                                         int64 // deletions of what is kept in another representation
	passed                                                           int64 // listed, and neither selected nor held
	example                                                          string
}

// todo is how many actions there are.
func (t *tally) todo() int64 {
	return t.created + t.updated + t.deleted + t.released + t.refused + t.touched
}

func (t *tally) add(a *action) {
	switch a.verb {
	case verbSkip:
		if a.unselected && a.Class != 0 {
			t.passed++
		}
	case verbNone:
		t.unchanged++
	case verbTouch:
		t.touched++
	case verbRefuse:
		t.refused++
	case verbRelease:
		t.released++
	case verbRemove:
		t.deleted++
		if a.unselected {
			t.unselected++
		}
		if a.Class != desired.Changed {
			t.unexplained++
		}
		if a.Instead != "" {
			t.replaced++
		}
	case verbFetch:
		if a.rehash { // expected to be what is held
			t.touched++
			return
		}
		if a.isHeld() {
			t.updated++
		} else {
			t.created++
		}
		t.bytes += max(a.Length, 0)
		if regressed(a) {
			t.regressed++
			if t.example == "" {
				t.example = a.URI
			}
		}
	}
}

// merge adds what comes after.
func (t *tally) merge(o *tally) {
	t.created += o.created
	t.updated += o.updated
	t.deleted += o.deleted
	t.released += o.released
	t.unchanged += o.unchanged
	t.refused += o.refused
	t.touched += o.touched
	t.bytes += o.bytes
	t.regressed += o.regressed
	t.unselected += o.unselected
	t.unexplained += o.unexplained
	t.replaced += o.replaced
	t.passed += o.passed
	t.example = cmp.Or(t.example, o.example)
}

// guard refuses to delete more than was agreed to (RS-DST-04): deleted out of
// the total that a set holds, some of them for being no longer selected; and to
// empty a set, however small.
func (d *Destination) guard(set string, deleted, total, unselected int64, empties bool) error {
	if deleted <= 0 || d.opts.MaxDelete >= 100 {
		return nil
	}
	if !empties && (deleted <= freeDeletes || deleted*100 <= total*int64(d.opts.MaxDelete)) {
		return nil
	}
	percent := int64(100)
	if total > 0 {
		percent = (deleted*100 + total - 1) / total
	}
	why := ""
	hint := fmt.Sprintf("if that is right, run again with --max-delete %d", min(max(percent, 1), 100))
	if unselected > 0 {
		why = fmt.Sprintf("; of these %d because the selection shrank", unselected)
		hint += "; to keep what is not selected any more, with --delete keep"
	}
	return &RefusedError{
		Reason: fmt.Sprintf("set %s: would delete %d%% of the mirror (%d of %d resources%s)", set, percent, deleted, total, why),
		Hint:   hint,
	}
}

func contains(sets []int, n int) bool {
	for _, s := range sets {
		if s == n {
			return true
		}
	}
	return false
}

// heldFrom returns the row for content that was fetched for a.
func heldFrom(a *action, set int, path string) journal.Held {
	h := journal.Held{URI: a.URI, Path: path, Lastmod: a.Lastmod.Time().Truncate(time.Microsecond), Sets: with(a.held.Sets, set)}
	if a.Lastmod.IsZero() {
		h.Lastmod = time.Time{}
	}
	return h
}

// changeOf is what an event calls the action.
func changeOf(a *action) resourcesync.Change {
	switch {
	case a.verb == verbRemove:
		return resourcesync.Deleted
	case a.isHeld():
		return resourcesync.Updated
	}
	return resourcesync.Created
}

package destination

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

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
func (p *planner) decide(ctx context.Context, w *desired.Resource, h journal.Held) (plan.Action, error) {
	a, err := p.decideLast(ctx, w, h)
	if p.version && err == nil {
		p.becomeVersion(&a)
	}
	if p.past != nil && err == nil {
		p.becomePast(&a)
	}
	return a, err
}

func (p *planner) decideLast(ctx context.Context, w *desired.Resource, h journal.Held) (plan.Action, error) {
	held := h.URI != ""
	a := plan.Action{Held: h}
	ours := held && plan.HasSet(h.Sets, p.set)
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
		a.Resource, a.Unselected = desired.Resource{URI: h.URI, Gone: true, Length: -1}, true
	}
	if l := p.d.selects.preferred(&a.Resource); l != nil && !a.Gone && p.may(l.Href) {
		a.Represent(l)
	}
	if a.Gone && a.Unconfirmed && !p.believes && !p.confirmed[push.KeyOf(a.URI)] {
		return plan.Action{Held: h}, nil
	}
	if a.Gone || !p.d.selects.wants(&a.Resource, ours && p.settled) {
		a.Unselected = a.Unselected || !a.Gone
		switch {
		case !ours:
		case len(h.Sets) > 1:
			a.Verb = plan.Release
		default:
			a.Verb = plan.Remove
		}
		return a, nil
	}
	if a.Refused != "" {
		a.Verb = plan.Refuse
		return a, nil
	}
	a.Verb = plan.Fetch
	if !held {
		return a, nil
	}
	if p.partial && a.Class != desired.Pending && !laterThanHeld(&a.Resource, &h) {
		a.Verb = plan.InStep // what could not be read may have made it what it is
		return a, nil
	}
	if p.files || a.Class == desired.Pending { // it may be owed because it was not there
		there, err := p.d.onDisk(ctx, &h)
		if err != nil {
			return a, err
		}
		if !there {
			a.FileMissing = true
			return a, nil
		}
	}
	switch like := plan.Compare(&h, &a.Resource); {
	case p.others && content.Compare(h.Hashes, a.Hashes) != content.Same:
		// Neither times nor validators are of the same thing.
	case like == content.Same && p.lookUp && a.Change == resourcesync.UnknownChange:
		a.Conditional = true
	case like != content.Different && isStatedOtherwise(&h, &a.Resource):
		a.Conditional, a.Rehash = true, true
	case like == content.Same:
		a.Verb = plan.InStep
		if !ours || !a.Lastmod.IsZero() && !desired.SameLastmod(h.Lastmod, a.Lastmod) {
			a.Verb = plan.Touch
		}
	case like == content.Unknown && p.dated && a.Class == desired.Listed && desired.SameLastmod(h.Lastmod, a.Lastmod):
		a.Verb = plan.InStep
	case like == content.Unknown:
		a.Conditional = true
	}
	return a, nil
}

// becomePast makes a the action for content of the past.
func (p *planner) becomePast(a *plan.Action) {
	if p.past.during && a.Class == desired.Listed && a.Lastmod.Time().After(p.past.asOf) && (a.Verb == plan.Fetch || a.Verb == plan.InStep || a.Verb == plan.Touch) {
		a.Verb, a.Refused = plan.Refuse, "the list of that time was still being taken, and names a later version"
		return
	}
	if a.Verb != plan.Fetch {
		return
	}
	a.Rehash = false
	if a.Conditional && a.Length >= 0 && a.Length == a.Held.Length && desired.SameLastmod(a.Held.Lastmod, a.Lastmod) {
		a.Verb, a.Conditional = plan.InStep, false // RA-DST-06: there is nothing better to compare
		if !plan.HasSet(a.Held.Sets, p.set) {
			a.Verb = plan.Touch
		}
		return
	}
	a.Conditional = false // the Source's validators are of what is there now
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

// regressed reports whether following w would put older content in the place
// of newer.
func regressed(a *plan.Action) bool {
	return a.Verb == plan.Fetch && a.IsHeld() && !a.FileMissing && !a.Conditional &&
		!a.Lastmod.IsZero() && !a.Held.Lastmod.IsZero() && !a.Held.Lastmod.After(time.Now().Add(maxClockSkew)) && a.Lastmod.Time().Before(a.Held.Lastmod.Truncate(time.Second))
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

func (t *tally) add(a *plan.Action) {
	switch a.Verb {
	case plan.Skip:
		if a.Unselected && a.Class != 0 {
			t.passed++
		}
	case plan.InStep:
		t.unchanged++
	case plan.Touch:
		t.touched++
	case plan.Refuse:
		t.refused++
	case plan.Release:
		t.released++
	case plan.Remove:
		t.deleted++
		if a.Unselected {
			t.unselected++
		}
		if a.Class != desired.Changed {
			t.unexplained++
		}
		if a.Instead != "" {
			t.replaced++
		}
	case plan.Fetch:
		if a.Rehash { // expected to be what is held
			t.touched++
			return
		}
		if a.IsHeld() {
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

package destination

import (
	"context"
	"iter"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// heldRows are the resources that a Journal has as held.
type heldRows interface {
	Lookup(ctx context.Context, uris []string) ([]journal.Held, error)
	Held(ctx context.Context, from, to string) iter.Seq2[journal.Held, error]
}

// A pastState is the time of a past state that is planned.
type pastState struct {
	asOf   time.Time
	during bool // the list of that time was being taken
}

// A planner compares wants with what is held by one set.
type planner struct {
	journal heldRows
	selects *selection
	onDisk  func(context.Context, *journal.Held) (bool, error) // whether the file of a row is there
	set     int
	files   bool // also look whether the files are there
	partial bool // changes may be missing: what is held stays, but for what is surely later
	prune   bool // what is not wanted at all is to go: the wants are all there is

	others bool // what is held may be another representation than the one preferred now

	settled bool // what the set holds was selected by this selection
	sift    bool // what is not wanted at all is to go if it is not selected

	version bool       // the wants are versions that are not the last
	past    *pastState // the wants are of a time gone by

	confirmed func(uri string) bool // deletions that were notified and that the Source confirms; others are not planned
	believes  bool                  // they all are

	dated bool // what is listed with the time of what is held is the same

	lookUp bool // of a change of unknown kind the resource's own address is asked

	refuse func(uri string) string // says why content must not be fetched from there

	isNewer func(uri string, at resourcesync.Datetime) bool // whether a notification brought a later state than that of a document; may be nil
	stage   *stage.Stage
	listAt  resourcesync.Datetime // of the list that is staged
}

// isPushed reports whether a notification brought a later state of the resource
// than w describes, or than the list that does not name the resource: documents
// may lag behind.
func (p *planner) isPushed(w *desired.Resource, h *journal.Held) bool {
	switch {
	case p.isNewer == nil:
		return false
	case w == nil:
		return p.prune && p.isNewer(h.URI, p.listAt)
	case w.Class == desired.Listed:
		return p.isNewer(w.URI, p.listAt)
	case w.Class == desired.Changed:
		return p.isNewer(w.URI, p.stage.EventTime(w))
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
	case p.selects.mayWant(&h):
		return a, nil
	default:
		a.Resource, a.Unselected = desired.Resource{URI: h.URI, Gone: true, Length: -1}, true
	}
	if l := p.selects.preferred(&a.Resource); l != nil && !a.Gone && p.may(l.Href) {
		a.Represent(l)
	}
	if a.Gone && a.Unconfirmed && !p.believes && (p.confirmed == nil || !p.confirmed(a.URI)) {
		return plan.Action{Held: h}, nil
	}
	if a.Gone || !p.selects.wants(&a.Resource, ours && p.settled) {
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
		there, err := p.onDisk(ctx, &h)
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

// laterThanHeld reports whether w certainly describes a later state than what
// is held.
func laterThanHeld(w *desired.Resource, h *journal.Held) bool {
	return !w.Lastmod.IsZero() && !h.Lastmod.IsZero() && w.Lastmod.Time().After(h.Lastmod)
}

// isStatedOtherwise reports whether a resource is described by hashes of other
// algorithms than are recorded for what is held, so that they have to be
// computed to be compared. Length and time do not distinguish two versions of
// the same second.
func isStatedOtherwise(h *journal.Held, w *desired.Resource) bool {
	return content.HasKnown(w.Hashes) && len(h.Hashes) > 0 && content.Compare(h.Hashes, w.Hashes) == content.Unknown
}

// Package planner compares the entries of a stage with the resources that a mirror
// holds, and decides for each resource what to do.
package planner

import (
	"context"
	"iter"
	"sync/atomic"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Rows are the rows of the resources that a mirror holds. A Journal implements it.
type Rows interface {
	Lookup(ctx context.Context, uris []string) ([]journal.Held, error)
	Held(ctx context.Context, from, to string) iter.Seq2[journal.Held, error]
}

// A Past is the time of the former state to which a mirror is restored.
type Past struct {
	AsOf   time.Time
	During bool // the list for that time was still being written
}

// A Planner compares the entries of a stage with the resources of one set that a
// mirror holds.
type Planner struct {
	Journal Rows
	Selects *selection.Selection
	OnDisk  func(context.Context, *journal.Held) (bool, error) // whether the file of a row exists
	Set     int
	Files   bool // check whether the files exist
	Partial bool // changes may be missing, so only a state that is certainly later replaces the one held
	Prune   bool // the entries are complete, so resources without one are removed

	PreferOther bool // the mirror may hold another representation than the one preferred now

	Settled bool // the resources of the set were chosen by this selection
	Sift    bool // resources without an entry are removed if they are not selected

	Version bool  // the entries are versions that are not the last
	Past    *Past // the entries are of a former state

	Confirmed func(uri string) bool // whether the Source confirms a deletion that was notified; others are not planned
	Believes  bool                  // all deletions count as confirmed

	Dated bool // an entry with the same time as the resource held describes the same content

	Stated bool // no content is fetched: rows have what the Source states

	LookUp bool // for a change of unknown kind, request the resource's address

	Refuse func(uri string) string // returns why content must not be fetched from uri, or ""

	IsNewer func(uri string, at resourcesync.Datetime) bool // whether a notification brought a later state than a document of the time at; may be nil
	Stage   *stage.Stage
	ListAt  resourcesync.Datetime // time of the list that is staged

	Now  time.Time    // from which the ages of resources are counted
	ripe atomic.Int64 // nanoseconds since 1970: when all resources are old enough that are too young to be selected; 0: there are none
}

// Ripe returns when all resources are old enough that were too young to be taken; zero if
// there were none.
func (p *Planner) Ripe() time.Time {
	if n := p.ripe.Load(); n != 0 {
		return time.Unix(0, n).UTC()
	}
	return time.Time{}
}

// takes reports whether the mirror takes a resource that is selected and that it does not
// have, at its age.
func (p *Planner) takes(w *desired.Resource) bool {
	ok, ripe := p.Selects.Takes(w.Lastmod, p.Now)
	if ripe.IsZero() {
		return ok
	}
	for n := ripe.UnixNano(); ; {
		if was := p.ripe.Load(); was >= n || p.ripe.CompareAndSwap(was, n) {
			return ok
		}
	}
}

// isPushed reports whether a notification brought a later state of the resource
// than w describes, or than the list that does not contain the resource: documents
// may lag behind.
func (p *Planner) isPushed(w *desired.Resource, h *journal.Held) bool {
	switch {
	case p.IsNewer == nil:
		return false
	case w == nil:
		return p.Prune && p.IsNewer(h.URI, p.ListAt)
	case w.Class == desired.Listed:
		return p.IsNewer(w.URI, p.ListAt)
	case w.Class == desired.Changed:
		return p.IsNewer(w.URI, p.Stage.EventTime(w))
	}
	return false
}

// may reports whether content may be fetched from uri.
func (p *Planner) may(uri string) bool { return p.Refuse != nil && p.Refuse(uri) == "" }

// Decide returns the action for one resource. w is the entry for it, nil if there
// is none; h is its row, zero if the mirror does not hold it.
func (p *Planner) Decide(ctx context.Context, w *desired.Resource, h journal.Held) (plan.Action, error) {
	var a plan.Action
	err := p.decide(ctx, w, &h, &a)
	return a, err
}

// decide makes a the action for one resource.
func (p *Planner) decide(ctx context.Context, w *desired.Resource, h *journal.Held, a *plan.Action) error {
	err := p.decideLast(ctx, w, h, a)
	if p.Version && err == nil {
		p.becomeVersion(a)
	}
	if p.Past != nil && err == nil {
		p.becomePast(a)
	}
	return err
}

func (p *Planner) decideLast(ctx context.Context, w *desired.Resource, h *journal.Held, a *plan.Action) error {
	*a = plan.Action{Held: *h}
	held := h.URI != ""
	ours := held && plan.HasSet(h.Sets, p.Set)
	if p.isPushed(w, h) {
		return nil // pending work stays pending
	}
	switch {
	case w != nil && w.Applied && !w.Gone:
		return nil
	case w != nil:
		a.Resource = *w
	case p.Prune:
		a.Resource = desired.Resource{URI: h.URI, Gone: true, Length: -1}
	case p.Selects.MaySelect(h):
		return nil
	default:
		a.Resource, a.Unselected = desired.Resource{URI: h.URI, Gone: true, Length: -1}, true
	}
	if l := p.Selects.Preferred(&a.Resource); l != nil && !a.Gone && p.may(l.Href) {
		a.Represent(l)
	}
	if a.Gone && a.Unconfirmed && !p.Believes && (p.Confirmed == nil || !p.Confirmed(a.URI)) {
		*a = plan.Action{Held: *h}
		return nil
	}
	if a.Gone || !p.Selects.Selects(&a.Resource, ours && p.Settled) && !p.isCompanion(a, ours) {
		a.Unselected = a.Unselected || !a.Gone
		switch {
		case !ours:
		case len(h.Sets) > 1:
			a.Verb, a.Redescribed = plan.Release, plan.Redescribes(a, p.Set)
		default:
			a.Verb = plan.Remove
		}
		return nil
	}
	if !ours && a.Class != desired.Pending && !p.takes(&a.Resource) {
		a.Unselected = true
		return nil
	}
	if a.Refused != "" {
		a.Verb = plan.Refuse
		return nil
	}
	a.Verb = plan.Fetch
	if !held {
		return nil
	}
	if p.Partial && a.Class != desired.Pending && !laterThanHeld(&a.Resource, h) {
		a.Verb, a.Uncertain = plan.InStep, true // a change that could not be read may explain the difference
		return nil
	}
	if p.Files || a.Class == desired.Pending { // it may be pending because its file was missing
		there, err := p.OnDisk(ctx, h)
		if err != nil {
			return err
		}
		if !there {
			a.FileMissing = true
			return nil
		}
	}
	if p.Stated {
		p.compareStated(a, ours)
		return nil
	}
	switch like := plan.Compare(h, &a.Resource); {
	case p.PreferOther && content.Compare(h.Hashes, a.Hashes) != content.Same:
		// Times and validators of two representations cannot be compared.
	case like == content.Same && p.LookUp && a.Change == resourcesync.UnknownChange:
		a.Conditional = true
	case like != content.Different && isStatedOtherwise(h, &a.Resource):
		a.Conditional, a.Rehash = true, true
	case like == content.Same:
		a.Verb = plan.InStep
		if !ours || !a.Lastmod.IsZero() && !desired.SameLastmod(h.Lastmod, a.Lastmod) {
			a.Verb = plan.Touch
		}
		p.restate(a)
	case like == content.Unknown && p.Dated && a.Class == desired.Listed && desired.SameLastmod(h.Lastmod, a.Lastmod):
		a.Verb = plan.InStep
		p.restate(a)
	case like == content.Unknown:
		a.Conditional = true
	}
	return nil
}

// compareStated decides about a resource of which nothing but statements is recorded.
func (p *Planner) compareStated(a *plan.Action, ours bool) {
	restated, changed := plan.Restates(a, p.Set)
	same := content.Compare(a.Held.Hashes, a.Hashes) == content.Same && (a.Length < 0 || a.Length == a.Held.Length)
	switch {
	case restated && !same: // the content may have changed, or it has
	case restated:
		a.Verb, a.Redescribed = plan.Touch, changed
	case !ours:
		a.Verb = plan.Touch
	default:
		a.Verb = plan.InStep
	}
}

// isCompanion reports whether a resource is selected with another. Changes state only
// some of the resources that may name it, so that a companion stays until everything
// is compared.
func (p *Planner) isCompanion(a *plan.Action, ours bool) bool {
	return p.Selects.SelectsWith(&a.Resource) && (a.Companion || ours && p.Settled && !p.Prune && a.Class != desired.Listed)
}

// restate makes an action without a transfer record what the Source states, if the
// row does not say it already.
func (p *Planner) restate(a *plan.Action) {
	restated, changed := plan.Restates(a, p.Set)
	if restated {
		a.Verb, a.Redescribed = plan.Touch, changed
	}
}

// laterThanHeld reports whether w certainly describes a later state than the one
// held.
func laterThanHeld(w *desired.Resource, h *journal.Held) bool {
	return !w.Lastmod.IsZero() && !h.Lastmod.IsZero() && w.Lastmod.Time().After(h.Lastmod)
}

// isStatedOtherwise reports whether a resource is described by hashes of other
// algorithms than those recorded for the version held, so that they have to be
// computed to be compared. Length and time do not distinguish two versions of the
// same second.
func isStatedOtherwise(h *journal.Held, w *desired.Resource) bool {
	return content.HasKnown(w.Hashes) && len(h.Hashes) > 0 && content.Compare(h.Hashes, w.Hashes) == content.Unknown
}

package destination

import (
	"errors"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/resourcesync"
)

// errNoVersion reports a version whose content is unavailable.
var errNoVersion = errors.New("no package has it, and no memento is named")

// becomeVersion makes a the action for a version that is not the last: out of a
// package, or from its memento (RS-REL-51, RS-REL-54), never from the URI of
// the resource, where the last one is.
func (p *planner) becomeVersion(a *plan.Action) {
	switch a.Verb {
	case plan.Remove, plan.Release:
		return
	case plan.Fetch:
	default:
		*a = plan.Action{Verb: plan.Skip}
		return
	}
	if a.IsHeld() && !a.Lastmod.IsZero() && a.Held.Lastmod.After(a.Lastmod.Time()) {
		*a = plan.Action{Verb: plan.Skip} // a run before came as far
		return
	}
	memento := ""
	for _, l := range a.Links {
		if l.Rel == resourcesync.RelMemento && p.may(l.Href) && memento == "" {
			memento = l.Href
		}
	}
	a.Links, a.Patches, a.Conditional, a.Rehash = nil, nil, false, false // they lead to the last one, too
	if a.Member.Package > 0 {
		return
	}
	if memento == "" {
		a.Verb, a.Refused = plan.Refuse, errNoVersion.Error()
		return
	}
	stated := a.Resource
	a.Stated, a.From = &stated, memento
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

package planner

import (
	"errors"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/resourcesync"
)

// ErrNoVersion reports that the content of a version is unavailable.
var ErrNoVersion = errors.New("no package has it, and no memento is named")

// becomeVersion turns a into the action for a version that is not the last. Its
// content comes from a package or from its memento (RS-REL-51, RS-REL-54), never
// from the URI of the resource, which has the last version.
func (p *Planner) becomeVersion(a *plan.Action) {
	switch a.Verb {
	case plan.Remove, plan.Release:
		return
	case plan.Fetch:
	default:
		*a = plan.Action{Verb: plan.Skip}
		return
	}
	if a.IsHeld() && !a.Lastmod.IsZero() && a.Held.Lastmod.After(a.Lastmod.Time()) {
		*a = plan.Action{Verb: plan.Skip} // an earlier run applied it
		return
	}
	memento := ""
	for _, l := range a.Links {
		if l.Rel == resourcesync.RelMemento && p.may(l.Href) && memento == "" {
			memento = l.Href
		}
	}
	stated := a.Resource
	a.Links, a.Patches, a.Conditional, a.Rehash = nil, nil, false, false // they lead to the last version, too
	a.Stated = &stated
	if a.Member.Package > 0 {
		return
	}
	if memento == "" {
		a.Verb, a.Refused = plan.Refuse, ErrNoVersion.Error()
		return
	}
	a.From = memento
}

// becomePast turns a into the action for content of a former state.
func (p *Planner) becomePast(a *plan.Action) {
	if p.Past.During && a.Class == desired.Listed && a.Lastmod.Time().After(p.Past.AsOf) && (a.Verb == plan.Fetch || a.Verb == plan.InStep || a.Verb == plan.Touch) {
		a.Verb, a.Refused = plan.Refuse, "the list of that time was still being taken, and names a later version"
		return
	}
	if a.Verb != plan.Fetch {
		return
	}
	a.Rehash = false
	if a.Conditional && a.Length >= 0 && a.Length == a.Held.Length && desired.SameLastmod(a.Held.Lastmod, a.Lastmod) {
		a.Verb, a.Conditional = plan.InStep, false // RA-DST-06: nothing more reliable can be compared
		if !plan.HasSet(a.Held.Sets, p.Set) {
			a.Verb = plan.Touch
		}
		return
	}
	a.Conditional = false // the Source's validators belong to the current content
	if !content.HasKnown(a.Hashes) {
		a.Patches = nil
	}
}

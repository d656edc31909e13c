package apply

import (
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// changeOf returns the change that an outcome is, once it is applied.
func changeOf(set string, a *plan.Action, h *journal.Held) report.Change {
	c := report.Change{Set: set, URI: a.URI, Kind: plan.KindOf(a), Path: h.Path}
	if a.Class == desired.Changed || !a.Event.IsZero() {
		c.Datetime = a.Event.Time()
	}
	if a.Verb != plan.Remove {
		c.Lastmod = a.Lastmod.Time()
		c.Length, c.Hashes = h.Length, h.Hashes
		c.Type, c.Links, c.Stated = h.Type, h.Links, h.Stated
	}
	return c
}

// changeOfDescription returns the change of a resource whose content is the same.
func changeOfDescription(set string, a *plan.Action, h *journal.Held) report.Change {
	c := changeOf(set, a, h)
	c.Kind, c.Content = resourcesync.Updated, report.ContentSame
	return c
}

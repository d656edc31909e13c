package destination

import (
	"lockstep/destination/internal/plan"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// usefulLink reports whether a link of an entry says where or how its content
// is available (RS-REL-10, RS-REL-20, RS-REL-22, RS-REL-30). Alternates are of
// no use unless one is preferred (RS-REL-23).
func (d *Destination) usefulLink(l *resourcesync.Link) bool {
	switch l.Rel {
	case "duplicate":
		return true
	case "alternate", "canonical":
		return len(d.opts.Prefer) > 0
	case resourcesync.RelPatch:
		return patch.Known(l.Type)
	case resourcesync.RelMemento:
		return true
	}
	return !d.opts.At.IsZero() && (l.Rel == plan.RelTimeGate || l.Rel == plan.RelTimeMap)
}

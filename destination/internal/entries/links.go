package entries

import (
	"lockstep/destination/internal/plan"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// stores reports whether a link of an entry is stored: it says where or how the content
// is available (RS-REL-10, RS-REL-20, RS-REL-22, RS-REL-30). Alternates are useless
// unless one is preferred (RS-REL-23).
func (r *Reader) stores(l *resourcesync.Link) bool {
	switch l.Rel {
	case "duplicate":
		return true
	case "alternate", "canonical":
		return r.Selects.Prefers()
	case resourcesync.RelPatch:
		return patch.Known(l.Type)
	case resourcesync.RelMemento:
		return true
	}
	return r.History && (l.Rel == plan.RelTimeGate || l.Rel == plan.RelTimeMap)
}

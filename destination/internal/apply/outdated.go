package apply

import (
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
)

// Outdated are resources that are pending since an earlier run and failed again because
// their descriptions are outdated: they are not at their addresses, or are not as
// described, and nothing that was read in this run describes them. At most MaxStale are
// recorded. The value says whether a change described the resource, not a list.
type Outdated map[string]bool

// add adds the resource of an action that failed because its description is outdated.
func (o Outdated) add(a *plan.Action) {
	if o != nil && a.Class == desired.Pending && len(o) < MaxStale {
		o[a.URI] = a.Change != 0
	}
}

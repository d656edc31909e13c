package report

import (
	"cmp"
	"errors"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/internal/fetch/shown"
	"lockstep/resourcesync"
)

// NameResource prints what was done with a resource, or what a dry run would do, if the
// event says that.
func NameResource(io term.IO, e *destination.Event) {
	r := term.Resource{URI: shown.Redacted(e.URI), Length: -1}
	if e.Err != nil {
		r.Err = errors.New(shown.RedactedIn(e.Err.Error(), e.URI))
	}
	switch e.Kind {
	case destination.EventApplied:
		r.Done = cmp.Or(doneTo(e.Change).done, "updated")
	case destination.EventPlanned:
		r.Done = "would " + cmp.Or(doneTo(e.Change).would, "refuse")
		if e.Adopted {
			r.Done = "would adopt"
		}
	case destination.EventFailed:
		r.Done = "failed"
		if e.Later {
			r.Remark = "it is tried again at the end"
		}
	case destination.EventRefused:
		r.Done = "refused"
	default:
		return
	}
	switch {
	case e.Err != nil || e.Change == resourcesync.Deleted:
	case e.Content == destination.ContentSame:
		r.Remark = "its description alone"
	default:
		r.Length = e.Length
	}
	io.Resource(r)
}

// verbs say what was done with a resource, and what would be.
type verbs struct{ done, would string }

func doneTo(c resourcesync.Change) verbs {
	switch c {
	case resourcesync.Created:
		return verbs{"created", "create"}
	case resourcesync.Updated:
		return verbs{"updated", "update"}
	case resourcesync.Deleted:
		return verbs{"deleted", "delete"}
	}
	return verbs{}
}

package apply

import (
	"errors"
	"net/http"

	"lockstep/destination/internal/plan"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A change of a kind that the standard does not know, or of no stated kind,
// says only that something happened to the resource (RS-EM-02). Its own address
// is asked: content is an update, 404 or 410 is a deletion that the Source has
// confirmed. Such deletions are gathered while the others are carried out, and
// are then guarded and carried out like those that the Source lists.

// confirmsDeletion reports whether err, of a request for a, is the answer that
// there is no such resource to a question whether there is.
func confirmsDeletion(a *plan.Action, err error) bool {
	if err == nil {
		return false
	}
	var status *fetch.StatusError
	return a.Change == resourcesync.UnknownChange && a.Address() == a.URI && errors.As(err, &status) &&
		(status.Status == http.StatusNotFound || status.Status == http.StatusGone)
}

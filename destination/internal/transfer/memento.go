package transfer

import (
	"context"
	"errors"
	"net/http"
	"strings"

	"lockstep/destination/internal/content"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// fromMemento gets the described version from the memento that its entry names, if
// the address of the resource has another version or none, or has failed for a long
// time. A hash proves that it is that version.
func (t *transfer) fromMemento(ctx context.Context, own error) (Outcome, bool) {
	if own == nil || ctx.Err() != nil || t.OfPast || t.a.From != "" || !content.HasKnown(t.a.Hashes) {
		return Outcome{}, false
	}
	left := maxGates
	for _, l := range t.a.Links {
		if l.Rel != resourcesync.RelMemento || left == 0 || !t.mayAsk(l.Href) {
			continue
		}
		if maySucceedLater(own) && !t.Lasting {
			t.Failing.Store(true)
			return Outcome{}, false
		}
		left--
		uri, _, _ := strings.Cut(l.Href, "#")
		t.drop()
		t.at, t.header, t.kept = location{uri: uri, mirror: true}, nil, false
		err := t.attempt(ctx, fetch.Request{Once: true}, false)
		if err == nil {
			if maySucceedLater(own) {
				t.Failing.Store(true) // the address still fails
			}
			o := t.finish()
			o.By, o.AddressErr = ByMemento, own
			return o, true
		}
		if ctx.Err() != nil || content.IsLocal(err) {
			t.leave(err)
			return Outcome{Err: err}, true
		}
	}
	return Outcome{}, false
}

// maySucceedLater reports whether the error of a request for a resource may be
// temporary, such as a server or network failure. A response that the resource does
// not exist, or has other content, is final.
func maySucceedLater(err error) bool {
	var status *fetch.StatusError
	var body *fetch.BodyError
	switch {
	case errors.As(err, &body):
		return true
	case errors.As(err, &status):
		return status.Status != http.StatusNotFound && status.Status != http.StatusGone
	}
	return !content.IsError(err)
}

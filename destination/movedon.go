package destination

import (
	"context"
	"errors"
	"strings"

	"lockstep/destination/internal/content"
	"lockstep/internal/fetch"
)

// movedOn counts resources whose content came from a memento.
type movedOn struct {
	count int64
	first string // URI of one
	cause error  // why its address was of no use
}

func (m *movedOn) add(o *outcome) {
	if o.moved == nil {
		return
	}
	if m.count++; m.count == 1 {
		m.first, m.cause = o.action.URI, o.moved
	}
}

func (m *movedOn) merge(o *movedOn) {
	if m.count += o.count; m.cause == nil {
		m.first, m.cause = o.first, o.cause
	}
}

// noteMoved notes what an applier found of addresses that have other versions, or
// fail.
func (r *setRun) noteMoved(a *applier) {
	r.movedOn.merge(&a.moved)
	if a.fetch.failing.Load() {
		r.mayReplace(FallbackLoc, errAddresses)
	}
}

var errAddresses = errors.New("addresses of resources fail")

// reportMoved reports the resources that came from mementos.
func (r *setRun) reportMoved() {
	if m := &r.movedOn; m.count > 0 {
		r.fallBack(Fallback{Missing: FallbackLoc, URI: m.first, Cause: m.cause.Error(), Used: FallbackMemento, Count: m.count,
			Unproven: "they are as the Source describes them, and may have changed since"})
	}
}

// fromMemento gets the version that was described from the memento its entry
// names, where the address of the resource has another version or none, or has
// failed for long. A hash proves that it is that version.
func (t *transfer) fromMemento(ctx context.Context, own error) (outcome, bool) {
	if own == nil || ctx.Err() != nil || t.past || t.a.from != "" || !isVouched(&t.a.Resource) {
		return outcome{}, false
	}
	left := maxGates
	for _, l := range t.a.Links {
		if l.Rel != relMemento || left == 0 || !t.mayAsk(l.Href) {
			continue
		}
		if mayPassLater(own) && !t.lasting {
			t.failing.Store(true)
			return outcome{}, false
		}
		left--
		uri, _, _ := strings.Cut(l.Href, "#")
		t.drop()
		t.at, t.header, t.kept = location{uri: uri, mirror: true}, nil, false
		err := t.attempt(ctx, fetch.Request{Once: true}, false)
		if err == nil {
			if mayPassLater(own) {
				t.failing.Store(true) // it still does
			}
			o := t.finish()
			o.by, o.moved = byMemento, own
			return o, true
		}
		if ctx.Err() != nil || content.IsLocal(err) {
			t.leave(err)
			return outcome{err: err}, true
		}
	}
	return outcome{}, false
}

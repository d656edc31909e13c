package destination

import (
	"context"
	"fmt"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/internal/fetch"
	"lockstep/patch"
	"lockstep/resourcesync"
)

// maxLinks caps the links of one entry that are kept.
const maxLinks = 32

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

// fetchPreferred carries out a Fetch, and where the preferred representation
// cannot be fetched, with the resource's own.
func fetchPreferred(ctx context.Context, f *fetcher, a *plan.Action) outcome {
	o := f.do(ctx, a)
	if o.err == nil || !a.Preferred || f.past || ctx.Err() != nil || content.IsLocal(o.err) || isTaken(o.err) {
		return o
	}
	return instead(ctx, f, a, o.err)
}

// instead carries out a, whose preferred representation could not be fetched for
// err, with the resource's own. That is reported once: while the resource's own is
// held, nothing is said of it.
func instead(ctx context.Context, f *fetcher, a *plan.Action, err error) outcome {
	own := a.Own()
	if a.OwnFetched() && !a.FileMissing {
		h := a.Held
		h.Sets = plan.WithSet(h.Sets, f.set)
		return outcome{action: own, held: h, same: true}
	}
	o := f.do(ctx, own)
	if o.err == nil && !o.later {
		o.warning = fmt.Sprintf("%s: the preferred representation could not be fetched, the resource's own is kept until it can: %v", fetch.Printable(a.URI), err)
	}
	return o
}

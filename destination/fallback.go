package destination

import (
	"context"
	"errors"
	"fmt"

	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/wording"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// saveOutages records what failed in this run.
func saveOutages(ctx context.Context, r *setRun) error {
	o := r.outages
	if !o.HasFailed(FallbackLoc) {
		o.Works(FallbackLoc)
	}
	if r.d.opts.DryRun || r.d.compare {
		return nil
	}
	return o.Save(ctx, r.d.journal, r.set.Number)
}

// fallBack reports that something was used in place of something else, once.
func (r *setRun) fallBack(f Fallback) {
	f.Set = fetch.Printable(r.set.Name)
	f.URI, f.UsedURI, f.Cause = fetch.Printable(f.URI), fetch.Printable(f.UsedURI), fetch.Printable(f.Cause)
	for i := range r.report.Fallbacks {
		if o := &r.report.Fallbacks[i]; o.Set == f.Set && o.Missing == f.Missing && o.Used == f.Used {
			return
		}
	}
	if len(r.report.Fallbacks) < maxListed {
		r.report.Fallbacks = append(r.report.Fallbacks, f)
	}
	r.d.emit(Event{Kind: EventWarning, Set: r.set.Name, URI: f.URI, Err: errors.New(f.String())})
}

// A documentFailure is a document that could not be read, and has not been
// reported yet.
type documentFailure struct {
	uri string
	err error
}

// attempt carries out do, and keeps what fails to be reported, or not, later.
func (r *setRun) attempt(do func() error) (failures []documentFailure, err error) {
	fail := r.reader.Fail
	defer func() { r.reader.Fail = fail }()
	r.reader.Fail = func(uri string, err error) {
		if len(failures) < maxListed {
			failures = append(failures, documentFailure{uri, err})
		}
	}
	return failures, do()
}

// failAll reports failures after all.
func (r *setRun) failAll(failures []documentFailure) {
	for _, f := range failures {
		r.reader.Fail(f.uri, f.err)
	}
}

// gravest returns the failure that decides how long to wait for a fallback: one
// that may pass, if there is one.
func gravest(failures []documentFailure) documentFailure {
	for _, f := range failures {
		if outage.IsTemporary(f.err) {
			return f
		}
	}
	return failures[0]
}

// warnWaiting says that there is a fallback, and when it is going to be used.
func (r *setRun) warnWaiting(kind, instead resourcesync.Capability, uri string) {
	r.warn(uri, fmt.Sprintf("set %s: the %s cannot be read now; if it still cannot after %d runs, or one hour, the %s is used instead",
		r.set.Name, wording.Capability(string(kind)), outage.Runs, wording.Capability(string(instead))))
}

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

// A Fallback says what was used in place of something the Source offers, and that
// could not be read.
type Fallback struct {
	Set      string `json:"set"`
	Missing  string `json:"missing"` // a capability, or [FallbackLoc]
	URI      string `json:"uri"`     // of it; of resources, the first
	Cause    string `json:"cause"`
	Used     string `json:"used"` // a capability, [FallbackRequests] or [FallbackMemento]
	UsedURI  string `json:"used_uri,omitempty"`
	Count    int64  `json:"count,omitempty"`    // of resources
	Unproven string `json:"unproven,omitempty"` // what is not certain with it
}

// What a [Fallback] may have besides capabilities.
const (
	FallbackLoc      = "loc"
	FallbackRequests = "single requests"
	FallbackMemento  = "memento"
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

// String says in a sentence what was used in place of what.
func (f *Fallback) String() string {
	var text string
	switch {
	case f.Missing == FallbackLoc:
		text = fmt.Sprintf("set %s: %s read from mementos of the listed versions, because their addresses no longer have them; the first is %s: %s",
			f.Set, wording.Plural(f.Count, "resource"), f.URI, f.Cause)
	case f.Used == FallbackRequests:
		text = fmt.Sprintf("set %s: the %s cannot be used, so single requests are: %s", f.Set, capabilityName(f.Missing), f.Cause)
	default:
		text = fmt.Sprintf("set %s: the %s cannot be read, so the %s %s is used: %s", f.Set, capabilityName(f.Missing), capabilityName(f.Used), f.UsedURI, f.Cause)
	}
	if f.Unproven != "" {
		text += "; " + f.Unproven
	}
	return text
}

func capabilityName(c string) string {
	switch resourcesync.Capability(c) {
	case resourcesync.ResourceList:
		return "Resource List"
	case resourcesync.ResourceDump:
		return "Resource Dump"
	case resourcesync.ChangeList:
		return "Change List"
	case resourcesync.ChangeDump:
		return "Change Dump"
	}
	return c
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
		r.set.Name, capabilityName(string(kind)), outage.Runs, capabilityName(string(instead))))
}

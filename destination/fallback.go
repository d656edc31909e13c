package destination

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/journal"
	"lockstep/discover"
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

const (
	// outageRuns is in how many runs, and outageTime for how long, something may
	// fail with errors that pass before a fallback is used.
	outageRuns = 3
	outageTime = time.Hour

	docOutages = "outages/" // and the number of a set: its outages
)

// An outage is something that could not be read in several runs. It is a
// document in the Journal: fields are only ever added.
type outage struct {
	Since time.Time `json:"since"` // on the mirror's clock: the end of the first run it failed in
	Runs  int       `json:"runs"`  // it failed in
	Cause string    `json:"cause"`
}

// outages are those of a set, by capability, or FallbackLoc.
type outages struct {
	Of map[string]outage `json:"of,omitempty"`

	// Searched are the dumps that were searched for resources that are
	// unavailable at their addresses, in their state at that time.
	Searched map[string]saved.Validators `json:"searched,omitempty"`

	failed  map[string]error // in this run
	working map[string]bool  // in this run
	changed bool
}

func (r *setRun) loadOutages(ctx context.Context) error {
	_, err := saved.Load(ctx, r.d.journal, fmt.Sprint(docOutages, r.set.Number), &r.outages)
	return err
}

// saveOutages notes what failed in this run, and forgets what worked.
func (r *setRun) saveOutages(ctx context.Context) error {
	o := &r.outages
	if o.failed[FallbackLoc] == nil {
		r.works(FallbackLoc)
	}
	for kind := range o.working {
		if _, ok := o.Of[kind]; ok && o.failed[kind] == nil {
			delete(o.Of, kind)
			o.changed = true
		}
	}
	for kind, err := range o.failed {
		if o.Of == nil {
			o.Of = map[string]outage{}
		}
		is := o.Of[kind]
		if is.Since.IsZero() {
			is.Since = r.d.clock().UTC()
		}
		is.Runs, is.Cause = is.Runs+1, fetch.Printable(dump.Clip(err.Error()))
		o.Of[kind], o.changed = is, true
	}
	if !o.changed || r.d.opts.DryRun || r.d.compare {
		return nil
	}
	var doc []byte
	if len(o.Of)+len(o.Searched) > 0 {
		doc = saved.Encode(o)
	}
	return r.d.journal.Record(ctx, journal.Batch{Save: map[string][]byte{fmt.Sprint(docOutages, r.set.Number): doc}})
}

// mayPassLater reports whether an error may be temporary: a server in trouble,
// or a network. A missing document, or one that is not a document, is an
// answer.
func mayPassLater(err error) bool {
	var status *fetch.StatusError
	var body *fetch.BodyError
	var syntax *resourcesync.SyntaxError
	var kind *discover.KindError
	switch {
	case errors.As(err, &body):
		return true
	case isGone(err), dump.IsUnverified(err), errors.As(err, &syntax), errors.As(err, &kind):
		return false
	case errors.As(err, &status):
		return status.Status != http.StatusNotFound && status.Status != http.StatusGone
	}
	return !errors.Is(err, resourcesync.ErrHTML) && !errors.Is(err, resourcesync.ErrNotDocument) && !content.IsError(err)
}

// mayReplace reports whether a fallback may be used for something that failed
// with err: at once if the error is not temporary, otherwise after several
// runs.
func (r *setRun) mayReplace(kind string, err error) bool {
	if !mayPassLater(err) {
		return true
	}
	if r.outages.failed == nil {
		r.outages.failed = map[string]error{}
	}
	r.outages.failed[kind] = err
	return r.isLasting(kind)
}

// isLasting reports whether something has failed for long enough.
func (r *setRun) isLasting(kind string) bool {
	o, ok := r.outages.Of[kind]
	return ok && (o.Runs >= outageRuns || r.d.clock().Sub(o.Since) >= outageTime)
}

// works notes that something could be read.
func (r *setRun) works(kind resourcesync.Capability) {
	if r.outages.working == nil {
		r.outages.working = map[string]bool{}
	}
	r.outages.working[string(kind)] = true
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
	fail := r.reader.fail
	defer func() { r.reader.fail = fail }()
	r.reader.fail = func(uri string, err error) {
		if len(failures) < maxListed {
			failures = append(failures, documentFailure{uri, err})
		}
	}
	return failures, do()
}

// failAll reports failures after all.
func (r *setRun) failAll(failures []documentFailure) {
	for _, f := range failures {
		r.reader.fail(f.uri, f.err)
	}
}

// gravest returns the failure that decides how long to wait for a fallback: one
// that may pass, if there is one.
func gravest(failures []documentFailure) documentFailure {
	for _, f := range failures {
		if mayPassLater(f.err) {
			return f
		}
	}
	return failures[0]
}

// warnWaiting says that there is a fallback, and when it is going to be used.
func (r *setRun) warnWaiting(kind, instead resourcesync.Capability, uri string) {
	r.warn(uri, fmt.Sprintf("set %s: the %s cannot be read now; if it still cannot after %d runs, or one hour, the %s is used instead",
		r.set.Name, capabilityName(string(kind)), outageRuns, capabilityName(string(instead))))
}

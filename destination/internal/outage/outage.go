// Package outage remembers what of a set could not be read in several runs, and
// decides when something else may replace it.
package outage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/dump"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// Something that fails with temporary errors is replaced after Runs runs, or after
// Time.
const (
	Runs = 3
	Time = time.Hour
)

// docName, with the number of a set, is the document that contains its Outages.
const docName = "outages/"

// An outage is something that could not be read in several runs.
type outage struct {
	Since time.Time `json:"since"` // on the mirror's clock: the end of the first run in which it failed
	Runs  int       `json:"runs"`  // in which it failed
	Cause string    `json:"cause"`
}

// Outages are those of a set, by what failed: a capability, or another name.
type Outages struct {
	Of map[string]outage `json:"of,omitempty"`

	// Searched are the dumps that were searched for resources that are unavailable
	// at their addresses, in their state at that time.
	Searched map[string]saved.Validators `json:"searched,omitempty"`

	clock   func() time.Time
	failed  map[string]error // in this run
	working map[string]bool  // in this run
	changed bool
}

// New returns Outages that contain nothing, and go by a clock.
func New(clock func() time.Time) *Outages {
	return &Outages{clock: clock, failed: map[string]error{}, working: map[string]bool{}}
}

// Load reads the outages of a set.
func Load(ctx context.Context, j journal.Journal, set int, clock func() time.Time) (*Outages, error) {
	o := New(clock)
	_, err := saved.Load(ctx, j, fmt.Sprint(docName, set), o)
	return o, err
}

// Save records what failed in this run, and removes what worked.
func (o *Outages) Save(ctx context.Context, j journal.Journal, set int) error {
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
			is.Since = o.clock().UTC()
		}
		is.Runs, is.Cause = is.Runs+1, fetch.Printable(dump.Clip(err.Error()))
		o.Of[kind], o.changed = is, true
	}
	if !o.changed {
		return nil
	}
	var doc []byte
	if len(o.Of)+len(o.Searched) > 0 {
		doc = saved.Encode(o)
	}
	return j.Record(ctx, journal.Batch{Save: map[string][]byte{fmt.Sprint(docName, set): doc}})
}

// IsTemporary reports whether an error may be temporary: a server in trouble, or a
// network. A missing document, or one that is not a document, is an answer.
func IsTemporary(err error) bool {
	var status *fetch.StatusError
	var body *fetch.BodyError
	var syntax *resourcesync.SyntaxError
	var kind *discover.KindError
	switch {
	case errors.As(err, &body):
		return true
	case entries.IsGone(err), dump.IsUnverified(err), errors.As(err, &syntax), errors.As(err, &kind):
		return false
	case errors.As(err, &status):
		return status.Status != http.StatusNotFound && status.Status != http.StatusGone
	}
	return !errors.Is(err, resourcesync.ErrHTML) && !errors.Is(err, resourcesync.ErrNotDocument) && !content.IsError(err)
}

// MayReplace reports whether something else may replace what failed with err: at
// once if the error is not temporary, otherwise after several runs.
func (o *Outages) MayReplace(kind string, err error) bool {
	return !IsTemporary(err) || o.Fails(kind, err)
}

// Fails records that something failed with a temporary error, and reports whether
// it has failed for long enough to be replaced.
func (o *Outages) Fails(kind string, err error) bool {
	o.failed[kind] = err
	return o.IsLasting(kind)
}

// HasFailed reports whether something has failed in this run.
func (o *Outages) HasFailed(kind string) bool { return o.failed[kind] != nil }

// IsLasting reports whether something has failed for long enough to be replaced.
func (o *Outages) IsLasting(kind string) bool {
	is, ok := o.Of[kind]
	return ok && (is.Runs >= Runs || o.clock().Sub(is.Since) >= Time)
}

// Works records that something could be read.
func (o *Outages) Works(kind string) { o.working[kind] = true }

// maxSearched is how many dumps are remembered as searched.
const maxSearched = 3

// Search records the state in which a dump is searched.
func (o *Outages) Search(uri string, v saved.Validators) {
	if o.Searched == nil || len(o.Searched) >= maxSearched {
		o.Searched = map[string]saved.Validators{}
	}
	o.Searched[uri], o.changed = v, true
}

// Package substitute reads the lists and changes of a set, and what replaces a
// document that cannot be read: the Resource Dump for the Resource List, the Change
// Dump for the Change List, and a new list for the changes. A replacement is used at
// once where the document does not exist, and after several runs where its failure
// may be temporary; it is reported, with what it does not prove.
package substitute

import (
	"errors"
	"fmt"
	"time"

	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/outage"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/wording"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/internal/nesting"
	"lockstep/resourcesync"
)

// Documents reads the lists and changes of one set in one run.
type Documents struct {
	Set      *saved.Set
	Reader   *entries.Reader
	Outages  *outage.Outages // what could not be read in earlier runs
	Held     func() int64    // returns how many resources of the set the mirror has
	Baseline bool            // the operator requests a full comparison
	Warn     func(uri, text string)
	Replace  func(report.Fallback) // called with what replaces a document

	Compared bool   // everything is compared in this run
	ListURI  string // of the list that was read

	// ListAt is the instant of the list that is staged, with the changes since then.
	ListAt resourcesync.Datetime

	list    []failure // why the list read is not the Resource List; none: it is
	changes []failure // why a list replaces the changes; none: it does not

	searched map[string]saved.Validators // dumps that SearchDumps has searched, by URI
}

// A failure is a document that could not be read, and has not been reported yet.
type failure struct {
	uri string
	err error
}

// attempt calls read and returns the documents that it could not read, which are
// not reported yet.
func (d *Documents) attempt(read func() error) (failures []failure, err error) {
	fail := d.Reader.Fail
	defer func() { d.Reader.Fail = fail }()
	d.Reader.Fail = func(uri string, err error) {
		if len(failures) < report.MaxListed {
			failures = append(failures, failure{uri, err})
		}
	}
	err = read()
	return failures, err
}

// fail reports failures after all.
func (d *Documents) fail(failures []failure) {
	for _, f := range failures {
		d.Reader.Fail(f.uri, f.err)
	}
}

// gravest returns the failure that decides how long to wait for a replacement: one
// that may be temporary, if there is one.
func gravest(failures []failure) failure {
	for _, f := range failures {
		if outage.IsTemporary(f.err) {
			return f
		}
	}
	return failures[0]
}

// warnWaiting warns that there is a replacement, and says when it will be used.
func (d *Documents) warnWaiting(kind, instead resourcesync.Capability, uri string) {
	d.Warn(uri, fmt.Sprintf("set %s: the %s cannot be read now; if it still cannot after %d runs, or one hour, the %s is used instead",
		d.Set.Name, wording.Capability(string(kind)), outage.Runs, wording.Capability(string(instead))))
}

// IsFresh reports whether a list of an instant is at least as new as what is known
// of the set: what it does not name is then gone.
func (d *Documents) IsFresh(at resourcesync.Datetime) bool {
	known := d.known()
	if known.IsZero() && d.Held() == 0 {
		return true
	}
	return !at.IsZero() && !saved.Time(at).Before(known)
}

// IsOlder reports whether a list of an instant is certainly older than what is known of
// the set.
func (d *Documents) IsOlder(at resourcesync.Datetime) bool {
	return !at.IsZero() && saved.Time(at).Before(d.known())
}

// known is the instant up to which the mirror is known to be in step.
func (d *Documents) known() time.Time { return saved.Latest(d.Set.Watermark, d.Set.ListAt) }

// WarnNotFresh warns that the list that was read, of an instant, is older than what
// is known of the set.
func (d *Documents) WarnNotFresh(at resourcesync.Datetime) {
	d.Warn(d.ListURI, fmt.Sprintf("set %s: %s cannot be used in place of the changes: it is of %s, the mirror is as of %s",
		d.Set.Name, fetch.Printable(d.ListURI), wording.Time(at.Time()), wording.Time(d.known())))
}

// Failures counts the documents of a set that could not be read, and reports them.
type Failures struct {
	Count  int
	Report func(uri string, err error)

	deep bool // one of them is an index that is nested too deep
}

// Add counts a failure and reports it; of the indexes that are nested too deep it
// reports the first.
func (f *Failures) Add(uri string, err error) {
	f.Count++
	if errors.Is(err, nesting.ErrDeep) {
		if f.deep {
			return
		}
		f.deep = true
	}
	f.Report(uri, err)
}

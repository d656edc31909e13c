// Package oaipmhtest is an OAI-PMH 2.0 repository in memory, with faults on
// demand, for tests of harvesters.
//
//	repo := oaipmhtest.New(oaipmhtest.Options{Records: 1000})
//	server := httptest.NewServer(repo)
//	repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:1", Title: "On cats"})
//
// The fields of a record determine every byte of its document.
package oaipmhtest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"lockstep/oaipmh"
)

// Options configures a [Repository]. The zero value is ready to use.
type Options struct {
	Records     int                  // initial number, with datestamps a second apart up to a day ago; default none
	Size        int                  // bytes of their dc:description; default 200
	PageSize    int                  // records per response; default 100
	Granularity oaipmh.Granularity   // default Second
	Deleted     oaipmh.DeletedRecord // default persistent
	Sets        []string             // setSpecs; the initial records are distributed over them in turn
	Clock       func() time.Time     // of datestamps and responseDates; default time.Now
	Delay       time.Duration        // before each response

	// Unordered lists records by their identifiers instead of their datestamps.
	Unordered bool

	// Dirty gives each record a dc:coverage with a character that XML forbids, a
	// bare ampersand and a byte that is not UTF-8.
	Dirty bool

	Faults Faults
}

// Defaults of a Repository.
const (
	defaultPage = 100
	defaultSize = 200
)

// A Record is a record of the repository.
type Record struct {
	Identifier string
	Datestamp  time.Time // Put sets it from the clock
	Sets       []string
	Deleted    bool
	Title      string // dc:title
	Size       int    // of a dc:description generated from the title
	Raw        string // content of <metadata> instead of Dublin Core, unchanged
	Bare       bool   // there is no <metadata>: the record does not exist in this format
}

// A Repository answers the six verbs at any path, in one format: oai_dc. It is
// safe for concurrent use.
type Repository struct {
	o Options

	mu       sync.Mutex // guards what follows
	records  map[string]*Record
	order    []*Record // in listing order; nil: must be sorted again
	faults   Faults
	random   *rand.Rand
	epoch    int // of tokens: those of another epoch have expired
	requests []string
}

// New returns a Repository.
func New(o Options) *Repository {
	if o.PageSize <= 0 {
		o.PageSize = defaultPage
	}
	if o.Size <= 0 {
		o.Size = defaultSize
	}
	if o.Granularity == 0 {
		o.Granularity = oaipmh.Second
	}
	if o.Deleted == "" {
		o.Deleted = oaipmh.DeletedPersistent
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	r := &Repository{o: o, records: make(map[string]*Record, o.Records)}
	r.SetFaults(o.Faults)
	first := o.Clock().Add(-24*time.Hour - time.Duration(o.Records)*time.Second)
	for i := range o.Records {
		rec := &Record{Identifier: fmt.Sprintf("oai:example.org:%07d", i), Title: fmt.Sprintf("Record %d", i), Size: o.Size}
		if len(o.Sets) > 0 {
			rec.Sets = []string{o.Sets[i%len(o.Sets)]}
		}
		rec.Datestamp = r.stamp(first.Add(time.Duration(i) * time.Second))
		r.records[rec.Identifier] = rec
	}
	return r
}

// stamp truncates t to the granularity.
func (r *Repository) stamp(t time.Time) time.Time {
	if r.o.Granularity == oaipmh.Second {
		return t.UTC().Truncate(time.Second)
	}
	return t.UTC().Truncate(24 * time.Hour)
}

// Put adds or replaces a record, with the current time as its datestamp.
func (r *Repository) Put(rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.Sets = slices.Clone(rec.Sets)
	rec.Datestamp = r.stamp(r.o.Clock())
	r.records[rec.Identifier], r.order = &rec, nil
}

// Delete marks a record as deleted, or removes it if the repository does not
// report deletions. A missing record is ignored.
func (r *Repository) Delete(identifier string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.records[identifier]
	if old == nil {
		return
	}
	r.order = nil
	if r.o.Deleted == oaipmh.DeletedNo {
		delete(r.records, identifier)
		return
	}
	r.records[identifier] = &Record{Identifier: identifier, Sets: old.Sets, Deleted: true, Datestamp: r.stamp(r.o.Clock())}
}

// Drop removes a record without a trace.
func (r *Repository) Drop(identifier string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, identifier)
	r.order = nil
}

// All returns the current documents that are not deleted, by identifier: a
// harvester should obtain the same.
func (r *Repository) All() map[string][]byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := make(map[string][]byte, len(r.records))
	for id, rec := range r.records {
		if !rec.Deleted && !rec.Bare {
			all[id] = r.document(rec)
		}
	}
	return all
}

// SetFaults sets the faults from now on.
func (r *Repository) SetFaults(f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults, r.random = f, rand.New(rand.NewPCG(f.Seed, ^f.Seed))
}

// Expire makes the repository refuse all resumption tokens issued so far.
func (r *Repository) Expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
}

// Requests returns the queries of the requests so far, in order.
func (r *Repository) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// sorted returns the records in listing order. The caller holds the lock; the
// result is never modified, and may be read without it.
func (r *Repository) sorted() []*Record {
	if r.order == nil {
		r.order = make([]*Record, 0, len(r.records))
		for _, rec := range r.records {
			r.order = append(r.order, rec)
		}
		slices.SortFunc(r.order, r.compare)
	}
	return r.order
}

// compare orders records for listing.
func (r *Repository) compare(a, b *Record) int {
	if !r.o.Unordered {
		if c := a.Datestamp.Compare(b.Datestamp); c != 0 {
			return c
		}
	}
	return strings.Compare(a.Identifier, b.Identifier)
}

// query is the selection of a list request.
type query struct {
	prefix, set string
	from, until time.Time // zero: none
}

// in reports whether a record is selected.
func (q *query) in(rec *Record) bool {
	switch {
	case !q.from.IsZero() && rec.Datestamp.Before(q.from), !q.until.IsZero() && rec.Datestamp.After(q.until):
		return false
	case q.set == "":
		return true
	}
	return slices.ContainsFunc(rec.Sets, func(s string) bool { return s == q.set || strings.HasPrefix(s, q.set+":") })
}

// page returns the next records of a list that follow a record, and whether
// there are more.
func (r *Repository) page(q *query, after *Record) (page []*Record, more bool) {
	r.mu.Lock()
	all := r.sorted()
	r.mu.Unlock()
	at := 0
	switch {
	case after != nil:
		i, found := slices.BinarySearchFunc(all, after, r.compare)
		if at = i; found {
			at++
		}
	case !q.from.IsZero() && !r.o.Unordered:
		at, _ = slices.BinarySearchFunc(all, q.from, func(rec *Record, t time.Time) int {
			return cmp.Or(rec.Datestamp.Compare(t), 1)
		})
	}
	for ; at < len(all); at++ {
		if !q.in(all[at]) {
			continue
		}
		if len(page) == r.o.PageSize {
			return page, true
		}
		page = append(page, all[at])
	}
	return page, false
}

// count returns the total number of records of a list.
func (r *Repository) count(q *query) (n int) {
	r.mu.Lock()
	all := r.sorted()
	r.mu.Unlock()
	if q.set == "" && q.from.IsZero() && q.until.IsZero() {
		return len(all)
	}
	for _, rec := range all {
		if q.in(rec) {
			n++
		}
	}
	return n
}

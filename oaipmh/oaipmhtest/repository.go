// Package oaipmhtest is a repository that speaks OAI-PMH 2.0, in memory, with
// faults on demand: what harvesters are tried on.
//
//	repo := oaipmhtest.New(oaipmhtest.Options{Records: 1000})
//	server := httptest.NewServer(repo)
//	repo.Put(oaipmhtest.Record{Identifier: "oai:example.org:1", Title: "On cats"})
//
// What a record holds follows from its fields alone, to the byte.
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
	Records     int                  // made at first, with datestamps a second apart up to a day ago; default none
	Size        int                  // bytes of the dc:description of these; default 200
	PageSize    int                  // records of a response; default 100
	Granularity oaipmh.Granularity   // default Second
	Deleted     oaipmh.DeletedRecord // default persistent
	Sets        []string             // setSpecs; the records made at first are in one each, in turn
	Clock       func() time.Time     // of datestamps and responseDates; default time.Now
	Delay       time.Duration        // before each response

	// Unordered lists records by their identifiers, not by their datestamps.
	Unordered bool

	// Dirty gives each record a dc:coverage with a character that XML forbids, an
	// ampersand that is none and a byte that is no UTF-8.
	Dirty bool

	Faults Faults
}

// What a Repository is unless told otherwise.
const (
	defaultPage = 100
	defaultSize = 200
)

// A Record is one of the repository.
type Record struct {
	Identifier string
	Datestamp  time.Time // Put takes it from the clock
	Sets       []string
	Deleted    bool
	Title      string // dc:title
	Size       int    // of a dc:description made of the title
	Raw        string // what stands in <metadata> instead of Dublin Core, as it is
	Bare       bool   // there is no <metadata>: no such format of this record
}

// A Repository answers the six verbs at any path, in one format: oai_dc. It is
// safe for concurrent use.
type Repository struct {
	o Options

	mu       sync.Mutex // guards what follows
	records  map[string]*Record
	order    []*Record // as they are listed; nil: to be sorted anew
	faults   Faults
	random   *rand.Rand
	epoch    int // of tokens: those of another have expired
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

// stamp cuts t to what a datestamp says.
func (r *Repository) stamp(t time.Time) time.Time {
	if r.o.Granularity == oaipmh.Second {
		return t.UTC().Truncate(time.Second)
	}
	return t.UTC().Truncate(24 * time.Hour)
}

// Put adds or replaces a record; its datestamp is now.
func (r *Repository) Put(rec Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	rec.Sets = slices.Clone(rec.Sets)
	rec.Datestamp = r.stamp(r.o.Clock())
	r.records[rec.Identifier], r.order = &rec, nil
}

// Delete marks a record deleted, or forgets it where deletions are not told of.
// A record that is not there is nothing to it.
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

// Drop forgets a record without a trace.
func (r *Repository) Drop(identifier string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.records, identifier)
	r.order = nil
}

// All returns what there is now and is not deleted, by identifier: the documents
// that a harvester should come to.
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

// SetFaults changes the faults from now on.
func (r *Repository) SetFaults(f Faults) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.faults, r.random = f, rand.New(rand.NewPCG(f.Seed, ^f.Seed))
}

// Expire has all resumption tokens given out so far refused.
func (r *Repository) Expire() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epoch++
}

// Requests returns the queries of the requests so far, in the order they came.
func (r *Repository) Requests() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.requests)
}

// sorted returns the records as they are listed. The lock is held; what is
// returned is not changed, and may be read without.
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

// compare orders records as they are listed.
func (r *Repository) compare(a, b *Record) int {
	if !r.o.Unordered {
		if c := a.Datestamp.Compare(b.Datestamp); c != 0 {
			return c
		}
	}
	return strings.Compare(a.Identifier, b.Identifier)
}

// query is what a list is asked for.
type query struct {
	prefix, set string
	from, until time.Time // zero: none
}

// in reports whether a record is asked for.
func (q *query) in(rec *Record) bool {
	switch {
	case !q.from.IsZero() && rec.Datestamp.Before(q.from), !q.until.IsZero() && rec.Datestamp.After(q.until):
		return false
	case q.set == "":
		return true
	}
	return slices.ContainsFunc(rec.Sets, func(s string) bool { return s == q.set || strings.HasPrefix(s, q.set+":") })
}

// page returns the next records of a list that come after a record, and whether
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

// count is how many records a list has in all.
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

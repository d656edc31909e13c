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
	"net/http"
	"sync"
	"time"

	"lockstep/oaipmh"
)

// Options configures a [Repository]. The zero value is ready to use.
type Options struct {
	Records     int                  // made at first, with datestamps a minute apart up to now; default none
	PageSize    int                  // records of a response; default 100
	Granularity oaipmh.Granularity   // default Second
	Deleted     oaipmh.DeletedRecord // default persistent
	Sets        []string             // setSpecs; the records made at first are in one each, in turn
	Clock       func() time.Time     // of datestamps and responseDates; default time.Now
	Delay       time.Duration        // before each response
	MaxGzip     bool                 // compress responses where it is accepted
	Faults      Faults
}

// A Record is one of the repository.
type Record struct {
	Identifier string
	Datestamp  time.Time // Put sets it from the clock where it is zero
	Sets       []string
	Deleted    bool
	Title      string // dc:title of what is made of it
	Size       int    // dc:description of so many bytes
	Raw        string // the metadata element's content instead, as it is
}

// A Repository answers the six verbs. It is safe for concurrent use.
type Repository struct {
	o Options

	mu      sync.Mutex // guards what follows
	records map[string]*Record
}

// New returns a Repository.
func New(o Options) *Repository { return &Repository{o: o, records: make(map[string]*Record)} }

// Put adds or replaces a record.
func (r *Repository) Put(rec Record) {}

// Delete marks a record deleted, or forgets it where deletions are not told of.
func (r *Repository) Delete(identifier string) {}

// Drop forgets a record without a trace.
func (r *Repository) Drop(identifier string) {}

// All returns what there is now and is not deleted, by identifier: the bytes
// that a harvester should come to.
func (r *Repository) All() map[string][]byte { return nil }

// SetFaults changes the faults from now on.
func (r *Repository) SetFaults(f Faults) {}

// Requests returns the queries of the requests so far.
func (r *Repository) Requests() []string { return nil }

// ServeHTTP implements [http.Handler], at any path.
func (r *Repository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	http.Error(w, "not written yet", http.StatusNotImplemented)
}

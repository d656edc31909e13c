package oaipmh

import (
	"errors"
	"io"
	"iter"
)

// ReaderOptions configures a [Reader]. The zero value is ready to use.
type ReaderOptions struct {
	MaxBytes  int64 // cap on a response; default 1 GiB
	MaxRecord int64 // cap on the metadata of a record; default 16 MiB
}

// A Reader reads one response, whatever verb it answers, with memory for one
// record. Its errors stick. Errors that the response states are [*Error]s, found
// by [ErrorsIn]; they come from whatever method reads that far.
type Reader struct {
	r io.Reader
	o ReaderOptions
}

// NewReader returns a Reader of the response that r brings.
func NewReader(r io.Reader, o ReaderOptions) *Reader { return &Reader{r: r, o: o} }

var errUnwritten = errors.New("not written yet")

// Header reads what the response begins with, unless that was done.
func (r *Reader) Header() (Header, error) { return Header{}, errUnwritten }

// Read reads the next record of ListRecords, ListIdentifiers or GetRecord. At the
// end it returns io.EOF. The record's slices are the caller's until the next Read.
func (r *Reader) Read(rec *Record) error { return errUnwritten }

// Records yields the records in order; each is the caller's to keep. It stops
// after the first error, which it yields with a zero Record.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) { yield(Record{}, errUnwritten) }
}

// Sets reads a response to ListSets.
func (r *Reader) Sets() ([]Set, error) { return nil, errUnwritten }

// Formats reads a response to ListMetadataFormats.
func (r *Reader) Formats() ([]Format, error) { return nil, errUnwritten }

// Identify reads a response to Identify.
func (r *Reader) Identify() (Identify, error) { return Identify{}, errUnwritten }

// Token returns the resumption token, once the list was read to its end; ok is
// false if there was none.
func (r *Reader) Token() (t Token, ok bool) { return Token{}, false }

// Package oaipmh holds the responses of the Open Archives Initiative Protocol
// for Metadata Harvesting, version 2.0 (OAI-PMH 2.0, openarchives.org): types, a
// streaming [Reader] and a [Writer], and the addresses requests go to.
//
// A harvester asks a repository for its records by HTTP, a page at a time:
//
//	r := oaipmh.NewReader(body, oaipmh.ReaderOptions{})
//	for rec, err := range r.Records() {
//		…
//	}
//	token, more := r.Token() // by which to ask for the next page
//
// What repositories send is often not quite XML; [Clean] makes it so where that
// is safe.
package oaipmh

import (
	"errors"
	"time"
)

// Namespace is that of the responses (OAI-PMH 2.0, 3.2).
const Namespace = "http://www.openarchives.org/OAI/2.0/"

// What every repository has: unqualified Dublin Core (OAI-PMH 2.0, 3.4).
const (
	DublinCore          = "oai_dc" // its metadataPrefix
	DublinCoreNamespace = "http://www.openarchives.org/OAI/2.0/oai_dc/"
	DublinCoreSchema    = "http://www.openarchives.org/OAI/2.0/oai_dc.xsd"
)

// A Verb is what a request asks for (OAI-PMH 2.0, 4).
type Verb string

// The six verbs.
const (
	VerbGetRecord           Verb = "GetRecord"
	VerbIdentify            Verb = "Identify"
	VerbListIdentifiers     Verb = "ListIdentifiers"
	VerbListMetadataFormats Verb = "ListMetadataFormats"
	VerbListRecords         Verb = "ListRecords"
	VerbListSets            Verb = "ListSets"
)

// A DeletedRecord says how a repository tells of deletions (OAI-PMH 2.0, 2.5.1).
type DeletedRecord string

// How a repository tells of deletions.
const (
	DeletedNo         DeletedRecord = "no"         // not at all
	DeletedTransient  DeletedRecord = "transient"  // some, for some time
	DeletedPersistent DeletedRecord = "persistent" // all, for ever
)

// The codes of errors (OAI-PMH 2.0, 3.6).
const (
	CodeBadArgument             = "badArgument"
	CodeBadResumptionToken      = "badResumptionToken"
	CodeBadVerb                 = "badVerb"
	CodeCannotDisseminateFormat = "cannotDisseminateFormat"
	CodeIDDoesNotExist          = "idDoesNotExist"
	CodeNoRecordsMatch          = "noRecordsMatch"
	CodeNoMetadataFormats       = "noMetadataFormats"
	CodeNoSetHierarchy          = "noSetHierarchy"
)

// An Error is what a repository answers instead of what was asked for.
type Error struct {
	Code    string // one of the codes above, or what the repository made up
	Message string // for people; may be empty
}

// Error names code and message.
func (e *Error) Error() string {
	switch {
	case e.Code == "":
		return "the repository reports an error: " + e.Message
	case e.Message == "":
		return "the repository answers " + e.Code
	}
	return "the repository answers " + e.Code + ": " + e.Message
}

// HasCode reports whether err is, or holds, an [Error] with the code.
func HasCode(err error, code string) bool {
	for _, e := range ErrorsIn(err) {
		if e.Code == code {
			return true
		}
	}
	return false
}

// ErrorsIn returns the Errors that err is or holds: a response may state several.
func ErrorsIn(err error) (all []*Error) {
	if err == nil {
		return nil
	}
	if e, ok := err.(*Error); ok {
		return []*Error{e}
	}
	switch u := err.(type) {
	case interface{ Unwrap() error }:
		return ErrorsIn(u.Unwrap())
	case interface{ Unwrap() []error }:
		for _, e := range u.Unwrap() {
			all = append(all, ErrorsIn(e)...)
		}
	}
	return all
}

// ErrNotOAI reports a document that is no response of OAI-PMH.
var ErrNotOAI = errors.New("not an OAI-PMH response")

// A Request is what a response says it answers (OAI-PMH 2.0, 3.2): empty but for
// URL where the request was bad.
type Request struct {
	URL            string // the base URL
	Verb           Verb
	Identifier     string
	MetadataPrefix string
	From, Until    string
	Set            string
	Token          string
}

// A Header is what every response begins with.
type Header struct {
	ResponseDate time.Time // zero if it is missing or illegible
	Request      Request
}

// Identify describes a repository (OAI-PMH 2.0, 4.2).
type Identify struct {
	RepositoryName    string
	BaseURL           string
	ProtocolVersion   string
	AdminEmails       []string
	EarliestDatestamp time.Time // zero if it is missing or illegible
	DeletedRecord     DeletedRecord
	Granularity       Granularity
	Compressions      []string
}

// A Set is one of a repository's groups of records (OAI-PMH 2.0, 2.6).
type Set struct{ Spec, Name string }

// A Format is one in which a repository has records (OAI-PMH 2.0, 4.4).
type Format struct{ Prefix, Schema, Namespace string }

// A Record is one of a repository, in one format (OAI-PMH 2.0, 2.5); of
// ListIdentifiers just its header.
type Record struct {
	Identifier string
	Datestamp  time.Time // zero if it is missing or illegible
	Sets       []string  // setSpecs, as listed
	Deleted    bool
	Metadata   []byte // the element in <metadata> as a document of its own, in UTF-8; nil if there is none
	Namespace  string // of its root
}

// A Token is how an incomplete list goes on (OAI-PMH 2.0, 3.5).
type Token struct {
	Value    string    // empty: the list is complete with this response
	Complete int64     // completeListSize; -1 if not known
	Cursor   int64     // of the first record of this response, counted from 0; -1 if not known
	Expires  time.Time // expirationDate; zero if none is stated
}

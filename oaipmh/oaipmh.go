// Package oaipmh reads and writes the responses of the Open Archives Initiative
// Protocol for Metadata Harvesting, version 2.0 (OAI-PMH 2.0, openarchives.org):
// it has their types, a streaming [Reader] and a [Writer], and builds the
// addresses of requests.
//
// A harvester requests the records of a repository by HTTP, a page at a time:
//
//	r := oaipmh.NewReader(body, oaipmh.ReaderOptions{})
//	for rec, err := range r.Records() {
//		…
//	}
//	token, more := r.Token() // requests the next page
//
// Repositories often send malformed XML; [Clean] repairs it where that is safe.
package oaipmh

import (
	"errors"
	"time"
)

// Namespace is the namespace of the responses (OAI-PMH 2.0, 3.2).
const Namespace = "http://www.openarchives.org/OAI/2.0/"

// The format that every repository has: unqualified Dublin Core (OAI-PMH 2.0,
// 3.4).
const (
	DublinCore          = "oai_dc" // its metadataPrefix
	DublinCoreNamespace = "http://www.openarchives.org/OAI/2.0/oai_dc/"
	DublinCoreSchema    = "http://www.openarchives.org/OAI/2.0/oai_dc.xsd"

	dublinCoreElements = "http://purl.org/dc/elements/1.1/"
)

// A Verb selects the kind of a request (OAI-PMH 2.0, 4).
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

// A DeletedRecord states which deletions a repository reports (OAI-PMH 2.0,
// 2.5.1).
type DeletedRecord string

// The values of DeletedRecord.
const (
	DeletedNo         DeletedRecord = "no"         // none
	DeletedTransient  DeletedRecord = "transient"  // some, for some time
	DeletedPersistent DeletedRecord = "persistent" // all, forever
)

// The error codes (OAI-PMH 2.0, 3.6).
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

// An Error is an error response of a repository.
type Error struct {
	Code    string // one of the codes above, or a nonstandard one
	Message string // for people; may be empty
}

// Error returns code and message.
func (e *Error) Error() string {
	switch {
	case e.Code == "":
		return "the repository reports an error: " + e.Message
	case e.Message == "":
		return "the repository answers " + e.Code
	}
	return "the repository answers " + e.Code + ": " + e.Message
}

// HasCode reports whether err is, or wraps, an [Error] with the code.
func HasCode(err error, code string) bool {
	for _, e := range ErrorsIn(err) {
		if e.Code == code {
			return true
		}
	}
	return false
}

// ErrorsIn returns the Errors that err is or wraps: a response may have several.
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

// ErrNotOAI reports a document that is not an OAI-PMH response.
var ErrNotOAI = errors.New("not an OAI-PMH response")

// A Request is the request that a response claims to answer (OAI-PMH 2.0, 3.2):
// empty except for URL if the request was invalid.
type Request struct {
	URL            string // the base URL
	Verb           Verb
	Identifier     string
	MetadataPrefix string
	From, Until    string
	Set            string
	Token          string
}

// A Header is the beginning of every response.
type Header struct {
	ResponseDate time.Time // zero if missing or invalid
	Request      Request
}

// Identify describes a repository (OAI-PMH 2.0, 4.2).
type Identify struct {
	RepositoryName    string
	BaseURL           string
	ProtocolVersion   string
	AdminEmails       []string
	EarliestDatestamp time.Time // zero if missing or invalid
	DeletedRecord     DeletedRecord
	Granularity       Granularity
	Compressions      []string
}

// A Set is one of a repository's groups of records (OAI-PMH 2.0, 2.6).
type Set struct {
	Spec, Name  string
	Description string // in Dublin Core; of several the first
}

// A Format is a metadata format of a repository (OAI-PMH 2.0, 4.4).
type Format struct{ Prefix, Schema, Namespace string }

// A Record is a record of a repository, in one format (OAI-PMH 2.0, 2.5); for
// ListIdentifiers only its header.
type Record struct {
	Identifier string
	Datestamp  time.Time // zero if missing or invalid
	Sets       []string  // setSpecs, as listed
	Deleted    bool
	Metadata   []byte // the element in <metadata> as a document of its own, in UTF-8; nil if there is none
	Namespace  string // of its root
}

// A Token continues an incomplete list (OAI-PMH 2.0, 3.5).
type Token struct {
	Value    string    // empty: the list is complete with this response
	Complete int64     // completeListSize; -1 if unknown
	Cursor   int64     // position of the first record of this response, counted from 0; -1 if unknown
	Expires  time.Time // expirationDate; zero if none is stated
}

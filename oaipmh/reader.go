package oaipmh

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"

	"lockstep/internal/xmlscan"
)

// ReaderOptions configures a [Reader]. The zero value is ready to use.
type ReaderOptions struct {
	MaxBytes  int64 // cap on a response; default 1 GiB
	MaxRecord int64 // cap on the metadata of a record; default 16 MiB
}

// Limits of a response; each comment says what the limit prevents.
const (
	defaultMaxRecord = 16 << 20 // memory filled by one record
	maxDepth         = 256      // memory filled by nesting
	maxErrors        = 5        // an error message that fills pages, memory filled
	maxListed        = 100_000  // by sets or formats of one response
	maxSets          = 1000     // and by the setSpecs of one record
	maxEmails        = 100
	maxTexts         = 32 << 20 // and by texts, in bytes: of one record's header, or of a response without records
)

// ErrLimit reports a response that exceeds a limit.
var ErrLimit = xmlscan.ErrLimit

// ErrHTML reports an HTML page.
var ErrHTML = xmlscan.ErrHTML

// A SyntaxError reports where and why a response cannot be read further.
type SyntaxError = xmlscan.SyntaxError

// Indexes of names in [namespaces].
const oai xmlscan.Space = 1

var namespaces = []string{Namespace}

// assumed are prefixes that repositories often fail to declare, with their usual
// meaning.
var assumed = []xmlscan.Declaration{
	{Prefix: "dc", URI: "http://purl.org/dc/elements/1.1/"},
	{Prefix: "dcterms", URI: "http://purl.org/dc/terms/"},
	{Prefix: "oai_dc", URI: DublinCoreNamespace},
	{Prefix: "xlink", URI: "http://www.w3.org/1999/xlink"},
	{Prefix: "xsi", URI: schemaInstance},
}

// A Reader reads one response to any verb, with memory for one record. It accepts
// names of OAI-PMH also without the namespace. Its errors are sticky. Errors in
// the response are [*Error]s, found by [ErrorsIn]; any method that reads that far
// returns them. A document of another kind is [ErrNotOAI], or ErrHTML; one that is
// not well formed is a [*SyntaxError].
type Reader struct {
	s         xmlscan.Scanner
	maxRecord int
	err       error // sticky

	begun   bool
	space   xmlscan.Space // of the root
	texts   int           // bytes, see maxTexts
	head    Header
	body    bool // the element with the answer was reached,
	inBody  bool // but not its end
	list    Verb // name of that element
	errs    []*Error
	token   Token
	tokened bool

	buf      []byte // of the metadata
	rootTag  []byte // of the last record
	rootName string // its namespace
}

// NewReader returns a Reader of the response in r.
func NewReader(r io.Reader, o ReaderOptions) *Reader {
	if o.MaxRecord <= 0 {
		o.MaxRecord = defaultMaxRecord
	}
	return &Reader{
		s: xmlscan.New(r, xmlscan.Options{
			Namespaces: namespaces, Assumed: assumed, MaxBytes: o.MaxBytes, MaxToken: int(o.MaxRecord), MaxDepth: maxDepth, NotDocument: ErrNotOAI,
		}),
		maxRecord: int(o.MaxRecord),
	}
}

// fail records err, which is sticky.
func (r *Reader) fail(err error) error {
	r.err = err
	return err
}

// ours reports whether the current tag has a name of OAI-PMH.
func (r *Reader) ours(name string) bool {
	return string(r.s.Local) == name && (r.s.Space == r.space || r.s.Space == oai)
}

// Header reads the beginning of the response, unless that was done.
func (r *Reader) Header() (Header, error) {
	if !r.begun && r.err == nil {
		if err := r.begin(); err != nil && !errors.Is(err, io.EOF) {
			return r.head, err
		}
	}
	return r.head, nil
}

// begin reads up to the answer, or to the end.
func (r *Reader) begin() error {
	r.begun = true
	if _, err := r.s.Next(); err != nil {
		return r.fail(err)
	}
	if string(r.s.Local) != "OAI-PMH" {
		return r.fail(fmt.Errorf("%w: the root element is %s", ErrNotOAI, xmlscan.Clip(string(r.s.Local))))
	}
	r.space = r.s.Space
	return r.top()
}

// top reads the children of the root, up to the element with the answer, or to
// the end, where it fails with io.EOF or the error of the response.
func (r *Reader) top() error {
	for {
		m, err := r.s.Next()
		if err != nil {
			return r.fail(err)
		}
		if m == xmlscan.End { // of the root
			return r.fail(r.end())
		}
		switch verb := Verb(r.s.Local); {
		case r.ours("responseDate"):
			err = r.text(func(s string) { r.head.ResponseDate = parseLoose(s) })
		case r.ours("request"):
			err = r.request()
		case r.ours("error"):
			err = r.error()
		case r.ours("resumptionToken"):
			err = r.resumption()
		case r.ours(string(verb)) && isVerb(verb) && !r.body:
			r.body, r.inBody, r.list = true, true, verb
			return nil
		default:
			err = r.s.Skip()
		}
		if err != nil {
			return r.fail(err)
		}
	}
}

func isVerb(v Verb) bool {
	switch v {
	case VerbGetRecord, VerbIdentify, VerbListIdentifiers, VerbListMetadataFormats, VerbListRecords, VerbListSets:
		return true
	}
	return false
}

// end returns the result at the end of the response.
func (r *Reader) end() error {
	if _, err := r.s.Next(); err != nil { // what follows the root
		return err
	}
	switch {
	case len(r.errs) == 1:
		return r.errs[0]
	case len(r.errs) > 1:
		all := make([]error, len(r.errs))
		for i, e := range r.errs {
			all[i] = e
		}
		return errors.Join(all...)
	case !r.body:
		return fmt.Errorf("%w: it holds neither what was asked for nor an error", ErrNotOAI)
	}
	return io.EOF
}

// text reads the text of the current element.
func (r *Reader) text(use func(string)) error {
	t, _, err := r.s.Text()
	if err != nil {
		return err
	}
	if r.texts += len(t); r.texts > maxTexts {
		return r.s.Errorf("%w: texts of more than %d bytes", ErrLimit, maxTexts)
	}
	use(string(t))
	return nil
}

// request reads the request element.
func (r *Reader) request() error {
	q := &r.head.Request
	for _, a := range r.s.Attrs {
		v := string(a.Value)
		switch string(a.Local) {
		case "verb":
			q.Verb = Verb(v)
		case "identifier":
			q.Identifier = v
		case "metadataPrefix":
			q.MetadataPrefix = v
		case "from":
			q.From = v
		case "until":
			q.Until = v
		case "set":
			q.Set = v
		case "resumptionToken":
			q.Token = v
		}
	}
	return r.text(func(s string) { q.URL = s })
}

// error reads an error element.
func (r *Reader) error() error {
	code, _ := r.s.Attr("code")
	e := &Error{Code: strings.TrimSpace(xmlscan.Clip(string(code)))}
	t, err := r.s.AllText()
	if err != nil {
		return err
	}
	e.Message = clipMessage(t)
	if len(r.errs) < maxErrors {
		r.errs = append(r.errs, e)
	}
	return nil
}

// clipMessage shortens a repository's message for use in an error.
func clipMessage(t []byte) string {
	const most, looked = 300, 64 << 10
	words := bytes.Join(bytes.Fields(t[:min(len(t), looked)]), []byte(" "))
	s := strings.Map(func(c rune) rune {
		if !strconv.IsPrint(c) {
			return '\ufffd'
		}
		return c
	}, string(words))
	if runes := []rune(s); len(runes) > most {
		s = string(runes[:most]) + "…"
	}
	return s
}

// resumption reads a resumptionToken element.
func (r *Reader) resumption() error {
	t := Token{Complete: -1, Cursor: -1}
	number := func(name string) int64 {
		v, ok := r.s.Attr(name)
		n, err := strconv.ParseInt(strings.TrimSpace(string(v)), 10, 64)
		if !ok || err != nil || n < 0 {
			return -1
		}
		return n
	}
	t.Complete, t.Cursor = number("completeListSize"), number("cursor")
	if v, ok := r.s.Attr("expirationDate"); ok {
		t.Expires = parseLoose(string(v))
	}
	err := r.text(func(s string) { t.Value = s })
	if err == nil {
		r.token, r.tokened = t, true
	}
	return err
}

// Verb returns the verb that the response answers, as far as it was read; empty
// if it has no answer.
func (r *Reader) Verb() Verb { return r.list }

// Token returns the resumption token, once the list was read to its end; ok is
// false if there was none.
func (r *Reader) Token() (t Token, ok bool) {
	if !r.tokened {
		return Token{Complete: -1, Cursor: -1}, false
	}
	return r.token, true
}

// next advances to the next start tag in the answer. After its end it reads to the
// end of the response and fails with io.EOF, or the error of the response.
func (r *Reader) next() error {
	if r.err != nil {
		return r.err
	}
	if !r.begun {
		if err := r.begin(); err != nil {
			return err
		}
	}
	for r.inBody {
		m, err := r.s.Next()
		switch {
		case err != nil:
			return r.fail(err)
		case m == xmlscan.End:
			r.inBody = false
		case r.ours("resumptionToken"):
			if err := r.resumption(); err != nil {
				return r.fail(err)
			}
		case r.ours("error"): // misplaced, but clear
			if err := r.error(); err != nil {
				return r.fail(err)
			}
		default:
			return nil
		}
	}
	for {
		if err := r.top(); err != nil {
			return err
		}
		if err := r.s.Skip(); err != nil { // unreachable: there is one answer
			return r.fail(err)
		}
	}
}

// Read reads the next record of ListRecords, ListIdentifiers or GetRecord. At the
// end it returns io.EOF. A record whose identifier is missing or invalid has an
// empty Identifier. The record's Metadata is valid until the next Read.
func (r *Reader) Read(rec *Record) error {
	*rec = Record{}
	for {
		if err := r.next(); err != nil {
			return err
		}
		r.texts = 0
		var err error
		switch {
		case r.ours("record") && (r.list == VerbListRecords || r.list == VerbGetRecord):
			if err = r.record(rec); err == nil {
				return nil
			}
		case r.ours("header") && r.list == VerbListIdentifiers:
			if err = r.header(rec); err == nil {
				return nil
			}
		case r.isStray():
			if err = r.s.Skip(); err == nil {
				return nil // without an identifier: the list is incomplete
			}
		default:
			err = r.s.Skip()
		}
		if err != nil {
			return r.fail(err)
		}
	}
}

// isStray reports whether the current element has the name of the list's items,
// but not the namespace of OAI-PMH.
func (r *Reader) isStray() bool {
	switch r.list {
	case VerbListRecords, VerbGetRecord:
		return strings.EqualFold(string(r.s.Local), "record")
	case VerbListIdentifiers:
		return strings.EqualFold(string(r.s.Local), "header")
	}
	return false
}

// Records yields the records in order; the caller may keep them. It stops after
// the first error, which it yields with a zero Record.
func (r *Reader) Records() iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		for {
			var rec Record
			err := r.Read(&rec)
			if errors.Is(err, io.EOF) {
				return
			}
			rec.Metadata = slices.Clone(rec.Metadata)
			if err != nil {
				rec = Record{}
			}
			if !yield(rec, err) || err != nil {
				return
			}
		}
	}
}

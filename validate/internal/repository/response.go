package repository

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"lockstep/internal/xmlscan"
	"lockstep/oaipmh"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// spaces are the namespaces that a response reader distinguishes.
var spaces = []string{oaipmh.Namespace}

const inOAI xmlscan.Space = 1

// rootName is the name of the root element of a response.
const rootName = "OAI-PMH"

// A response is the content of one response.
type response struct {
	uri      string
	request  map[string]string // attributes of the element request
	base     string            // its text
	answer   string            // name of the element that answers the request; empty if there are errors
	codes    []string          // of errors
	fields   map[string][]string
	records  []record // the first ones
	byID     map[string]int
	count    int
	token    string
	hasToken bool
	whole    bool
}

// A record is a record or, for ListIdentifiers, its header.
type record struct {
	identifier, datestamp, at string
	deleted                   bool
}

// has reports whether the response has the error code.
func (r *response) has(code string) bool { return slices.Contains(r.codes, code) }

// field returns the first text with that name; "" if there is none.
func (r *response) field(name string) string {
	if len(r.fields[name]) == 0 {
		return ""
	}
	return r.fields[name][0]
}

// find returns the record with that identifier, if it is among the first.
func (r *response) find(identifier string) *record {
	i, ok := r.byID[identifier]
	if !ok {
		return nil
	}
	return &r.records[i]
}

// Limits of what is kept of one response; each comment says what the limit prevents.
const (
	maxRecords = 10_000  // memory filled by records, or by texts of one name
	maxErrors  = 100     // and by errors,
	maxRequest = 16      // attributes of request,
	maxTexts   = 8 << 20 // and by all texts, in bytes
)

// kept are the elements whose texts the checks of a repository need.
var kept = map[string]bool{
	"repositoryName": true, "baseURL": true, "protocolVersion": true, "earliestDatestamp": true, "deletedRecord": true, "granularity": true, "adminEmail": true,
	"metadataPrefix": true, "schema": true, "metadataNamespace": true, "setSpec": true, "setName": true,
}

// A reader reads one response and checks it by itself.
type reader struct {
	xmlscan.Scanner
	found   finding.Place
	visitor *visit.Visitor
	resp    *response
	form    *regexp.Regexp // required form of datestamps; nil if any is allowed
	texts   int            // bytes that are kept
}

// keep returns a text that is kept.
func (r *reader) keep(text []byte) (string, error) {
	if r.texts += len(text); r.texts > maxTexts {
		return "", r.Errorf("%w: texts of more than %d bytes", xmlscan.ErrLimit, maxTexts)
	}
	return string(text), nil
}

// text reads the text of the current element, which is kept.
func (r *reader) text() (string, error) {
	text, _, err := r.Text()
	if err != nil {
		return "", err
	}
	return r.keep(text)
}

// readResponse reads a response. The error is that of reading, not about the
// content.
func readResponse(ctx context.Context, v *visit.Visitor, src *visit.Source, form *regexp.Regexp) (*response, error) {
	body := visit.NewHashed(src)
	resp := &response{uri: src.URI, request: map[string]string{}, fields: map[string][]string{}, byID: map[string]int{}}
	r := &reader{found: v.Collector.In(src.URI), visitor: v, resp: resp, form: form}
	r.Scanner = xmlscan.New(body, xmlscan.Options{
		Namespaces: spaces, MaxBytes: v.Settings.DocumentBytes, MaxToken: int(min(v.Settings.DocumentBytes, 16<<20)), HTML: visit.ErrPage, NotDocument: visit.ErrNoXML,
	})
	err := r.root(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil && body.Err() != nil {
		return nil, fmt.Errorf("read %s: %w", finding.Printable(src.URI), body.Err())
	}
	if err != nil {
		location := ""
		if syntax, ok := errors.AsType[*xmlscan.SyntaxError](err); ok {
			location, err = finding.Position(syntax.Line, syntax.Column), syntax.Err
		}
		r.found.Errorf("OAI-XML-01", location, "cannot be read: %v", err)
	}
	resp.whole = err == nil
	v.Count(resp.uri)
	return resp, nil
}

func (r *reader) here() string { return finding.Position(r.Position()) }

// children calls f for each child of the current element, after its start tag;
// f has to read it to its end.
func (r *reader) children(f func(name, at string) error) error {
	for {
		m, err := r.Next()
		if err != nil || m != xmlscan.Start {
			return err
		}
		name := string(r.Local)
		if r.Space != inOAI {
			name = ""
		}
		if err := f(name, r.here()); err != nil {
			return err
		}
	}
}

// root reads a response (OAI-PMH 2.0, 3.2).
func (r *reader) root(ctx context.Context) error {
	m, err := r.Next()
	if err != nil {
		return err
	}
	if m != xmlscan.Start || r.Space != inOAI || string(r.Local) != rootName {
		if string(r.Local) == rootName {
			return r.Errorf("the root is not in the namespace %s", oaipmh.Namespace)
		}
		return r.Errorf("the root is %s, not OAI-PMH", finding.Printable(string(r.Local)))
	}
	first, answers := []string{"responseDate", "request"}, 0
	err = r.children(func(name, at string) error {
		for len(first) > 0 && name != first[0] {
			r.found.Errorf("OAI-RSP-01", at, "%s, in front of which there is no %s", orOther(name), first[0])
			first = first[1:]
		}
		if len(first) > 0 {
			first = first[1:]
			return r.part(ctx, name, at)
		}
		if answers++; answers > 1 && (name != "error" || r.resp.answer != "") {
			r.found.Errorf("OAI-RSP-01", at, "%s behind the answer", orOther(name))
		}
		return r.part(ctx, name, at)
	})
	if err != nil {
		return err
	}
	if answers == 0 {
		r.found.Errorf("OAI-RSP-01", "root", "neither what was asked for nor an error")
	}
	m, err = r.Next()
	if err == nil && m != xmlscan.EOF {
		err = r.Errorf("more behind the root")
	}
	return err
}

func orOther(name string) string {
	if name == "" {
		return "an element of another namespace"
	}
	return finding.Printable(name)
}

// part reads a child of the root.
func (r *reader) part(ctx context.Context, name, at string) error {
	switch name {
	case "responseDate":
		text, _, err := r.Text()
		if err == nil && !secondForm.Match(text) {
			r.found.Errorf("OAI-DAT-01", at, "responseDate %q is not of the form YYYY-MM-DDThh:mm:ssZ", finding.Printable(string(text)))
		}
		return err
	case "request":
		for _, a := range r.Attrs {
			if len(r.resp.request) == maxRequest {
				break
			}
			value, err := r.keep(a.Value)
			if err != nil {
				return err
			}
			r.resp.request[string(a.Local)] = value
		}
		var err error
		r.resp.base, err = r.text()
		return err
	case "error":
		attr, _ := r.Attr("code")
		code, err := r.keep(attr)
		if err != nil {
			return err
		}
		if len(r.resp.codes) < maxErrors {
			r.resp.codes = append(r.resp.codes, code)
		}
		if !knownCodes[code] {
			r.found.Errorf("OAI-RSP-01", at, "the code of an error is %q, which there is not", finding.Printable(code))
		}
		return r.Skip()
	case "":
		return r.Skip()
	}
	r.resp.answer = name
	return r.children(func(name, at string) error { return r.item(ctx, name, at) })
}

var knownCodes = map[string]bool{
	oaipmh.CodeBadArgument: true, oaipmh.CodeBadResumptionToken: true, oaipmh.CodeBadVerb: true, oaipmh.CodeCannotDisseminateFormat: true,
	oaipmh.CodeIDDoesNotExist: true, oaipmh.CodeNoRecordsMatch: true, oaipmh.CodeNoMetadataFormats: true, oaipmh.CodeNoSetHierarchy: true,
}

// item reads an item of an answer.
func (r *reader) item(ctx context.Context, name, at string) error {
	switch name {
	case "record":
		return r.record(ctx, at)
	case "header":
		return r.add(ctx, &record{at: at})
	case "metadataFormat", "set":
		return r.children(r.field)
	case "resumptionToken":
		var err error
		r.resp.token, err = r.text()
		r.resp.hasToken = true
		return err
	}
	return r.field(name, at)
}

// field reads a text.
func (r *reader) field(name, _ string) error {
	if !kept[name] || len(r.resp.fields[name]) == maxRecords {
		return r.Skip()
	}
	text, err := r.text()
	r.resp.fields[name] = append(r.resp.fields[name], text)
	return err
}

// record reads a record (OAI-PMH 2.0, 2.5).
func (r *reader) record(ctx context.Context, at string) error {
	rec := &record{at: at}
	headers, metadata, roots := 0, 0, 0
	err := r.children(func(name, at string) error {
		switch name {
		case "header":
			headers++
			return r.add(ctx, rec)
		case "metadata":
			metadata++
			return r.children(func(string, string) error {
				roots++
				return r.Skip()
			})
		}
		return r.Skip()
	})
	switch {
	case err != nil:
	case headers != 1:
		r.found.Errorf("OAI-REC-01", at, "a record has %s", finding.NotOne(headers, "header"))
	case rec.deleted && metadata > 0:
		r.found.Errorf("OAI-REC-01", at, "%s is deleted, and has metadata", rec.identifier)
	case !rec.deleted && metadata != 1:
		r.found.Errorf("OAI-REC-01", at, "%s has %s", rec.identifier, finding.NotOne(metadata, "metadata"))
	case !rec.deleted && roots != 1:
		r.found.Errorf("OAI-REC-01", at, "the metadata of %s have %s", rec.identifier, finding.NotOne(roots, "root element"))
	}
	return err
}

// add reads the current header into rec, and adds rec.
func (r *reader) add(ctx context.Context, rec *record) error {
	status, _ := r.Attr("status")
	rec.deleted = string(status) == "deleted"
	identifiers, datestamps := 0, 0
	err := r.children(func(name, _ string) error {
		text, _, err := r.Text()
		switch name {
		case "identifier":
			identifiers++
			rec.identifier = string(text)
		case "datestamp":
			datestamps++
			rec.datestamp = string(text)
		}
		return err
	})
	if err != nil {
		return err
	}
	switch {
	case identifiers != 1:
		r.found.Errorf("OAI-REC-01", rec.at, "a header has %s", finding.NotOne(identifiers, "identifier"))
	case datestamps != 1:
		r.found.Errorf("OAI-REC-01", rec.at, "the header of %s has %s", rec.identifier, finding.NotOne(datestamps, "datestamp"))
	case !visit.IsIRI(rec.identifier):
		r.found.Errorf("OAI-REC-01", rec.at, "the identifier %q is no URI", finding.Printable(rec.identifier))
	case r.form != nil && !r.form.MatchString(rec.datestamp):
		r.found.Errorf("OAI-DAT-01", rec.at, "the datestamp %q is not of the granularity that Identify states", finding.Printable(rec.datestamp))
	case !dayForm.MatchString(rec.datestamp) && !secondForm.MatchString(rec.datestamp):
		r.found.Errorf("OAI-DAT-01", rec.at, "the datestamp %q is of neither of the two forms", finding.Printable(rec.datestamp))
	}
	r.visitor.Collector.Report.Entries++
	r.resp.count++
	if len(r.resp.records) == maxRecords {
		return ctx.Err()
	}
	if r.texts += len(rec.identifier) + len(rec.datestamp); r.texts > maxTexts {
		return r.Errorf("%w: texts of more than %d bytes", xmlscan.ErrLimit, maxTexts)
	}
	r.resp.byID[rec.identifier] = len(r.resp.records)
	r.resp.records = append(r.resp.records, *rec)
	return ctx.Err()
}

// The forms of times (OAI-PMH 2.0, 3.3).
var (
	dayForm    = regexp.MustCompile(`^\d{4}-\d\d-\d\d$`)
	secondForm = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`)
)

// CheckResponse checks one response, and nothing else.
func CheckResponse(ctx context.Context, v *visit.Visitor, src *visit.Source) error {
	_, err := readResponse(ctx, v, src, nil)
	return err
}

// CheckResponseAt is CheckResponse for the response at uri.
func CheckResponseAt(ctx context.Context, v *visit.Visitor, uri string) error {
	a, err := v.Ask(ctx, opener.Request{URI: uri, Document: true})
	if err != nil {
		return err
	}
	defer a.Body.Close() // read as far as needed
	if err := CheckResponse(ctx, v, visit.SourceOf(uri, a)); err != nil {
		return v.Broken(ctx, uri, err)
	}
	return nil
}

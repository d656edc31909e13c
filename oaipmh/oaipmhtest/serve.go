package oaipmhtest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"lockstep/oaipmh"
)

// A token is the content of a resumption token.
type token struct {
	Epoch             int
	Prefix, Set       string
	From, Until       time.Time
	After             time.Time // datestamp of the last record listed
	Last              string    // its identifier
	Cursor, Remaining int
}

func (t *token) String() string {
	b, _ := json.Marshal(t) // all of it can be encoded
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseToken(s string) (t token, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(s)
	return t, err == nil && json.Unmarshal(b, &t) == nil
}

// ServeHTTP implements [http.Handler].
func (r *Repository) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	_ = q.ParseForm() // an invalid form has no verb
	r.mu.Lock()
	r.requests = append(r.requests, q.Form.Encode())
	what, expired := r.fate()
	a := &answer{r: r, args: q.Form, faults: r.faults, epoch: r.epoch, expired: expired, now: r.o.Clock()}
	r.mu.Unlock()
	if r.o.Delay > 0 {
		select {
		case <-time.After(r.o.Delay):
		case <-q.Context().Done():
		}
	}
	if a.faults.befall(w, what) {
		return
	}
	a.write(q)
	body := a.b.Bytes()
	head := w.Header()
	head.Set("Content-Type", "text/xml; charset=utf-8")
	head.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(a.faults.status(a.errs))
	if what == cut {
		_, _ = w.Write(body[:len(body)/2]) // the rest is not sent
		panic(http.ErrAbortHandler)
	}
	_, _ = w.Write(body) // the client may have disconnected
}

// An answer is a response that is being built.
type answer struct {
	r       *Repository
	args    url.Values
	faults  Faults
	epoch   int
	expired bool // the token that was sent is refused
	now     time.Time
	b, body bytes.Buffer
	errs    []*oaipmh.Error
}

func (a *answer) fail(code, message string) {
	a.errs = append(a.errs, &oaipmh.Error{Code: code, Message: message})
}

// write writes the response.
func (a *answer) write(q *http.Request) {
	verb := a.args.Get("verb")
	switch oaipmh.Verb(verb) {
	case oaipmh.VerbIdentify:
		a.identify(q)
	case oaipmh.VerbListMetadataFormats:
		a.body.WriteString("<metadataFormat><metadataPrefix>" + oaipmh.DublinCore + "</metadataPrefix><schema>" + oaipmh.DublinCoreSchema +
			"</schema><metadataNamespace>" + oaipmh.DublinCoreNamespace + "</metadataNamespace></metadataFormat>")
	case oaipmh.VerbListSets:
		a.sets()
	case oaipmh.VerbGetRecord:
		a.getRecord()
	case oaipmh.VerbListRecords:
		a.list(a.r.record)
	case oaipmh.VerbListIdentifiers:
		a.list(a.r.header)
	default:
		a.fail(oaipmh.CodeBadVerb, fmt.Sprintf("%q is no verb", verb))
	}
	a.b.WriteString(declaration + `<OAI-PMH xmlns="` + oaipmh.Namespace + `" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"` +
		` xsi:schemaLocation="` + oaipmh.Namespace + ` http://www.openarchives.org/OAI/2.0/OAI-PMH.xsd">` + "\n")
	element(&a.b, "responseDate", oaipmh.FormatDatestamp(a.now, oaipmh.Second))
	a.b.WriteString("<request")
	if len(a.errs) == 0 {
		a.b.WriteString(` verb="` + verb + `"`)
	}
	a.b.WriteString(">http://" + q.Host + q.URL.Path + "</request>\n")
	if len(a.errs) > 0 {
		for _, e := range a.errs {
			a.b.WriteString(`<error code="` + e.Code + `">`)
			a.b.WriteString(e.Message + "</error>")
		}
	} else {
		a.b.WriteString("<" + verb + ">\n")
		a.b.Write(a.body.Bytes())
		a.b.WriteString("</" + verb + ">\n")
	}
	a.b.WriteString("</OAI-PMH>\n")
}

func (a *answer) identify(q *http.Request) {
	r := a.r
	r.mu.Lock()
	earliest := a.now
	for _, rec := range r.records {
		if rec.Datestamp.Before(earliest) {
			earliest = rec.Datestamp
		}
	}
	r.mu.Unlock()
	for _, e := range [][2]string{
		{"repositoryName", "Simulated"}, {"baseURL", "http://" + q.Host + q.URL.Path}, {"protocolVersion", "2.0"},
		{"adminEmail", "admin@example.org"}, {"earliestDatestamp", oaipmh.FormatDatestamp(earliest, r.o.Granularity)},
		{"deletedRecord", string(r.o.Deleted)}, {"granularity", r.o.Granularity.String()},
	} {
		element(&a.body, e[0], e[1])
	}
}

func (a *answer) sets() {
	if len(a.r.o.Sets) == 0 {
		a.fail(oaipmh.CodeNoSetHierarchy, "there are no sets")
	}
	for _, s := range a.r.o.Sets {
		a.body.WriteString("<set>")
		element(&a.body, "setSpec", s)
		element(&a.body, "setName", "Set "+s)
		a.body.WriteString("</set>")
	}
}

func (a *answer) getRecord() {
	if p := a.args.Get("metadataPrefix"); p != oaipmh.DublinCore {
		a.fail(oaipmh.CodeCannotDisseminateFormat, "no format "+strconv.Quote(p))
		return
	}
	a.r.mu.Lock()
	rec := a.r.records[a.args.Get("identifier")]
	a.r.mu.Unlock()
	switch {
	case rec == nil:
		a.fail(oaipmh.CodeIDDoesNotExist, "no such record")
	case rec.Bare:
		a.fail(oaipmh.CodeCannotDisseminateFormat, "not of this record")
	default:
		a.r.record(&a.body, rec)
	}
}

// list answers ListRecords and ListIdentifiers.
func (a *answer) list(write func(*bytes.Buffer, *Record)) {
	t, ok := a.where()
	if !ok {
		return
	}
	q := query{prefix: t.Prefix, set: t.Set, from: t.From, until: t.Until}
	var after *Record
	if t.Last != "" {
		after = &Record{Identifier: t.Last, Datestamp: t.After}
	} else {
		t.Remaining = a.r.count(&q)
	}
	page, more := a.r.page(&q, after)
	if len(page) == 0 && !a.faults.EmptyMatch {
		a.fail(oaipmh.CodeNoRecordsMatch, "nothing matches")
		return
	}
	for _, rec := range page {
		write(&a.body, rec)
	}
	first := t.Last == ""
	cursor := t.Cursor
	if more {
		last := page[len(page)-1]
		t.Epoch, t.Last, t.After, t.Cursor = a.epoch, last.Identifier, last.Datestamp, cursor+len(page)
		a.token(t.String(), cursor, t.Remaining)
	} else if !first || a.faults.LastToken {
		a.token("", cursor, t.Remaining)
	}
}

// token writes a resumption token.
func (a *answer) token(value string, cursor, complete int) {
	if a.faults.RepeatToken && value != "" && a.args.Get("resumptionToken") != "" {
		value = a.args.Get("resumptionToken")
	}
	counts := fmt.Sprintf(` completeListSize="%d" cursor="%d"`, complete, cursor)
	switch {
	case a.faults.NoCounts:
		counts = ""
	case a.faults.WrongCounts:
		counts = fmt.Sprintf(` completeListSize="%d" cursor="-5"`, complete/3)
	}
	a.body.WriteString("<resumptionToken" + counts + ">" + value + "</resumptionToken>\n")
}

// where reads the arguments of a list.
func (a *answer) where() (t token, ok bool) {
	if s := a.args.Get("resumptionToken"); s != "" {
		t, ok := parseToken(s)
		if !ok || t.Epoch != a.epoch || a.expired {
			a.fail(oaipmh.CodeBadResumptionToken, "the token is unknown or has expired")
			return t, false
		}
		return t, true
	}
	t = token{Prefix: a.args.Get("metadataPrefix"), Set: a.args.Get("set")}
	t.From, t.Until = a.datestamp("from"), a.datestamp("until")
	switch {
	case t.Prefix == "":
		a.fail(oaipmh.CodeBadArgument, "metadataPrefix is missing")
	case t.Prefix != oaipmh.DublinCore:
		a.fail(oaipmh.CodeCannotDisseminateFormat, "no format "+strconv.Quote(t.Prefix))
	case t.Set != "" && len(a.r.o.Sets) == 0:
		a.fail(oaipmh.CodeNoSetHierarchy, "there are no sets")
	}
	return t, len(a.errs) == 0
}

// datestamp reads an argument.
func (a *answer) datestamp(name string) time.Time {
	s := a.args.Get(name)
	if s == "" {
		return time.Time{}
	}
	t, g, err := oaipmh.ParseDatestamp(s)
	switch {
	case err != nil:
		a.fail(oaipmh.CodeBadArgument, name+" is no datestamp")
	case g > a.r.o.Granularity || g == oaipmh.Second && a.faults.CoarseOnly:
		a.fail(oaipmh.CodeBadArgument, name+" is finer than the granularity")
	case name == "until" && g == oaipmh.Day:
		t = t.Add(24*time.Hour - time.Second)
	}
	return t
}

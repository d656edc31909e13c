// Package repository checks an OAI-PMH repository: its description, two pages
// of its records, a single record, and the errors it has to report.
package repository

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"lockstep/oaipmh"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// A repository is an OAI-PMH repository that is being checked.
type repository struct {
	visitor *visit.Visitor
	base    string         // its address
	prefix  string         // requested format
	set     string         // requested set; empty for all
	stated  string         // the base URL that Identify states
	form    *regexp.Regexp // form of datestamps according to Identify
	first   string         // earliestDatestamp
	deletes string         // deletedRecord
	asked   string         // the address of the last request

	unlisted bool // the repository does not list set
}

// ErrNoSuch reports that a repository does not have the requested format or set.
var ErrNoSuch = errors.New("is not there")

// Values that no repository has.
const (
	noPrefix     = "lockstep_none"
	noIdentifier = "oai:lockstep.invalid:none"
	noToken      = "lockstep-none"
	noDate       = "2999-01-01" // from this date on there are no records
)

// Check asks the repository at address, whose query may name a metadataPrefix
// and a set.
func Check(ctx context.Context, v *visit.Visitor, address string) error {
	r := &repository{visitor: v}
	r.base, r.prefix, r.set = splitAddress(address)
	return r.visit(ctx)
}

// splitAddress removes metadataPrefix and set from an address.
func splitAddress(address string) (base, prefix, set string) {
	prefix = oaipmh.DublinCore
	base, query, _ := strings.Cut(address, "?")
	var kept []string
	for arg := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(arg, "=")
		plain, err := url.QueryUnescape(value)
		switch {
		case name == "metadataPrefix" && err == nil && plain != "":
			prefix = plain
		case name == "set" && err == nil:
			set = plain
		case arg != "":
			kept = append(kept, arg)
		}
	}
	if len(kept) > 0 {
		base += "?" + strings.Join(kept, "&")
	}
	return base, prefix, set
}

// ask sends a request and reads the response. The caller reports an error that
// IsMissing.
func (r *repository) ask(ctx context.Context, verb oaipmh.Verb, args ...string) (*response, error) {
	uri := oaipmh.URL(r.base, verb, args...)
	r.asked = uri
	if r.visitor.Settings.OnDocument != nil {
		r.visitor.Settings.OnDocument(uri)
	}
	a, err := r.visitor.Ask(ctx, opener.Request{URI: uri, Document: true})
	if err != nil {
		return nil, err
	}
	defer a.Body.Close() // read as far as needed
	p := r.visitor.Collector.In(uri)
	if a.Header != nil {
		if t := visit.BaseType(a.Header.Get("Content-Type")); t != "text/xml" {
			p.Errorf("OAI-XML-02", "Content-Type", "served as %q, not as text/xml", t)
		}
	}
	resp, err := readResponse(ctx, r.visitor, visit.SourceOf(uri, a), r.form)
	if err != nil {
		return nil, r.visitor.Broken(ctx, uri, err)
	}
	if resp.whole {
		r.echo(p, resp, verb, args)
	}
	return resp, nil
}

// echo checks that the response repeats the request (OAI-PMH 2.0, 3.2).
func (r *repository) echo(p finding.Place, resp *response, verb oaipmh.Verb, args []string) {
	if resp.base != r.base && (r.stated == "" || resp.base != r.stated) && resp.answer != string(oaipmh.VerbIdentify) {
		p.Errorf("OAI-RSP-02", "request", "the response says it is that of %q", resp.base)
	}
	if slices.ContainsFunc(resp.codes, func(code string) bool { return !knownCodes[code] }) {
		return // already reported
	}
	if resp.has(oaipmh.CodeBadVerb) || resp.has(oaipmh.CodeBadArgument) {
		if len(resp.request) > 0 {
			p.Errorf("OAI-RSP-02", "request", "attributes in the answer to a bad request")
		}
		return
	}
	if len(resp.codes) == 0 && resp.answer != string(verb) && resp.answer != "" {
		p.Errorf("OAI-RSP-01", "", "the answer to %s is %s", verb, resp.answer)
	}
	if len(resp.request) == 0 {
		p.Errorf("OAI-RSP-02", "request", "the element has no attributes, which are to repeat the verb and arguments of the request")
		return
	}
	want := map[string]string{"verb": string(verb)}
	for i := 0; i+1 < len(args); i += 2 {
		if args[i+1] != "" {
			want[args[i]] = args[i+1]
		}
	}
	for _, name := range []string{"verb", "identifier", "metadataPrefix", "from", "until", "set", "resumptionToken"} {
		if resp.request[name] != want[name] {
			p.Errorf("OAI-RSP-02", "request", "%s is %q, but was %q in the request", name, resp.request[name], want[name])
		}
	}
}

// visit sends all requests.
func (r *repository) visit(ctx context.Context) error {
	identify, err := r.ask(ctx, oaipmh.VerbIdentify)
	if err != nil {
		return err
	}
	if !identify.whole || len(identify.codes) > 0 || identify.answer == "" {
		if identify.whole {
			r.visitor.Collector.In(identify.uri).Errorf("OAI-IDF-01", "", "no answer to Identify, but %s", strings.Join(identify.codes, ", "))
		}
		return nil // nothing else can be expected of it
	}
	r.identify(identify)
	for _, step := range []func(context.Context) error{r.formats, r.sets, r.records, r.errors} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// reportUnavailable files a finding that the requested data is unavailable, unless err ends the run.
func (r *repository) reportUnavailable(err error, rule, what string) error {
	switch {
	case errors.Is(err, opener.ErrUnseen):
		r.visitor.Collector.Report.Unseen++
	case visit.IsMissing(err):
		r.visitor.Collector.In(r.asked).Errorf(rule, "", "%s: %v", what, err)
	default:
		return err
	}
	return nil
}

// identify checks the repository's description (OAI-PMH 2.0, 4.2).
func (r *repository) identify(resp *response) {
	p := r.visitor.Collector.In(resp.uri)
	for _, name := range []string{"repositoryName", "baseURL", "protocolVersion", "earliestDatestamp", "deletedRecord", "granularity"} {
		if n := len(resp.fields[name]); n != 1 {
			p.Errorf("OAI-IDF-01", "", "Identify has %s", finding.NotOne(n, name))
		}
	}
	if len(resp.fields["adminEmail"]) == 0 {
		p.Errorf("OAI-IDF-01", "", "Identify has no adminEmail")
	}
	if v := resp.field("protocolVersion"); v != "" && v != "2.0" {
		p.Errorf("OAI-IDF-01", "", "protocolVersion is %q, not 2.0", v)
	}
	r.deletes = resp.field("deletedRecord")
	switch r.deletes {
	case "no", "transient", "persistent", "":
	default:
		p.Errorf("OAI-IDF-01", "", "deletedRecord is %q, not no, transient or persistent", r.deletes)
	}
	r.stated = resp.field("baseURL")
	if r.stated != "" && r.stated != r.base {
		p.Warnf("OAI-IDF-02", "", "baseURL is %s, the repository is at %s", r.stated, r.base)
	}
	switch g := resp.field("granularity"); g {
	case "YYYY-MM-DD":
		r.form = dayForm
	case "YYYY-MM-DDThh:mm:ssZ":
		r.form = secondForm
	case "":
	default:
		p.Errorf("OAI-IDF-01", "", "granularity is %q, not YYYY-MM-DD or YYYY-MM-DDThh:mm:ssZ", g)
	}
	r.first = resp.field("earliestDatestamp")
	if r.form == nil {
		r.first = "" // nothing to compare with
	} else if r.first != "" && !r.form.MatchString(r.first) {
		p.Errorf("OAI-DAT-01", "", "earliestDatestamp %q is not of the granularity", r.first)
		r.first = ""
	}
}

// formats checks the available formats.
func (r *repository) formats(ctx context.Context) error {
	resp, err := r.ask(ctx, oaipmh.VerbListMetadataFormats)
	if err != nil {
		return r.reportUnavailable(err, "OAI-FMT-01", "ListMetadataFormats")
	}
	p := r.visitor.Collector.In(resp.uri)
	prefixes := resp.fields["metadataPrefix"]
	switch {
	case !resp.whole:
	case r.prefix != oaipmh.DublinCore && len(prefixes) > 0 && !slices.Contains(prefixes, r.prefix):
		return fmt.Errorf("format %s %w; there are: %s", finding.Printable(r.prefix), ErrNoSuch, finding.Printable(strings.Join(prefixes, ", ")))
	case !slices.Contains(prefixes, oaipmh.DublinCore):
		p.Errorf("OAI-FMT-01", "", "there is no format %s", oaipmh.DublinCore)
	case len(resp.fields["schema"]) != len(prefixes) || len(resp.fields["metadataNamespace"]) != len(prefixes):
		p.Errorf("OAI-FMT-01", "", "a format without schema or metadataNamespace")
	}
	return nil
}

// sets checks the available sets.
func (r *repository) sets(ctx context.Context) error {
	resp, err := r.ask(ctx, oaipmh.VerbListSets)
	if err != nil {
		return r.reportUnavailable(err, "OAI-SET-01", "ListSets")
	}
	p := r.visitor.Collector.In(resp.uri)
	r.unlisted = r.set != "" && resp.whole && resp.token == "" && !slices.Contains(resp.fields["setSpec"], r.set)
	switch {
	case !resp.whole || resp.has(oaipmh.CodeNoSetHierarchy):
	case len(resp.codes) > 0:
		p.Errorf("OAI-SET-01", "", "the answer is %s", strings.Join(resp.codes, ", "))
	case len(resp.fields["setSpec"]) != len(resp.fields["setName"]):
		p.Errorf("OAI-SET-01", "", "a set without setSpec or setName")
	}
	return nil
}

// records reads two pages of records, and one by itself.
func (r *repository) records(ctx context.Context) error {
	page, err := r.ask(ctx, oaipmh.VerbListRecords, "metadataPrefix", r.prefix, "set", r.set)
	if err != nil {
		return r.reportUnavailable(err, "OAI-REC-01", "ListRecords")
	}
	p := r.visitor.Collector.In(page.uri)
	switch {
	case r.unlisted && len(page.codes) > 0:
		return fmt.Errorf("set %s %w", finding.Printable(r.set), ErrNoSuch)
	case !page.whole || page.has(oaipmh.CodeNoRecordsMatch):
		return nil
	case len(page.codes) > 0:
		p.Errorf("OAI-REC-01", "", "the answer to ListRecords is %s", strings.Join(page.codes, ", "))
		return nil
	}
	var one *record
	for i := range page.records {
		rec := &page.records[i]
		if rec.deleted && r.deletes == "no" {
			p.Errorf("OAI-REC-02", rec.at, "%s is deleted, but Identify says that deletions are not reported", rec.identifier)
		}
		if r.first != "" && r.form.MatchString(rec.datestamp) && rec.datestamp < r.first {
			p.Errorf("OAI-IDF-03", rec.at, "%s is of %s, before the earliest datestamp, %s", rec.identifier, rec.datestamp, r.first)
		}
		if one == nil && !rec.deleted && rec.identifier != "" {
			one = rec
		}
	}
	if err := r.nextPage(ctx, page); err != nil || one == nil {
		return err
	}
	return r.single(ctx, one)
}

// nextPage follows the resumption token (OAI-PMH 2.0, 3.5).
func (r *repository) nextPage(ctx context.Context, page *response) error {
	if page.token == "" {
		return nil
	}
	p := r.visitor.Collector.In(page.uri)
	next, err := r.ask(ctx, oaipmh.VerbListRecords, "resumptionToken", page.token)
	switch {
	case err != nil:
		return r.reportUnavailable(err, "OAI-TOK-01", "the resumption token")
	case !next.whole:
	case len(next.codes) > 0:
		p.Errorf("OAI-TOK-01", "resumptionToken", "the token just given is answered by %s", strings.Join(next.codes, ", "))
	case next.count == 0:
		p.Errorf("OAI-TOK-01", "resumptionToken", "the token leads to no records")
	case next.token == page.token:
		p.Errorf("OAI-TOK-01", "resumptionToken", "the token leads to itself")
	case !next.hasToken:
		r.visitor.Collector.In(next.uri).Errorf("OAI-TOK-01", "", "the last response of the list has no resumptionToken, which is to be empty")
	}
	if next != nil && len(next.records) > 0 && !slices.ContainsFunc(next.records, func(rec record) bool { return page.find(rec.identifier) == nil }) {
		p.Errorf("OAI-TOK-01", "resumptionToken", "the token leads to the same records again")
	}
	return nil
}

// single requests one record, by its identifier and by its datestamp.
func (r *repository) single(ctx context.Context, rec *record) error {
	got, err := r.ask(ctx, oaipmh.VerbGetRecord, "identifier", rec.identifier, "metadataPrefix", r.prefix)
	if err != nil {
		return r.reportUnavailable(err, "OAI-GET-01", "GetRecord of "+rec.identifier)
	}
	p := r.visitor.Collector.In(got.uri)
	switch {
	case !got.whole:
		return nil
	case len(got.codes) > 0:
		p.Errorf("OAI-GET-01", "", "%s was listed, but the answer is %s", rec.identifier, strings.Join(got.codes, ", "))
		return nil
	case got.find(rec.identifier) == nil:
		p.Errorf("OAI-GET-01", "", "the answer is not %s", rec.identifier)
		return nil
	case got.find(rec.identifier).datestamp != rec.datestamp:
		return nil // it has changed since
	}
	list, err := r.ask(ctx, oaipmh.VerbListIdentifiers, "metadataPrefix", r.prefix, "from", rec.datestamp, "until", rec.datestamp, "set", r.set)
	switch {
	case err != nil:
		return r.reportUnavailable(err, "OAI-SEL-01", "ListIdentifiers from "+rec.datestamp)
	case !list.whole || list.token != "" || list.find(rec.identifier) != nil:
		return nil
	}
	again, err := r.ask(ctx, oaipmh.VerbGetRecord, "identifier", rec.identifier, "metadataPrefix", r.prefix)
	if err == nil && again.find(rec.identifier) != nil && again.find(rec.identifier).datestamp == rec.datestamp {
		r.visitor.Collector.In(list.uri).Errorf("OAI-SEL-01", "", "%s, which is of %s, is not there: from and until are inclusive", rec.identifier, rec.datestamp)
	}
	return nil
}

// errors sends requests that must not succeed (OAI-PMH 2.0, 3.6).
func (r *repository) errors(ctx context.Context) error {
	for _, probe := range []struct {
		rule, code string
		verb       oaipmh.Verb
		args       []string
	}{
		{"OAI-ERR-01", oaipmh.CodeBadVerb, "Lockstep", nil},
		{"OAI-ERR-02", oaipmh.CodeBadArgument, oaipmh.VerbListRecords, nil},
		{"OAI-ERR-03", oaipmh.CodeCannotDisseminateFormat, oaipmh.VerbListRecords, []string{"metadataPrefix", noPrefix}},
		{"OAI-ERR-04", oaipmh.CodeIDDoesNotExist, oaipmh.VerbGetRecord, []string{"identifier", noIdentifier, "metadataPrefix", r.prefix}},
		{"OAI-ERR-05", oaipmh.CodeBadResumptionToken, oaipmh.VerbListRecords, []string{"resumptionToken", noToken}},
		{"OAI-ERR-06", oaipmh.CodeNoRecordsMatch, oaipmh.VerbListIdentifiers, []string{"metadataPrefix", r.prefix, "from", noDate}},
	} {
		resp, err := r.ask(ctx, probe.verb, probe.args...)
		switch {
		case err != nil:
			if err := r.reportUnavailable(err, probe.rule, "to be answered with the error "+probe.code); err != nil {
				return err
			}
		case resp.whole && !resp.has(probe.code):
			got := strings.Join(resp.codes, ", ")
			if got == "" {
				got = "none"
			}
			r.visitor.Collector.In(resp.uri).Errorf(probe.rule, "", "the error is %s, not %s", got, probe.code)
		}
	}
	return nil
}

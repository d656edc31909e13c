package oaipmh

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"regexp"
	"strings"

	"lockstep/intake"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
)

// maxSalvage is how many bytes of a response that is not well-formed are held in
// memory to find its readable records.
const maxSalvage = 32 << 20

// A record of a list is recognized by its header: metadata may contain elements with
// the name record, too, but those do not begin with a header.
var (
	recordBegins = regexp.MustCompile(`<(?:[\w.-]+:)?record(?:\s[^<>]*)?>\s*<(?:[\w.-]+:)?header[\s>]`)
	rootOpens    = regexp.MustCompile(`<((?:[\w.-]+:)?OAI-PMH)[\s>]`)
	listOpens    = regexp.MustCompile(`<((?:[\w.-]+:)?ListRecords)[\s>]`)
	rootEnds     = regexp.MustCompile(`</(?:[\w.-]+:)?OAI-PMH\s*>`)
	listEnds     = regexp.MustCompile(`<(?:[\w.-]+:)?resumptionToken[\s>/]|</(?:[\w.-]+:)?ListRecords\s*>`)
)

// salvage reads the well-formed records of a list that as a whole is not well-formed,
// for the reason why. The harvest is incomplete then.
func (p *pager) salvage(ctx context.Context, uri string, why error) (t oaipmh.Token, records int64, err error) {
	text, err := p.text(ctx, uri)
	if err != nil {
		return t, 0, p.h.plainOAI(ctx, uri, err)
	}
	text, strange := onlyResponse(text)
	begins := recordBegins.FindAllIndex(text, -1)
	if len(begins) == 0 {
		return t, 0, fault.Plain(uri, why)
	}
	head := text[:begins[0][0]]
	tail := len(text)
	last := begins[len(begins)-1][0]
	if ends := listEnds.FindAllIndex(text[last:], -1); len(ends) > 0 {
		tail = last + ends[0][0]
	}
	lost := 0
	p.page = 0
	for i, b := range begins {
		end := tail
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		rec, err := oneRecord(head, text[b[0]:end])
		if err != nil {
			lost++
			records++
			if err := p.lose(ctx, identifierIn(text[b[0]:end]), err); err != nil {
				return t, records, err
			}
			continue
		}
		records++
		p.note(&rec)
		if err := p.send(ctx, &piece{records: []oaipmh.Record{rec}}); err != nil {
			return t, records, err
		}
	}
	if lost == 0 && !strange || tail == len(text) { // the fault is outside the records: some may be missing
		if err := p.miss(ctx, uri, fault.Plain(uri, why)); err != nil {
			return t, records, err
		}
	}
	r := oaipmh.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(text[tail:])), oaipmh.ReaderOptions{})
	if err := r.Read(new(oaipmh.Record)); !errors.Is(err, io.EOF) {
		return t, records, fault.Plain(uri, why) // the resumption token cannot be read
	}
	t, _ = r.Token()
	p.head, _ = r.Header()
	p.began()
	return t, records, nil
}

// onlyResponse removes text before and after a response, such as warnings of the
// program that created it; strange reports whether there was any.
func onlyResponse(text []byte) (response []byte, strange bool) {
	from, to := 0, len(text)
	if root := rootOpens.FindIndex(text); root != nil {
		if from = bytes.LastIndex(text[:root[0]], []byte("<?xml")); from < 0 {
			from = root[0]
		}
	}
	if ends := rootEnds.FindAllIndex(text[from:], -1); len(ends) > 0 {
		to = from + ends[len(ends)-1][1]
	}
	return text[from:to], from > 0 || len(bytes.TrimSpace(text[to:])) > 0
}

// lose notes that a record is not well-formed: it is requested on its own at the end
// of the harvest.
func (p *pager) lose(ctx context.Context, id string, why error) error {
	switch {
	case id == "":
		return p.miss(ctx, "a record", fmt.Errorf("not well-formed, so the record was not updated: %w", why))
	case len(p.run.Lost) == maxLost:
		return p.miss(ctx, id, fmt.Errorf("not well-formed, so the record was not updated: %w", why))
	}
	p.run.Lost = append(p.run.Lost[:len(p.run.Lost):len(p.run.Lost)], id) // copied: pieces already sent share the old slice
	return nil
}

// miss reports a record or list that could not be read, which leaves the harvest
// incomplete.
func (p *pager) miss(ctx context.Context, name string, why error) error {
	p.run.Incomplete = true
	return p.send(ctx, &piece{problems: []intake.Problem{{Path: fetch.Printable(name), Err: why}}})
}

// text requests a response and returns it as [oaipmh.Clean] repairs it.
func (p *pager) text(ctx context.Context, uri string) (text []byte, err error) {
	q := p.h.request(uri)
	q.MaxBytes = maxSalvage
	err = p.h.client.Fetch(ctx, &q, func(resp *fetch.Response) (err error) {
		text, err = io.ReadAll(io.LimitReader(oaipmh.Clean(resp.Body), maxSalvage+1)) // replacements of invalid bytes may be longer
		if err == nil && len(text) > maxSalvage {
			err = fmt.Errorf("not well-formed, and larger than the limit of %d bytes for such responses", maxSalvage)
		}
		return err
	})
	return text, err
}

// oneRecord reads a single record, text, of a response that begins with head.
func oneRecord(head, text []byte) (rec oaipmh.Record, err error) {
	r := oaipmh.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(text), strings.NewReader(endOf(head))), oaipmh.ReaderOptions{})
	err = r.Read(&rec)
	if err != nil {
		return rec, err
	}
	rec.Metadata = append([]byte(nil), rec.Metadata...)
	if err := r.Read(new(oaipmh.Record)); !errors.Is(err, io.EOF) {
		return rec, err
	}
	return rec, nil
}

// endOf returns the end tags of the elements that head leaves open: the list and the
// response.
func endOf(head []byte) string {
	end := func(open *regexp.Regexp) string {
		all := open.FindAllSubmatch(head, -1)
		if len(all) == 0 {
			return ""
		}
		return "</" + string(all[len(all)-1][1]) + ">"
	}
	return end(listOpens) + end(rootOpens)
}

// identifierIn returns the text that looks like the identifier of a record; empty if
// there is none.
func identifierIn(text []byte) string {
	_, rest, found := bytes.Cut(text, []byte("identifier>"))
	id, _, ended := bytes.Cut(rest, []byte("</"))
	if !found || !ended || bytes.IndexByte(id, '<') >= 0 {
		return ""
	}
	return html.UnescapeString(string(bytes.TrimSpace(id)))
}

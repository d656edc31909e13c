package intake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"

	"lockstep/internal/fetch"
	"lockstep/oaipmh"
)

// maxSalvage is how many bytes of a response that is not well formed are held in
// memory, to find what can be read.
const maxSalvage = 64 << 20

// The records of a list, by what they begin with: metadata may hold elements of
// the name record, too, but none of these begins with a header.
var (
	recordBegins = regexp.MustCompile(`<(?:[\w.-]+:)?record(?:\s[^<>]*)?>\s*<(?:[\w.-]+:)?header[\s>]`)
	rootOpens    = regexp.MustCompile(`<((?:[\w.-]+:)?OAI-PMH)[\s>]`)
	listOpens    = regexp.MustCompile(`<((?:[\w.-]+:)?ListRecords)[\s>]`)
	listEnds     = regexp.MustCompile(`<(?:[\w.-]+:)?resumptionToken[\s>/]|</(?:[\w.-]+:)?ListRecords\s*>`)
)

// salvage takes from a list that is not well formed, for the reason why, the
// records that are. The harvest is incomplete then.
func (p *pager) salvage(ctx context.Context, uri string, why error) (t oaipmh.Token, records int64, err error) {
	text, err := p.text(ctx, uri)
	if err != nil {
		return t, 0, p.plainOAI(ctx, uri, err)
	}
	begins := recordBegins.FindAllIndex(text, -1)
	if len(begins) == 0 {
		return t, 0, plainError(uri, why)
	}
	head := text[:begins[0][0]]
	tail := len(text)
	last := begins[len(begins)-1][0]
	if ends := listEnds.FindAllIndex(text[last:], -1); len(ends) > 0 {
		tail = last + ends[0][0]
	}
	lost := &piece{}
	lose := func(name string, err error) {
		lost.problems = append(lost.problems, Problem{fetch.Printable(name), fmt.Errorf("not well formed, and left as it is: %w", err)})
	}
	for i, b := range begins {
		end := tail
		if i+1 < len(begins) {
			end = begins[i+1][0]
		}
		rec, err := oneRecord(head, text[b[0]:end])
		if err != nil {
			lose(identifierIn(text[b[0]:end]), err)
			continue
		}
		records++
		p.order(rec.Datestamp)
		if err := p.send(ctx, &piece{records: []oaipmh.Record{rec}}); err != nil {
			return t, records, err
		}
	}
	if len(lost.problems) == 0 || tail == len(text) { // what is wrong is elsewhere: who knows what is missing
		lost.problems = append(lost.problems, Problem{fetch.Printable(uri), plainError(uri, why)})
	}
	p.run.Incomplete = true
	if err := p.send(ctx, lost); err != nil {
		return t, records, err
	}
	r := oaipmh.NewReader(io.MultiReader(bytes.NewReader(head), bytes.NewReader(text[tail:])), oaipmh.ReaderOptions{})
	if err := r.Read(new(oaipmh.Record)); !errors.Is(err, io.EOF) {
		return t, records, plainError(uri, why) // how the list goes on cannot be read
	}
	t, _ = r.Token()
	p.head, _ = r.Header()
	p.began()
	return t, records, nil
}

// text asks for a response and returns it as it is cleaned.
func (p *pager) text(ctx context.Context, uri string) (text []byte, err error) {
	q := p.request(uri)
	q.MaxBytes = maxSalvage
	err = p.client.Fetch(ctx, &q, func(resp *fetch.Response) (err error) {
		text, err = io.ReadAll(oaipmh.Clean(resp.Body))
		return err
	})
	return text, err
}

// oneRecord reads a record that stands alone behind what its response begins with.
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

// endOf closes what head leaves open: the list, and the response.
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

// identifierIn returns what looks like the identifier of a record.
func identifierIn(text []byte) string {
	_, rest, found := bytes.Cut(text, []byte("identifier>"))
	id, _, ended := bytes.Cut(rest, []byte("</"))
	if !found || !ended {
		return "a record"
	}
	return string(bytes.TrimSpace(id))
}

package reading

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strconv"

	"lockstep/atompmh"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/oaipmh"
	"lockstep/resourcesync"
)

// maxDocument caps a document that is harvested, uncompressed.
const maxDocument = 1 << 30

// Body opens what is at an address: an http or https URI, or if the user named a file, a
// file: URI. It decompresses content codings. final is the address after redirects.
func Body(ctx context.Context, c *fetch.Client, uri string) (body io.ReadCloser, final string, err error) {
	if name := fileOf(uri); name != "" {
		if c.HasHome() {
			return nil, "", fmt.Errorf("open %s: %w", fetch.Printable(uri), discover.ErrLocal)
		}
		f, err := os.Open(name)
		return f, uri, err
	}
	resp, err := c.GetWhole(ctx, fetch.Request{URI: uri, AcceptGzip: true, Document: true, MaxBytes: maxDocument})
	if err != nil {
		return nil, "", err
	}
	return resp.Body, resp.URI, nil
}

// fileOf returns the path of a file: URI; "" for others.
func fileOf(uri string) string {
	u, err := url.Parse(uri)
	if err != nil || u.Scheme != "file" || u.Host != "" && u.Host != "localhost" {
		return ""
	}
	path := u.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' { // a drive of Windows
		path = path[1:]
	}
	return filepath.FromSlash(path)
}

// Any is the Origin of a document of any kind that is known: of ResourceSync, a feed, or
// an answer of a repository.
type Any struct{ Client *fetch.Client }

// Read implements Origin.
func (o Any) Read(ctx context.Context, address string, add func(*spool.Row) error) (Result, error) {
	result, err := ResourceSync(o).Read(ctx, address, add)
	if !errors.Is(err, resourcesync.ErrNotDocument) {
		return result, err
	}
	if feed, ferr := Feed(o).Read(ctx, address, add); !errors.Is(ferr, atompmh.ErrNotFeed) {
		return feed, ferr
	}
	if records, rerr := (&Repository{Client: o.Client}).Read(ctx, address, add); !errors.Is(rerr, oaipmh.ErrNotOAI) {
		records.Next = nil // a single answer
		return records, rerr
	}
	return result, err
}

// A Feed is the Origin of the documents of an Atom-PMH feed: from the subscription
// document to older ones.
type Feed struct{ Client *fetch.Client }

// Read implements Origin.
func (o Feed) Read(ctx context.Context, address string, add func(*spool.Row) error) (Result, error) {
	body, final, err := Body(ctx, o.Client, address)
	if err != nil {
		return Result{}, err
	}
	defer body.Close()
	result := Result{Title: "Atom-PMH feed", Of: Changes}
	r := atompmh.NewReader(body, atompmh.ReaderOptions{Base: final, OnWarning: func(w atompmh.Warning) {
		if len(result.Warnings) < 100 {
			result.Warnings = append(result.Warnings, fetch.Printable(w.String()))
		}
	}})
	for e, err := range r.Entries() {
		if err == nil {
			row := rowOfFeed(&e)
			err = add(&row)
		}
		if err != nil {
			return Result{}, fetchedError(address, err)
		}
	}
	feed, err := r.Feed()
	if err != nil {
		return Result{}, fetchedError(address, err)
	}
	for _, f := range []spool.Fact{{Name: "title", Value: feed.Title}, {Name: "author", Value: feed.Author}, {Name: "ID", Value: feed.ID}} {
		if f.Value != "" {
			result.Facts = append(result.Facts, f)
		}
	}
	if !feed.Updated.IsZero() {
		result.Facts = append(result.Facts, spool.Fact{Name: "updated", Value: feed.Updated.UTC().Format("2006-01-02T15:04:05Z")})
	}
	for _, l := range []spool.Link{{Rel: "self", Href: feed.Self}, {Rel: "current", Href: feed.Current}, {Rel: "prev-archive", Href: feed.PrevArchive}, {Rel: "next-archive", Href: feed.NextArchive}} {
		if l.Href != "" {
			result.Links = append(result.Links, l)
		}
	}
	for _, l := range feed.Links {
		result.Links = append(result.Links, spool.Link{Rel: l.Rel, Href: l.Href, Type: l.Type, Length: l.Length})
	}
	if feed.PrevArchive != "" {
		result.Next = []Address{{URI: feed.PrevArchive}}
	}
	return result, nil
}

func rowOfFeed(e *atompmh.Entry) spool.Row {
	row := spool.Row{URI: e.ID, Time: e.Updated.UTC(), Length: -1, Kind: "active"}
	if e.Kind == atompmh.Deletion {
		row.Kind = "deleted"
	}
	row.Detail.Facts = []spool.Fact{{Name: "record", Value: e.ID}}
	for _, f := range []spool.Fact{{Name: "title", Value: e.Title}, {Name: "summary", Value: e.Summary}} {
		if f.Value != "" {
			row.Detail.Facts = append(row.Detail.Facts, f)
		}
	}
	if alternates := e.Alternates(); len(alternates) > 0 {
		a := alternates[0]
		row.URI, row.Type = a.Href, a.Type
		if a.Length > 0 {
			row.Length = a.Length
		}
	}
	for _, l := range e.Links {
		row.Detail.Links = append(row.Detail.Links, spool.Link{Rel: l.Rel, Href: l.Href, Type: l.Type, Length: l.Length})
	}
	return row
}

// A Repository is the Origin of the headers of the records of an OAI-PMH repository.
type Repository struct {
	Client       *fetch.Client
	Base, Prefix string
}

// First returns the address of the first part of a set; "" is all.
func (o *Repository) First(set string) string {
	return oaipmh.URL(o.Base, oaipmh.VerbListIdentifiers, "metadataPrefix", o.Prefix, "set", set)
}

// Read implements Origin.
func (o *Repository) Read(ctx context.Context, address string, add func(*spool.Row) error) (Result, error) {
	result := Result{Title: "OAI-PMH repository", Of: Resources}
	err := o.Ask(ctx, address, func(r *oaipmh.Reader) error {
		for rec, err := range r.Records() {
			if err == nil {
				row := o.row(&rec)
				err = add(&row)
			}
			if oaipmh.HasCode(err, oaipmh.CodeNoRecordsMatch) {
				return nil // it is empty
			}
			if err != nil {
				return err
			}
		}
		if t, ok := r.Token(); ok && t.Value != "" {
			result.Total = max(t.Complete, 0)
			result.Next = []Address{{URI: oaipmh.URL(o.Base, oaipmh.VerbListIdentifiers, "resumptionToken", t.Value)}}
		}
		return nil
	})
	if result.Total > 0 {
		result.Facts = append(result.Facts, spool.Fact{Name: "records", Value: strconv.FormatInt(result.Total, 10)})
	}
	return result, err
}

// Ask sends a request to the repository and has use read the response.
func (o *Repository) Ask(ctx context.Context, address string, use func(*oaipmh.Reader) error) error {
	body, _, err := Body(ctx, o.Client, address)
	if err != nil {
		return err
	}
	defer body.Close()
	if err := use(oaipmh.NewReader(oaipmh.Clean(body), oaipmh.ReaderOptions{})); err != nil {
		return fetchedError(address, err)
	}
	return nil
}

func (o *Repository) row(rec *oaipmh.Record) spool.Row {
	uri := rec.Identifier
	if o.Base != "" {
		uri = oaipmh.RecordURL(o.Base, o.Prefix, rec.Identifier)
	}
	row := spool.Row{URI: uri, Time: rec.Datestamp, Length: -1, Type: "application/xml", Kind: "active"}
	if rec.Deleted {
		row.Kind = "deleted"
	}
	row.Detail.Facts = []spool.Fact{{Name: "identifier", Value: rec.Identifier}}
	for _, set := range rec.Sets {
		row.Detail.Facts = append(row.Detail.Facts, spool.Fact{Name: "set", Value: set})
	}
	return row
}

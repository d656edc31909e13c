package sitemap

import (
	"context"
	"io"
	"net/http"
	"strings"

	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/fault"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A fetcher fetches contents to hash them, one at a time.
type fetcher struct {
	r   *reading
	sum *resourcesync.Hasher
	buf []byte
}

func (r *reading) newFetcher() *fetcher {
	if !r.s.o.Content {
		return &fetcher{r: r}
	}
	return &fetcher{r: r, sum: resourcesync.NewHasher(r.s.o.Algorithms...), buf: make([]byte, 64<<10)}
}

// fetch asks the server of a resource for its content, if it is not what it was,
// and completes what is said of it. The error is that of ctx; what is the matter
// with the resource is a failure.
func (f *fetcher) fetch(ctx context.Context, a *ask) error {
	q := fetch.Request{URI: a.said.URI}
	if a.known && len(a.said.Hashes) > 0 {
		q.IfNoneMatch, q.IfModifiedSince = a.token.etag, a.token.modified
	}
	err := f.r.s.client.Fetch(ctx, &q, func(resp *fetch.Response) error {
		if resp.Status == http.StatusNotModified {
			a.said.Token = a.token.String()
			return nil
		}
		return f.read(a, resp)
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		a.failure = fault.Plain(a.said.URI, fault.NotThere(err))
	}
	return nil
}

// read hashes the body of an answer.
func (f *fetcher) read(a *ask, resp *fetch.Response) error {
	f.sum.Reset()
	n, err := io.CopyBuffer(f.sum, resp.Body, f.buf)
	f.r.list.Bytes.Add(n)
	if err != nil {
		return err
	}
	f.r.list.Hashed.Add(1)
	sum := f.sum.Sum()
	a.update = a.update || len(a.said.Hashes) == 0
	if common, differs := sum.Compare(a.said.Hashes); common == 0 || differs != 0 {
		a.update = true
	}
	a.said.Hashes, a.said.Length = sum, n
	head := resp.Header
	if typ := strings.TrimSpace(head.Get("Content-Type")); a.said.Type == "" && entry.Listable(resourcesync.Metadata{Type: typ}) {
		a.said.Type = typ
	}
	// One may be sent although nobody asked: what is hashed is what is sent.
	a.said.Encoding = ""
	if coding := strings.ToLower(strings.TrimSpace(head.Get("Content-Encoding"))); coding != "identity" && entry.Listable(resourcesync.Metadata{Encoding: coding}) {
		a.said.Encoding = coding
	}
	if a.token.ask {
		f.keep(a, head)
	}
	a.said.Token = a.token.String()
	return nil
}

// keep keeps by what to ask next time whether a resource is still what it was,
// and when it says it was modified.
func (f *fetcher) keep(a *ask, head http.Header) {
	a.token.etag, a.token.modified = head.Get("ETag"), ""
	a.update = true // the Token at least
	modified, err := http.ParseTime(head.Get("Last-Modified"))
	if err != nil {
		return
	}
	a.said.Lastmod = modified.UTC()
	// One that is not before the second of the answer may change without a trace.
	if date, err := http.ParseTime(head.Get("Date")); err == nil && modified.Before(date) {
		a.token.modified = head.Get("Last-Modified")
	}
}

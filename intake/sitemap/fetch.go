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

// fetch requests the content of a resource from its server, if it has changed, and
// completes the record. The error returned is that of ctx; a failure of the resource
// is stored in a.failure.
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

// read hashes the body of a response.
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
	// A server may use a content coding that was not requested: the hash is that of
	// the bytes sent.
	a.said.Encoding = ""
	if coding := strings.ToLower(strings.TrimSpace(head.Get("Content-Encoding"))); coding != "identity" && entry.Listable(resourcesync.Metadata{Encoding: coding}) {
		a.said.Encoding = coding
	}
	if a.token.ask {
		f.keepValidators(a, head)
	}
	a.said.Token = a.token.String()
	return nil
}

// keepValidators stores the validators with which the next scan asks whether the
// resource has changed, and its modification time.
func (f *fetcher) keepValidators(a *ask, head http.Header) {
	a.token.etag, a.token.modified = fetch.Validators(head)
	a.update = true // at least the Token has changed
	if modified, err := http.ParseTime(head.Get("Last-Modified")); err == nil {
		a.said.Lastmod = modified.UTC()
	}
}

// Package contents reads resources, when the user asks for it: their bytes, whether these
// are as stated, and which versions of them exist.
package contents

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/place"
	"lockstep/cmd/lockstep/internal/explorer/reading"
	"lockstep/cmd/lockstep/internal/explorer/spool"
	"lockstep/internal/fetch"
	"lockstep/internal/weblink"
	"lockstep/memento"
	"lockstep/resourcesync"
)

const (
	// maxMapBytes and maxMapPages cap what is read to find the versions of a
	// resource, maxVersions how many are listed.
	maxMapBytes = 16 << 20
	maxMapPages = 20
	maxVersions = 100_000
)

// A Ref says which bytes are meant: those at an address, of a member of a package, or of
// a file of a mirror.
type Ref struct {
	URI     string
	Mirror  string // directory of the mirror; "": the bytes are elsewhere
	File    string // its name in the mirror
	Package string // address or path of the package; "": the bytes are those at URI
	Member  string // name in the package
	Type    string // media type, as stated; may be empty
	Hash    string // as stated; may be empty
	Length  int64  // as stated; -1: not stated
}

// Open opens the bytes. mediaType is that of the answer, or as stated.
func Open(ctx context.Context, p *place.Place, ref Ref) (body io.ReadCloser, mediaType string, err error) {
	if ref.Package != "" {
		z, err := p.Package(ctx, ref.Package)
		if err != nil {
			return nil, "", err
		}
		body, _, err := z.Member(ctx, ref.Member)
		return body, ref.Type, err
	}
	if ref.Mirror != "" {
		body, err := openFile(ref.Mirror, ref.File)
		return body, ref.Type, err
	}
	u, err := url.Parse(ref.URI)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return nil, "", fmt.Errorf("open %s: only http and https addresses are requested", fetch.Printable(ref.URI))
	}
	resp, err := p.Client.Get(ctx, fetch.Request{URI: ref.URI, Header: http.Header{"Accept-Encoding": {"identity"}}})
	if err != nil {
		return nil, "", err
	}
	return resp.Body, cmp.Or(resp.Header.Get("Content-Type"), ref.Type), nil
}

// openFile opens a file of a mirror, and nothing outside of it.
func openFile(dir, name string) (io.ReadCloser, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close() // files stay open
	return root.Open(filepath.FromSlash(name))
}

// A Check is the result of reading all bytes of a resource.
type Check struct {
	Length   int64
	Computed resourcesync.Hashes
	Good     bool     // what is stated was confirmed by at least one hash
	Problems []string // what is not as stated
}

// Verify reads all bytes, and compares them with what is stated.
func Verify(ctx context.Context, p *place.Place, ref Ref) (Check, error) {
	var c Check
	body, _, err := Open(ctx, p, ref)
	if err != nil {
		return c, err
	}
	defer body.Close()
	stated, _ := resourcesync.ParseHashes(ref.Hash)
	algorithms := []resourcesync.Algorithm{resourcesync.SHA256}
	for _, h := range stated {
		algorithms = append(algorithms, h.Algorithm)
	}
	hasher := resourcesync.NewHasher(algorithms...)
	if c.Length, err = io.Copy(hasher, body); err != nil {
		return c, err
	}
	c.Computed = hasher.Sum()
	common, differs := stated.Compare(c.Computed)
	if differs != 0 {
		c.Problems = append(c.Problems, "its "+differs.String()+" hash is not the stated one")
	}
	if ref.Length >= 0 && ref.Length != c.Length {
		c.Problems = append(c.Problems, fmt.Sprintf("it has %d bytes, %d are stated", c.Length, ref.Length))
	}
	c.Good = common > 0 && differs == 0
	return c, nil
}

// ErrNoVersions reports a resource that names neither a TimeGate nor a TimeMap.
var ErrNoVersions = errors.New("neither the documents nor the resource itself name a TimeGate or TimeMap")

// Versions returns the Origin of the versions of a resource. links are those that the
// documents state; if these name no TimeMap, the TimeGate and the resource are asked.
func Versions(p *place.Place, uri string, links []spool.Link) reading.Fixed {
	return func(ctx context.Context, add func(*spool.Row) error) (reading.Result, error) {
		result := reading.Result{Title: "Versions", Of: reading.Versions}
		address, err := timeMap(ctx, p, uri, links)
		if err != nil {
			return result, err
		}
		m, err := memento.ReadTimeMap(ctx, &doer{p.Client, maxMapPages}, address, maxVersions)
		if err != nil && !errors.Is(err, memento.ErrNoMemento) {
			return result, err
		}
		result.Facts = []spool.Fact{{Name: "TimeMap", Value: address}}
		if m == nil {
			return result, nil
		}
		if m.TimeGate != "" {
			result.Facts = append(result.Facts, spool.Fact{Name: "TimeGate", Value: m.TimeGate})
		}
		for _, v := range m.Versions {
			row := spool.Row{URI: v.URI, Time: v.At, Length: -1}
			if err := add(&row); err != nil {
				return result, err
			}
		}
		return result, nil
	}
}

// timeMap returns the address of the TimeMap of a resource.
func timeMap(ctx context.Context, p *place.Place, uri string, links []spool.Link) (string, error) {
	ask := []string{}
	for _, l := range links {
		switch {
		case l.Rel == "timemap" && isLinkFormat(l.Type):
			return l.Href, nil
		case l.Rel == "timegate":
			ask = append(ask, l.Href)
		}
	}
	var failed error
	for _, address := range append(ask, uri) {
		header, final, err := head(ctx, p.Client, address)
		if err != nil {
			failed = cmp.Or(failed, err)
			continue
		}
		base, err := url.Parse(final)
		if err != nil {
			continue
		}
		for _, l := range weblink.Parse(header.Values("Link"), base) {
			if l.Has("timemap") && isLinkFormat(l.Param("type")) {
				return l.Target, nil
			}
		}
	}
	return "", cmp.Or(failed, ErrNoVersions)
}

func isLinkFormat(t string) bool {
	base, _, _ := strings.Cut(t, ";")
	return base == "" || strings.EqualFold(strings.TrimSpace(base), memento.LinkFormat)
}

// head returns the header of the answer at an address.
func head(ctx context.Context, c *fetch.Client, address string) (http.Header, string, error) {
	resp, err := c.Get(ctx, fetch.Request{URI: address, Once: true})
	if status, ok := errors.AsType[*fetch.StatusError](err); ok && status.Header != nil {
		return status.Header, address, nil // a deleted resource has versions, too
	}
	if err != nil {
		return nil, "", err
	}
	_ = resp.Body.Close() // only the header is needed
	return resp.Header, resp.URI, nil
}

// A doer sends the requests for the pages of a TimeMap.
type doer struct {
	client *fetch.Client
	left   int // pages that may still be requested
}

var errMapPages = errors.New("the TimeMap has too many pages")

// Do implements memento.Doer. It follows redirects.
func (d *doer) Do(r *http.Request) (*http.Response, error) {
	if d.left--; d.left < 0 {
		return nil, errMapPages
	}
	answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}
	resp, err := d.client.Get(r.Context(), fetch.Request{URI: r.URL.String(), Header: r.Header, MaxBytes: maxMapBytes})
	if status, ok := errors.AsType[*fetch.StatusError](err); ok {
		answer.StatusCode, answer.Header = status.Status, status.Header
		return answer, nil
	}
	if err != nil {
		return nil, err
	}
	answer.Header, answer.Body = resp.Header, resp.Body
	if u, err := url.Parse(resp.URI); err == nil {
		answer.Request = &http.Request{Method: r.Method, URL: u}
	}
	return answer, nil
}

// ReadTimeout is how long a resource may take to be read for a page.
const ReadTimeout = 5 * time.Minute

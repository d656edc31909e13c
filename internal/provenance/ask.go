package provenance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

const (
	// leastTime and leastRate limit how long one origin may take: a server that drips
	// would otherwise occupy a worker for as long as it likes.
	leastTime = 2 * time.Minute
	leastRate = 32 << 10 // bytes per second

	// maxStated caps what is read of an origin to see whether it has what is stated: the
	// length in a via link can be any.
	maxStated = 64 << 20

	// maxSlow is how often a host may be too slow before it is not asked any more: with
	// all resources of one host the run would otherwise have no end.
	maxSlow = 8
	// maxHosts caps the hosts that are remembered.
	maxHosts = 10_000
)

// errSlow ends a request that takes too long.
var errSlow = errors.New("the origin is too slow")

// ask requests what the origin serves.
func (c *Checker) ask(ctx context.Context, one *Copy, held, stated *content) answer {
	href := fetch.WithoutUser(one.Via.Href)
	switch u, err := url.Parse(href); {
	case err != nil:
		return answer{cause: "its via link is not a URI"}
	case !strings.EqualFold(u.Scheme, "http") && !strings.EqualFold(u.Scheme, "https"):
		return answer{cause: "its via link leads to a " + fetch.Printable(u.Scheme) + " URI: only http and https are requested"}
	case href == one.URI:
		return answer{cause: "its via link leads to itself"}
	}
	host := fetch.HostOf(href)
	if c.isSlow(host) {
		return answer{cause: fmt.Sprintf("%v: it was %d times, and is not asked any more", errSlow, maxSlow)}
	}
	limit := c.opts.MaxBytes
	if held.length >= 0 {
		limit = min(limit, held.length)
	}
	is, _ := compare(held.hashes, stated.hashes)
	suspect := is == different // then it matters whether the origin has what is stated
	if suspect && held.length >= 0 {
		limit = max(limit, min(stated.length, maxStated))
	}
	ctx, cancel := context.WithTimeoutCause(ctx, c.patience+time.Duration(limit/leastRate)*time.Second, errSlow)
	defer cancel()
	r := fetch.Request{URI: href, Header: http.Header{"Accept-Encoding": {"identity"}}}
	var found answer
	err := c.client.Fetch(ctx, &r, func(resp *fetch.Response) (err error) {
		if resp.URI == one.URI {
			found = answer{cause: "its via link leads back to itself, by a redirect"}
			return nil
		}
		found, err = read(resp, held, stated, suspect, limit)
		return err
	})
	if err == nil {
		return found
	}
	switch status, ok := fetch.StatusOf(err); {
	case ok && (status == http.StatusNotFound || status == http.StatusGone):
		return answer{state: absent, cause: fmt.Sprintf("the origin answers with status %d", status)}
	case errors.Is(context.Cause(ctx), errSlow):
		c.addSlow(host)
		err = errSlow
	}
	return answer{cause: fetch.Printable(err.Error())}
}

// isSlow reports whether a host has been too slow too often.
func (c *Checker) isSlow(host string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow[host] >= maxSlow
}

// addSlow records that a host was too slow.
func (c *Checker) addSlow(host string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.slow[host]; known || len(c.slow) < maxHosts {
		c.slow[host]++
	}
}

// read reads an answer, as far as it can be the copy, or what is stated if the copy is
// suspect: at most limit bytes and one more.
func read(resp *fetch.Response, held, stated *content, suspect bool, limit int64) (answer, error) {
	found := answer{state: answered, content: content{length: resp.Length, typ: resp.Header.Get("Content-Type")}}
	if t, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
		found.modified = resourcesync.NewDatetime(t.UTC())
	}
	if t, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		found.date = t
	}
	if coding := strings.TrimSpace(resp.Header.Get("Content-Encoding")); !strings.EqualFold(coding, "identity") {
		found.coding = coding
	}
	if held.length >= 0 && resp.Length >= 0 && resp.Length != held.length && (!suspect || resp.Length > limit) {
		return found, nil // it is not the copy
	}
	h := resourcesync.NewHasher(algorithmsOf(held.hashes, stated.hashes)...)
	n, err := io.Copy(h, io.LimitReader(resp.Body, limit+1))
	if err != nil {
		return found, err
	}
	switch {
	case n <= limit:
		found.length, found.whole, found.hashes = n, true, h.Sum()
	case held.length < 0 || held.length > limit:
		return answer{cause: fmt.Sprintf("the origin serves more than %d bytes, too much to compare", limit)}, nil
	}
	return found, nil
}

// algorithmsOf returns the known algorithms of hashes.
func algorithmsOf(all ...resourcesync.Hashes) (algs []resourcesync.Algorithm) {
	for _, alg := range algorithms {
		for _, hs := range all {
			if hs.Get(alg) != "" {
				algs = append(algs, alg)
				break
			}
		}
	}
	return algs
}

// complete reads the bytes of a copy if its hashes cannot be compared with those that
// are stated, or there are none.
func (c *Checker) complete(ctx context.Context, one *Copy, held, stated *content) error {
	known := algorithmsOf(held.hashes)
	is, _ := compare(held.hashes, stated.hashes)
	if len(known) > 0 && (is != unknown || len(algorithmsOf(stated.hashes)) == 0) {
		return nil
	}
	if one.Open == nil {
		return nil
	}
	b, err := one.Open(ctx)
	if err != nil {
		return err
	}
	defer b.Close() // only read
	h := resourcesync.NewHasher(append(algorithmsOf(held.hashes, stated.hashes), resourcesync.SHA256)...)
	n, err := io.Copy(h, io.LimitReader(until(ctx, b), c.opts.MaxBytes+1))
	if err != nil {
		return err
	}
	got := h.Sum()
	if is, _ := compare(got, held.hashes); is == different || held.length >= 0 && held.length != n || n > c.opts.MaxBytes {
		return errors.New("they are not those that were recorded")
	}
	held.hashes, held.length = got, n
	return nil
}

// A readerFunc is a Read method.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// until returns a reader of r that fails when ctx ends.
func until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}

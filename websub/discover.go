package websub

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Doer sends requests, like an http.Client. It is responsible for timeouts
// and for guarding against addresses that strangers name.
//
// This package follows redirects itself, because the standard client's handling
// of a redirected POST does not conform (WS-S-09). It disables redirects of a
// Doer that is an *http.Client; another Doer should not follow them either.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

// A StatusError reports an answer other than 2xx.
type StatusError struct {
	Method string
	Status int
}

func (e *StatusError) Error() string { return fmt.Sprintf("%s: status %d", e.Method, e.Status) }

// A Discovery is the topic and hubs that a resource names.
type Discovery struct {
	Topic    string   // the self URL, the topic to subscribe to (WS-D-06)
	Hubs     []string // those reached over HTTPS first, otherwise in the order found (WS-D-10)
	URL      string   // the URL that answered, after redirects
	Warnings []string // deviations that were accepted
}

// ErrNoHub reports a resource that names no hub.
var ErrNoHub = errors.New("it names no hub")

// A Discoverer finds topic and hubs of resources. The zero value with a Client
// is ready to use.
type Discoverer struct {
	Client Doer
	Header http.Header // sent with every request: Accept and Accept-Language may determine the topic (WS-D-11)
	Body   bool        // also use links in the body element of HTML, which may be user content (WS-D-12)
	Strict bool        // refuse a resource that names several topics (WS-D-08)
}

// Discover finds topic and hubs of the resource at address with the defaults
// of a [Discoverer].
func Discover(ctx context.Context, client Doer, address string) (*Discovery, error) {
	return (&Discoverer{Client: client}).Discover(ctx, address)
}

// Discover finds topic and hubs of the resource at address: in the Link headers
// of HEAD, then of GET, then in the feed or page itself; the first source wins
// (WS-D-04). If the resource was read and names no hub, Discover returns the
// Discovery together with [ErrNoHub].
func (d *Discoverer) Discover(ctx context.Context, address string) (*Discovery, error) {
	f := &finding{d: d, out: &Discovery{}}
	err := f.head(ctx, address)
	if err != nil || !f.whole() { // WS-D-05: it may not support HEAD
		err = f.get(ctx, address)
	}
	if err != nil && len(f.hubs) == 0 {
		return nil, fmt.Errorf("discover hub of %s: %w", plain(address), err)
	}
	if err != nil {
		f.warn("GET: %v; what HEAD said counts", err)
	}
	if err := f.settle(); err != nil {
		return nil, fmt.Errorf("discover hub of %s: %w", plain(address), err)
	}
	if len(f.out.Hubs) == 0 {
		return f.out, fmt.Errorf("discover hub of %s: %w", plain(address), ErrNoHub)
	}
	return f.out, nil
}

// A finding is the state of one discovery.
type finding struct {
	links
	d   *Discoverer
	out *Discovery
}

func (f *finding) warn(format string, args ...any) {
	f.out.Warnings = append(f.out.Warnings, fmt.Sprintf(format, args...))
}

// whole reports whether the topic and a hub were found.
func (f *finding) whole() bool { return len(f.hubs) > 0 && len(f.selfs) > 0 }

func (f *finding) head(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	a, err := f.ask(ctx, http.MethodHead, address)
	if err != nil {
		return err
	}
	drain(a.Response)
	f.links = headerLinks(a.Header.Values("Link"), a.url)
	return nil
}

// get examines the headers of GET and, if they do not name both, the body for
// the missing one (WS-D-08).
func (f *finding) get(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	a, err := f.ask(ctx, http.MethodGet, address)
	if err != nil {
		return err
	}
	defer func() { _ = a.Body.Close() }() // read as far as needed
	l := headerLinks(a.Header.Values("Link"), a.url)
	f.complete(l)
	if f.whole() {
		return nil
	}
	half := len(f.hubs)+len(f.selfs) > 0
	l, err = bodyLinks(a.Body, a.url, f.d.Body)
	if err != nil {
		return fmt.Errorf("read %s: %w", plain(a.url.String()), err)
	}
	f.complete(l)
	if half && f.whole() {
		f.warn("the Link headers name only one of hub and self; the other one comes from the body")
	}
	return nil
}

// complete adds links of l that are still missing.
func (f *finding) complete(l links) {
	if len(f.hubs) == 0 {
		f.hubs = l.hubs
	}
	if len(f.selfs) == 0 {
		f.selfs = l.selfs
	}
}

// ask returns a 2xx answer. It uses the links of the last response, not those
// of redirects (WS-D-09).
func (f *finding) ask(ctx context.Context, method, address string) (*answer, error) {
	header := http.Header{"User-Agent": {defaultUserAgent}}
	for k, v := range f.d.Header {
		header[http.CanonicalHeaderKey(k)] = v
	}
	x := &exchange{client: doer(f.d.Client), method: method, address: address, header: header, redirects: maxGetRedirects}
	a, err := x.do(ctx)
	if err != nil {
		return nil, err
	}
	if a.StatusCode/100 != 2 {
		drain(a.Response)
		return nil, &StatusError{method, a.StatusCode}
	}
	f.out.URL = a.url.String()
	return a, nil
}

// settle chooses the topic and orders the hubs.
func (f *finding) settle() error {
	switch {
	case len(f.selfs) > 1 && f.d.Strict:
		return fmt.Errorf("it names %d topics: %s", len(f.selfs), printable(strings.Join(f.selfs, ", ")))
	case len(f.selfs) > 1:
		f.warn("it names %d topics; the first counts", len(f.selfs))
		f.out.Topic = f.selfs[0]
	case len(f.selfs) == 1:
		f.out.Topic = f.selfs[0]
	default:
		f.out.Topic = f.out.URL
		if len(f.hubs) > 0 {
			f.warn("it names no self; the address that answered counts")
		}
	}
	f.out.Hubs = securedFirst(f.hubs)
	return nil
}

// securedFirst returns hubs, those reached over HTTPS first (WS-D-10).
func securedFirst(hubs []string) []string {
	out := slices.Clone(hubs)
	slices.SortStableFunc(out, func(a, b string) int { return rank(a) - rank(b) })
	return out
}

func rank(hub string) int {
	if secured(hub) {
		return 0
	}
	return 1
}

// secured reports whether hub is reached over TLS.
func secured(hub string) bool {
	return len(hub) > 8 && strings.EqualFold(hub[:8], "https://")
}

package memento

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"lockstep/internal/weblink"
)

const (
	// maxHops is the maximum number of addresses in one negotiation: redirects, and
	// TimeGates that others name (ME-IM-01).
	maxHops = 10

	// exchangeTime is the timeout of a client without one.
	exchangeTime = time.Minute
)

// A Doer sends requests, like an http.Client. It is responsible for timeouts
// and for guarding against addresses that strangers name. It should not follow
// redirects; this package disables them for an *http.Client. Nil means an
// http.Client.
type Doer interface {
	Do(*http.Request) (*http.Response, error)
}

var (
	// ErrNoMemento reports that a resource has no version for the requested
	// instant: it is unknown, or was deleted then.
	ErrNoMemento = errors.New("there is no version for that instant")

	// ErrNoTimeGate reports an address that neither negotiates nor names a
	// TimeGate.
	ErrNoTimeGate = errors.New("it is not a TimeGate and does not link to one")

	errHops = fmt.Errorf("it leads through more than %d addresses", maxHops)
)

// A StatusError reports an unusable answer.
type StatusError struct {
	URL    string
	Status int
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("%s answers with status %d", e.URL, e.Status)
}

// A Found is a version that was found.
type Found struct {
	URI string    // address of its bytes: its URI-M or, if it has none of its own, that of the TimeGate
	At  time.Time // its Memento-Datetime; zero if not stated (ME-RS-09)

	// Accept is the Accept-Datetime that a request for URI needs, if the version
	// has no URI of its own (patterns 1.3 and 2.3); otherwise it is empty.
	Accept string
}

// Negotiate asks a TimeGate for the version of a resource that was current at
// an instant, which is rounded up to a full second (ME-HD-03). It also accepts
// the address of the resource itself, if that names a TimeGate or TimeMap, is
// its own TimeGate, or never changes (ME-GEN-03).
//
// A foreign TimeGate may choose any version (ME-TG-05): check Found.At, and
// verify the bytes by their hash. If there is no version, the error is
// [ErrNoMemento].
func Negotiate(ctx context.Context, client Doer, timegate string, at time.Time) (Found, error) {
	n := &negotiation{client: doer(client), wanted: upToSecond(at), seen: make(map[string]bool)}
	found, err := n.run(ctx, timegate)
	if err != nil {
		return Found{}, fmt.Errorf("negotiate %s at %s: %w", FormatDatetime(n.wanted), printable(timegate), err)
	}
	return found, nil
}

// A negotiation is the state of one.
type negotiation struct {
	client Doer
	wanted time.Time
	seen   map[string]bool // addresses already requested
	chosen bool            // a TimeGate has chosen the current address
	at     time.Time       // Memento-Datetime that the TimeGate stated; zero: none
}

func (n *negotiation) run(ctx context.Context, address string) (Found, error) {
	for range maxHops + 1 {
		a, err := n.ask(ctx, address)
		if err != nil {
			return Found{}, err
		}
		next, found, err := n.judge(ctx, a)
		if err != nil || next == "" {
			return found, err
		}
		address = next
	}
	return Found{}, errHops
}

// An answer is the header of a response.
type answer struct {
	url    *url.URL
	moved  bool // the Doer has followed a redirect
	status int
	header http.Header
	links  []weblink.Link
}

// judge returns the version that an answer leads to, or the next address to
// request.
func (n *negotiation) judge(ctx context.Context, a *answer) (next string, found Found, err error) {
	self := a.url.String()
	memento := readDatetime(a.header.Get("Memento-Datetime"))
	switch {
	case a.status/100 == 3: // ME-IM-01, ME-MM-05
		return n.redirected(a)
	case (a.status == http.StatusNotFound || a.status == http.StatusGone) && !memento.IsZero(): // ME-MM-04
		return "", Found{}, fmt.Errorf("%s is of %s, when there was nothing: %w", printable(self), FormatDatetime(memento), ErrNoMemento)
	case a.status/100 == 2 && !memento.IsZero():
		found = Found{URI: self, At: memento}
		if content := a.target(a.header.Get("Content-Location")); content != "" && !n.chosen {
			found.URI = content // patterns 1.2 and 2.2
		} else if !n.chosen && !a.moved && variesByDatetime(a.header) {
			found.Accept = FormatDatetime(n.wanted) // patterns 1.3 and 2.3
		}
		return "", found, nil // also pattern 3
	}
	if gate := a.link("timegate"); gate != "" && !n.seen[gate] { // ME-LK-07: also for deleted resources
		n.chosen = false
		return gate, Found{}, nil
	}
	switch {
	case a.status/100 == 2 && n.chosen: // ME-RS-09
		return "", Found{URI: self, At: n.at}, nil
	case a.status == http.StatusNotFound, a.status == http.StatusGone:
		return "", Found{}, &noMemento{StatusError{printable(self), a.status}}
	case a.status/100 != 2:
		return "", Found{}, &StatusError{printable(self), a.status}
	}
	if list := a.link("timemap"); list != "" { // pattern 4
		m, err := ReadTimeMap(ctx, n.client, list, maxListed)
		if err != nil {
			return "", Found{}, err
		}
		found, err := m.Current(n.wanted)
		return "", found, err
	}
	return "", Found{}, fmt.Errorf("%s: %w", printable(self), ErrNoTimeGate)
}

// redirected follows a redirect: that of a TimeGate leads to a version, and may
// state its datetime.
func (n *negotiation) redirected(a *answer) (next string, found Found, err error) {
	next = a.target(a.header.Get("Location"))
	if next == "" {
		return "", Found{}, fmt.Errorf("status %d of %s leads nowhere", a.status, printable(a.url.String()))
	}
	if !variesByDatetime(a.header) && a.header.Get("Memento-Datetime") == "" {
		return next, Found{}, nil
	}
	n.chosen = true
	for _, l := range a.links {
		if l.Has("memento") && a.target(l.Target) == next {
			if n.at = readDatetime(l.Param("datetime")); !n.at.IsZero() {
				return "", Found{URI: next, At: n.at}, nil // no request is needed
			}
		}
	}
	return next, Found{}, nil
}

// A noMemento is the status of an answer that reports no version.
type noMemento struct{ StatusError }

func (e *noMemento) Unwrap() []error { return []error{ErrNoMemento, &e.StatusError} }

// ask requests the header of the resource at address.
func (n *negotiation) ask(ctx context.Context, address string) (*answer, error) {
	n.seen[address] = true
	header := http.Header{"Accept-Datetime": {FormatDatetime(n.wanted)}}
	resp, err := send(ctx, n.client, http.MethodHead, address, header) // ME-TG-09
	if err == nil && (resp.StatusCode == http.StatusMethodNotAllowed || resp.StatusCode == http.StatusNotImplemented) {
		_ = resp.Body.Close() // it has no body
		resp, err = send(ctx, n.client, http.MethodGet, address, header)
	}
	if err != nil {
		return nil, err
	}
	_ = resp.Body.Close() // only its header is needed
	a := &answer{url: resp.Request.URL, status: resp.StatusCode, header: resp.Header}
	a.moved = a.url.String() != address
	a.links = weblink.Parse(resp.Header.Values("Link"), nil)
	return a, nil
}

// target returns ref resolved against the address of the answer; empty if it is
// not an HTTP address.
func (a *answer) target(ref string) string {
	uri, u := resolve(a.url, ref)
	if u == nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" {
		return ""
	}
	return uri
}

// resolve returns ref resolved against base, and its components; nil if it is
// invalid. An absolute reference is returned unchanged: its path may contain
// another URI, whose dots and slashes matter (ME-TG-08).
func resolve(base *url.URL, ref string) (string, *url.URL) {
	ref, _, _ = strings.Cut(strings.TrimSpace(ref), "#")
	if ref == "" {
		return "", nil
	}
	if u, err := url.Parse(ref); err != nil || u.IsAbs() {
		if err != nil {
			u = nil
		}
		return ref, u
	}
	u, err := weblink.Resolve(base, ref)
	if err != nil {
		return "", nil
	}
	return u.String(), u
}

// link returns the target of the first link with a relation; empty if there is
// none with a valid address.
func (a *answer) link(rel string) string {
	for _, l := range a.links {
		if l.Has(rel) {
			if target := a.target(l.Target); target != "" {
				return target
			}
		}
	}
	return ""
}

// send sends a request to an HTTP address.
func send(ctx context.Context, client Doer, method, address string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, address, nil)
	if err != nil || r.URL.Scheme != "http" && r.URL.Scheme != "https" || r.URL.Hostname() == "" {
		return nil, fmt.Errorf("%s is no address of HTTP", printable(address))
	}
	r.URL.Fragment, r.URL.RawFragment = "", ""
	r.Header = header.Clone()
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	if resp.Request == nil || resp.Request.URL == nil {
		resp.Request = r // some Doers leave it nil
	}
	return resp, nil
}

func doer(client Doer) Doer {
	stop := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	switch c := client.(type) {
	case nil:
		return &http.Client{Timeout: exchangeTime, CheckRedirect: stop}
	case *http.Client:
		own := *c
		own.CheckRedirect = stop
		return &own
	}
	return client
}

// printable returns an address for use in a message: without user and password,
// and shortened.
func printable(address string) string {
	if u, err := url.Parse(address); err == nil {
		address = u.Redacted()
	}
	q := strconv.Quote(address[:min(len(address), 2000)])
	return q[1 : len(q)-1]
}

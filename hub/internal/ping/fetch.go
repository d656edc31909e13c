package ping

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/url"
	"time"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/refusal"
	"lockstep/internal/fetch"
	"lockstep/websub"
)

// A fetched is the result of a fetch.
type fetched struct {
	body           []byte // nil: nothing new
	contentType    string
	sum            []byte
	etag, modified string
	notModified    bool
	self           *url.URL // the topic's self link, if it has one
	err            error
	final          bool          // retries are useless
	after          time.Duration // the wait that the server requested
	done           func()        // releases the body
}

// fetch downloads the topic, unless it is unchanged according to s.
func (n *Fetcher) fetch(ctx context.Context, topic string, s topicState) *fetched {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	f := &fetched{done: func() {}}
	r, err := n.client.Get(ctx, fetch.Request{
		URI: topic, IfNoneMatch: s.ETag, IfModifiedSince: s.Modified, MaxBytes: n.o.MaxBody, Once: true, NoCache: true,
	})
	if err != nil {
		return f.fail(err)
	}
	defer func() { _ = r.Body.Close() }() // read to its end, or useless
	for _, l := range websub.ParseLinks(r.Header.Values("Link"), n.base(r.URI)) {
		if l.Has("self") && f.self == nil {
			f.self, _ = address.Check(l.Target, n.o.AllowPrivate) // nil: none, or one that must not be fetched
		}
	}
	if r.Status == http.StatusNotModified {
		f.notModified = true
		return f
	}
	body, done, err := n.o.Bodies.Read(r.Body, r.Length, n.o.MaxBody)
	if err != nil {
		return f.fail(err)
	}
	f.done = done
	sum := sha256.Sum256(body)
	f.sum, f.contentType = sum[:], r.Header.Get("Content-Type") // WS-C-01: character for character
	f.etag, f.modified = validators(r.Header)
	if !bytes.Equal(f.sum, s.Sum) {
		f.body = body
	}
	return f
}

func (n *Fetcher) base(uri string) *url.URL {
	u, err := url.Parse(uri)
	if err != nil {
		return &url.URL{}
	}
	return u
}

// fail records the error, and whether a retry may succeed.
func (f *fetched) fail(err error) *fetched {
	var (
		address  *fetch.AddressError
		redirect *fetch.RedirectError
		status   *fetch.StatusError
		large    *refusal.Refusal
	)
	f.err = err
	f.final = errors.As(err, &address) || errors.As(err, &redirect) || errors.Is(err, fetch.ErrTooLarge) ||
		errors.As(err, &large) && large.Status == http.StatusRequestEntityTooLarge
	if errors.As(err, &status) {
		f.after = status.RetryAfter
		f.final = f.final || status.Status == http.StatusGone
	}
	return f
}

// validators returns the validators for the next conditional request. A
// resource that was changed in the second of the answer may change again within
// that second: then neither its date nor an entity tag that the server derives
// from the date would show the change.
func validators(h http.Header) (etag, modified string) {
	etag, modified = h.Get("ETag"), h.Get("Last-Modified")
	if modified == "" {
		return etag, ""
	}
	m, err := http.ParseTime(modified)
	d, err2 := http.ParseTime(h.Get("Date"))
	if err != nil || err2 != nil || d.Sub(m) < 2*time.Second {
		return "", ""
	}
	return etag, modified
}

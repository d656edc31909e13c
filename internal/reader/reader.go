// Package reader carries, in the context of a request, which private sets its client may
// read.
//
// The program that knows credentials marks requests with [With]. The credential is checked
// when something asks for it, because most requests are for what everyone may read:
//
//	r = r.WithContext(reader.With(r.Context(), func() reader.Grant { return check(r) }))
//
// Handlers of private sets ask with [Of], answer other clients with [Grant.Refuse], and
// readers with [Confidentially], so that no shared cache keeps the answer. A log of requests
// learns from [Noting] which reader a request was from.
package reader

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Grant is what the credential of a request entitles its client to. The zero value is
// that of a request without one.
type Grant struct {
	Name string   // of the reader whose credential was accepted
	Sets []string // names of the private sets that it may read

	// Status is that of the answer to a request whose credential cannot be accepted: 401,
	// 429 or 503; 0 if it was accepted, or there is none. What everyone may read is
	// answered nevertheless, if it does not depend on credentials.
	Status int
	After  time.Duration // when the client may try again, with 429 and 503
}

// Opens reports whether the client may read a private set.
func (g Grant) Opens(set string) bool { return slices.Contains(g.Sets, set) }

type key struct{}

// A client is that of a request.
type client struct {
	check func() Grant
	first func() Grant // check, called once
}

// With returns a context of a request, whose credential check checks. It is called when
// the result is needed.
func With(ctx context.Context, check func() Grant) context.Context {
	first := check
	if n, ok := ctx.Value(noteKey{}).(*Note); ok {
		first = func() Grant {
			g := check()
			n.name.Store(&g.Name)
			return g
		}
	}
	return context.WithValue(ctx, key{}, &client{check, sync.OnceValue(first)})
}

type noteKey struct{}

// A Note has the name of the reader that a request was from.
type Note struct{ name atomic.Pointer[string] }

// Noting returns a context of a request in which the name of its reader is noted, once a
// credential was checked and accepted.
func Noting(ctx context.Context) (context.Context, *Note) {
	n := &Note{}
	return context.WithValue(ctx, noteKey{}, n), n
}

// Name returns the name of the reader; "" if no credential was accepted, or none was asked
// for. n may be nil.
func (n *Note) Name() string {
	if n == nil || n.name.Load() == nil {
		return ""
	}
	return *n.name.Load()
}

// Of returns what the credential of a request entitles to.
func Of(ctx context.Context) Grant {
	if c, ok := ctx.Value(key{}).(*client); ok {
		return c.first()
	}
	return Grant{}
}

// Again checks the credential of a request again, which may have been withdrawn: answers
// without an end ask from time to time.
func Again(ctx context.Context) Grant {
	if c, ok := ctx.Value(key{}).(*client); ok {
		return c.check()
	}
	return Grant{}
}

// Vary names the header that answers depend on, in the field Vary.
const Vary = "Authorization"

// Challenges are the values of WWW-Authenticate of an answer with status 401.
func Challenges() []string {
	return []string{`Bearer realm="readers"`, `Basic realm="readers", charset="UTF-8"`}
}

// Refuse fills in the header of the answer to a client that may not read what it asks
// for, and returns its status. The answer is the same whether that exists or not.
func (g Grant) Refuse(header http.Header) (status int) {
	header.Set("Cache-Control", "no-store")
	header.Add("Vary", Vary)
	if g.After > 0 {
		header.Set("Retry-After", strconv.FormatInt(int64((g.After+time.Second-1)/time.Second), 10))
	}
	if g.Status != 0 && g.Status != http.StatusUnauthorized {
		return g.Status
	}
	header["Www-Authenticate"] = Challenges()
	return http.StatusUnauthorized
}

// Confidentially has serve answer a client alone: a cache that others share does not keep
// what it writes.
func Confidentially(w http.ResponseWriter, serve func(http.ResponseWriter)) {
	c := &confidential{ResponseWriter: w}
	serve(c)
	c.begin()
}

// A confidential changes the header before it is sent.
type confidential struct {
	http.ResponseWriter
	begun bool
}

// WriteHeader implements [http.ResponseWriter].
func (w *confidential) WriteHeader(status int) {
	if !w.begun && status >= http.StatusOK { // another follows one that only informs
		w.begun = true
		header := w.Header()
		header.Set("Cache-Control", private(header.Get("Cache-Control")))
		if !slices.Contains(header["Vary"], Vary) {
			header.Add("Vary", Vary)
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// private returns a Cache-Control for one client.
func private(value string) string {
	kept := []string{"private"}
	for directive := range strings.SplitSeq(value, ",") {
		switch d := strings.TrimSpace(directive); {
		case strings.EqualFold(d, "no-store"):
			return "no-store"
		case d == "", strings.EqualFold(d, "public"), strings.EqualFold(d, "private"):
		default:
			kept = append(kept, d)
		}
	}
	return strings.Join(kept, ", ")
}

// Write implements [io.Writer].
func (w *confidential) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom leaves the copying to what is below.
func (w *confidential) ReadFrom(src io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, src)
}

func (w *confidential) begin() {
	if !w.begun {
		w.WriteHeader(http.StatusOK)
	}
}

// FlushError sends what was written, for [http.ResponseController].
func (w *confidential) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Unwrap returns the writer below, for [http.ResponseController].
func (w *confidential) Unwrap() http.ResponseWriter { return w.ResponseWriter }

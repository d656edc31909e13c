// Package opener has the functions with which a validation opens documents and
// resources: from a directory or from any store of names. For other places, such as
// the network, the caller writes one.
package opener

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
)

// A Request asks a [Func] for the content of a URI.
type Request struct {
	URI      string
	Document bool  // to be read as a document: a content coding is allowed if the Func decodes it
	Resource bool  // a listed resource, which may be stored elsewhere than the documents
	First    int64 // with Last: only these bytes
	Last     int64 // of the last byte; 0: everything, if First is 0

	// Conditions: the answer is only needed if its entity tag differs or, if no tag
	// is given, if it has changed since that time, written as in Last-Modified.
	IfNoneMatch, IfModifiedSince string
}

// Ranged reports whether r requests a part.
func (r *Request) Ranged() bool { return r.First > 0 || r.Last > 0 }

// An Answer is the content of a URI.
type Answer struct {
	URI     string      // after redirects; empty: as requested
	Header  http.Header // nil if there are no headers, as for a file
	Size    int64       // of the whole; -1 if unknown
	Partial bool        // Body holds the requested part, not the whole
	Body    io.ReadCloser
}

// A Func opens what r asks for. It may be called concurrently. Its error is
// fs.ErrNotExist if nothing is there, [ErrUnseen] if that cannot be determined
// from here, and [ErrNotModified] if the conditions of the request are not met.
// It may answer a request for a part with the whole.
type Func func(ctx context.Context, r Request) (*Answer, error)

// ErrUnseen reports an address that a Func cannot read: no fault of the Source.
var ErrUnseen = errors.New("cannot be looked at from here")

// ErrNotModified reports content that has not changed according to the
// conditions of the request.
var ErrNotModified = errors.New("not modified")

// Named returns a Func for the content below the URL base, by its name: the rest
// of the path, decoded, such as "resourcesync/main/resourcelist.xml". Other URIs
// are unseen, and so are missing resources: a Source need not store them with
// its documents. If open returns an io.Seeker, packages are read in parts.
func Named(base string, open func(ctx context.Context, name string) (io.ReadCloser, error)) Func {
	base = strings.TrimSuffix(base, "/") + "/"
	return func(ctx context.Context, r Request) (*Answer, error) {
		name, ok := nameBelow(base, r.URI)
		if !ok {
			return nil, fmt.Errorf("%s: %w", finding.Printable(r.URI), ErrUnseen)
		}
		body, err := open(ctx, name)
		if err != nil {
			if r.Resource && errors.Is(err, fs.ErrNotExist) {
				err = ErrUnseen
			}
			return nil, err
		}
		return answerOf(body, &r)
	}
}

// nameBelow returns the name of the content at uri.
func nameBelow(base, uri string) (string, bool) {
	rest, ok := strings.CutPrefix(uri, base)
	if !ok {
		return "", false
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, _, _ = strings.Cut(rest, "?")
	name, err := url.PathUnescape(rest)
	if err != nil || name != "" && !fs.ValidPath(strings.TrimSuffix(name, "/")) {
		return "", false
	}
	return name, true
}

// answerOf returns the content of body, or the requested part.
func answerOf(body io.ReadCloser, r *Request) (*Answer, error) {
	a := &Answer{URI: r.URI, Size: -1, Body: body}
	seeker, ok := body.(io.Seeker)
	if !ok {
		return a, nil
	}
	size, err := seeker.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = seeker.Seek(r.First, io.SeekStart)
	}
	if err != nil {
		_ = body.Close() // not needed
		return nil, err
	}
	a.Size = size
	if r.Ranged() {
		a.Partial = true
		a.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(body, r.Last-r.First+1), body}
	}
	return a, nil
}

// Dir returns a Func for the files in a directory that a web server serves
// below base.
func Dir(base, dir string) Func {
	return Named(base, func(_ context.Context, name string) (io.ReadCloser, error) {
		f, err := os.OpenInRoot(dir, filepath.FromSlash(name))
		if err != nil {
			return nil, err
		}
		if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
			_ = f.Close() // not needed
			return nil, fmt.Errorf("%s is no file: %w", name, fs.ErrNotExist)
		}
		return f, nil
	})
}

// ErrBase reports a directory whose documents do not show where it is served.
var ErrBase = errors.New("cannot determine the URL it is served at")

// description is where a Source Description is, below its server (RS-DISC-02).
const description = ".well-known/resourcesync"

// maxSniff caps what is read to find the base of a directory.
const maxSniff = 1 << 20

// maxLocs is how many entries of a Source Description are tried for that.
const maxLocs = 20

// DirBase returns the URL a directory with a Source Description is served at:
// what is left of the URI of a Capability List without the name of its file.
func DirBase(dir string) (string, error) {
	name := filepath.Join(dir, filepath.FromSlash(description))
	f, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("%s: %w: %w", dir, ErrBase, err)
	}
	defer f.Close() // opened for reading only
	for _, loc := range locsOf(io.LimitReader(f, maxSniff)) {
		u, err := url.Parse(loc)
		if err != nil || u.Host == "" {
			continue
		}
		names := strings.Split(strings.TrimPrefix(u.Path, "/"), "/")
		for i := range names { // the longest name first: it is the most specific
			rest := path.Join(names[i:]...)
			if info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(rest))); err == nil && info.Mode().IsRegular() {
				u.Path, u.RawPath, u.RawQuery, u.Fragment = "/"+strings.Join(append(names[:i:i], ""), "/"), "", "", ""
				return u.String(), nil
			}
		}
	}
	return "", fmt.Errorf("%s: %w: no Capability List named in %s is there", dir, ErrBase, name)
}

// locsOf returns the URIs in a document, as far as it can be read.
func locsOf(r io.Reader) (locs []string) {
	for e, err := range resourcesync.NewReader(r, resourcesync.ReaderOptions{MaxBytes: maxSniff}).Entries() {
		if err != nil || len(locs) == maxLocs {
			break
		}
		locs = append(locs, e.Loc)
	}
	return locs
}

package validation

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"

	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/validate/opener"
)

// A start is where a validation begins.
type start struct {
	uri  string
	kind string // of discover, if it is known to be foreign
}

// startsOf returns where to begin for an address, and the steps that led there if it names
// something else: at the address, if it is looked at alone, or is a document and no answer of a
// repository; otherwise at what can be found from it.
func startsOf(ctx context.Context, client *fetch.Client, open opener.Func, address string, alone bool) ([]start, []discover.Step, error) {
	home := discover.Home(address)
	kind, _ := discover.Prefix(address)
	alone = alone && home != nil && kind == ""
	if home != nil && home.Scheme != "" && kind != discover.OAIPMH {
		home.User = nil
		if kind == discover.AtomPMH {
			return []start{{home.String(), discover.AtomPMH}}, nil, nil
		}
		if alone {
			return []start{{uri: home.String()}}, nil, nil
		}
		if head := headOf(ctx, open, home.String()); looksLikeXML(head) && !bytes.Contains(head, []byte("<oai-pmh")) {
			return []start{{uri: home.String()}}, nil, nil
		}
	}
	found, err := discover.Find(ctx, client, address)
	switch {
	case err == nil && alone: // it had no scheme
		home.User = nil
		home.Scheme, _, _ = strings.Cut(found.Origin, "://")
		return []start{{uri: home.String()}}, nil, nil
	case err == nil:
		starts, err := startsIn(found, address)
		if home != nil && strings.Trim(home.Path, "/") == "" && home.RawQuery == "" {
			return starts, nil, err // the address of a site, whose documents are elsewhere
		}
		return starts, found.Way, err
	}
	if home == nil || home.Scheme == "" || ctx.Err() != nil {
		return nil, nil, err
	}
	// The document at a well-known URI may be too broken for discovery to use.
	for _, wellKnown := range discover.WellKnowns(home) {
		if looksLikeXML(headOf(ctx, open, wellKnown)) {
			return []start{{uri: wellKnown}}, []discover.Step{{URI: home.String(), What: "no document; the one at the well-known URI is checked"}}, nil
		}
	}
	return nil, nil, err
}

// startsIn returns where to begin in what was found from an address.
func startsIn(found *discover.Found, address string) ([]start, error) {
	if f := found.Foreign; f != nil {
		return []start{{f.URI, f.Kind}}, nil
	}
	if found.All && found.SourceDescription != "" {
		return []start{{uri: found.SourceDescription}}, nil
	}
	var starts []start
	for i := range found.Sets {
		set := &found.Sets[i]
		switch {
		case set.CapabilityList != "":
			starts = append(starts, start{uri: set.CapabilityList})
		case len(set.Capabilities) > 0:
			starts = append(starts, start{uri: set.Capabilities[0].URI})
		}
	}
	if len(starts) == 0 {
		return nil, fmt.Errorf("%s: %w", fetch.Printable(address), discover.ErrNoSource)
	}
	return starts, nil
}

// headOf returns the first bytes of the document at uri, in lower case and
// without bytes that only mark the character encoding; nil if the document is
// unavailable.
func headOf(ctx context.Context, open opener.Func, uri string) []byte {
	a, err := open(ctx, opener.Request{URI: uri, Document: true})
	if err != nil {
		return nil
	}
	defer a.Body.Close() // only its beginning is wanted
	head, _ := bufio.NewReaderSize(a.Body, 1024).Peek(1024)
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return head
	}
	return bytes.ToLower(bytes.ReplaceAll(bytes.TrimLeft(head, "\xef\xbb\xbf\xfe\xff \t\r\n"), []byte{0}, nil))
}

// looksLikeXML reports whether what begins with head may be meant as a document.
func looksLikeXML(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		return true
	}
	return bytes.HasPrefix(head, []byte("<")) && !bytes.Contains(head, []byte("<html")) && !bytes.Contains(head, []byte("<!doctype html"))
}

// openerOf opens what URIs lead to over the network.
func openerOf(client *fetch.Client) opener.Func {
	return func(ctx context.Context, r opener.Request) (*opener.Answer, error) {
		q := fetch.Request{URI: r.URI, Document: r.Document, AcceptGzip: r.Document, RangeFrom: r.First, RangeTo: r.Last, IfNoneMatch: r.IfNoneMatch, IfModifiedSince: r.IfModifiedSince}
		if !r.Document {
			q.Header = http.Header{"Accept-Encoding": {"identity"}}
		}
		get := client.Get
		if r.Document {
			get = client.GetWhole
		}
		resp, err := get(ctx, q)
		if err != nil {
			if status, ok := errors.AsType[*fetch.StatusError](err); ok && (status.Status == http.StatusNotFound || status.Status == http.StatusGone) {
				err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
			}
			return nil, err
		}
		if resp.Status == http.StatusNotModified {
			_ = resp.Body.Close() // empty
			return nil, opener.ErrNotModified
		}
		a := &opener.Answer{URI: resp.URI, Header: resp.Header, Size: resp.Length, Body: resp.Body}
		if resp.Status == http.StatusPartialContent {
			a.Partial, a.Size = true, resp.Range.Total
		}
		return a, nil
	}
}

package memento

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strings"
	"time"

	"lockstep/internal/weblink"
)

const (
	// maxListed is the default maximum number of versions.
	maxListed = 1_000_000

	// maxMaps is how many TimeMaps are read for one call, ...
	maxMaps = 1000

	// ... and maxMapBytes how large each may be.
	maxMapBytes = 256 << 20
)

// ErrTooLong reports a TimeMap that lists more versions than requested.
var ErrTooLong = errors.New("the TimeMap is too large")

// A TimeMap is the known versions of a resource.
type TimeMap struct {
	Original string  // URI-R; empty if not stated
	TimeGate string  // the first one named
	Versions []Found // by datetime, oldest first; each URI-M once
}

// Current returns the version that was current at an instant; [ErrNoMemento] if
// the instant is before the first.
func (m *TimeMap) Current(at time.Time) (Found, error) {
	for i := len(m.Versions) - 1; i >= 0; i-- {
		if !m.Versions[i].At.After(at) {
			return m.Versions[i], nil
		}
	}
	return Found{}, ErrNoMemento
}

// ReadTimeMap reads the TimeMap at address, and those it refers to, each once
// (ME-TM-04). It returns [ErrTooLong] if there are more than most versions, and
// [ErrNoMemento] if there is none; most 0 means a million.
func ReadTimeMap(ctx context.Context, client Doer, address string, most int) (*TimeMap, error) {
	if most <= 0 {
		most = maxListed
	}
	r := &mapReader{client: doer(client), most: most, seen: map[string]bool{address: true}, todo: []string{address}, known: make(map[string]bool)}
	for len(r.todo) > 0 {
		next := r.todo[0]
		r.todo = r.todo[1:]
		if err := r.read(ctx, next); err != nil {
			return nil, fmt.Errorf("read TimeMap %s: %w", printable(next), err)
		}
	}
	if len(r.out.Versions) == 0 {
		return nil, fmt.Errorf("read TimeMap %s: %w", printable(address), ErrNoMemento)
	}
	sort.SliceStable(r.out.Versions, func(i, j int) bool { return r.out.Versions[i].At.Before(r.out.Versions[j].At) })
	return &r.out, nil
}

// A mapReader reads TimeMaps that refer to each other.
type mapReader struct {
	client Doer
	most   int
	out    TimeMap
	seen   map[string]bool // TimeMaps already read or queued
	todo   []string
	known  map[string]bool // URI-Ms
}

// read reads one TimeMap.
func (r *mapReader) read(ctx context.Context, address string) error {
	resp, err := r.open(ctx, address)
	if err != nil {
		return err
	}
	defer resp.Body.Close() // the relevant part was read
	body := &io.LimitedReader{R: resp.Body, N: maxMapBytes + 1}
	links := weblink.NewReader(body)
	for {
		l, err := links.Next()
		switch {
		case body.N <= 0:
			return ErrTooLong
		case err == io.EOF:
			return nil
		case err != nil:
			return err
		}
		if err := r.take(resp.Request.URL, &l); err != nil {
			return err
		}
	}
}

// take handles a link of the TimeMap at base. Its relations describe the target
// (ME-TM-01), its context is the resource, unless it has an anchor (ME-TM-03).
func (r *mapReader) take(base *url.URL, l *weblink.Link) error {
	uri, target := resolve(base, l.Target)
	if target == nil {
		return nil // it has no valid target
	}
	if l.Anchor != "" && l.Anchor != r.out.Original {
		return nil // its context is another resource
	}
	switch {
	case slices.Contains(l.Rels, "original"):
		if r.out.Original == "" {
			r.out.Original = uri
		}
	case slices.Contains(l.Rels, "memento"):
		at := readDatetime(l.Param("datetime"))
		if at.IsZero() || r.known[uri] {
			return nil // ME-LK-04: it must have a datetime
		}
		if len(r.out.Versions) >= r.most {
			return ErrTooLong
		}
		r.known[uri] = true
		r.out.Versions = append(r.out.Versions, Found{URI: uri, At: at})
	case slices.Contains(l.Rels, "timemap"):
		if r.seen[uri] || !acceptable(l.Param("type")) || target.Scheme != "http" && target.Scheme != "https" {
			return nil
		}
		if len(r.seen) >= maxMaps {
			return ErrTooLong
		}
		r.seen[uri] = true
		r.todo = append(r.todo, uri)
	case slices.Contains(l.Rels, "timegate"):
		if r.out.TimeGate == "" {
			r.out.TimeGate = uri
		}
	}
	return nil
}

// acceptable reports whether a TimeMap with that media type may be in link
// format.
func acceptable(typ string) bool {
	typ, _, _ = strings.Cut(typ, ";")
	return typ == "" || strings.EqualFold(strings.TrimSpace(typ), LinkFormat)
}

// open requests a TimeMap, following redirects.
func (r *mapReader) open(ctx context.Context, address string) (*http.Response, error) {
	header := http.Header{"Accept": {LinkFormat}}
	for range maxHops + 1 {
		resp, err := send(ctx, r.client, http.MethodGet, address, header)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode == http.StatusOK {
			return resp, nil
		}
		_ = resp.Body.Close() // it is unusable
		a := answer{url: resp.Request.URL}
		next := a.target(resp.Header.Get("Location"))
		switch {
		case resp.StatusCode/100 == 3 && next != "":
			address = next
		case resp.StatusCode == http.StatusNotFound || resp.StatusCode == http.StatusGone:
			return nil, &noMemento{StatusError{printable(address), resp.StatusCode}}
		default:
			return nil, &StatusError{printable(address), resp.StatusCode}
		}
	}
	return nil, errHops
}

// variesByDatetime reports whether an answer comes from a TimeGate (ME-TG-01).
func variesByDatetime(header http.Header) bool {
	for _, value := range header.Values("Vary") {
		for field := range strings.SplitSeq(value, ",") {
			if strings.EqualFold(strings.TrimSpace(field), "Accept-Datetime") {
				return true
			}
		}
	}
	return false
}

package transfer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"lockstep/destination/internal/plan"
	"lockstep/internal/fetch"
	"lockstep/memento"
	"lockstep/resourcesync"
	"lockstep/websub"
)

const (
	// mostListed is the number of versions of one resource that are read from a
	// TimeMap, so that it cannot fill memory.
	mostListed = 20_000

	// maxMapPages is the largest number of documents that one TimeMap may consist
	// of.
	maxMapPages = 20

	// maxMapBytes is the largest size of each.
	maxMapBytes = 16 << 20
)

// errMapPages reports a TimeMap with too many documents.
var errMapPages = fmt.Errorf("it goes on after %d documents", maxMapPages)

// A mapDoer requests TimeMaps with the same limits as other documents.
type mapDoer struct {
	client *fetch.Client
	mayAsk func(uri string) bool
	left   int // documents that may still be requested
}

// Do implements [memento.Doer]. It follows redirects.
func (d *mapDoer) Do(r *http.Request) (*http.Response, error) {
	uri := r.URL.String()
	if d.left--; d.left < 0 {
		return nil, errMapPages
	}
	if !d.mayAsk(uri) {
		return nil, fmt.Errorf("%s is on a host the Source may not name", fetch.Printable(uri))
	}
	answer := &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r}
	resp, err := d.client.Get(r.Context(), fetch.Request{URI: uri, Header: r.Header, MaxBytes: maxMapBytes})
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

// timeMaps returns the TimeMaps among links.
func timeMaps(links []resourcesync.Link) (maps []string) {
	for _, l := range links {
		if typ, _, _ := strings.Cut(l.Type, ";"); l.Rel == plan.RelTimeMap && (typ == "" || strings.EqualFold(strings.TrimSpace(typ), memento.LinkFormat)) {
			maps = append(maps, l.Href)
		}
	}
	return maps
}

// mapsNamed returns the TimeMaps that a response names (ME-LK-03).
func mapsNamed(address string, header http.Header) (maps []string) {
	base, err := url.Parse(address)
	if err != nil {
		return nil
	}
	for _, l := range websub.ParseLinks(header.Values("Link"), base) {
		if typ, _, _ := strings.Cut(l.Param("type"), ";"); l.Has(plan.RelTimeMap) && (typ == "" || strings.EqualFold(strings.TrimSpace(typ), memento.LinkFormat)) {
			maps = append(maps, l.Target)
		}
	}
	return maps
}

// listed returns addresses that TimeMaps list (ME-GEN-03, pattern 4): the version
// that was current when the requested one was created, or at the requested instant,
// and those of the same second (ME-HD-04).
func (p *pastSearch) listed(ctx context.Context, maps []string, tried map[string]bool) (ways []pastPlace) {
	asked := 0
	for _, address := range maps {
		if asked == maxGates || tried[address] || !p.t.mayAsk(address) {
			continue
		}
		tried[address] = true
		asked++
		m, err := memento.ReadTimeMap(ctx, &mapDoer{p.t.Client, p.t.mayAsk, maxMapPages}, address, mostListed)
		if err != nil {
			p.miss("its TimeMap "+fetch.Printable(address), address, err)
			continue
		}
		for _, v := range p.versionsOf(m) {
			if !tried[v.uri] && p.t.mayAsk(v.uri) {
				tried[v.uri] = true
				ways = append(ways, v)
			}
		}
	}
	return ways
}

// versionsOf returns the addresses of the versions to be tried, best first. Of several in
// a second it is not known which was current at its end: a TimeMap need not be in order.
func (p *pastSearch) versionsOf(m *memento.TimeMap) (ways []pastPlace) {
	var seconds []time.Time
	for _, w := range p.gatePlaces("") {
		found, err := m.Current(w.at)
		if err != nil || slices.ContainsFunc(seconds, found.At.Equal) {
			continue // the instant is before the first version
		}
		seconds = append(seconds, found.At)
		same := slices.DeleteFunc(slices.Clone(m.Versions), func(v memento.Found) bool { return !v.At.Equal(found.At) })
		for _, v := range slices.Backward(same) {
			if len(ways) == 2*maxGates {
				break
			}
			way := pastPlace{uri: v.URI}
			if len(same) == 1 {
				way.asOf = w.at
			}
			ways = append(ways, way)
		}
	}
	return ways
}

package transfer

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/selection"
	"lockstep/resourcesync"
)

// A location is an address at which the content of a resource is available.
type location struct {
	uri    string
	host   string // of a mirror
	mirror bool   // it is not the address of the resource itself
}

const (
	// maxMirrors is the number of mirrors of one resource that are tried.
	maxMirrors = 8

	// maxMirrorFaults is how often in a row a mirror's host may fail before it is
	// skipped for mirrorRest, so that a dead host does not delay every resource.
	maxMirrorFaults = 3
	mirrorRest      = 10 * time.Minute

	// maxMirrorHosts limits the hosts remembered.
	maxMirrorHosts = 1000

	// maxMirrorMisses is by how much failed requests to mirrors may outnumber
	// successful ones before all mirrors are skipped for a while: each resource
	// could name others.
	maxMirrorMisses = 64
)

// locations returns the addresses at which to look for the content, in this order
// (RS-REL-12). With a hash to verify it: mirrors on hosts that the Source may name,
// the resource's own address, and then, if content with the same hash cannot be
// forged, mirrors on other hosts. Without a hash: the own address, then mirrors on
// hosts that the Source may name (RS-REL-13). Mirrors are ordered by pri. If a
// version is held already, the resource's own address is asked first whether it
// changed.
func (t *transfer) locations() []location {
	own := location{uri: t.a.Address()}
	links := mirrorLinks(t.a)
	if len(links) == 0 || t.a.Change == resourcesync.UnknownChange { // the latter's own address shows whether it still exists
		t.own[0] = own
		return t.own[:]
	}
	var near, far []location
	for _, l := range links {
		u, err := url.Parse(l.Href)
		if err != nil || u.Host == "" || !t.Shared.hosts.usable(u.Host) {
			continue
		}
		p := location{l.Href, u.Host, true}
		switch {
		case t.Refuse == nil:
		case t.Refuse(l.Href) == "":
			near = append(near, p)
		case farEnough(u, own.uri) && isStrong(t.a.Hashes):
			far = append(far, p)
		}
	}
	if t.a.Conditional || len(t.a.Hashes) == 0 {
		near, far = nil, append(near, far...)
	}
	return slices.Concat(near, []location{own}, far)
}

// mirrorLinks returns the links to mirrors, the preferred ones first.
func mirrorLinks(a *plan.Action) []resourcesync.Link {
	var ls []resourcesync.Link
	for _, l := range a.Links {
		again := func(o resourcesync.Link) bool { return o.Href == l.Href }
		if l.Rel == "duplicate" && l.Href != a.URI && !slices.ContainsFunc(ls, again) {
			ls = append(ls, l)
		}
	}
	sort.SliceStable(ls, func(i, j int) bool { return selection.Priority(&ls[i]) < selection.Priority(&ls[j]) })
	return ls[:min(len(ls), maxMirrors)]
}

// HasMirrors reports whether the Source names other addresses of the content.
func HasMirrors(a *plan.Action) bool { return len(mirrorLinks(a)) > 0 }

// farEnough reports whether a mirror on a host that the Source may not name can be
// used nevertheless: it must use HTTP, with no less protection than the resource's
// own address.
func farEnough(u *url.URL, own string) bool {
	scheme := strings.ToLower(u.Scheme)
	return scheme == "https" || scheme == "http" && !strings.HasPrefix(strings.ToLower(own), "https:")
}

// isStrong reports whether content with these hashes is certainly what was
// described, whichever server sends it.
func isStrong(hs resourcesync.Hashes) bool {
	return slices.ContainsFunc(hs, func(h resourcesync.Hash) bool {
		return h.Algorithm >= resourcesync.SHA256 && h.Algorithm <= resourcesync.SHA512
	})
}

// mirrorHosts records which hosts of mirrors fail. The zero value is empty; it is
// safe for concurrent use.
type mirrorHosts struct {
	mu     sync.Mutex // guards the fields below
	faults map[string]mirrorFaults
	misses int       // failed requests, minus successful ones
	until  time.Time // all mirrors are skipped until then
}

type mirrorFaults struct {
	inRow int
	until time.Time // the host is skipped until then
}

func (m *mirrorHosts) usable(host string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	return !now.Before(m.faults[host].until) && !now.Before(m.until)
}

// note records the result of a request to a mirror.
func (m *mirrorHosts) note(host string, err error) {
	if content.IsLocal(err) || errors.Is(err, context.Canceled) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err == nil {
		delete(m.faults, host)
		m.misses = max(m.misses-1, 0)
		return
	}
	if m.misses++; m.misses >= maxMirrorMisses {
		m.misses, m.until = 0, time.Now().Add(mirrorRest)
	}
	if m.faults == nil || len(m.faults) >= maxMirrorHosts {
		m.faults = map[string]mirrorFaults{}
	}
	f := m.faults[host]
	if f.inRow++; f.inRow >= maxMirrorFaults {
		f.until = time.Now().Add(mirrorRest)
	}
	m.faults[host] = f
}

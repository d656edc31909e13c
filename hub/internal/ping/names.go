package ping

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/limit"
	"lockstep/internal/ratelimit"
	"lockstep/websub"
)

// maxPages caps what is held at a time of all pages that are searched for hubs.
const maxPages = 32 << 20

// redirectRate limits how often topics at other hosts redirect the hub to a host.
var redirectRate = ratelimit.Rate{Burst: 100, Per: 10}

// Names reports whether a topic advertises this hub. The caller limits how often the host of
// the topic is asked.
func (n *Fetcher) Names(ctx context.Context, topic string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTime)
	defer cancel()
	v := &visit{client: n.o.Client, pages: n.pages, redirects: n.redirects}
	d, err := websub.Discover(ctx, v, topic)
	if err != nil {
		return false, err
	}
	named := slices.ContainsFunc(d.Hubs, func(hub string) bool {
		return websub.Canonical(hub) == websub.Canonical(n.o.PublicURL)
	})
	if named {
		v.forgive()
	}
	return named, nil
}

// A visit sends the requests for one topic, to its host first.
type visit struct {
	client    *http.Client // follows no redirects
	pages     *limit.Budget
	redirects *ratelimit.Buckets[string]
	hosts     []string // of the requests
}

// Do implements [websub.Doer]. Topics at any number of hosts may redirect to one that
// has nothing to do with them (WS-SEC-03).
func (v *visit) Do(r *http.Request) (*http.Response, error) {
	host := address.Host(r.URL)
	if len(v.hosts) > 0 && host != v.hosts[0] && v.redirects.Take(host, 1) > 0 {
		return nil, fmt.Errorf("topics redirect to %s too often", host)
	}
	v.hosts = append(v.hosts, host)
	resp, err := v.client.Do(r)
	if err == nil {
		resp.Body = v.pages.Count(resp.Body)
	}
	return resp, err
}

// forgive returns what the requests took of the limit: the topic names this hub.
func (v *visit) forgive() {
	for _, host := range v.hosts {
		if host != v.hosts[0] {
			v.redirects.Give(host, 1)
		}
	}
}

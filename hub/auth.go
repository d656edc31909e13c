package hub

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"lockstep/internal/trust"
	"lockstep/websub"
)

// signatureMethods are those that entitle to publish: a token deserves no less.
var signatureMethods = []string{"sha256", "sha384", "sha512"}

// publishers decides which requests may publish what (RN-PB-07, WS-SEC-04). The
// address a request comes from does not matter: a reverse proxy on this machine
// asks on behalf of anyone.
type publishers struct {
	tokens   []string
	open     bool // requests without a token may publish, too
	prefixes []topicPrefix
	own      []topicPrefix // published by [Hub.Publish] alone
}

func newPublishers(o *Options) (*publishers, error) {
	p := &publishers{tokens: o.PublishTokens, open: o.PublishOpen}
	if slices.Contains(p.tokens, "") {
		return nil, errors.New("an empty publish token is none")
	}
	var err error
	if p.prefixes, err = parsePrefixes(o.PublishPrefixes); err != nil {
		return nil, err
	}
	p.own, err = parsePrefixes(o.OwnTopics)
	return p, err
}

// admit decides what can be decided before the body is read. With signed, the
// body has to prove the rest: see signed.
func (p *publishers) admit(r *http.Request) (signed bool, err error) {
	token, given := bearer(r.Header)
	switch {
	case given && len(p.tokens) > 0:
		if !trust.Contains(p.tokens, token) {
			return false, refuse(http.StatusUnauthorized, "the token is not one of those that may publish here")
		}
		return false, nil
	case len(p.tokens) > 0 && len(r.Header.Values(websub.SignatureHeader)) > 0:
		return true, nil
	case p.open && len(r.Header.Values("Origin")) > 0:
		return false, refuse(http.StatusForbidden, "this is a request that a browser makes for a page: pages may not publish here")
	case p.open:
		return false, nil
	case len(p.tokens) > 0:
		return false, refuse(http.StatusUnauthorized, "publishing here takes a token: Authorization: Bearer …")
	}
	return false, refuse(http.StatusForbidden, "this hub takes no publications from outside its process: it has no publish tokens (--publish-token-file; serve: --hub-publish-token-file)")
}

// covers decides whether a topic is one that may be published.
func (p *publishers) covers(topic *url.URL) error {
	if err := p.foreign(topic); err != nil {
		return err
	}
	if !within(p.prefixes, topic) {
		return refuse(http.StatusForbidden, "the topic is not one that may be published here")
	}
	return nil
}

// foreign refuses the topics of the Source that the hub is embedded in,
// whatever the request carries.
func (p *publishers) foreign(topic *url.URL) error {
	if len(p.own) == 0 || !touches(p.own, topic) {
		return nil
	}
	return refuse(http.StatusForbidden, "the topic belongs to the Source that runs this hub, which publishes it from inside its own process only")
}

func bearer(h http.Header) (token string, given bool) {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// peer returns the address at the other end of the connection.
func peer(r *http.Request) (netip.Addr, bool) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}, false
	}
	a, err := netip.ParseAddr(host)
	return a.Unmap().WithZone(""), err == nil
}

// source returns whom the limits hold for: the peer, or behind a proxy on this
// machine whom it speaks for; of IPv6 the network, for its hosts are free.
func source(r *http.Request) netip.Prefix {
	a, ok := peer(r)
	if !ok {
		return netip.Prefix{}
	}
	if values := r.Header.Values("X-Forwarded-For"); a.IsLoopback() && len(values) > 0 {
		last := values[len(values)-1] // the only one that proxy wrote itself
		last = strings.TrimSpace(last[strings.LastIndexByte(last, ',')+1:])
		if f, err := netip.ParseAddr(last); err == nil {
			a = f.Unmap().WithZone("")
		}
	}
	bits := 32
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits) // fails only for bits an address has not
	return p
}

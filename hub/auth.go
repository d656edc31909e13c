package hub

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"

	"lockstep/websub"
)

// signatureMethods are those that entitle to publish: a token deserves no less.
var signatureMethods = []string{"sha256", "sha384", "sha512"}

// publishers says who may publish what (RN-PB-07, WS-SEC-04).
type publishers struct {
	tokens   [][]byte
	sums     [][sha256.Size]byte // of the tokens, of one length whatever theirs is
	prefixes []topicPrefix
}

func newPublishers(tokens, prefixes []string) (*publishers, error) {
	p := &publishers{}
	for _, t := range tokens {
		if t == "" {
			return nil, errors.New("an empty publish token is none")
		}
		p.tokens = append(p.tokens, []byte(t))
		p.sums = append(p.sums, sha256.Sum256([]byte(t)))
	}
	var err error
	p.prefixes, err = parsePrefixes(prefixes)
	return p, err
}

// admit decides what can be decided before the body is read. With signed, the
// body has to prove the rest: see signed.
func (p *publishers) admit(r *http.Request) (signed bool, err error) {
	token, given := bearer(r.Header)
	switch {
	case given && len(p.tokens) > 0:
		if !p.knows(token) {
			return false, refuse(http.StatusUnauthorized, "the token is not one of those that may publish here")
		}
		return false, nil
	case len(p.tokens) > 0 && len(r.Header.Values(websub.SignatureHeader)) > 0:
		return true, nil
	case len(p.tokens) > 0:
		return false, refuse(http.StatusUnauthorized, "publishing here takes a token: Authorization: Bearer …")
	case !fromLoopback(r):
		return false, refuse(http.StatusForbidden, "this hub has no publish tokens, so only programs on its own machine may publish")
	}
	return false, nil
}

// signed decides by the signature of a body, made with a token as the key. It
// does not cover the header, so the topic is only as certain as the connection
// (WS-X-09).
func (p *publishers) signed(h http.Header, body []byte) error {
	for _, t := range p.tokens {
		if _, err := websub.Verify(h.Values(websub.SignatureHeader), t, body, signatureMethods...); err == nil {
			return nil
		}
	}
	return refuse(http.StatusForbidden, "the signature is not made with one of the tokens that may publish here, by %s", strings.Join(signatureMethods, ", "))
}

// covers decides whether a topic is one that may be published.
func (p *publishers) covers(topic *url.URL) error {
	if !within(p.prefixes, topic) {
		return refuse(http.StatusForbidden, "the topic is not one that may be published here")
	}
	return nil
}

// knows compares in constant time, and with all tokens.
func (p *publishers) knows(token string) bool {
	sum := sha256.Sum256([]byte(token))
	known := false
	for i := range p.sums {
		known = hmac.Equal(p.sums[i][:], sum[:]) || known
	}
	return known
}

func bearer(h http.Header) (token string, given bool) {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

// forwarded are header fields that a proxy adds: the peer is the proxy then,
// not who asks.
var forwarded = []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Real-Ip", "Via"}

// fromLoopback reports whether a program on this machine asks: not a proxy for
// somebody else, nor a browser for a page of somebody else.
func fromLoopback(r *http.Request) bool {
	for _, name := range append(forwarded, "Origin") {
		if len(r.Header.Values(name)) > 0 {
			return false
		}
	}
	a, ok := peer(r)
	return ok && a.IsLoopback()
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

// Package publisher decides which requests may publish to which topics, and
// verifies publications that carry a signature instead of a token.
package publisher

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/refusal"
	"lockstep/internal/trust"
	"lockstep/websub"
)

// Rules decide which requests may publish which topics (RN-PB-07, WS-SEC-04).
// The address a request comes from does not matter: a reverse proxy on this
// machine forwards requests of anyone.
type Rules struct {
	Tokens   func() ([]Token, error) // those that are valid now
	Open     bool                    // requests without a token may publish too
	Prefixes []address.Prefix        // only topics below them may be published; none: any topic
	Own      []address.Prefix        // topics below them are not published by requests
}

// A Token authorizes requests that carry it to publish.
type Token struct {
	Text     string
	Prefixes []address.Prefix // it covers only topics below them; none: any topic
}

// Admit decides whether a request may publish the topics, as far as possible
// before the body is read. If it returns signed, the body must prove the rest:
// see [Signatures.Verify].
func (p *Rules) Admit(r *http.Request, topics ...*url.URL) (signed bool, err error) {
	tokens, err := p.Tokens()
	if err != nil {
		return false, err
	}
	token, given := bearer(r.Header)
	switch {
	case given && len(tokens) > 0:
		return false, entitle(tokens, token, topics)
	case len(tokens) > 0 && len(r.Header.Values(websub.SignatureHeader)) > 0:
		return true, nil
	case p.Open && len(r.Header.Values("Origin")) > 0:
		return false, refusal.New(http.StatusForbidden, "this is a request that a browser makes for a page: pages may not publish here")
	case p.Open:
		return false, nil
	case len(tokens) > 0:
		return false, refusal.New(http.StatusUnauthorized, "publishing here takes a token: Authorization: Bearer …")
	}
	return false, refusal.New(http.StatusForbidden, "this hub takes no publications from outside its process: it has no publish tokens (--publish-token-file; serve: --hub-publish-token-file)")
}

// entitle refuses a token that is unknown, and one that does not cover all of
// the topics. Its running time reveals nothing about the tokens.
func entitle(tokens []Token, token string, topics []*url.URL) error {
	var known []Token
	for _, t := range tokens {
		if trust.Contains([]string{t.Text}, token) {
			known = append(known, t)
		}
	}
	if len(known) == 0 {
		return refusal.New(http.StatusUnauthorized, "the token is not one of those that may publish here")
	}
	for _, topic := range topics {
		if !slices.ContainsFunc(known, func(t Token) bool { return address.Within(t.Prefixes, topic) }) {
			return refusal.New(http.StatusForbidden, "the token may not publish the topic %s: it is good for topics below other addresses", topic.Redacted())
		}
	}
	return nil
}

// Covers returns an error unless the topic may be published.
func (p *Rules) Covers(topic *url.URL) error {
	if err := p.Foreign(topic); err != nil {
		return err
	}
	if !address.Within(p.Prefixes, topic) {
		return refusal.New(http.StatusForbidden, "the topic is not one that may be published here")
	}
	return nil
}

// Foreign refuses topics of the Source that the hub is embedded in, whatever
// credentials the request carries.
func (p *Rules) Foreign(topic *url.URL) error {
	if len(p.Own) == 0 || !address.Touches(p.Own, topic) {
		return nil
	}
	return refusal.New(http.StatusForbidden, "the topic belongs to the Source that runs this hub, which publishes it from inside its own process only")
}

func bearer(h http.Header) (token string, given bool) {
	scheme, token, ok := strings.Cut(h.Get("Authorization"), " ")
	return strings.TrimSpace(token), ok && strings.EqualFold(scheme, "Bearer")
}

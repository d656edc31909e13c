package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"lockstep/internal/trust"
	"lockstep/websub"
)

// signatureMethods are the methods that authenticate a publication: nothing
// weaker protects a token.
var signatureMethods = []string{"sha256", "sha384", "sha512"}

// publishers decides which requests may publish which topics (RN-PB-07,
// WS-SEC-04). The address a request comes from does not matter: a reverse proxy
// on this machine forwards requests of anyone.
type publishers struct {
	tokens   []publishToken
	open     bool // requests without a token may publish too
	prefixes []topicPrefix
	own      []topicPrefix // only [Hub.Publish] publishes them
}

// A PublishToken authorizes requests that carry it to publish.
type PublishToken struct {
	Token    string
	Prefixes []string // URLs: the token covers only topics below them; none: any topic
}

// A publishToken is a PublishToken whose prefixes have been parsed.
type publishToken struct {
	text     string
	prefixes []topicPrefix
}

func newPublishers(o *Options) (*publishers, error) {
	p := &publishers{open: o.PublishOpen}
	for _, t := range o.PublishTokens {
		if t.Token == "" {
			return nil, errors.New("a publish token must not be empty")
		}
		prefixes, err := parsePrefixes(t.Prefixes)
		if err != nil {
			return nil, fmt.Errorf("a publish token: %w", err)
		}
		p.tokens = append(p.tokens, publishToken{t.Token, prefixes})
	}
	var err error
	if p.prefixes, err = parsePrefixes(o.PublishPrefixes); err != nil {
		return nil, err
	}
	p.own, err = parsePrefixes(o.OwnTopics)
	return p, err
}

// admit decides whether a request may publish the topics, as far as possible
// before the body is read. If it returns signed, the body must prove the rest:
// see [Hub.signed].
func (p *publishers) admit(r *http.Request, topics ...*url.URL) (signed bool, err error) {
	token, given := bearer(r.Header)
	switch {
	case given && len(p.tokens) > 0:
		return false, p.entitle(token, topics)
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

// entitle refuses a token that is unknown, and one that does not cover all of
// the topics. Its running time reveals nothing about the tokens.
func (p *publishers) entitle(token string, topics []*url.URL) error {
	var known []publishToken
	for _, t := range p.tokens {
		if trust.Contains([]string{t.text}, token) {
			known = append(known, t)
		}
	}
	if len(known) == 0 {
		return refuse(http.StatusUnauthorized, "the token is not one of those that may publish here")
	}
	for _, topic := range topics {
		if !slices.ContainsFunc(known, func(t publishToken) bool { return within(t.prefixes, topic) }) {
			return refuse(http.StatusForbidden, "the token may not publish the topic %s: it is good for topics below other addresses", topic.Redacted())
		}
	}
	return nil
}

// covers returns an error unless the topic may be published.
func (p *publishers) covers(topic *url.URL) error {
	if err := p.foreign(topic); err != nil {
		return err
	}
	if !within(p.prefixes, topic) {
		return refuse(http.StatusForbidden, "the topic is not one that may be published here")
	}
	return nil
}

// foreign refuses topics of the Source that the hub is embedded in, whatever
// credentials the request carries.
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

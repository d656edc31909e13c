package hub

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

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
	tokens   tokenSource
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

// A tokenSource has the publish tokens that are valid now.
type tokenSource struct {
	current func() ([]PublishToken, error) // nil: they do not change

	mu     sync.Mutex // guards given and parsed
	given  []PublishToken
	parsed []publishToken
}

// now returns the tokens that are valid now.
func (s *tokenSource) now() ([]publishToken, error) {
	if s.current == nil {
		return s.parsed, nil
	}
	given, err := s.current()
	if err == nil {
		var parsed []publishToken
		if parsed, err = s.set(given); err == nil {
			return parsed, nil
		}
	}
	return nil, refuse(http.StatusServiceUnavailable, "the publish tokens cannot be read at the moment")
}

// set parses the prefixes of tokens, unless they are those that were set last.
func (s *tokenSource) set(given []PublishToken) ([]publishToken, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(given) == len(s.given) && (len(given) == 0 || &given[0] == &s.given[0]) {
		return s.parsed, nil
	}
	var parsed []publishToken
	for _, t := range given {
		if t.Token == "" {
			return nil, errors.New("a publish token must not be empty")
		}
		prefixes, err := parsePrefixes(t.Prefixes)
		if err != nil {
			return nil, fmt.Errorf("a publish token: %w", err)
		}
		parsed = append(parsed, publishToken{t.Token, prefixes})
	}
	s.given, s.parsed = given, parsed
	return parsed, nil
}

func newPublishers(o *Options) (*publishers, error) {
	p := &publishers{open: o.PublishOpen}
	given, err := o.PublishTokens, error(nil)
	if p.tokens.current = o.CurrentPublishTokens; p.tokens.current != nil {
		if given, err = p.tokens.current(); err != nil {
			return nil, err
		}
	}
	if _, err := p.tokens.set(given); err != nil {
		return nil, err
	}
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
	tokens, err := p.tokens.now()
	if err != nil {
		return false, err
	}
	token, given := bearer(r.Header)
	switch {
	case given && len(tokens) > 0:
		return false, entitle(tokens, token, topics)
	case len(tokens) > 0 && len(r.Header.Values(websub.SignatureHeader)) > 0:
		return true, nil
	case p.open && len(r.Header.Values("Origin")) > 0:
		return false, refuse(http.StatusForbidden, "this is a request that a browser makes for a page: pages may not publish here")
	case p.open:
		return false, nil
	case len(tokens) > 0:
		return false, refuse(http.StatusUnauthorized, "publishing here takes a token: Authorization: Bearer …")
	}
	return false, refuse(http.StatusForbidden, "this hub takes no publications from outside its process: it has no publish tokens (--publish-token-file; serve: --hub-publish-token-file)")
}

// entitle refuses a token that is unknown, and one that does not cover all of
// the topics. Its running time reveals nothing about the tokens.
func entitle(tokens []publishToken, token string, topics []*url.URL) error {
	var known []publishToken
	for _, t := range tokens {
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

package hub

import (
	"errors"
	"fmt"
	"net/http"
	"sync"

	"lockstep/hub/internal/address"
	"lockstep/hub/internal/publisher"
	"lockstep/hub/internal/refusal"
)

// A tokenSource has the publish tokens that are valid now.
type tokenSource struct {
	current func() ([]PublishToken, error) // nil: they do not change

	mu     sync.Mutex // guards given and parsed
	given  []PublishToken
	parsed []publisher.Token
}

// now returns the tokens that are valid now.
func (s *tokenSource) now() ([]publisher.Token, error) {
	if s.current == nil {
		return s.parsed, nil
	}
	given, err := s.current()
	if err == nil {
		var parsed []publisher.Token
		if parsed, err = s.set(given); err == nil {
			return parsed, nil
		}
	}
	return nil, refusal.New(http.StatusServiceUnavailable, "the publish tokens cannot be read at the moment")
}

// set parses the prefixes of tokens, unless they are those that were set last.
func (s *tokenSource) set(given []PublishToken) ([]publisher.Token, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(given) == len(s.given) && (len(given) == 0 || &given[0] == &s.given[0]) {
		return s.parsed, nil
	}
	var parsed []publisher.Token
	for _, t := range given {
		if t.Token == "" {
			return nil, errors.New("a publish token must not be empty")
		}
		prefixes, err := address.ParsePrefixes(t.Prefixes)
		if err != nil {
			return nil, fmt.Errorf("a publish token: %w", err)
		}
		parsed = append(parsed, publisher.Token{Text: t.Token, Prefixes: prefixes})
	}
	s.given, s.parsed = given, parsed
	return parsed, nil
}

// publishRules returns which requests may publish which topics.
func publishRules(o *Options) (*publisher.Rules, error) {
	tokens := &tokenSource{current: o.CurrentPublishTokens}
	given, err := o.PublishTokens, error(nil)
	if tokens.current != nil {
		if given, err = tokens.current(); err != nil {
			return nil, err
		}
	}
	if _, err := tokens.set(given); err != nil {
		return nil, err
	}
	r := &publisher.Rules{Tokens: tokens.now, Open: o.PublishOpen}
	if r.Prefixes, err = address.ParsePrefixes(o.PublishPrefixes); err != nil {
		return nil, err
	}
	r.Own, err = address.ParsePrefixes(o.OwnTopics)
	return r, err
}

package hub_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// publishTokens returns tokens that cover all topics.
func publishTokens(texts ...string) (tokens []hub.PublishToken) {
	for _, t := range texts {
		tokens = append(tokens, hub.PublishToken{Token: t})
	}
	return tokens
}

// TestPublishRights: which requests may publish what (RN-PB-07, WS-SEC-04).
func TestPublishRights(t *testing.T) {
	t.Parallel()
	const body, token = "<urlset/>\n", "open-sesame"
	tokens := func(o *hub.Options) { o.PublishTokens, o.PublishOpen = publishTokens("first", token), false }
	closed := func(o *hub.Options) { o.PublishOpen = false }
	prefixes := func(o *hub.Options) { o.PublishPrefixes = []string{"http://topics.example", "http://other.example/a/"} }
	own := func(o *hub.Options) { o.OwnTopics = []string{"http://topics.example/own/"} }
	ownTokens := func(o *hub.Options) { tokens(o); own(o) }
	narrow := func(o *hub.Options) {
		o.PublishOpen, o.PublishTokens = false, []hub.PublishToken{
			{Token: "a", Prefixes: []string{"http://topics.example/a/"}},
			{Token: "b", Prefixes: []string{"http://topics.example/b/", "http://other.example"}},
			{Token: "ab", Prefixes: []string{"http://topics.example/a/"}}, {Token: "ab", Prefixes: []string{"http://topics.example/b/"}},
			{Token: "all"},
		}
	}
	narrower := func(o *hub.Options) { narrow(o); o.PublishPrefixes = []string{"http://topics.example/a/"} }
	tests := []struct {
		name        string
		change      func(*hub.Options)
		peer        string
		topic       string
		header      string // Name: value, several separated by \n
		fat         int
		pingFetcher int
	}{
		{"no tokens, from this machine", closed, "127.0.0.1:1", topicA, "", 403, 403},
		{"no tokens, from this machine by IPv6", closed, "[::1]:1", topicA, "", 403, 403},
		{"no tokens, from afar", closed, "203.0.113.9:1", topicA, "", 403, 403},
		{"no tokens, no address", closed, "@", topicA, "", 403, 403},
		{"no tokens, as if through a proxy", closed, "127.0.0.1:1", topicA, "X-Forwarded-For: 127.0.0.1", 403, 403},
		{"no tokens, a token all the same", closed, "127.0.0.1:1", topicA, "Authorization: Bearer x", 403, 403},
		{"no tokens, a signature", closed, "127.0.0.1:1", topicA, "X-Hub-Signature: sha256=00", 403, 403},

		{"open, from this machine", nil, "127.0.0.1:1", topicA, "", 202, 202},
		{"open, from afar", nil, "203.0.113.9:1", topicA, "", 202, 202},
		{"open, through a proxy", nil, "127.0.0.1:1", topicA, "X-Forwarded-For: 203.0.113.9", 202, 202},
		{"open, a token nobody asked for", nil, "203.0.113.9:1", topicA, "Authorization: Bearer x", 202, 202},
		{"open, by a page in a browser", nil, "127.0.0.1:1", topicA, "Origin: http://evil.example", 403, 403},

		{"token", tokens, "203.0.113.9:1", topicA, "Authorization: Bearer " + token, 202, 202},
		{"token through a proxy", tokens, "127.0.0.1:1", topicA, "Authorization: bearer " + token + "\nX-Forwarded-For: 203.0.113.9", 202, 202},
		{"no token", tokens, "127.0.0.1:1", topicA, "", 401, 401},
		{"wrong token", tokens, "127.0.0.1:1", topicA, "Authorization: Bearer " + token + "x", 401, 401},
		{"empty token", tokens, "127.0.0.1:1", topicA, "Authorization: Bearer ", 401, 401},
		{"another scheme", tokens, "127.0.0.1:1", topicA, "Authorization: Basic " + token, 401, 401},

		{"own topic", own, "127.0.0.1:1", "http://topics.example/own/changes", "", 403, 403},
		{"own topic, with a token", ownTokens, "127.0.0.1:1", "http://topics.example/own/changes", "Authorization: Bearer " + token, 403, 403},
		{"own topic, without one", ownTokens, "127.0.0.1:1", "http://topics.example/own/changes", "", 403, 403},
		{"own topic, otherwise spelt", own, "127.0.0.1:1", "http://Topics.Example.:80/%6fwn/changes", "", 403, 403},
		{"own topic, by dot segments", own, "127.0.0.1:1", "http://topics.example/x/../own/changes", "", 403, 403},
		{"own topic, by an encoded slash", own, "127.0.0.1:1", "http://topics.example/own%2Fchanges", "", 403, 403},
		{"another topic beside own ones", own, "127.0.0.1:1", "http://topics.example/other", "", 202, 202},
		{"another port than that of own ones", own, "127.0.0.1:1", "http://topics.example:8080/own/x", "", 202, 202},

		{"token of the topic", narrow, "127.0.0.1:1", "http://topics.example/a/x", "Authorization: Bearer a", 202, 202},
		{"token of another topic", narrow, "127.0.0.1:1", "http://topics.example/b/x", "Authorization: Bearer a", 403, 403},
		{"token of another topic, by dot segments", narrow, "127.0.0.1:1", "http://topics.example/a/../b/x", "Authorization: Bearer a", 403, 403},
		{"token of another port", narrow, "127.0.0.1:1", "http://topics.example:8080/a/x", "Authorization: Bearer a", 403, 403},
		{"token of several prefixes", narrow, "127.0.0.1:1", "http://other.example/x", "Authorization: Bearer b", 202, 202},
		{"token on two lines", narrow, "127.0.0.1:1", "http://topics.example/b/x", "Authorization: Bearer ab", 202, 202},
		{"token of all topics beside narrow ones", narrow, "127.0.0.1:1", "http://elsewhere.example/x", "Authorization: Bearer all", 202, 202},
		{"token of all topics, topics narrowed", narrower, "127.0.0.1:1", "http://topics.example/b/x", "Authorization: Bearer all", 403, 403},
		{"token of other topics, topics narrowed", narrower, "127.0.0.1:1", "http://topics.example/a/x", "Authorization: Bearer b", 403, 403},

		{"prefix", prefixes, "127.0.0.1:1", topicA, "", 202, 202},
		{"prefix with the usual port", prefixes, "127.0.0.1:1", "http://topics.example:80/x", "", 202, 202},
		{"prefix with a path", prefixes, "127.0.0.1:1", "http://other.example/a/b", "", 202, 202},
		{"prefix otherwise spelt", prefixes, "127.0.0.1:1", "http://Other.Example/%61/b", "", 202, 202},
		{"another path", prefixes, "127.0.0.1:1", "http://other.example/b", "", 403, 403},
		{"out of the path", prefixes, "127.0.0.1:1", "http://other.example/a/../b", "", 403, 403},
		{"out of the path, encoded", prefixes, "127.0.0.1:1", "http://other.example/a/%2e%2E/b", "", 403, 403},
		{"a host that goes on", prefixes, "127.0.0.1:1", "http://topics.example.evil.example/", "", 403, 403},
		{"another scheme of the topic", prefixes, "127.0.0.1:1", "https://topics.example/a", "", 403, 403},
		{"another port", prefixes, "127.0.0.1:1", "http://topics.example:8080/a", "", 403, 403},
	}
	for _, tt := range tests {
		s := start(t, hubstore.NewMem(), tt.change)
		for _, form := range []bool{false, true} {
			want, content := tt.fat, body
			if form {
				want, content = tt.pingFetcher, "hub.mode=publish&hub.url="+strings.ReplaceAll(tt.topic, "%", "%25")
			}
			r := httptest.NewRequest(http.MethodPost, s.url, strings.NewReader(content))
			r.RemoteAddr = tt.peer
			r.Header.Set("Content-Type", "application/xml")
			r.Header.Set("Link", "<"+tt.topic+`>; rel="self"`)
			if form {
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			for line := range strings.Lines(tt.header) {
				name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
				r.Header.Set(name, strings.TrimSpace(value))
			}
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if w.Code != want {
				t.Errorf("%s (form %v): %d %s, want %d", tt.name, form, w.Code, w.Body, want)
			}
			if w.Code == 401 && w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s (form %v): 401 without WWW-Authenticate", tt.name, form)
			}
		}
		s.stop()
	}
}

// TestPingOfSeveralTopics: one topic that the token does not cover makes the
// hub refuse the whole request.
func TestPingOfSeveralTopics(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) {
		o.PublishOpen, o.PublishTokens = false, []hub.PublishToken{{Token: "a", Prefixes: []string{"http://topics.example/a/"}}}
	})
	for form, want := range map[string]int{
		"hub.url=http://topics.example/a/1&hub.url=http://topics.example/a/2":   202,
		"hub.url=http://topics.example/a/1&hub.topic=http://topics.example/b/2": 403,
	} {
		r := s.send(t, http.MethodPost, "hub.mode=publish&"+form, "Content-Type", "application/x-www-form-urlencoded", "Authorization", "Bearer a")
		if r.StatusCode != want {
			t.Errorf("%s: %d %s, want %d", form, r.StatusCode, text(r), want)
		}
	}
}

// TestUnauthorisedBody: unauthorized requests are refused before their body is
// read.
func TestUnauthorisedBody(t *testing.T) {
	t.Parallel()
	s := start(t, hubstore.NewMem(), func(o *hub.Options) { o.PublishTokens, o.PublishOpen = publishTokens("open-sesame"), false })
	r := httptest.NewRequest(http.MethodPost, s.url, unread{t})
	r.Header.Set("Content-Type", "application/xml")
	r.Header.Set("Link", "<"+topicA+`>; rel="self"`)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != 401 {
		t.Errorf("%d %s, want 401", w.Code, w.Body)
	}
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("the body is read")
	return 0, http.ErrBodyReadAfterClose
}

// TestBadRights: New refuses invalid tokens and prefixes with a clear error.
func TestBadRights(t *testing.T) {
	t.Parallel()
	for _, o := range []hub.Options{
		{PublishTokens: publishTokens("")},
		{PublishTokens: []hub.PublishToken{{Token: "x", Prefixes: []string{"topics.example"}}}},
		{PublishPrefixes: []string{"topics.example"}},
		{PublishPrefixes: []string{"https://me@topics.example/"}},
		{OwnTopics: []string{"topics.example"}},
	} {
		o.PublicURL, o.Secret = "http://hub.example/", bytes.Repeat([]byte{1}, 32)
		if _, err := hub.New(hubstore.NewMem(), o); err == nil {
			t.Errorf("New(%v, %v) = nil, want an error", o.PublishTokens, o.PublishPrefixes)
		}
	}
}

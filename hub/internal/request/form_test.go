package request

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/hub/internal/address"
	"lockstep/hub/internal/refusal"
	"lockstep/websub"
)

func parsed(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// FuzzForm: no form makes the hub panic, and accepted forms obey the rules.
func FuzzForm(f *testing.F) {
	f.Add("hub.mode=subscribe&hub.topic=http%3A%2F%2Fa.example%2F&hub.callback=https%3A%2F%2Fb.example%2F%3Fx%3D1&hub.secret=s&hub.lease_seconds=60")
	f.Add("hub.mode=unsubscribe&hub.topic=http://a.example/%257E&hub.callback=http://[::1]:80/&hub.verify_token=t")
	f.Add("hub.mode=publish&hub.url=http://a.example/&hub.topic=http://a.example/&hub.topic=http://b.example:8080/%23")
	f.Add("hub.mode=subscribe;%zz")
	o := Terms{LeaseMin: time.Minute, LeaseDefault: 10 * 24 * time.Hour, LeaseMax: 30 * 24 * time.Hour}
	f.Fuzz(func(t *testing.T, body string) {
		form, err := ParseForm([]byte(body))
		if err != nil {
			wantRefusal(t, err)
			return
		}
		mode, err := One(form, "hub.mode")
		if err != nil {
			wantRefusal(t, err)
		}
		if s, err := ParseSubscription(mode, form, o); err != nil {
			wantRefusal(t, err)
		} else {
			if len(s.Secret) >= maxSecret || s.Lease < o.LeaseMin || s.Lease > o.LeaseMax || s.Lease%time.Second != 0 {
				t.Errorf("passed: %+v", s)
			}
			wantSendable(t, s.Callback)
			wantSendable(t, s.Topic)
			u := parsed(t, websub.VerificationURL(s.Callback, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {s.Topic}}))
			if u.Host != s.Target.Host || u.Scheme != s.Target.Scheme || u.Path != s.Target.Path {
				t.Errorf("%q is asked at %q", s.Callback, u)
			}
			if (&hubstore.Changes{Put: []hubstore.Subscription{{Key: hubstore.KeyOf(s.Topic, s.Callback)}}}).Check() != nil {
				t.Errorf("no key of %q and %q", s.Topic, s.Callback)
			}
		}
		if urls, topics, err := ParsePing(form, o.AllowPrivate); err != nil {
			wantRefusal(t, err)
		} else if len(urls) != len(topics) || len(urls) == 0 {
			t.Errorf("%d URLs of %d topics", len(urls), len(topics))
		}
	})
}

// FuzzPublishing: no header of a publication makes the hub panic, and relayed
// values can be sent.
func FuzzPublishing(f *testing.F) {
	f.Add(`<http://a.example/>; rel="self", <http://hub.example/>; rel=hub, <http://a.example/cap>; rel="resourcesync"`, "application/xml", "")
	f.Add(`<http://a.example/>; rel="self"; anchor="http://b.example/"`, "text/plain; charset=\"x\"", "identity")
	f.Add(`<>; rel="SELF alternate"; title="a, b`, "", "gzip")
	f.Add("<http://a.example/\x80>;rel=self", "x", "")
	f.Fuzz(func(t *testing.T, link, contentType, encoding string) {
		h := http.Header{"Link": {link}, "Content-Type": {contentType}, "Content-Encoding": {encoding}}
		p, err := ParsePublication(h)
		if err != nil {
			wantRefusal(t, err)
			return
		}
		wantSendable(t, p.Topic)
		if p.ContentType != contentType {
			t.Errorf("Content-Type %q became %q", contentType, p.ContentType)
		}
		own, err := address.ParsePrefixes([]string{"http://a.example/"})
		if err != nil {
			t.Fatal(err)
		}
		_ = address.Touches(own, p.URL)
		for _, l := range p.Links {
			if !strings.Contains(link, l) {
				t.Errorf("%q is relayed, which was not in %q", l, link)
			}
			all := websub.ParseLinks([]string{l, "<urn:x>; rel=end"}, nil)
			if joined := websub.ParseLinks([]string{l + ", <urn:x>; rel=end"}, nil); len(all) != 2 || len(joined) != 2 {
				t.Errorf("%q is relayed, which is not one link", l)
			}
			if all[0].Has("self") || all[0].Has("hub") {
				t.Errorf("%q is relayed: a link of the hub's own", l)
			}
		}
	})
}

func wantRefusal(t *testing.T, err error) {
	t.Helper()
	var r *refusal.Refusal
	if !errors.As(err, &r) || r.Status < 400 || r.Status > 499 || r.Text == "" {
		t.Errorf("error %v, want a refusal in words", err)
	}
}

func wantSendable(t *testing.T, uri string) {
	t.Helper()
	if strings.ContainsFunc(uri, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '<' || r == '>' || r == '"' }) {
		t.Errorf("%q can not be sent", uri)
	}
	if u := parsed(t, uri); u.Host == "" || u.Fragment != "" || u.User != nil {
		t.Errorf("%q passed", uri)
	}
	if _, err := http.NewRequest(http.MethodGet, uri, bytes.NewReader(nil)); err != nil {
		t.Error(fmt.Errorf("%q can not be called: %w", uri, err))
	}
}

package hub_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"lockstep/hub"
	"lockstep/hub/hubstore"
)

// TestClientAddress: the client a request is counted for. A header counts only
// if a trusted proxy has sent it, and only the part that trusted proxies have
// added.
func TestClientAddress(t *testing.T) {
	t.Parallel()
	local := []netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("::1/128")}
	two := append(local, netip.MustParsePrefix("10.0.0.0/8"))
	for _, tt := range []struct {
		proxies []netip.Prefix
		peer    string
		header  []string
		want    string
	}{
		{nil, "127.0.0.1:1", []string{"203.0.113.9"}, "127.0.0.1/32"},
		{nil, "[::1]:1", []string{"203.0.113.9"}, "::/64"},
		{nil, "203.0.113.9:1", nil, "203.0.113.9/32"},
		{nil, "[::ffff:203.0.113.9]:1", nil, "203.0.113.9/32"},
		{nil, "[2001:db8:1:2:3::4]:1", nil, "2001:db8:1:2::/64"},
		{nil, "@", nil, "invalid Prefix"},
		{local, "203.0.113.9:1", []string{"198.51.100.1"}, "203.0.113.9/32"},
		{local, "127.0.0.1:1", nil, "127.0.0.1/32"},
		{local, "127.0.0.1:1", []string{"203.0.113.9"}, "203.0.113.9/32"},
		{local, "[::1]:1", []string{"2001:db8:1:2:3::4"}, "2001:db8:1:2::/64"},
		{local, "127.0.0.1:1", []string{"203.0.113.9:4711"}, "203.0.113.9/32"},
		{local, "127.0.0.1:1", []string{"[2001:db8:1:2:3::4]:4711"}, "2001:db8:1:2::/64"},
		{local, "127.0.0.1:1", []string{"198.51.100.1, 203.0.113.9"}, "203.0.113.9/32"},
		{local, "127.0.0.1:1", []string{"198.51.100.1", "203.0.113.9"}, "203.0.113.9/32"},
		{local, "127.0.0.1:1", []string{"198.51.100.1, unknown"}, "127.0.0.1/32"},
		{local, "127.0.0.1:1", []string{"198.51.100.1,"}, "127.0.0.1/32"},
		{two, "127.0.0.1:1", []string{"198.51.100.1, 203.0.113.9, 10.1.2.3"}, "203.0.113.9/32"},
		{two, "127.0.0.1:1", []string{"10.9.9.9, 10.1.2.3"}, "10.9.9.9/32"},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr = tt.peer
		r.Header["X-Forwarded-For"] = tt.header
		if got := hub.ClientOf(r, tt.proxies).String(); got != tt.want {
			t.Errorf("from %s with %q, proxies %v: %s, want %s", tt.peer, tt.header, tt.proxies, got, tt.want)
		}
	}
}

// TestForgedClientAddress: no client escapes a rate limit by a header, and
// clients of a trusted proxy do not share one.
func TestForgedClientAddress(t *testing.T) {
	t.Parallel()
	var topics []string
	for i := range 1000 {
		topics = append(topics, fmt.Sprint("hub.url=http://topics.example/", i))
	}
	form := "hub.mode=publish&" + strings.Join(topics, "&")
	for _, trusted := range []bool{false, true} {
		s := start(t, hubstore.NewMem(), func(o *hub.Options) {
			if trusted {
				o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
			}
		})
		ping := func(client string) int {
			return s.send(t, http.MethodPost, form, "Content-Type", "application/x-www-form-urlencoded", "X-Forwarded-For", client).StatusCode
		}
		for n := 0; ping("203.0.113.1") != 429; n++ {
			if n > 20 {
				t.Fatal("20,000 topics at once are not limited")
			}
		}
		want := map[bool]int{false: 429, true: 202}[trusted]
		if got := ping("203.0.113.2"); got != want {
			t.Errorf("trusted %v: another address in the header gets %d, want %d", trusted, got, want)
		}
	}
}

package ratelimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"lockstep/internal/ratelimit"
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
		if got := ratelimit.ClientOf(r, tt.proxies).String(); got != tt.want {
			t.Errorf("from %s with %q, proxies %v: %s, want %s", tt.peer, tt.header, tt.proxies, got, tt.want)
		}
	}
}

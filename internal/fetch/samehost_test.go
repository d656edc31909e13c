package fetch_test

import (
	"net/url"
	"testing"

	"lockstep/internal/fetch"
)

// TestSameHost: the port is part of the host; default ports count as none.
func TestSameHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b         string
		same, within bool
	}{
		{"http://h.example/x", "http://h.example/", true, true},
		{"http://h.example:80/", "https://h.example/", true, true},
		{"https://h.example:443/", "http://H.Example./", true, true},
		{"https://h.example:443/", "http://h.example:443/", false, false},
		{"http://h.example:8080/", "http://h.example/", false, false},
		{"http://h.example:8080/", "http://h.example:8081/", false, false},
		{"http://h.example:8080/", "https://h.example:8080/", true, true},
		{"http://[::1]:8080/", "http://[::1]:8080/", true, true},
		{"http://a.h.example/", "http://h.example/", false, true},
		{"http://a.h.example:8080/", "http://h.example/", false, false},
		{"http://a.h.example:8080/", "http://h.example:8080/", false, true},
		{"http://h.example/", "http://a.h.example/", false, false},
		{"http://evilh.example/", "http://h.example/", false, false},
		{"file:///x", "file:///y", false, false},
	} {
		a, _ := url.Parse(tt.a)
		b, _ := url.Parse(tt.b)
		if same, within := fetch.SameHost(a, b), fetch.WithinHost(a, b); same != tt.same || within != tt.within {
			t.Errorf("%s and %s: same %v, within %v", tt.a, tt.b, same, within)
		}
	}
	for _, tt := range []struct {
		entry, uri string
		want       bool
	}{
		{"*", "http://h.example:1/", true},
		{"h.example", "http://h.example:8080/", true},
		{"h.example:8080", "http://h.example:8080/", true},
		{"h.example:8080", "http://h.example/", false},
		{"h.example:80", "http://h.example:80/", true},
		{"127.0.0.1:9", "http://127.0.0.1:9/", true},
		{"[::1]:9", "http://[::1]:9/", true},
		{"x.example", "http://h.example/", false},
	} {
		if u, _ := url.Parse(tt.uri); fetch.Allows(tt.entry, u) != tt.want {
			t.Errorf("Allows(%s, %s) = %v", tt.entry, tt.uri, !tt.want)
		}
	}
}

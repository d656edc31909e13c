package fetch

import (
	"net/url"
	"testing"
)

// FuzzTextOf compares the text of an address with that of package net/url.
func FuzzTextOf(f *testing.F) {
	for _, uri := range []string{
		"http://h/a", "http://h:80/a/b?c=d", "HTTP://H/a", "http://u@h/", "http://h", "http://h?", "http://h/a?", "http://h/a#b", "http://h/a#",
		"http://h/%7ea b", "http://h/ü", "https://[::1%25eth0]/x", "http://h//x", "http:h/a", "http://h/*", "https://h/a;b,c", "http://h/%2f%2F", "",
	} {
		f.Add(uri, uri)
	}
	f.Add("http://h", "http://h/")
	f.Fuzz(func(t *testing.T, uri, other string) {
		u, err := url.Parse(uri)
		if err != nil {
			return
		}
		for _, text := range []string{uri, other} {
			if got, want := textOf(u, text), u.String(); got != want {
				t.Errorf("textOf(%q, %q) = %q, want %q", uri, text, got, want)
			}
		}
	})
}

package iri_test

import (
	"net/url"
	"strings"
	"testing"

	"lockstep/internal/iri"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	for c := range 256 {
		one := string([]byte{byte(c)})
		// RFC 3986, 2: unreserved, reserved, and the percent sign.
		want := c < 0x80 && (c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.Contains("-._~:/?#[]@!$&'()*+,;=%", one))
		if iri.Byte(byte(c)) != want {
			t.Errorf("Byte(%q) = %v, want %v", one, !want, want)
		}
		for _, n := range []int{0, 1, 7, 8, 9, 20} { // before, in and behind a stretch of eight
			s := strings.Repeat("a", n) + one + strings.Repeat("b", 3)
			if iri.Plain(s) != want || iri.Plain([]byte(s)) != want {
				t.Errorf("Plain(%q) is not %v", s, want)
			}
		}
	}
	if !iri.Plain("") {
		t.Error("nothing has a byte that no URI has")
	}
}

func TestAbsolute(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"http://a.example/": true, "urn:x": true, "a+b-c.d1:e": true, "tag:a.example,2024:grün": true,
		"": false, "/a": false, "a:": false, "1a:b": false, "a b:c": false, "ä:b": false, "a": false, "a:b c": false, "a:<b>": false,
	} {
		if iri.Absolute(s) != want || iri.Absolute([]byte(s)) != want {
			t.Errorf("Absolute(%q) is not %v", s, want)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for s, want := range map[string]bool{
		"%00": true, "%aFrest": true, "%9": false, "%": false, "": false, "%0g": false, "%g0": false, "a00": false, "% 1": false, "%`1": false,
	} {
		if iri.Escape(s) != want {
			t.Errorf("Escape(%q) = %v, want %v", s, !want, want)
		}
	}
}

func TestEncode(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://a.example/b?c=%20#d":  "http://a.example/b?c=%20#d",
		"http://a.example/grün e":     "http://a.example/gr%C3%BCn%20e",
		"http://bücher.example/ü?ü#ü": "http://bücher.example/%C3%BC?%C3%BC#%C3%BC",
		"http://bücher.example":       "http://bücher.example",
		"/a/\"<>\\^`{|}":              "/a/%22%3C%3E%5C%5E%60%7B%7C%7D",
		"/a?b=http://c d/ü":           "/a?b=http://c%20d/%C3%BC",
		"\x00\xff":                    "%00%FF",
	} {
		if got := string(iri.Encode([]byte(in))); got != want {
			t.Errorf("Encode(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzEncode(f *testing.F) {
	for _, s := range []string{"http://a.example/ü", "://", "a b", "%zz"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		once := iri.Encode(text)
		if twice := iri.Encode(once); string(twice) != string(once) {
			t.Fatalf("encoded twice %q becomes %q, then %q", text, once, twice)
		}
		_, _, hasHost := strings.Cut(string(text), "://")
		if !hasHost && !iri.Plain(once) {
			t.Fatalf("Encode(%q) = %q, which is no URI", text, once)
		}
		if s := string(text); !hasHost && !strings.Contains(s, "%") {
			if back, err := url.PathUnescape(string(once)); err != nil || back != s {
				t.Fatalf("Encode(%q) = %q, which says %q", text, once, back)
			}
		}
	})
}

func TestWithoutUser(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://user:s3cret@host/a@b?c@d#e@f": "http://host/a@b?c@d#e@f",
		"http://s3cret@host":                  "http://host",
		"//user:s3cret@host:8080/":            "//host:8080/",
		"http://a:s3cret@b@host/x":            "http://host/x",
		"http://a: s3cret %zz@host/x":         "http://host/x",
		`http:\\user:s3cret@host/x`:           `http:\\host/x`,
		"http://host/a@b":                     "http://host/a@b",
		"mailto:user@host":                    "mailto:user@host",
		"urn:a:b@c":                           "urn:a:b@c",
		"":                                    "",
		"http:":                               "http:",
		"http://bob:pw/word@host/":            "http://host/",
		"http://bob:pw#word@host:1/a":         "http://host:1/a",
		"http://bob:p?w@x/y@host/a?b#c":       "http://host/a?b#c",
		"http://b@c:pw/word@host/":            "http://host/",
		"http://:pw/word@host/":               "http://host/",
		"//bob:pw/word@host/":                 "//host/",
		"http://host:/a@b":                    "http://host:/a@b",
		"http://host:8080?a@b":                "http://host:8080?a@b",
		"http://host:pw/":                     "http://host:pw/",
		"http://[::1]/a@b":                    "http://[::1]/a@b",
		"http://[::1]:80/a@b":                 "http://[::1]:80/a@b",
		"http://user@[::1]/a@b":               "http://[::1]/a@b",
	} {
		got, had := iri.WithoutUser(in)
		if got != want || had != (in != want) {
			t.Errorf("WithoutUser(%q) = %q, %v, want %q", in, got, had, want)
		}
		if b, _ := iri.WithoutUser([]byte(in)); string(b) != want {
			t.Errorf("WithoutUser([]byte(%q)) = %q", in, b)
		}
	}
}

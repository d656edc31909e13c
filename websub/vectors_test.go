package websub_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"lockstep/websub"
)

const (
	vectorKey  = "s3cr3t-0001"
	vectorBody = "<urlset/>\n"
)

// The test vectors of section 20 of the requirements.
var vectors = map[string]string{
	"sha1":   "0eea3f592540f6cd612da869eef39ac1d9fa01f0",
	"sha256": "166d8feea4d4b3a1d697abe67d69c7e61b4ba29c294dc79cc04bbdff36fb2d54",
	"sha384": "d9c18e884996b85d95099dca7d64f55345aaf191143c716986dde18ac97ab10bf78dbff64945f438b1deb9b4a02e0b5e",
	"sha512": "a3a11c7adfe806088950607ddcafbca336a8ab61b925e208427b0f1a30fe4d84e9ac224f3ad26d0f29b92136f9a74537a47991c68fede2f1807d712c1759f4da",
}

// WS-X-01, WS-X-02, WS-X-04.
func TestSignatureVectors(t *testing.T) {
	t.Parallel()
	for _, method := range websub.Methods() {
		want := method + "=" + vectors[method]
		got, err := websub.Sign(method, []byte(vectorKey), []byte(vectorBody))
		if err != nil || got != want {
			t.Errorf("Sign(%s) = %s, %v, want %s", method, got, err, want)
		}
		if m, err := websub.Verify([]string{got}, []byte(vectorKey), []byte(vectorBody)); err != nil || m != method {
			t.Errorf("Verify(%s) = %s, %v", got, m, err)
		}
	}
	got, err := websub.Sign("sha256", []byte(vectorKey), nil)
	if want := "sha256=f516e8fb3fadd94be50091c0b4aa5ae41530c16779d0f11abcef8cce7618849e"; err != nil || got != want {
		t.Errorf("Sign of nothing = %s, %v, want %s", got, err, want)
	}
	if got, err := websub.Sign("md5", nil, nil); err == nil {
		t.Errorf("Sign(md5) = %s, want an error", got)
	}
}

func TestSignerIsReusable(t *testing.T) {
	t.Parallel()
	s, err := websub.NewSigner("sha256", []byte(vectorKey))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if got, want := s.Sign([]byte(vectorBody)), "sha256="+vectors["sha256"]; got != want {
			t.Errorf("Sign = %s, want %s", got, want)
		}
		_ = s.Sign([]byte("another"))
	}
}

// Valid and invalid signatures: WS-X-07, WS-X-08, WS-X-10, RN-AMB-09.
func TestVerify(t *testing.T) {
	t.Parallel()
	good := "sha256=" + vectors["sha256"]
	strong := []string{"sha256", "sha384", "sha512"}
	tests := []struct {
		name    string
		values  []string
		allowed []string
		want    string
		err     error
	}{
		{"right", []string{good}, nil, "sha256", nil},
		{"upper case hex", []string{"sha256=" + strings.ToUpper(vectors["sha256"])}, nil, "sha256", nil},
		{"upper case name", []string{"SHA256=" + vectors["sha256"]}, nil, "sha256", nil},
		{"blanks", []string{" sha256 = " + vectors["sha256"] + " "}, nil, "sha256", nil},
		{"missing", nil, nil, "", websub.ErrUnsigned},
		{"empty", []string{"", " , "}, nil, "", websub.ErrUnsigned},
		{"digits appended", []string{good + "ab"}, nil, "", websub.ErrSignature},
		{"too short", []string{good[:len(good)-2]}, nil, "", websub.ErrSignature},
		{"no digits", []string{"sha256="}, nil, "", websub.ErrSignature},
		{"no hex", []string{"sha256=" + strings.Repeat("zz", 32)}, nil, "", websub.ErrSignature},
		{"odd hex", []string{good[:len(good)-1]}, nil, "", websub.ErrSignature},
		{"unknown method", []string{"md5=" + vectors["sha1"]}, nil, "", websub.ErrSignature},
		{"other method's name", []string{"sha1=" + vectors["sha256"]}, nil, "", websub.ErrSignature},
		{"no method", []string{vectors["sha256"]}, nil, "", websub.ErrSignature},
		{"one of several in a list", []string{"sha1=00, md5=1," + good}, nil, "sha256", nil},
		{"one of several fields", []string{"sha1=00", good}, nil, "sha256", nil},
		{"sha1 where it counts", []string{"sha1=" + vectors["sha1"]}, nil, "sha1", nil},
		{"sha1 where it does not", []string{"sha1=" + vectors["sha1"]}, strong, "", websub.ErrSignature},
		{"sha1 beside a strong one", []string{"sha1=" + vectors["sha1"] + "," + good}, strong, "sha256", nil},
		{"too many", []string{strings.Repeat("sha1=00,", 100) + good}, nil, "", websub.ErrSignature},
	}
	for _, tt := range tests {
		got, err := websub.Verify(tt.values, []byte(vectorKey), []byte(vectorBody), tt.allowed...)
		if got != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: Verify = %q, %v, want %q, %v", tt.name, got, err, tt.want, tt.err)
		}
	}
	if m, err := websub.Verify([]string{"sha256=00"}, nil, []byte(vectorBody)); m != "" || err != nil {
		t.Errorf("Verify without a secret = %q, %v: it must ignore the header (WS-X-10)", m, err)
	}
	if _, err := websub.Verify([]string{good}, []byte("other"), []byte(vectorBody)); !errors.Is(err, websub.ErrSignature) {
		t.Errorf("Verify with another secret: %v", err)
	}
}

// A callback keeps its query, in front and unchanged (WS-H-10).
func TestVerificationURL(t *testing.T) {
	t.Parallel()
	added := url.Values{"hub.challenge": {"c"}, "hub.mode": {"subscribe"}, "hub.topic": {"http://h/t?a=b&c=ä"}, "hub.lease_seconds": {"60"}}
	const tail = "hub.mode=subscribe&hub.topic=http%3A%2F%2Fh%2Ft%3Fa%3Db%26c%3D%C3%A4&hub.challenge=c&hub.lease_seconds=60"
	tests := []struct{ callback, want string }{
		{"https://d/cb/k", "https://d/cb/k?" + tail},
		{"https://d.example.net/cb/k?x=1&hub.mode=zzz", "https://d.example.net/cb/k?x=1&hub.mode=zzz&" + tail},
		{"https://d/k?b=%7E&a=+;", "https://d/k?b=%7E&a=+;&" + tail},
		{"https://d/k?", "https://d/k?" + tail},
		{"https://d/k#f", "https://d/k?" + tail},
	}
	for _, tt := range tests {
		if got := websub.VerificationURL(tt.callback, added); got != tt.want {
			t.Errorf("VerificationURL(%s)\n = %s\nwant %s", tt.callback, got, tt.want)
		}
	}
	if got := websub.VerificationURL("http://d/", url.Values{"z": {"1"}, "hub.mode": {"denied"}, "a": {"2", "3"}}); got != "http://d/?hub.mode=denied&a=2&a=3&z=1" {
		t.Errorf("others: %s", got)
	}
}

func TestCanonical(t *testing.T) {
	t.Parallel()
	tests := map[string]string{
		"http://h/%7Ea~b":       "http://h/~a~b",
		"http://h/%41%62%2d%2E": "http://h/Ab-.",
		"http://h/%2F%3f%25":    "http://h/%2F%3f%25",
		"http://h/%":            "http://h/%",
		"http://h/%4":           "http://h/%4",
		"http://h/%zz%7e":       "http://h/%zz~",
		"HTTP://H/A":            "HTTP://H/A",
	}
	for in, want := range tests {
		if got := websub.Canonical(in); got != want {
			t.Errorf("Canonical(%s) = %s, want %s (WS-H-09)", in, got, want)
		}
	}
}

func FuzzCanonical(f *testing.F) {
	f.Add("http://h/%7Ea%2f%zz%")
	f.Add("%25%37%45")
	f.Fuzz(func(t *testing.T, s string) {
		c := websub.Canonical(s)
		if len(c) > len(s) || strings.Count(c, "/") != strings.Count(s, "/") {
			t.Errorf("Canonical(%q) = %q", s, c)
		}
		if _, err := url.PathUnescape(s); err == nil {
			a, _ := url.PathUnescape(s)
			if b, err := url.PathUnescape(c); err != nil || a != b {
				t.Errorf("Canonical(%q) = %q means another thing: %q, %q, %v", s, c, a, b, err)
			}
		}
	})
}

func FuzzVerify(f *testing.F) {
	f.Add("sha1=00, SHA256 = " + vectors["sha256"])
	f.Add("sha512=" + vectors["sha512"][2:])
	f.Fuzz(func(t *testing.T, header string) {
		m, err := websub.Verify([]string{header}, []byte(vectorKey), []byte(vectorBody))
		if err == nil && !strings.Contains(strings.ToLower(header), vectors[m]) {
			t.Errorf("Verify(%q) = %q", header, m)
		}
		if err != nil && !errors.Is(err, websub.ErrSignature) && !errors.Is(err, websub.ErrUnsigned) {
			t.Errorf("Verify(%q): %v", header, err)
		}
	})
}

// BenchmarkSigner compares a hub's work for each delivery with creating a new
// HMAC each time.
func BenchmarkSigner(b *testing.B) {
	body := []byte(strings.Repeat("x", 2048))
	b.Run("reused", func(b *testing.B) {
		s, err := websub.NewSigner("sha256", []byte(vectorKey))
		if err != nil {
			b.Fatal(err)
		}
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			_ = s.Sign(body)
		}
	})
	b.Run("new", func(b *testing.B) {
		b.SetBytes(int64(len(body)))
		for b.Loop() {
			if _, err := websub.Sign("sha256", []byte(vectorKey), body); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkUnknownCallback measures the cost of a stranger's request.
func BenchmarkUnknownCallback(b *testing.B) {
	s, err := websub.NewSubscriber(websub.SubscriberOptions{Callback: "http://sub/cb", State: &keeper{}, Deliver: func(context.Context, websub.Delivery) error { return nil }})
	if err != nil {
		b.Fatal(err)
	}
	front, w := s.Handler(), nowhere{}
	r := httptest.NewRequest("POST", "/cb/guess", nil)
	for b.Loop() {
		clear(w)
		front.ServeHTTP(w, r)
	}
}

package fetch_test

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/internal/fetch"
)

func certificateFile(t testing.TB, s *httptest.Server) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// Requirements: RS-SEC-02.
func TestGuard(t *testing.T) {
	t.Parallel()
	const (
		never    = iota // never
		onLoop          // only if the Source is on loopback
		onNet           // also if the Source is in a private network
		anywhere        // always
	)
	addresses := []struct {
		address string
		level   int
	}{
		{"93.184.216.34:80", anywhere}, {"[2606:2800:220:1::1]:443", anywhere}, {"[::ffff:93.184.216.34]:80", anywhere},
		{"10.0.0.1:80", onNet}, {"172.16.3.4:80", onNet}, {"192.168.1.1:80", onNet}, {"100.64.0.1:80", onNet}, {"198.18.0.1:80", onNet},
		{"[fc00::1]:80", onNet}, {"[fd12::1]:80", onNet}, {"[fec0::1]:80", onNet}, {"[::ffff:10.0.0.1]:80", onNet}, {"[64:ff9b::a00:1]:80", onNet}, {"[2002:a00:1::]:80", onNet},
		{"127.0.0.1:80", onLoop}, {"127.9.9.9:80", onLoop}, {"[::1]:80", onLoop}, {"[::ffff:127.0.0.1]:80", onLoop}, {"[::ffff:7f00:1]:80", onLoop},
		{"[64:ff9b::7f00:1]:80", onLoop}, {"[::127.0.0.1]:80", onLoop}, {"[2002:7f00:1::]:80", onLoop},
		{"0.0.0.0:80", never}, {"0.1.2.3:80", never}, {"[::]:80", never}, {"[::ffff:0.0.0.0]:80", never},
		{"169.254.169.254:80", never}, {"[::ffff:169.254.169.254]:80", never}, {"[fe80::1]:80", never}, {"[fe80::1%eth0]:80", never}, {"[64:ff9b::a9fe:a9fe]:80", never},
		{"224.0.0.1:80", never}, {"[ff02::1]:80", never}, {"255.255.255.255:80", never}, {"240.0.0.1:80", never},
	}
	homes := []struct {
		home  string
		at    []string // addresses of the name
		allow bool
		level int // addresses of this level and above pass
	}{
		{home: "https://source.example", at: []string{"93.184.216.34"}, level: anywhere},
		{home: "https://intern.example", at: []string{"10.1.1.1"}, level: onNet},
		{home: "https://me.example", at: []string{"127.0.1.1"}, level: onLoop},
		{home: "https://mixed.example", at: []string{"127.0.0.1", "93.184.216.34"}, level: anywhere},
		{home: "https://odd.example", at: []string{"169.254.169.254"}, level: anywhere},
		{home: "http://[::1]:8080", level: onLoop},
		{home: "http://192.168.0.9", level: onNet},
		{home: "https://source.example", at: []string{"93.184.216.34"}, allow: true, level: onLoop},
	}
	for _, h := range homes {
		c := client(t, h.home, fetch.Options{AllowPrivate: h.allow})
		c.SetLookup(func(string) (as []netip.Addr) {
			for _, a := range h.at {
				as = append(as, netip.MustParseAddr(a))
			}
			return as
		})
		for _, a := range addresses {
			err := c.CheckAddress(t.Context(), "name.example", a.address)
			var refused *fetch.AddressError
			if want := a.level >= h.level; errors.As(err, &refused) == want || (err == nil) != want {
				t.Errorf("home %s at %v, allow %v: dial %s: %v, want pass %v", h.home, h.at, h.allow, a.address, err, want)
			}
		}
	}
}

// A name that changes to an internal address after the first resolution is
// refused.
func TestGuardRebinding(t *testing.T) {
	t.Parallel()
	c := client(t, "https://source.example", fetch.Options{})
	at := netip.MustParseAddr("93.184.216.34")
	c.SetLookup(func(string) []netip.Addr { return []netip.Addr{at} })
	if err := c.CheckAddress(t.Context(), "source.example", "93.184.216.34:443"); err != nil {
		t.Fatal(err)
	}
	at = netip.MustParseAddr("127.0.0.1")
	if err := c.CheckAddress(t.Context(), "source.example", "127.0.0.1:443"); err == nil {
		t.Error("dial of the Source at 127.0.0.1 passes after it was public")
	}
}

func TestGuardDials(t *testing.T) {
	t.Parallel()
	inner := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the guard let a request through") })
	c := client(t, "http://93.184.216.34", fetch.Options{})
	port := parseURL(t, inner.URL).Port()
	for _, uri := range []string{inner.URL, "http://localhost:" + port, "http://[::ffff:127.0.0.1]:" + port} {
		_, err := get(t.Context(), c, fetch.Request{URI: uri})
		var refused *fetch.AddressError
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), "--allow-private") || strings.Contains(err.Error(), "tries") {
			t.Errorf("Get(%s) = %v, want an AddressError at the first try", uri, err)
		}
	}
}

func TestGuardBehindProxy(t *testing.T) {
	t.Parallel()
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.URL.String())) })
	c := client(t, "http://93.184.216.34", fetch.Options{Proxy: proxy.URL})
	if got, err := get(t.Context(), c, fetch.Request{URI: "http://93.184.216.34/x"}); err != nil || got != "http://93.184.216.34/x" {
		t.Errorf("Get through the proxy = %q, %v", got, err)
	}
	for _, host := range []string{"127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "127.0.0.1.", "localhost", "LOCALHOST.", "a.localhost", "１２７.0.0.1", "ｌocalhoſt", "127。0｡0．1", "1\u00ad27.0.0.1"} {
		var refused *fetch.AddressError
		if _, err := get(t.Context(), c, fetch.Request{URI: "http://" + host + "/x"}); !errors.As(err, &refused) {
			t.Errorf("Get of %s through the proxy = %v, want an AddressError", host, err)
		}
	}
	for _, host := range []string{"127.1", "2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "0X7F.1", "0x", "1.2.3.4.5", "a.1.", "２852039166"} {
		_, err := get(t.Context(), c, fetch.Request{URI: "http://" + host + "/x"})
		if err == nil || !strings.Contains(err.Error(), "ends in a number, but is not an address") || strings.Contains(err.Error(), "tries") {
			t.Errorf("Get of %s through the proxy = %v, want a refusal", host, err)
		}
	}
	for _, host := range []string{"a.example.", "1.example", "a0x1", "bücher.example", "notlocalhost", "93.184.216.34.", "[2606:2800:220:1::1]", "a_b.example"} {
		if _, err := get(t.Context(), c, fetch.Request{URI: "http://" + host + "/x"}); err != nil {
			t.Errorf("Get of %s through the proxy = %v", host, err)
		}
	}
}

// Connections that bypass the proxy are guarded like any other.
func TestGuardBesideProxy(t *testing.T) {
	t.Parallel()
	proxy := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("proxied")) })
	inner := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("the guard let a request through") })
	c := client(t, "http://93.184.216.34", fetch.Options{})
	via := parseURL(t, proxy.URL)
	c.SetProxy(func(r *http.Request) (*url.URL, error) {
		if r.URL.Hostname() == "localhost" {
			return nil, nil
		}
		return via, nil
	})
	if got, err := get(t.Context(), c, fetch.Request{URI: "http://93.184.216.34/"}); err != nil || got != "proxied" {
		t.Errorf("Get by the proxy = %q, %v", got, err)
	}
	var refused *fetch.AddressError
	uri := "http://localhost:" + parseURL(t, inner.URL).Port()
	if _, err := get(t.Context(), c, fetch.Request{URI: uri}); !errors.As(err, &refused) {
		t.Errorf("Get past the proxy = %v, want an AddressError", err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte(r.Proto)) }))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	_, err := get(t.Context(), client(t, s.URL, fetch.Options{}), fetch.Request{URI: s.URL})
	if err == nil || !strings.Contains(err.Error(), "certificate") || strings.Contains(err.Error(), "tries") {
		t.Errorf("Get from an unknown authority = %v, want a refusal at the first try", err)
	}
	got, err := get(t.Context(), client(t, s.URL, fetch.Options{CAFile: certificateFile(t, s)}), fetch.Request{URI: s.URL})
	if err != nil || got != "HTTP/2.0" {
		t.Errorf("Get with the CA = %q, %v, want HTTP/2.0", got, err)
	}
	plain := serve(t, func(http.ResponseWriter, *http.Request) {})
	uri := strings.Replace(plain.URL, "http:", "https:", 1)
	if _, err := get(t.Context(), client(t, uri, fetch.Options{}), fetch.Request{URI: uri}); err == nil || !strings.Contains(err.Error(), "does not speak HTTPS") {
		t.Errorf("Get by https from a plain server = %v", err)
	}
}

// A stream that stalls is given up; others on its connection are not.
func TestHTTP2Stall(t *testing.T) {
	t.Parallel()
	quit := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(make([]byte, 100))
		if r.URL.Path == "/stall" {
			_ = http.NewResponseController(w).Flush()
			<-quit
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(quit) })
	c := client(t, s.URL, fetch.Options{CAFile: certificateFile(t, s), Timeout: 2 * time.Second})
	done := make(chan error)
	go func() {
		_, err := get(t.Context(), c, fetch.Request{URI: s.URL + "/stall"})
		done <- err
	}()
	for range 20 {
		if got, err := get(t.Context(), c, fetch.Request{URI: s.URL}); err != nil || len(got) != 100 {
			t.Errorf("Get beside a stalled stream = %d bytes, %v", len(got), err)
		}
	}
	var body *fetch.BodyError
	if err := <-done; !errors.Is(err, fetch.ErrTimeout) || !errors.As(err, &body) || body.Got != 100 {
		t.Errorf("Get of a stalled stream = %v, want ErrTimeout after 100 bytes", err)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	home := &url.URL{Scheme: "https", Host: "source.example"}
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		options fetch.Options
		want    string
	}{
		{fetch.Options{Jobs: -1}, "cannot be negative"},
		{fetch.Options{CAFile: "/none.pem"}, "read certificates"},
		{fetch.Options{CAFile: empty}, "no PEM certificate"},
		{fetch.Options{Netrc: "/none"}, "read netrc"},
		{fetch.Options{Proxy: "::"}, "not a URL"},
		{fetch.Options{Proxy: "ftp://p.example"}, "scheme ftp"},
		{fetch.Options{BearerToken: "a\x00b"}, "not valid in an HTTP header"},
		{fetch.Options{UserAgent: "a\r\nb"}, "not valid in an HTTP header"},
		{fetch.Options{Header: http.Header{"a b": {"c"}}}, "not a valid HTTP header"},
		{fetch.Options{Header: http.Header{"A": {"c\r\nd"}}}, "not a valid HTTP header"},
		{fetch.Options{Header: http.Header{"range": {"bytes=0-"}}}, "Range cannot be set"},
	} {
		tt.options.Home = home
		if _, err := fetch.New(tt.options); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("New(%+v) = %v, want %s", tt.options, err, tt.want)
		}
	}
	if _, err := fetch.New(fetch.Options{BearerToken: "x"}); err == nil {
		t.Error("New with a token and no Source: no error")
	}
}

func TestCheckHost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		host          string
		ok, asPrivate bool
	}{
		{"data.example.org", true, true},
		{"203.0.113.9", true, true},
		{"2001:db8::9", true, true},
		{"127.0.0.1", false, true},
		{"::1", false, true},
		{"localhost", false, true},
		{"LocalHost.", false, true},
		{"127.0.0.1.", false, true},
		{"203.0.113.9.", true, true},
		{"hub.localhost", false, true},
		{"notlocalhost", true, true},
		{"10.1.2.3", false, true},
		{"192.168.0.1", false, true},
		{"fd00::1", false, true},
		{"::ffff:10.0.0.1", false, true},
		{"169.254.169.254", false, false},
		{"fe80::1%eth0", false, false},
		{"224.0.0.1", false, false},
		{"0.0.0.0", false, false},
		{"::", false, false},
		{"64:ff9b::7f00:1", false, true},
	}
	for _, tt := range tests {
		if err := fetch.CheckHost(tt.host, false); (err == nil) != tt.ok {
			t.Errorf("CheckHost(%q, false) = %v, want ok %v", tt.host, err, tt.ok)
		}
		if err := fetch.CheckHost(tt.host, true); (err == nil) != tt.asPrivate {
			t.Errorf("CheckHost(%q, true) = %v, want ok %v", tt.host, err, tt.asPrivate)
		}
	}
}

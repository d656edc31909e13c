package certificate_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/certificate"
	"lockstep/cmd/lockstep/internal/certificate/certificatetest"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/source"
)

// year is longer than anything warns about.
const year = 365 * 24 * time.Hour

// open opens the certificate that the flags name.
func open(t *testing.T, log io.Writer, args ...string) (*certificate.Pair, error) {
	t.Helper()
	var o certificate.Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Declare(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return o.Open(slog.New(slog.NewTextHandler(log, nil)))
}

// TestRefused: files that cannot be used are named, with the cause and the remedy.
func TestRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good := certificatetest.Make(t, time.Now().Add(year), "localhost")
	cert, key := good.Write(t, dir)
	put := func(name string, text []byte, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // whatever the umask
			t.Fatal(err)
		}
		return path
	}
	other := put("other.pem", certificatetest.Make(t, time.Now().Add(year), "localhost").Key, 0o600)
	open1, open2, open3 := put("o1.pem", good.Key, 0o644), put("o2.pem", good.Key, 0o660), put("o3.pem", good.Key, 0o604)
	encrypted := put("enc.pem", []byte("-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n"), 0o600)
	broken := put("broken.pem", []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"), 0o600)
	brokenCert := put("brokencert.pem", []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600)
	large := put("large.pem", make([]byte, 2<<20), 0o600)
	for name, tt := range map[string]struct {
		cert, key string
		err, hint string
		modes     bool
	}{
		"no key":                 {cert, "", "--tls-cert without --tls-key", "--tls-key FILE", false},
		"no certificate":         {"", key, "--tls-key without --tls-cert", "--tls-cert FILE", false},
		"missing certificate":    {filepath.Join(dir, "none"), key, "read the TLS certificate: open " + filepath.Join(dir, "none"), "", false},
		"missing key":            {cert, filepath.Join(dir, "none"), "read the key of the TLS certificate: open " + filepath.Join(dir, "none"), "", false},
		"a directory":            {dir, key, dir + " is a directory", "", false},
		"key for certificate":    {key, key, key + " has no TLS certificate in it", "BEGIN CERTIFICATE", false},
		"certificate for key":    {cert, cert, cert + " has no key", "BEGIN PRIVATE KEY", false},
		"another key":            {cert, other, "the key " + other + " does not belong to the TLS certificate " + cert, "name the key", false},
		"key for everyone":       {cert, open1, open1 + " can be read by every user of this machine (mode 0644)", "chmod o= " + open1, true},
		"key that group changes": {cert, open2, open2 + " can be changed by other users than its owner (mode 0660)", "chmod g-wx,o= " + open2, true},
		"key for others":         {cert, open3, "(mode 0604)", "chmod o= ", true},
		"encrypted key":          {cert, encrypted, "the key " + encrypted + " is encrypted with a passphrase", "openssl pkey -in " + encrypted, false},
		"broken key":             {cert, broken, "read the key " + broken, "", false},
		"broken certificate":     {brokenCert, key, "read the TLS certificate " + brokenCert, "", false},
		"large file":             {large, key, large + " is larger than", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.modes && runtime.GOOS == "windows" {
				t.Skip("no such modes")
			}
			var args []string
			if tt.cert != "" {
				args = append(args, "--tls-cert", tt.cert)
			}
			if tt.key != "" {
				args = append(args, "--tls-key", tt.key)
			}
			_, err := open(t, io.Discard, args...)
			if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(term.HintOf(err), tt.hint) {
				t.Errorf("error %v, hint %q; want %q, %q", err, term.HintOf(err), tt.err, tt.hint)
			}
		})
	}
}

// TestAccepted: both may be in one file, the members of a group may read the key, and
// the key may have any of the forms that tools write.
func TestAccepted(t *testing.T) {
	t.Parallel()
	p := certificatetest.Make(t, time.Now().Add(year), "localhost")
	both := filepath.Join(t.TempDir(), "both.pem")
	if err := os.WriteFile(both, append(bytes.Clone(p.Key), p.Cert...), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(both, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t, io.Discard, "--tls-cert", both, "--tls-key", both); err != nil {
		t.Error(err)
	}
	if pair, err := open(t, io.Discard); pair != nil || err != nil {
		t.Errorf("without flags: %v, %v", pair, err)
	}
}

// TestWarnings: what clients refuse, or soon will, is said when the process starts.
func TestWarnings(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end     time.Duration
		hosts   []string
		address string
		want    string // "": nothing
	}{
		"all is well":    {year, []string{"data.example.org"}, "https://data.example.org:8443/x/", ""},
		"an address":     {year, []string{"127.0.0.1", "::1"}, "https://[::1]:8443/", ""},
		"a wildcard":     {year, []string{"*.example.org"}, "https://data.example.org/", ""},
		"expired":        {-time.Minute, []string{"localhost"}, "https://localhost/", "expired at"},
		"about to":       {13 * 24 * time.Hour, []string{"localhost"}, "https://localhost/", "expires at"},
		"another host":   {year, []string{"a.example.org", "b.example.org"}, "https://data.example.org/", "is for a.example.org, b.example.org, not for data.example.org"},
		"no host":        {year, nil, "https://data.example.org/", "is for no host name, not for data.example.org"},
		"many hosts":     {year, []string{"a", "b", "c", "d", "e", "f", "g"}, "https://x/", "for a, b, c, d, e, 2 more names, not"},
		"another scheme": {year, []string{"localhost"}, "http://localhost/", "begins with http://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cert, key := certificatetest.Make(t, time.Now().Add(tt.end), tt.hosts...).Write(t, t.TempDir())
			pair, err := open(t, io.Discard, "--tls-cert", cert, "--tls-key", key)
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			pair.WarnAbout(tt.address, term.IO{Out: io.Discard, Err: &out})
			if tt.want == "" && out.Len() > 0 || !strings.Contains(out.String(), tt.want) {
				t.Errorf("warned %q, want %q", out.String(), tt.want)
			}
		})
	}
}

// A logBuffer may be read while it is written.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// serve serves "ok" with a certificate, and returns the address.
func serve(t *testing.T, pair *certificate.Pair) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := source.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	go func() { _ = srv.Serve(pair.Over(l)) }() // until it is closed
	t.Cleanup(func() { _ = srv.Close() })
	return l.Addr().String()
}

// shown returns the certificate that a client is shown.
func shown(t *testing.T, address string) []byte {
	t.Helper()
	c, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	return c.ConnectionState().PeerCertificates[0].Raw
}

func within(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("not in time: " + what)
		}
	}
}

// TestReload: changed files are used, also where a symbolic link changes as certbot
// does it, for one file after the other; those that cannot be used are not, and the
// certificate in use stays.
func TestReload(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("symbolic links require a privilege")
	}
	t.Parallel()
	dir := t.TempDir()
	link := func(to, name string) {
		tmp := filepath.Join(dir, "new")
		if err := os.Symlink(to, tmp); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var versions []certificatetest.Pair
	add := func(end time.Duration) string {
		sub := filepath.Join(dir, "archive", string(rune('a'+len(versions))))
		if err := os.MkdirAll(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		p := certificatetest.Make(t, time.Now().Add(end), "localhost")
		p.Write(t, sub)
		versions = append(versions, p)
		return sub
	}
	raw := func(n int) []byte {
		c, err := tls.X509KeyPair(versions[n].Cert, versions[n].Key)
		if err != nil {
			t.Fatal(err)
		}
		return c.Certificate[0]
	}
	first := add(year)
	link(filepath.Join(first, "cert.pem"), "cert.pem")
	link(filepath.Join(first, "key.pem"), "key.pem")
	log := &logBuffer{}
	pair, err := open(t, log, "--tls-cert", filepath.Join(dir, "cert.pem"), "--tls-key", filepath.Join(dir, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, pair)
	if !bytes.Equal(shown(t, address), raw(0)) {
		t.Fatal("another certificate is shown")
	}

	second := add(year)
	link(filepath.Join(second, "cert.pem"), "cert.pem")
	within(t, "the mismatch is logged", func() bool {
		if !bytes.Equal(shown(t, address), raw(0)) {
			t.Fatal("half a pair is used")
		}
		return strings.Contains(log.String(), "does not belong to the TLS certificate")
	})
	link(filepath.Join(second, "key.pem"), "key.pem")
	within(t, "the second certificate is shown", func() bool { return bytes.Equal(shown(t, address), raw(1)) })
	if text := log.String(); !strings.Contains(text, `level=WARN msg="the TLS certificate was read again"`) || !strings.Contains(text, "hint=\"name the key") {
		t.Errorf("what helps, or that it was read again, is not logged: %s", text)
	}

	expired := add(-time.Minute)
	link(filepath.Join(expired, "key.pem"), "key.pem")
	link(filepath.Join(expired, "cert.pem"), "cert.pem")
	within(t, "the expired one is logged", func() bool {
		if !bytes.Equal(shown(t, address), raw(1)) {
			t.Fatal("an expired certificate takes the place of a valid one")
		}
		return strings.Contains(log.String(), "not valid now, and the one in use is")
	})
	if err := os.Remove(filepath.Join(dir, "key.pem")); err != nil {
		t.Fatal(err)
	}
	within(t, "the missing key is logged", func() bool {
		if !bytes.Equal(shown(t, address), raw(1)) {
			t.Fatal("the certificate in use does not stay")
		}
		return strings.Contains(log.String(), "no such file")
	})
	if n := strings.Count(log.String(), "level=ERROR"); n > 4 { // beside the three, both files may be seen between two renames
		t.Errorf("%d errors are logged: %s", n, log)
	}
	third := add(year)
	link(filepath.Join(third, "cert.pem"), "cert.pem")
	link(filepath.Join(third, "key.pem"), "key.pem")
	within(t, "the last certificate is shown", func() bool { return bytes.Equal(shown(t, address), raw(3)) })
}

// TestSpoken: HTTP/2 is offered beside HTTP/1.1, TLS 1.1 is not, and a pinned
// certificate is trusted at any address.
func TestSpoken(t *testing.T) {
	t.Parallel()
	p := certificatetest.Make(t, time.Now().Add(year), "data.example.org")
	cert, key := p.Write(t, t.TempDir())
	pair, err := open(t, io.Discard, "--tls-cert", cert, "--tls-key", key)
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, pair)
	pinned, err := certificate.Pinned(cert)
	if err != nil {
		t.Fatal(err)
	}
	otherCert, _ := certificatetest.Make(t, time.Now().Add(year), "data.example.org").Write(t, t.TempDir())
	other, err := certificate.Pinned(otherCert)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		config *tls.Config
		http2  bool
		want   string // of the protocol; "": the connection is refused
	}{
		"HTTP/2":              {&tls.Config{RootCAs: p.Trusting(), ServerName: "data.example.org"}, true, "HTTP/2.0"},
		"HTTP/1.1":            {&tls.Config{RootCAs: p.Trusting(), ServerName: "data.example.org"}, false, "HTTP/1.1"},
		"TLS 1.2":             {&tls.Config{RootCAs: p.Trusting(), ServerName: "data.example.org", MaxVersion: tls.VersionTLS12}, true, "HTTP/2.0"},
		"TLS 1.1":             {&tls.Config{RootCAs: p.Trusting(), ServerName: "data.example.org", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}, false, ""},
		"pinned":              {pinned, true, "HTTP/2.0"},
		"another one, pinned": {other, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := &http.Transport{TLSClientConfig: tt.config, ForceAttemptHTTP2: tt.http2}
			t.Cleanup(tr.CloseIdleConnections)
			r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, "https://"+address+"/", nil)
			if err != nil {
				t.Fatal(err)
			}
			resp, err := tr.RoundTrip(r)
			if err != nil {
				if tt.want != "" {
					t.Error(err)
				}
				return
			}
			defer func() { _ = resp.Body.Close() }()
			if text, err := io.ReadAll(resp.Body); err != nil || string(text) != tt.want {
				t.Errorf("%q, %v, want %q", text, err, tt.want)
			}
		})
	}
}

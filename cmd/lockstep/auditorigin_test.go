package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/internal/freeport"
	"lockstep/internal/provenance"
)

// aggregatorOf starts a Source whose resources, named as in links, have these links to
// their origins. Each has the content "copy".
func aggregatorOf(t *testing.T, links map[string]string, flags ...string) string {
	t.Helper()
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	if err := os.Mkdir(files, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, link := range links {
		for path, text := range map[string]string{name: "copy", name + ".links.json": `{"links": [` + link + `]}`, "../config.yaml": "sets:\n- from: dir:files\n  sidecar: .links.json\n"} {
			if err := os.WriteFile(filepath.Join(files, path), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	cmd := exec.Command("lockstep", append([]string{"serve", "--config", "config.yaml", "--listen", "127.0.0.1:0", "--state", "state"}, flags...)...)
	cmd.Dir = dir
	p, err := startReady(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p.address
}

// auditOrigins mirrors an Aggregator and returns the exit code and the findings, by the
// paths of the resources, of an audit.
func auditOrigins(t *testing.T, aggregator string, flags ...string) (code int, found map[string]provenance.Finding) {
	t.Helper()
	dest := filepath.Join(t.TempDir(), "copy")
	if code, _, stderr := lockstepRun(t, "sync", "-q", aggregator, dest); code != 0 {
		t.Fatalf("sync: exit code %d: %s", code, stderr)
	}
	code, stdout, stderr := lockstepRun(t, append([]string{"audit", aggregator, dest, "--origin", "--sample", "all", "--allow-private", "--retries", "0", "--json"}, flags...)...)
	var result struct{ Origin provenance.Report }
	if err := json.Unmarshal([]byte(stdout), &result); err != nil {
		t.Fatalf("audit: exit code %d: %v\n%s%s", code, err, stdout, stderr)
	}
	found = make(map[string]provenance.Finding)
	for _, f := range result.Origin.Findings {
		found[strings.TrimPrefix(f.URI, aggregator)] = f
	}
	return code, found
}

// TestOriginsGetNoCredentials: credentials are those of the Aggregator, and an origin is
// whatever the Aggregator says, even an address of its own host.
func TestOriginsGetNoCredentials(t *testing.T) {
	t.Parallel()
	var requests, secrets, permitted atomic.Int64
	has := func(r *http.Request) bool {
		return r.Header.Get("Authorization") != "" || r.Header.Get("X-Secret") != "" || r.Header.Get("Cookie") != ""
	}
	origin := http.NewServeMux()
	origin.HandleFunc("/origin/", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		if has(r) {
			secrets.Add(1)
		}
		if r.URL.Path == "/origin/redirect" {
			http.Redirect(w, r, "/origin/a", http.StatusFound)
			return
		}
		fmt.Fprint(w, "copy")
	})
	other := httptest.NewServer(origin)
	t.Cleanup(other.Close)
	front := httptest.NewServer(origin) // the Aggregator, with an origin at the same host and port
	t.Cleanup(front.Close)
	host := strings.TrimPrefix(other.URL, "http://")
	listen, err := freeport.Address(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	aggregatorOf(t, map[string]string{
		"a": `{"rel": "via", "href": "` + other.URL + `/origin/a"}`,
		"b": `{"rel": "via", "href": "` + other.URL + `/origin/redirect"}`,
		"c": `{"rel": "via", "href": "http://` + host + `/origin/a?c"}`,
		"d": `{"rel": "via", "href": "` + front.URL + `/origin/a"}`,
	}, "--base-url", front.URL+"/", "--listen", listen)
	behind := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: listen})
	origin.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if has(r) {
			permitted.Add(1)
		}
		behind.ServeHTTP(w, r)
	})
	aggregator := front.URL + "/"
	dir := t.TempDir()
	token, netrc := filepath.Join(dir, "token"), filepath.Join(dir, "netrc")
	for path, text := range map[string]string{token: "secret", netrc: "machine 127.0.0.1 login user password secret\n"} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, flags := range [][]string{{"--header", "X-Secret: s", "--header", "Cookie: s"}, {"--bearer-token-file", token}, {"--netrc=" + netrc}} {
		requests.Store(0)
		permitted.Store(0)
		if code, found := auditOrigins(t, aggregator, flags...); code != 0 || len(found) > 0 {
			t.Errorf("%s: exit code %d, findings %v; want 0 and none", flags, code, found)
		}
		if n := requests.Load(); n != 5 {
			t.Errorf("%s: %d requests to origins, want 5", flags, n)
		}
		if permitted.Load() == 0 {
			t.Errorf("%s: the Aggregator got no credentials", flags)
		}
	}
	if n := secrets.Load(); n > 0 {
		t.Errorf("%d requests to origins with credentials", n)
	}
}

// TestOriginsAreReadWithinLimits: an origin, and the link to it, may be hostile.
func TestOriginsAreReadWithinLimits(t *testing.T) {
	t.Parallel()
	const limit = 16 << 20 // what the buffers of connections may take
	var sent atomic.Int64
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/metadata":
			http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
			return
		case "/file":
			http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
			return
		case "/loop":
			http.Redirect(w, r, "/loop", http.StatusFound)
			return
		case "/denied":
			http.Error(w, "", http.StatusForbidden)
			return
		case "/huge":
			w.Header().Set("Content-Length", fmt.Sprint(int64(1)<<50))
		}
		buf := make([]byte, 64<<10)
		for sent.Load() < limit {
			n, err := w.Write(buf)
			sent.Add(int64(n))
			if err != nil {
				return
			}
		}
	}))
	t.Cleanup(origin.Close)
	via := func(path, more string) string {
		return `{"rel": "via", "href": "` + origin.URL + path + `"` + more + `}`
	}
	aggregator := aggregatorOf(t, map[string]string{
		"endless":  via("/endless", ""),
		"huge":     via("/huge", `, "length": 1125899906842624, "hash": "md5:d41d8cd98f00b204e9800998ecf8427e"`),
		"metadata": via("/metadata", ""),
		"file":     via("/file", ""),
		"loop":     via("/loop", ""),
		"denied":   via("/denied", ""),
		"port":     `{"rel": "via", "href": "http://127.0.0.1:0/x"}`,
		"urn":      `{"rel": "via", "href": "urn:isbn:0"}`,
	})
	code, found := auditOrigins(t, aggregator)
	if code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	for name, want := range map[string]struct {
		verdict provenance.Verdict
		cause   string
	}{
		"endless":  {provenance.Unclear, "the origin serves other bytes"},
		"huge":     {provenance.Altered, "its via link states md5:d41d8cd98f00b204e9800998ecf8427e"},
		"metadata": {provenance.Unchecked, "link-local address: not contacted"},
		"file":     {provenance.Unchecked, "file:///etc/passwd"},
		"loop":     {provenance.Unchecked, "circle"},
		"denied":   {provenance.Unchecked, "403"},
		"port":     {provenance.Unchecked, ""},
		"urn":      {provenance.Unchecked, "only http and https"},
	} {
		if f := found[name]; f.Verdict != want.verdict || !strings.Contains(f.Cause, want.cause) {
			t.Errorf("%s: %s, %q; want %s, %q", name, f.Verdict, f.Cause, want.verdict, want.cause)
		}
	}
	if n := sent.Load(); n >= limit {
		t.Errorf("more than %d bytes were read of origins that have more than the copy", n)
	}
}

package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/hubflags"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/site"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
)

// proxies returns addresses of reverse proxies on this machine that pass what
// they get on to backend and add no header that says for whom.
func proxies(t *testing.T, backend string) map[string]string {
	t.Helper()
	target, err := url.Parse(backend)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{"directly": backend, "TCP": "http://" + forwardTCP(t, target.Host) + "/", "HTTP": forwardHTTP(t, target)}
	if address, ok := forwardNginx(t, target.Host); ok {
		all["nginx"] = "http://" + address + "/"
	}
	return all
}

// forwardTCP passes connections on, byte by byte.
func forwardTCP(t *testing.T, to string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer func() { _ = in.Close() }()
				out, err := net.Dial("tcp", to)
				if err != nil {
					return
				}
				defer func() { _ = out.Close() }()
				go func() { _, _ = io.Copy(out, in) }() // until either end closes
				_, _ = io.Copy(in, out)
			}()
		}
	}()
	return l.Addr().String()
}

// forwardHTTP passes requests on with the Host of the backend, as nginx does.
func forwardHTTP(t *testing.T, to *url.URL) string {
	t.Helper()
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: p}
	go func() { _ = srv.Serve(l) }() // until the end of the test
	t.Cleanup(func() { _ = srv.Close() })
	return "http://" + l.Addr().String() + "/"
}

// forwardNginx runs nginx with a plain proxy_pass, where it is installed.
func forwardNginx(t *testing.T, to string) (address string, ok bool) {
	t.Helper()
	path, err := exec.LookPath("nginx")
	if err != nil {
		t.Log("nginx is not installed: the other proxies are tried alone")
		return "", false
	}
	dir, address := t.TempDir(), freeAddress(t)
	conf := filepath.Join(dir, "nginx.conf")
	text := fmt.Sprintf(`daemon off; master_process off; pid %[1]s/pid; error_log %[1]s/error.log;
events {}
http { access_log off; client_body_temp_path %[1]s/1; proxy_temp_path %[1]s/2; fastcgi_temp_path %[1]s/3; uwsgi_temp_path %[1]s/4; scgi_temp_path %[1]s/5;
server { listen %[2]s; location / { proxy_pass http://%[3]s; } } }
`, dir, address, to)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "-p", dir, "-e", filepath.Join(dir, "error.log"), "-c", conf)
	out := &syncBuffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	within(t, "nginx accepts connections", func() bool {
		c, err := net.Dial("tcp", address)
		if err == nil {
			_ = c.Close()
		}
		return err == nil
	})
	return address, true
}

// A knock is a request of a stranger.
type knock struct {
	method, path, body string
	header             map[string]string
}

// send returns the status and text of the answer.
func (k knock) send(base string) (int, string, error) {
	r, err := http.NewRequest(k.method, strings.TrimSuffix(base, "/")+k.path, strings.NewReader(k.body))
	if err != nil {
		return 0, "", err
	}
	for name, value := range k.header {
		if name == "Host" {
			r.Host = value
		}
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text), err
}

// administrative are the addresses that administrate, with a body that would
// be right where there is one.
func administrative() map[string]string {
	return map[string]string{
		"/-/metrics": "", "/-/hub": "", "/-/api/v1/follow": "", "/-/api/v1/hub": "", "/-/api/v1/hub/topics": "",
		"/-/api/v1/hub/subscriptions": "", "/-/api/v1/hub/subscriptions/KEY": "", "/-/api/v1/hub/subscriptions/KEY/replay": `{"from":1}`,
		"/-/api/v1/hub/messages": "", "/-/api/v1/hub/replay": `{"topic":"TOPIC","from":1}`,
		"/-/api/": "", "/-/api/openapi.json": "", "/-/api/v1/sets": "", "/-/api/v1/sets/items": "",
		"/-/api/v1/sets/items/resources?uri=https://r.example.org/new": "{}",
		"/-/api/v1/sets/items/resources?uri=https://r.example.org/1":   "{}",
		"/-/api/v1/sets/items/changes":                                 `[{"uri":"https://r.example.org/1","change":"deleted"}]`,
	}
}

// TestProxyOpensNothing goes through every address that administrates, by every
// method, from a stranger's place behind a reverse proxy on this machine that
// adds no header, and tries to publish what the Source alone may. Nothing of it
// is answered, and nothing changes; what is published is served, and a stranger
// can subscribe.
func TestProxyOpensNothing(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	files, mirror := filepath.Join(room, "files"), filepath.Join(room, "mirror")
	if err := os.MkdirAll(files, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range 10 {
		if err := os.WriteFile(filepath.Join(files, fmt.Sprint(i, ".txt")), []byte("content"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	config := filepath.Join(room, "lockstep.yaml")
	if err := os.WriteFile(config, []byte("sets:\n  - {name: main, from: 'dir:files'}\n  - {name: items, from: api}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) *process {
		p, err := startReady(exec.Command("lockstep", args...))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.kill)
		return p
	}
	src := run("serve", "--config", config, "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "state"), "--hub-allow-private", "--oai-pmh")
	hub := run("hub", "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "hub"), "--allow-private")
	follow := run("follow", src.address, mirror, "--set", "main", "--callback", "http://127.0.0.1:0/", "--poll", "1h")
	ask := func(address string) string {
		text, err := get(address)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	topic := src.address + "resourcesync/main/changes"
	var key string
	within(t, "the mirror has subscribed", func() bool {
		_, rest, _ := strings.Cut(ask(src.address+"-/api/v1/hub/subscriptions"), `"key":"`)
		key, _, _ = strings.Cut(rest, `"`)
		return key != ""
	})
	state := func() string {
		var all []string
		for _, address := range []string{src.address + "-/api/v1/hub/subscriptions", src.address + "-/api/v1/hub/topics", src.address + "-/api/v1/sets/items", hub.address + "-/api/v1/hub/topics"} {
			all = append(all, ask(address))
		}
		return strings.Join(all, "\n")
	}
	before := state()

	forged := `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<rs:md capability="changelist" from="2020-01-01T00:00:00Z" until="2036-01-01T00:00:00Z"/>`
	for i := range 10 {
		forged += fmt.Sprintf(`<url><loc>%s%d.txt</loc><rs:md change="deleted" datetime="2036-01-01T00:00:00Z"/></url>`, src.address, i)
	}
	forged += "</urlset>"
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	publications := []knock{
		{"POST", "/hub", "hub.mode=publish&hub.topic=" + url.QueryEscape(topic), form},
		{"POST", "/hub", "hub.mode=publish&hub.url=" + url.QueryEscape(topic), form},
		{"POST", "/hub", forged, map[string]string{"Content-Type": "application/xml", "Link": "<" + topic + `>; rel="self"`}},
		{"POST", "/hub", forged, map[string]string{"Content-Type": "application/xml", "Link": "<" + topic + `>; rel="self"`, "X-Hub-Signature": "sha256=00"}},
		{"POST", "/hub", forged, map[string]string{"Content-Type": "application/xml", "Link": "<https://data.example.org/x>; rel=\"self\""}},
	}
	disguises := []map[string]string{nil, {"Host": "localhost"}, {"X-Forwarded-For": "127.0.0.1", "Forwarded": "for=127.0.0.1", "X-Real-Ip": "127.0.0.1"}, {"Authorization": "Bearer "}}
	for process, address := range map[string]string{"serve": src.address, "hub": hub.address, "follow": follow.address} {
		for proxy, base := range proxies(t, address) {
			for path, body := range administrative() {
				path, body = strings.Replace(path, "KEY", key, 1), strings.Replace(body, "TOPIC", topic, 1)
				for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
					for _, disguise := range disguises {
						k := knock{method, path, body, map[string]string{"Content-Type": "application/json"}}
						for name, value := range disguise {
							k.header[name] = value
						}
						if status, text, err := k.send(base); err != nil || status < 400 {
							t.Errorf("%s, %s: %s %s %v is answered %d, %v: %.200s", process, proxy, method, path, disguise, status, err, text)
						}
					}
				}
			}
			for _, k := range publications {
				if status, text, err := k.send(base); err != nil || status < 400 {
					t.Errorf("%s, %s: %s %s is answered %d, %v: %.200s", process, proxy, k.body, k.header["Link"], status, err, text)
				}
			}
			for _, path := range []string{"/-/healthz", "/-/readyz"} {
				if status, text, err := (knock{method: "GET", path: path}).send(base); err != nil || status != 200 {
					t.Errorf("%s, %s: %s is answered %d, %v: %s", process, proxy, path, status, err, text)
				}
			}
		}
	}
	if after := state(); after != before {
		t.Errorf("the state changed from\n%s\nto\n%s", before, after)
	}
	base := proxies(t, src.address)["TCP"]
	for _, path := range []string{"/0.txt", "/.well-known/resourcesync", "/resourcesync/main/capabilitylist.xml", "/oai?verb=Identify", "/hub"} {
		if status, text, err := (knock{method: "GET", path: path}).send(base); err != nil || status != 200 {
			t.Errorf("%s is answered %d, %v: %.200s", path, status, err, text)
		}
	}
	subscription := "hub.mode=subscribe&hub.callback=" + url.QueryEscape("http://127.0.0.1:9/x") + "&hub.topic=" + url.QueryEscape(topic)
	if status, text, err := (knock{"POST", "/hub", subscription, form}).send(base); err != nil || status != 202 {
		t.Errorf("to subscribe is answered %d, %v: %s", status, err, text)
	}

	// What the Source tells from inside arrives, and nothing that was forged did.
	if err := os.WriteFile(filepath.Join(files, "new.txt"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	within(t, "the mirror has the new file", func() bool {
		_, err := os.Stat(filepath.Join(mirror, "new.txt"))
		return err == nil
	})
	have, err := contents(mirror)
	if want, werr := contents(files); errors.Join(err, werr) != nil || difference(have, want) != "" {
		t.Errorf("the mirror differs: %v %v %s", err, werr, difference(have, want))
	}
}

// TestAdminRoutesRefuse goes through the registered pages of a Source with a
// hub: all but health and readiness refuse a request without a token.
func TestAdminRoutesRefuse(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	io := term.IO{Out: io.Discard, Err: io.Discard}
	s, err := site.Open(t.Context(), site.Options{
		BaseURL: "http://127.0.0.1:1/data/", Sets: []config.Set{{Origin: config.Address{Kind: config.KindOf("dir"), Place: t.TempDir()}, Hash: []string{"sha-256"}}}, State: stateplace.In(filepath.Join(room, "state")), Documents: filepath.Join(room, "documents"),
		ScanInterval: -1, Content: true, Command: "test", Log: (&term.Options{}).Logger(io), IO: io,
		Hubs: hubflags.Hubs{URLs: []string{hubflags.Embedded}}, Embedding: &site.Embedding{Hub: hubserver.ForThisMachine()},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	open := []string{"healthz", "readyz"}
	for _, route := range s.Pages.Routes {
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"} {
			w := httptest.NewRecorder()
			r := httptest.NewRequest(method, "http://127.0.0.1:1"+s.Pages.Dir+route.Path, nil)
			r.RemoteAddr = "127.0.0.1:2"
			s.Handler().ServeHTTP(w, r)
			status := w.Code
			if want := http.StatusUnauthorized; !slices.Contains(open, route.Path) && status != want {
				t.Errorf("%s %s: %d, want %d", method, route.Path, status, want)
			}
		}
	}
	if len(s.Pages.Routes) < 6 {
		t.Errorf("there are %d routes only", len(s.Pages.Routes))
	}
}

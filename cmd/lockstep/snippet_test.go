package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/source"
	"lockstep/websub"
)

// A published site for a web server to serve: three sets, of which one has all
// the others have, dumps, patches and compressed variants.
type servedSite struct {
	root    string // what the web server serves
	out     string // where the documents are
	config  string
	address string // HOST:PORT
	base    string // base URL
	path    string // of it, decoded
	hub     string // that is told of changes
	env     []string
}

// oddPath has what means something in one configuration or the other.
const oddPath = "/a b$x{y}\"z'%23\\n[c]/"

// publishSite publishes a site below the path, twice, so that there are changes.
func publishSite(t *testing.T, path string) *servedSite {
	t.Helper()
	dir := t.TempDir()
	for _, d := range []string{dir, filepath.Dir(dir)} { // web servers read it as another user
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s := &servedSite{root: filepath.Join(dir, "web root"), out: filepath.Join(dir, `it's "out"`), address: freeAddress(t), path: path}
	s.config = filepath.Join(dir, "lockstep.yaml")
	s.base = (&url.URL{Scheme: "http", Host: s.address, Path: path}).String()
	s.env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+dir, "XDG_CONFIG_HOME="+dir, "XDG_DATA_HOME="+dir)
	rows := strings.Repeat("a row of many, each like the other\n", 2000)
	s.write(t, "papers/one two.txt", "Hello.\n")
	s.write(t, "papers/table.csv", rows)
	s.write(t, "more/$deep/{x}.html", "<p>Hello.\n")
	hub := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	t.Cleanup(hub.Close)
	s.hub = hub.URL + "/a$b"
	config := fmt.Sprintf("base_url: %q\nstate: state\ndocuments: %q\ngzip: true\ndump: true\nhub: %q\nsets:\n", s.base, s.out, s.hub)
	for _, set := range []string{"papers", "more"} {
		config += fmt.Sprintf("  - {name: %s, from: %q, uri: %q, patches: true, atom_pmh: {entries: 1}}\n", set, "dir:"+s.root+path+set, s.base+set+"/")
	}
	config += fmt.Sprintf("  - {name: all, from: %q}\n", "dir:"+s.root+path)
	if err := os.WriteFile(s.config, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s.lockstep(t, "publish", "--config", s.config)
	s.write(t, "papers/table.csv", rows+"one more\n")
	s.lockstep(t, "publish", "--config", s.config)
	return s
}

func (s *servedSite) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(s.root, filepath.FromSlash(s.path), name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// lockstep runs a command that has to succeed, and returns what it prints.
func (s *servedSite) lockstep(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "lockstep", args...)
	cmd.Env = s.env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("lockstep %s: %v\n%s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return string(out)
}

// A testServer is a web server as the tests run it.
type testServer struct {
	name, program string
	needs         string // a directory without which it cannot run
	start         func(t *testing.T, s *servedSite, dir, snippet string) *exec.Cmd
}

func testServers() []testServer {
	return []testServer{
		{name: "nginx", program: "nginx", start: startNginx},
		{name: "apache", program: "apache2", needs: apacheModules, start: startApache},
		{name: "caddy", program: "caddy", start: startCaddy},
	}
}

func startNginx(t *testing.T, s *servedSite, dir, snippet string) *exec.Cmd {
	user := ""
	if os.Getuid() == 0 {
		user = "user root;\n"
	}
	config := user + `daemon off;
pid nginx.pid;
error_log stderr;
events { }
http {
	access_log off;
	types { text/plain txt; text/html html; text/csv csv; text/xml xml; }
	client_body_temp_path tmp; proxy_temp_path tmp; fastcgi_temp_path tmp; scgi_temp_path tmp; uwsgi_temp_path tmp;
	gzip on; gzip_types *; gzip_min_length 0; # what snippets have to undo
	server {
		listen ` + s.address + `;
		root "` + s.root + `";
		location ~ /\. { deny all; }
		location ~ \.xml$ { deny all; }
		include ` + snippet + `;
	}
}
`
	return exec.Command("nginx", "-p", dir, "-e", "stderr", "-c", save(t, dir, "nginx.conf", config))
}

// apacheModules is where Debian keeps them, which compiles few in.
const apacheModules = "/usr/lib/apache2/modules"

func startApache(t *testing.T, s *servedSite, dir, snippet string) *exec.Cmd {
	var config strings.Builder
	for _, m := range []string{"mpm_event", "authz_core", "alias", "deflate", "dir", "env", "filter", "headers", "mime", "rewrite"} {
		fmt.Fprintf(&config, "LoadModule %s_module %s/mod_%s.so\n", m, apacheModules, m)
	}
	if os.Getuid() == 0 {
		config.WriteString("User nobody\nGroup nogroup\n")
	}
	types := save(t, dir, "mime.types", "text/plain txt\ntext/html html\ntext/csv csv\ntext/xml xml\napplication/x-gzip gz\n")
	fmt.Fprintf(&config, `ServerName localhost
PidFile %[1]q
DefaultRuntimeDir %[2]q
Mutex posixsem
ErrorLog /dev/stderr
StartServers 1
TypesConfig %[5]q
AddEncoding x-gzip .gz
SetOutputFilter DEFLATE
Listen %[3]s
<Directory />
    Require all denied
</Directory>
<VirtualHost *>
    DocumentRoot %[4]q
    <Directory %[4]q>
        Require all granted
    </Directory>
    Include %[6]q
</VirtualHost>
`, filepath.Join(dir, "apache.pid"), dir, s.address, s.root, types, snippet)
	return exec.Command("apache2", "-DFOREGROUND", "-d", dir, "-f", save(t, dir, "apache.conf", config.String()))
}

func startCaddy(t *testing.T, s *servedSite, dir, snippet string) *exec.Cmd {
	config := "{\n\tadmin off\n\tauto_https off\n}\nhttp://" + s.address + " {\n\troot * `" + s.root +
		"`\n\tencode gzip\n\timport " + snippet + "\n\thandle /* {\n\t\tfile_server\n\t}\n}\n"
	cmd := exec.Command("caddy", "run", "--adapter", "caddyfile", "--config", save(t, dir, "Caddyfile", config))
	cmd.Env = s.env
	return cmd
}

func save(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// run starts the web server with our snippet, until the test ends.
func (w *testServer) run(t *testing.T, s *servedSite) {
	t.Helper()
	dir := t.TempDir()
	snippet := save(t, dir, "snippet.conf", s.lockstep(t, "snippet", w.name, "--config", s.config))
	cmd := w.start(t, s, dir, snippet)
	var stderr syncBuffer
	cmd.Stderr, cmd.Stdout = &stderr, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt) // may have ended
		select {
		case <-ended:
		case <-time.After(readyLimit):
			_ = cmd.Process.Kill()
			<-ended
		}
		if t.Failed() {
			t.Logf("%s said\n%s", w.program, stderr.String())
		}
	})
	deadline := time.After(readyLimit)
	for {
		resp, err := http.Get("http://" + s.address + "/") //nolint:noctx // the deadline is here
		if err == nil {
			_ = resp.Body.Close()
			return
		}
		select {
		case err := <-ended:
			ended <- err
			t.Fatalf("%s ended: %v\n%s", w.program, err, stderr.String())
		case <-deadline:
			t.Fatalf("%s does not answer: %v\n%s", w.program, err, stderr.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestSnippetServers has the web servers serve a published site with our
// snippets: what they state is what our own server would, and the site can be
// mirrored and is valid.
func TestSnippetServers(t *testing.T) {
	t.Parallel()
	for _, w := range testServers() {
		for name, path := range map[string]string{"root": "/", "odd": oddPath} {
			t.Run(w.name+"/"+name, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(w.program); err != nil {
					t.Skipf("%s is not installed", w.program)
				}
				if _, err := os.Stat(w.needs); w.needs != "" && err != nil {
					t.Skipf("%s has no modules in %s", w.program, w.needs)
				}
				s := publishSite(t, path)
				w.run(t, s)
				checkDocuments(t, s)
				checkLinks(t, s)
				checkTopic(t, s)
				checkRobots(t, s)
				mirror := filepath.Join(t.TempDir(), "mirror")
				s.lockstep(t, "sync", "http://"+s.address+"/", mirror)
				got, err := contents(mirror)
				if err != nil {
					t.Fatal(err)
				}
				if len(got) != 3 {
					t.Errorf("mirrored %d files, want 3", len(got))
				}
				if out := s.lockstep(t, "validate", s.base+source.WebLayout().WellKnown); !strings.HasPrefix(out, "valid\n") {
					t.Errorf("validate: %s", out)
				}
			})
		}
	}
}

// checkTopic asks where notifications stand for the hubs that have them (RN-CH-03,
// WS-D-01).
func checkTopic(t *testing.T, s *servedSite) {
	found, err := websub.Discover(t.Context(), http.DefaultClient, s.base+source.WebLayout().Documents+"papers/changes")
	if err != nil {
		t.Fatal(err)
	}
	hub := strings.ReplaceAll(s.hub, "$", "%24") // nginx has no way to write it
	if len(found.Hubs) != 1 || strings.ReplaceAll(found.Hubs[0], "$", "%24") != hub || strings.ReplaceAll(found.Topic, "$", "%24") != strings.ReplaceAll(s.base, "$", "%24")+source.WebLayout().Documents+"papers/changes" {
		t.Errorf("the topic names %q and the hubs %q", found.Topic, found.Hubs)
	}
}

// ask asks for what is at a decoded path, as it is stored unless told.
func (s *servedSite) ask(t *testing.T, path string, header ...string) (*http.Response, []byte) {
	t.Helper()
	u := &url.URL{Scheme: "http", Host: s.address, Path: path}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, u.String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "identity")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, body
}

// documentNames lists what publish wrote and others may see.
func (s *servedSite) documentNames(t *testing.T) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(s.out, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(s.out, path) // it lies there
		if err != nil || d.IsDir() && rel == ".lockstep" {
			return errOr(err, fs.SkipDir)
		}
		if !d.IsDir() {
			names = append(names, filepath.ToSlash(rel))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{".json", ".dcz", ".zip", ".xml.gz", ".atom.gz", "index.html"} {
		if want != ".json" && !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, want) }) {
			t.Fatalf("publish wrote nothing like %s: %q", want, names)
		}
	}
	return names
}

func errOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// checkDocuments compares what is stated of every document with what our own
// server states.
func checkDocuments(t *testing.T, s *servedSite) {
	l := source.WebLayout()
	for _, name := range s.documentNames(t) {
		path := s.path + name
		if name == l.Robots {
			continue
		}
		want, err := os.ReadFile(filepath.Join(s.out, filepath.FromSlash(name)))
		if err != nil {
			t.Fatal(err)
		}
		plain := checkDocument(t, s, path, name, want)
		if !strings.HasSuffix(name, ".xml") && !strings.HasSuffix(name, ".atom") {
			continue
		}
		resp, body := s.ask(t, path, "Accept-Encoding", "deflate, gzip;q=0.9")
		zr, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			t.Fatalf("%s is not compressed: %v, %v", path, err, resp.Header)
		}
		unpacked, err := io.ReadAll(zr)
		if err != nil || !bytes.Equal(unpacked, want) {
			t.Errorf("%s: compressed, it is something else; %v", path, err)
		}
		if h := resp.Header; h.Get("Content-Encoding") != "gzip" || len(h["Content-Encoding"]) != 1 || !strings.Contains(h.Get("Vary"), "Accept-Encoding") ||
			h.Get("Content-Type") != plain.Get("Content-Type") || h.Get("Cache-Control") != plain.Get("Cache-Control") || h.Get("ETag") == plain.Get("ETag") {
			t.Errorf("%s: compressed %v, plain %v", path, h, plain)
		}
		resp, _ = s.ask(t, path, "Accept-Encoding", "gzip;q=0")
		if got := resp.Header.Get("Content-Encoding"); got != "" {
			t.Errorf("%s: coded %q though that was refused", path, got)
		}
	}
	want, err := os.ReadFile(filepath.Join(s.out, filepath.FromSlash(l.WellKnown)))
	if err != nil {
		t.Fatal(err)
	}
	checkDocument(t, s, "/"+l.WellKnown, l.WellKnown, want)
	if resp, _ := s.ask(t, s.path+l.Documents); resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("page beside the documents: %s %v", resp.Status, resp.Header)
	}
	for _, name := range []string{l.Private + "papers.json", l.Documents + "papers/none.xml", "nothing"} {
		if resp, _ := s.ask(t, s.path+name); resp.StatusCode != http.StatusNotFound {
			t.Errorf("%s%s: %s, want 404", s.path, name, resp.Status)
		}
	}
}

// checkDocument checks one document and returns its header.
func checkDocument(t *testing.T, s *servedSite, path, name string, want []byte) http.Header {
	t.Helper()
	resp, body := s.ask(t, path)
	for strings.HasPrefix(resp.Header.Get("ETag"), "W/") && !t.Failed() { // Apache, of what is younger than a second
		select {
		case <-time.After(50 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		}
		resp, body = s.ask(t, path)
	}
	if resp.StatusCode != http.StatusOK || !bytes.Equal(body, want) {
		t.Fatalf("%s: %s, %d bytes, want %d", path, resp.Status, len(body), len(want))
	}
	h := resp.Header
	wantType, wantCache := source.Attributes(name)
	if h.Get("Content-Type") != wantType || strings.Join(h["Cache-Control"], " | ") != wantCache {
		t.Errorf("%s: type %q, want %q; caching %q, want %q", path, h.Get("Content-Type"), wantType, h["Cache-Control"], wantCache)
	}
	if h.Get("Content-Encoding") != "" || h.Get("Last-Modified") == "" || (h["Link"] != nil) != strings.HasSuffix(name, "/changes") || h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("%s: header %v", path, h)
	}
	if resp, _ := s.ask(t, path, "If-None-Match", h.Get("ETag")); resp.StatusCode != http.StatusNotModified {
		t.Errorf("%s: asked again: %s, want 304", path, resp.Status)
	}
	if resp, part := s.ask(t, path, "Range", "bytes=2-5", "If-Range", h.Get("ETag")); resp.StatusCode != http.StatusPartialContent || !bytes.Equal(part, want[2:6]) {
		t.Errorf("%s: asked for a range: %s, %q", path, resp.Status, part)
	}
	return h
}

// checkLinks checks that each resource leads to the sets it is in.
func checkLinks(t *testing.T, s *servedSite) {
	for name, sets := range map[string][]string{
		"papers/one two.txt":  {"papers", "all"},
		"more/$deep/{x}.html": {"more", "all"},
	} {
		var want []string
		for _, set := range sets {
			want = append(want, "<"+s.base+"resourcesync/"+set+`/capabilitylist.xml>; rel="resourcesync"`)
		}
		resp, _ := s.ask(t, s.path+name)
		got := strings.Split(strings.ReplaceAll(strings.Join(resp.Header["Link"], ", "), "%24", "$"), ", ")
		if !slices.Equal(got, want) || resp.StatusCode != http.StatusOK {
			t.Errorf("%s: %s, Link %q, want %q", name, resp.Status, got, want)
		}
	}
}

// checkRobots checks that ours is there, until the host has one of its own.
func checkRobots(t *testing.T, s *servedSite) {
	resp, body := s.ask(t, "/robots.txt")
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "Sitemap: "+s.base+"resourcesync/papers/resourcelist.xml") ||
		resp.Header.Get("Cache-Control") != "no-cache" || !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("robots.txt: %s, %v, %s", resp.Status, resp.Header, body)
	}
	save(t, s.root, "robots.txt", "# its own\n")
	if _, body := s.ask(t, "/robots.txt"); string(body) != "# its own\n" {
		t.Errorf("robots.txt of the host is not seen: %q", body)
	}
	if err := os.Remove(filepath.Join(s.root, "robots.txt")); err != nil { // else it would be a resource
		t.Fatal(err)
	}
}

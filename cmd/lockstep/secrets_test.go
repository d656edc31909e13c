package main

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Passwords, in documents of a Source and in the address it is given by.
const (
	locSecret  = "s3cret"
	homeSecret = "h0mepw"
)

// TestSecretsNowhere: user names and passwords in the addresses of a Source's
// documents, in its links, redirects and hubs, and in SOURCE itself, are in no
// output, no name of a file and no state, whatever the command; and what the
// documents say is sent to no server.
func TestSecretsNowhere(t *testing.T) {
	t.Parallel()
	src := newSecretive(t)
	for name, args := range map[string][]string{
		"map":           {"map", "URL/list"},
		"map json":      {"map", "URL/list", "--json"},
		"validate":      {"validate", "URL/", "--sample", "0"},
		"validate json": {"validate", "URL/", "--json", "--sample", "0"},
		"validate list": {"validate", "URL/list"},
		"sync":          {"sync", "URL/", "DEST", "-v", "--log-level", "debug"},
		"sync list":     {"sync", "URL/list", "DEST", "-v", "--log-level", "debug"},
		"sync json":     {"sync", "URL/", "DEST", "--json", "--events", "-", "--log-level", "debug"},
		"sync feed":     {"sync", "URL/feed", "DEST", "-v", "--log-level", "debug"},
		"dry run":       {"sync", "URL/", "DEST", "-n", "-v"},
		"sync redirect": {"sync", "URL/moved", "DEST", "-v", "--log-level", "debug"},
		"sync nothing":  {"sync", "URL/missing", "DEST", "-v", "--log-level", "debug"},
		"sync no URI":   {"sync", "URL/%zz", "DEST", "-v"},
		"audit":         {"audit", "URL/", "DEST", "-v", "--log-level", "debug"},
		"audit json":    {"audit", "URL/", "DEST", "--json", "--log-level", "debug"},
		"diff":          {"diff", "URL/", "--from", "2026-01-01T00:00:00Z", "--to", "2026-01-02T00:00:00Z"},
		"follow":        {"follow", "URL/", "DEST", "--log-level", "debug", "-v"},
		"publish hub":   {"publish", "FILES", "--out", "DEST", "--base-url", "http://x.example/", "--hub", "URL/hub"},
		"publish base":  {"publish", "FILES", "--out", "DEST", "--base-url", "URL/"},
		"publish bad":   {"publish", "sitemaps:URL/list", "--out", "DEST", "--base-url", "http://x.example/"},
		"sync proxy":    {"sync", "URL/", "DEST", "--proxy", "URL/", "-v", "--log-level", "debug"},
		"publish":       {"publish", "sitemap:URL/list", "--out", "DEST", "--base-url", "http://x.example/", "--log-level", "debug"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			home := strings.Replace(src.URL, "http://", "http://somebody:"+homeSecret+"@", 1)
			dest := filepath.Join(dir, "dest")
			var all []string
			if slices.Contains([]string{"sync", "audit", "validate", "follow", "diff"}, args[0]) {
				args = append(args, "--retries", "0")
			}
			for _, a := range args {
				all = append(all, strings.NewReplacer("URL", home, "DEST", dest, "FILES", t.TempDir()).Replace(a))
			}
			if strings.HasPrefix(name, "audit") {
				src.run(t, dir, "sync", home+"/", dest, "--retries", "0")
			}
			out := src.run(t, dir, all...)
			for _, secret := range []string{locSecret, homeSecret, "somebody"} {
				if i := strings.Index(out, secret); i >= 0 {
					t.Errorf("%s in the output: …%s…", secret, out[max(0, i-200):min(len(out), i+100)])
				}
				checkNoFile(t, dir, secret)
			}
		})
	}
	t.Cleanup(func() {
		if n := src.leaks.Load(); n > 0 {
			t.Errorf("%d requests carried what the documents say", n)
		}
	})
}

// checkNoFile looks for a secret in names and contents of files.
func checkNoFile(t *testing.T, dir, secret string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if strings.Contains(rel, secret) {
			t.Errorf("%s in the name of %s", secret, rel)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("%s in %s", secret, rel)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A secretive is a Source that has user names and passwords in all its addresses.
type secretive struct {
	*httptest.Server
	leaks atomic.Int64 // requests that carried a secret of the documents
}

func newSecretive(t *testing.T) *secretive {
	s := &secretive{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

// run runs the program until it ends, or has had some seconds, and returns all
// that it wrote.
func (s *secretive) run(t *testing.T, dir string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), readyLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "lockstep", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "HOME="+dir, "XDG_STATE_HOME="+filepath.Join(dir, "state"))
	var out syncBuffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	if args[0] == "follow" { // it goes on
		select {
		case <-ended:
		case <-time.After(2 * time.Second):
			_ = cmd.Process.Signal(os.Interrupt)
		}
	}
	<-ended
	return out.String()
}

func (s *secretive) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for _, values := range r.Header {
		if strings.Contains(strings.Join(values, " "), locSecret) {
			s.leaks.Add(1)
		}
	}
	if user, password, ok := r.BasicAuth(); ok && (user == "user" || password == locSecret) {
		s.leaks.Add(1)
	}
	at := strings.Replace(s.URL, "http://", "http://user:"+locSecret+"@", 1)
	const space = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`
	w.Header().Set("Link", fmt.Sprintf(`<%s/hub>; rel="hub", <%s/list>; rel="self", <%s/capabilities>; rel="resourcesync"`, at, at, at))
	switch r.URL.Path {
	case "/", "/page":
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<html><head><link rel="resourcesync" href="%s/capabilities"></head></html>`, at)
	case "/robots.txt":
		_, _ = fmt.Fprintf(w, "Sitemap: %s/list\n", at)
	case "/.well-known/resourcesync":
		_, _ = fmt.Fprintf(w, `<urlset %s><rs:ln rel="describedby" href="%s/about"/><rs:md capability="description"/>`+
			`<url><loc>%s/capabilities</loc><rs:md capability="capabilitylist"/><rs:ln rel="describedby" href="%s/about"/></url></urlset>`, space, at, at, at)
	case "/capabilities":
		_, _ = fmt.Fprintf(w, `<urlset %s><rs:ln rel="up" href="%s/.well-known/resourcesync"/><rs:md capability="capabilitylist"/>`+
			`<url><loc>%s/list</loc><rs:md capability="resourcelist"/></url><url><loc>%s/changes</loc><rs:md capability="changelist"/></url>`+
			`<url><loc>%s/hub</loc><rs:md capability="changelist-notification"/></url></urlset>`, space, at, at, at, at)
	case "/list":
		_, _ = fmt.Fprintf(w, `<urlset %s><rs:ln rel="up" href="%s/capabilities"/><rs:md capability="resourcelist" at="2026-01-01T00:00:00Z"/>`+
			`<url><loc>%s/one</loc><lastmod>2026-01-01T00:00:00Z</lastmod><rs:md length="3"/><rs:ln rel="duplicate" href="%s/copy"/><rs:ln rel="describedby" href="%s/meta"/></url>`+
			`<url><loc>%s/absent</loc></url><url><loc>%s/moved-resource</loc></url><url><loc>%s/a b%%zz</loc></url><url><loc>ftp://user:%s@127.0.0.1:1/x</loc></url>`+
			`<url><loc>http://user:%s@127.0.0.1:1/other</loc></url><url><loc>//user:%s@127.0.0.2:1/y</loc></url><sitemap><loc>%s/z</loc></sitemap></urlset>`,
			space, at, at, at, at, at, at, at, locSecret, locSecret, locSecret, at)
	case "/changes":
		_, _ = fmt.Fprintf(w, `<urlset %s><rs:ln rel="up" href="%s/capabilities"/><rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>`+
			`<url><loc>%s/one</loc><rs:md change="updated" datetime="2026-01-02T00:00:00Z" length="3"/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="%s/patch" type="application/x"/></url>`+
			`<url><loc>%s/gone</loc><rs:md change="deleted" datetime="2026-01-02T00:00:01Z"/></url></urlset>`, space, at, at, at, at)
	case "/feed":
		w.Header().Set("Content-Type", "application/atom+xml")
		_, _ = fmt.Fprintf(w, `<feed xmlns="http://www.w3.org/2005/Atom"><id>%s/feed</id><title>x</title><updated>2026-01-01T00:00:00Z</updated><link rel="self" href="%s/feed"/>`+
			`<link rel="prev-archive" href="%s/none"/><entry><id>urn:x:1</id><title>x</title><updated>2026-01-01T00:00:00Z</updated>`+
			`<link rel="alternate" type="text/plain" href="%s/one"/></entry></feed>`, at, at, at, at)
	case "/moved":
		http.Redirect(w, r, at+"/list", http.StatusFound)
	case "/moved-resource":
		http.Redirect(w, r, strings.Replace(at, "http:", "ftp:", 1)+"/one", http.StatusFound)
	case "/one", "/copy":
		_, _ = w.Write([]byte("one"))
	default:
		http.Error(w, "no such thing", http.StatusNotFound)
	}
}

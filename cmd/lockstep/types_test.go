package main

import (
	"html"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestTypesAsServed: the type that a document states of a resource, or of what it
// links to, is the Content-Type that is served at that address.
func TestTypesAsServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := filepath.Join(dir, "files")
	for name, text := range map[string]string{
		"empty": "", "empty.html": "", "no-extension": "<html><body>x", "data": `{"a":1}`, "UPPER.JSON": "{}", "table": "a,b\n1,2\n",
		"wide": "\xff\xfe\x00h", "x.unknown-extension": "hi\n", ".hidden": "hi\n", "sub.txt/read me": "hi\n", "a.tar.gz": "x",
		"edge": strings.Repeat(" ", 3070) + `<?xml version="1.0"?><a/>`, "xml": `<?xml version="1.0"?><a/>`, "script": "#!/bin/sh\n", "pdf": "%PDF-1.4",
		"index.html": "<p>x</p>", "ü.TXT": "x", "x.css": "a{}", "x.js": "1", "x.svg": "<svg/>", "x.md": "# x",
	} {
		path := filepath.Join(files, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("no-extension", filepath.Join(files, "alias")); err != nil {
		t.Log(err) // where there are none
	}
	p, err := startReady(exec.Command("lockstep", "serve", files, "--listen", "127.0.0.1:0", "--state", filepath.Join(dir, "state"), "--dump", "--atom-pmh", "--versions"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	get := func(uri string) (contentType, text string) {
		t.Helper()
		r, err := http.Get(uri)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Errorf("GET %s: %s, %v", uri, r.Status, err)
		}
		return r.Header.Get("Content-Type"), string(b)
	}
	entry := regexp.MustCompile(`(?s)<url><loc>(.*?)</loc>.*?</url>`)
	typed := regexp.MustCompile(`<rs:md [^>]*type="([^"]*)"`)
	link := regexp.MustCompile(`<(?:rs:ln|link) [^>]*>`)
	attr := func(element, name string) string {
		if m := regexp.MustCompile(` ` + name + `="([^"]*)"`).FindStringSubmatch(element); m != nil {
			return html.UnescapeString(m[1])
		}
		return ""
	}
	compared := 0
	compare := func(doc, uri, stated string) {
		if stated == "" || stated == "text/event-stream" || !strings.HasPrefix(uri, p.address) { // of streams, those ask who want them
			return
		}
		compared++
		if served, _ := get(uri); served != stated {
			t.Errorf("%s states type %s of %s, which is served with %s", doc, stated, uri, served)
		}
	}
	waitFor(t, "the Resource Dump", func() bool {
		_, list := get(p.address + "resourcesync/main/capabilitylist.xml")
		return strings.Contains(list, "resourcedump.xml")
	})
	for _, doc := range []string{".well-known/resourcesync", "resourcesync/main/capabilitylist.xml", "resourcesync/main/resourcelist.xml", "resourcesync/main/resourcedump.xml", "resourcesync/main/atom.xml"} {
		_, text := get(p.address + doc)
		for _, m := range entry.FindAllStringSubmatch(text, -1) {
			if md := typed.FindStringSubmatch(m[0]); md != nil {
				compare(doc, html.UnescapeString(m[1]), html.UnescapeString(md[1]))
			}
		}
		for _, l := range link.FindAllString(text, -1) {
			compare(doc, attr(l, "href"), attr(l, "type"))
		}
	}
	if compared < 40 {
		t.Errorf("only %d types were compared", compared)
	}
}

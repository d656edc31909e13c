package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// refusedEntries are entries that no Destination could use, with what is said of
// them, as a program writes them: the URI, and links.
var refusedEntries = []struct{ name, uri, links, want string }{
	{"relation", "https://r.example.org/x", `{"rel":"my-own","href":"https://example.org/"}`, `relation "my-own"`},
	{"second canonical", "https://r.example.org/x", `{"rel":"canonical","href":"https://example.org/1"},{"rel":"Canonical","href":"https://example.org/2"}`, "a second canonical"},
	{"scheme", "ftp://r.example.org/x", "", "cannot be fetched"},
	{"fragment", "https://r.example.org/x#part", "", "fragment"},
}

// run runs the program in a directory and returns its exit code and what it says.
func runIn(t *testing.T, dir string, args ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("lockstep", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	code, err := exitCodeOf(err)
	if err != nil {
		t.Fatal(err)
	}
	return code, string(out)
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestRefusedWithPlace: entries that no Destination could use are refused with the
// line of JSON Lines, the sidecar file, or the place in the request they are in;
// links may lead anywhere.
func TestRefusedWithPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	entry := func(uri, links string) string { return fmt.Sprintf(`{"uri":%q,"length":1,"links":[%s]}`, uri, links) }
	good := entry("https://r.example.org/good", `{"rel":"author","href":"mailto:a@example.org"},{"rel":"urn:x:rel","href":"urn:x:y"}`)

	writeFile(t, filepath.Join(dir, "api.yaml"), "sets:\n  - {name: items, from: api}\n")
	cmd := exec.Command("lockstep", "serve", "--config", "api.yaml", "--listen", "127.0.0.1:0", "--state", "api-state")
	cmd.Dir = dir
	src, err := startReady(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.kill)
	token, err := os.ReadFile(filepath.Join(dir, "api-state/admin-token"))
	if err != nil {
		t.Fatal(err)
	}
	header := map[string]string{"Content-Type": "application/json", "Authorization": "Bearer " + strings.TrimSpace(string(token))}

	for i, tt := range refusedEntries {
		file := fmt.Sprintf("%d.jsonl", i)
		writeFile(t, filepath.Join(dir, file), good+"\n"+entry(tt.uri, tt.links)+"\n")
		code, said := runIn(t, dir, "publish", "jsonl:"+file, "--out", fmt.Sprint("out", i), "--state", fmt.Sprint("state", i), "--base-url", "https://r.example.org/")
		if code != 1 || !strings.Contains(said, file) || !strings.Contains(said, "line 2") || !strings.Contains(said, tt.want) {
			t.Errorf("JSON Lines, %s: exit %d, %s, want file, line and %q", tt.name, code, said, tt.want)
		}

		batch := knock{"POST", "/-/api/v1/sets/items/changes", fmt.Sprintf(`[{"uri":"https://r.example.org/good","change":"created"},{"change":"created",%s]`, strings.TrimPrefix(entry(tt.uri, tt.links), "{")), header}
		status, text, err := batch.send(src.address)
		if err != nil || status != http.StatusBadRequest && status != http.StatusUnprocessableEntity || !strings.Contains(text, tt.want) && !strings.Contains(jsonText(text), tt.want) {
			t.Errorf("API, %s: %d %s, %v, want a refusal with %q", tt.name, status, text, err, tt.want)
		}

		if tt.links == "" {
			continue
		}
		sidecars := fmt.Sprint("sidecars", i)
		writeFile(t, filepath.Join(dir, sidecars, "files/paper.txt"), "a paper")
		writeFile(t, filepath.Join(dir, sidecars, "files/other.txt"), "another")
		writeFile(t, filepath.Join(dir, sidecars, "files/paper.txt.links.json"), `{"links":[`+tt.links+`]}`)
		writeFile(t, filepath.Join(dir, sidecars, "site.yaml"), "base_url: https://r.example.org/\nstate: state\nsets:\n  - {from: 'dir:files', sidecar: .links.json}\n")
		code, said = runIn(t, filepath.Join(dir, sidecars), "publish", "--config", "site.yaml", "--out", "out")
		if code != 1 || !strings.Contains(said, "paper.txt.links.json") || !strings.Contains(said, tt.want) {
			t.Errorf("sidecar, %s: exit %d, %s, want the file and %q", tt.name, code, said, tt.want)
		}
	}
	if text, err := get(src.address + "resourcesync/items/resourcelist.xml"); err != nil || strings.Contains(text, "<url>") {
		t.Errorf("a batch with a refused entry is there by half: %v, %s", err, text)
	}
	writeFile(t, filepath.Join(dir, "good.jsonl"), good+"\n")
	if code, said := runIn(t, dir, "publish", "jsonl:good.jsonl", "--out", "out", "--state", "state", "--base-url", "https://r.example.org/"); code != 0 {
		t.Errorf("links of any scheme: exit %d, %s", code, said)
	}
}

// jsonText returns the error of an answer without JSON's escapes.
func jsonText(text string) string {
	var answer any
	if json.Unmarshal([]byte(text), &answer) != nil {
		return ""
	}
	return strings.ReplaceAll(fmt.Sprint(answer), `\"`, `"`)
}

// TestUpstreamKeepsResource: a resource of an upstream whose links cannot be
// published is published without them, and that is said.
func TestUpstreamKeepsResource(t *testing.T) {
	t.Parallel()
	const sitemap = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">` +
		`<url><loc>BASE/kept</loc><lastmod>2026-01-01T00:00:00Z</lastmod><rs:ln rel="my-own" href="https://example.org/"/>` +
		`<rs:ln rel="canonical" href="https://example.org/1"/><rs:ln rel="canonical" href="https://example.org/2"/></url>` +
		`<url><loc>BASE/other</loc><lastmod>2026-01-01T00:00:00Z</lastmod></url></urlset>`
	const feed = `<feed xmlns="http://www.w3.org/2005/Atom"><id>urn:x:feed</id><title>t</title><updated>2026-01-02T00:00:00Z</updated>` +
		`<author><name>a</name></author><link rel="self" href="BASE/feed.atom"/>` +
		`<entry><id>BASE/kept</id><title>t</title><updated>2026-01-01T00:00:00Z</updated><content src="BASE/kept" type="text/plain"/>` +
		`<link rel="my-own" href="https://example.org/"/><link rel="canonical" href="https://example.org/1"/><link rel="canonical" href="https://example.org/2"/></entry></feed>`
	var base string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sitemap.xml":
			_, _ = fmt.Fprint(w, strings.ReplaceAll(sitemap, "BASE", base))
		case "/feed.atom":
			w.Header().Set("Content-Type", "application/atom+xml")
			_, _ = fmt.Fprint(w, strings.ReplaceAll(feed, "BASE", base))
		case "/kept", "/other":
			_, _ = fmt.Fprint(w, "content")
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	base = server.URL
	for origin, path := range map[string]string{"sitemap": "/sitemap.xml", "atom-pmh": "/feed.atom"} {
		dir := t.TempDir()
		code, said := runIn(t, dir, "publish", origin+":"+base+path, "--out", "out", "--state", "state", "--base-url", "https://r.example.org/", "--allow-private")
		text, err := os.ReadFile(filepath.Join(dir, "out/resourcesync/main/resourcelist.xml"))
		if code != 0 || err != nil || !strings.Contains(string(text), "<loc>"+base+"/kept</loc>") {
			t.Fatalf("%s: exit %d, %v, %s\n%s", origin, code, err, said, text)
		}
		if strings.Contains(string(text), "my-own") || strings.Count(string(text), `rel="canonical"`) > 1 {
			t.Errorf("%s: links that no Destination could use are published: %s", origin, text)
		}
		if !strings.Contains(said, "my-own") && !strings.Contains(said, "link") {
			t.Errorf("%s: it is not said that links were left out: %s", origin, said)
		}
	}
}

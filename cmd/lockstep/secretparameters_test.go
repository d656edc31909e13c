package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestSecretParameters: the value of a secret parameter, which all addresses of a Source and
// the address it is given by have, is in no output for people. Of JSON, it is only in fields
// that identify something.
func TestSecretParameters(t *testing.T) {
	t.Parallel()
	const secret = "s3cretvalue"
	var at string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const space = `xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/"`
		loc := func(path string) string { return at + path + "?token=" + secret }
		switch r.URL.Path {
		case "/capabilities":
			_, _ = fmt.Fprintf(w, `<urlset %s><rs:md capability="capabilitylist"/><url><loc>%s</loc><rs:md capability="resourcelist"/></url>`+
				`<url><loc>%s</loc><rs:md capability="changelist"/></url></urlset>`, space, loc("/list"), loc("/changes"))
		case "/list":
			_, _ = fmt.Fprintf(w, `<urlset %s><rs:ln rel="up" href="%s"/><rs:md capability="resourcelist" at="2026-01-01T00:00:00Z" completed="never"/>`+
				`<url><loc>%s</loc><rs:md length="3"/></url><url><loc>%s</loc></url><url><loc>ftp://h.invalid/a?token=%s</loc></url></urlset>`,
				space, loc("/capabilities"), loc("/one"), loc("/missing"), secret)
		case "/one":
			_, _ = w.Write([]byte("one"))
		default: // also the Change List, which is announced
			http.Error(w, "no such thing", http.StatusNotFound)
		}
	}))
	t.Cleanup(s.Close)
	at = s.URL
	dir, source := t.TempDir(), at+"/capabilities?token="+secret
	for _, args := range [][]string{
		{"sync", source, "mirror", "--retries", "0", "-v", "--log-level", "debug"},
		{"sync", source, "mirror", "--retries", "0", "--log-format", "json", "--log-file", "log", "-n", "-v"},
		{"sync", source, "mirror", "--retries", "0", "--json"},
		{"audit", source, "mirror", "--retries", "0"},
		{"audit", source, "mirror", "--retries", "0", "--json"},
		{"status", "mirror"},
		{"status", "mirror", "--json"},
		{"validate", source, "--retries", "0"},
		{"validate", source, "--retries", "0", "--json"},
		{"sync", source, "/dev/null/mirror?token=" + secret},
		{"sync", source, "/dev/null/mirror?token=" + secret, "--json"},
		{"publish", "sitemap:" + at + "/list?token=" + secret, "--out", "out", "--base-url", "http://h.invalid/", "--retries", "0", "-v"},
	} {
		cmd := exec.Command("lockstep", args...)
		cmd.Dir = dir
		var stdout, stderr strings.Builder
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		_ = cmd.Run() // failures are part of the subject
		for line := range strings.Lines(stderr.String()) {
			if strings.Contains(line, secret) {
				t.Errorf("%s: on stderr: %s", strings.Join(args, " "), line)
			}
		}
		if slices.Contains(args, "--json") && stdout.Len() > 0 { // wrong usage has no object
			var result any
			if err := json.Unmarshal([]byte(stdout.String()), &result); err != nil {
				t.Errorf("%s: %v", strings.Join(args, " "), err)
			}
			checkSentences(t, strings.Join(args, " "), "", result, secret)
		} else if strings.Contains(stdout.String(), secret) {
			t.Errorf("%s: on stdout: %s", strings.Join(args, " "), &stdout)
		}
	}
	if _, out := runIn(t, dir, "map", at+"/one?token="+secret, "--source", at); !strings.Contains(out, "one%~=3Ftoken="+secret) {
		t.Errorf("map prints %s, want the whole name", out)
	}
}

// checkSentences looks for a secret in the fields of a JSON value that identify nothing.
func checkSentences(t *testing.T, where, key string, v any, secret string) {
	t.Helper()
	switch v := v.(type) {
	case map[string]any:
		for key, v := range v {
			checkSentences(t, where, key, v, secret)
		}
	case []any:
		for _, v := range v {
			checkSentences(t, where, key, v, secret)
		}
	case string:
		identifies := []string{"uri", "used_uri", "source", "sources", "sets", "set", "document", "destination", "path", "command"}
		if strings.Contains(v, secret) && !slices.Contains(identifies, key) {
			t.Errorf("%s: %s is %q", where, key, v)
		}
	}
}

package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestNotKnownToBeComplete: where a Source has changes alone, sync and audit end
// with 0, but "in step" does not stand alone, and one line names the reason and the
// command, on every run.
func TestNotKnownToBeComplete(t *testing.T) {
	t.Parallel()
	const root = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	base := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, ok := map[string]string{
			"/.well-known/resourcesync": root + `<rs:md capability="description"/><url><loc>` + base + `/cl.xml</loc><rs:md capability="capabilitylist"/></url></urlset>`,
			"/cl.xml":                   root + `<rs:md capability="capabilitylist"/><url><loc>` + base + `/ch.xml</loc><rs:md capability="changelist"/></url></urlset>`,
			"/ch.xml":                   root + `<rs:md capability="changelist" from="2026-01-01T00:00:00Z"/><url><loc>` + base + `/a</loc><rs:md change="created" datetime="2026-01-02T00:00:00Z"/></url></urlset>`,
			"/a":                        "a",
		}[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = w.Write([]byte(text))
	}))
	defer server.Close()
	base = server.URL
	dest := filepath.Join(t.TempDir(), "dest")
	line := regexp.MustCompile(`(?m)^in step with \S+(, as of \S+)?, as far as it can be known:\n  not known to be complete: set \S+ it was made from a Change List alone, ` +
		`and what was at the Source before 2026-01-01T00:00:00Z is unknown; lockstep sync \S+ \S+ --baseline closes it, once the Source publishes a Resource List or Resource Dump$`)
	for _, verb := range []string{"sync", "sync", "audit"} {
		out, err := exec.Command("lockstep", verb, base, dest).CombinedOutput()
		if err != nil || !line.Match(out) {
			t.Errorf("%s: %v\n%s", verb, err, out)
		}
		out, err = exec.Command("lockstep", verb, base, dest, "--json").Output()
		if err != nil || !strings.Contains(string(out), `"complete":false`) || !strings.Contains(string(out), `"unproven":[{`) {
			t.Errorf("%s --json: %v\n%s", verb, err, out)
		}
	}
	said := []string{`^in step with .*, as far as it can be known; 0 pending`, `^  not known to be complete: set \S+ it was made from a Change List alone`}
	checkStatus(t, dest, 0, append(said, `^\S+ +unproven `)...)
	if _, stdout, _ := lockstepRun(t, "status", dest, "--json"); !strings.Contains(stdout, `"unproven":["set `) {
		t.Errorf("status --json: %s", stdout)
	}
	_, followed := start(t, t.TempDir(), "follow", base, dest)
	await(t, followed, "ready")
	if !line.MatchString(followed.String()) {
		t.Errorf("follow says\n%s", followed)
	}
	checkStatus(t, dest, 0, said...)
}

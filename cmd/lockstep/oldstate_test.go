package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"lockstep/destination"
)

// The Source of the mirrors in testdata/state, as it is now: one of its
// resources has changed since, and one can be had that could not be then.
var oldSource = map[string]string{
	"/capabilitylist.xml": `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="http://source.example/.well-known/resourcesync"/><rs:md capability="capabilitylist"/>
<url><loc>http://source.example/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>
<url><loc>http://source.example/changelist.xml</loc><rs:md capability="changelist"/></url></urlset>`,
	"/changelist.xml": `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="http://source.example/capabilitylist.xml"/><rs:md capability="changelist" from="2026-01-01T00:00:00Z"/>
<url><loc>http://source.example/res/two.txt</loc><rs:md change="updated" datetime="2026-01-02T00:00:00Z" length="4"/></url></urlset>`,
	"/resourcelist.xml": `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="up" href="http://source.example/capabilitylist.xml"/><rs:md capability="resourcelist" at="2026-01-03T00:00:00Z"/>
<url><loc>http://source.example/res/one.txt</loc><rs:md length="29" type="text/x-one"/><rs:ln rel="collection" href="urn:c"/></url></urlset>`,
	"/res/one.txt":   "resource one as it was first\n",
	"/res/two.txt":   "two\n",
	"/res/three.txt": "resource three as it was first\n",
}

// A mirror made by an earlier version is gone on with: what it holds is held,
// what it owes is owed, what changed since is brought.
func TestOldState(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("lockstep") // the test binary under this name, by testscript
	if err != nil {
		t.Fatal(err)
	}
	states, err := filepath.Glob("testdata/state/*")
	if err != nil || len(states) == 0 {
		t.Fatalf("states: %v, %v", states, err)
	}
	for _, state := range states {
		t.Run(filepath.Base(state), func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			var asked []string
			proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				asked = append(asked, r.URL.Path)
				mu.Unlock()
				text, ok := oldSource[r.URL.Path]
				if !ok || r.URL.Host != "source.example" {
					http.NotFound(w, r)
					return
				}
				_, _ = w.Write([]byte(text))
			}))
			defer proxy.Close()

			dest := filepath.Join(t.TempDir(), "mirror")
			if err := os.CopyFS(dest, os.DirFS(state)); err != nil {
				t.Fatal(err)
			}
			own := filepath.Join(dest, ".lockstep")
			if err := os.Mkdir(own, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dest, "state.db"), filepath.Join(own, "state.db")); err != nil {
				t.Fatal(err)
			}
			database, err := os.ReadFile(filepath.Join(own, "state.db"))
			if err != nil {
				t.Fatal(err)
			}
			said, err := exec.Command(program, "status", dest).CombinedOutput()
			if code, _ := exitCodeOf(err); code != exitFailed || !strings.Contains(string(said), "1 pending; when it was last in step is unknown: this is recorded from the next run on") {
				t.Errorf("status before: %d\n%s", code, said)
			}
			if now, err := os.ReadFile(filepath.Join(own, "state.db")); err != nil || !bytes.Equal(now, database) {
				t.Errorf("status has changed the state, %v", err)
			}
			c := exec.Command(program, "sync", "http://source.example/capabilitylist.xml", dest, "--proxy", proxy.URL, "--json")
			var stderr bytes.Buffer
			c.Stderr = &stderr
			out, err := c.Output()
			if err != nil {
				t.Fatalf("sync: %v\n%s", err, &stderr)
			}
			var r destination.Report
			if err := json.Unmarshal(out, &r); err != nil {
				t.Fatal(err)
			}
			if r.Mode != destination.ModeIncremental || r.Created != 1 || r.Updated != 1 || r.Failed != 0 {
				t.Errorf("report: %s", out)
			}
			for _, name := range []string{"one", "two", "three"} {
				text, err := os.ReadFile(filepath.Join(dest, "res", name+".txt"))
				if err != nil || string(text) != oldSource["/res/"+name+".txt"] {
					t.Errorf("%s: %q, %v", name, text, err)
				}
			}
			if all := strings.Join(asked, " "); strings.Contains(all, "one.txt") || strings.Contains(all, "resourcelist") {
				t.Errorf("asked for %s", all)
			}
			if said, err := exec.Command(program, "status", dest).CombinedOutput(); err != nil || !strings.HasPrefix(string(said), "in step with http://source.example/capabilitylist.xml as of ") {
				t.Errorf("status after: %v\n%s", err, said)
			}
			// The second run adds what the Source states of the resources, without their content.
			for range 2 {
				if out, err := exec.Command(program, "sync", "http://source.example/capabilitylist.xml", dest, "--proxy", proxy.URL).CombinedOutput(); err != nil {
					t.Fatalf("sync: %v\n%s", err, out)
				}
			}
			out, err = exec.Command(program, "map", "--json", "--mirror", dest, "http://source.example/res/one.txt").CombinedOutput()
			if err != nil || !strings.Contains(string(out), `"type":"text/x-one","links":[{"rel":"collection","href":"urn:c"}],"stated":{"length":29}`) {
				t.Errorf("map --mirror: %s, %v", out, err)
			}
			if all := strings.Join(asked, " "); strings.Contains(all, "one.txt") || strings.Count(all, "resourcelist") != 1 {
				t.Errorf("asked for %s", all)
			}
		})
	}
}

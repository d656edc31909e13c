package main

import (
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestPyoai harvests what pyoai 2.5.2, the server library of Python, answered
// (docs/interoperability.md): three parts of a list, then what has changed since.
// Its tokens are escaped twice, and must come back as they are.
func TestPyoai(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		name := "none"
		switch {
		case q.Get("verb") == "Identify":
			name = "identify"
		case q.Get("verb") != "ListRecords":
		case q.Get("resumptionToken") == "metadataPrefix%3Doai_dc%26cursor%3D5":
			name = "list2"
		case q.Get("resumptionToken") == "metadataPrefix%3Doai_dc%26cursor%3D10":
			name = "list3"
		case q.Get("metadataPrefix") == "oai_dc" && q.Has("from"):
			name = "changes"
		case q.Get("metadataPrefix") == "oai_dc":
			name = "list1"
		}
		asked <- name
		w.Header().Set("Content-Type", "text/xml; charset=utf-8")
		http.ServeFile(w, r, filepath.Join("testdata", "interop", "pyoai", name+".xml"))
	}))
	defer server.Close()
	dest := filepath.Join(t.TempDir(), "dest")
	run := func(want string) map[string]string {
		t.Helper()
		out, err := exec.Command("lockstep", "sync", "oai-pmh:"+server.URL+"/oai", dest).CombinedOutput()
		if err != nil || !strings.Contains(string(out), want) {
			t.Fatalf("%v, want %q in:\n%s", err, want, out)
		}
		return readMirror(t, dest)
	}
	files := run("12 created, 0 updated, 0 deleted")
	if got := files["oai:example.org:4.xml"]; len(files) != 12 || !strings.Contains(got, "<dc:title>Record 4 — «é» &amp; &lt;b&gt;</dc:title>") {
		t.Errorf("%d files, one of them %s", len(files), got)
	}
	files = run("0 created, 1 updated, 1 deleted")
	if _, ok := files["oai:example.org:3.xml"]; ok || len(files) != 11 || !strings.Contains(files["oai:example.org:4.xml"], "2020-02-21T") {
		t.Errorf("after a change and a deletion there are %d files: %v", len(files), files["oai:example.org:4.xml"])
	}
	close(asked)
	var all []string
	for name := range asked {
		all = append(all, name)
	}
	if got := strings.Join(all, " "); !strings.HasSuffix(got, "list1 list2 list3 identify changes") || strings.Contains(got, "none") {
		t.Errorf("asked for %s", got)
	}
}

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/oaipmh"
)

// sheet is a record in MODS that metha once harvested from us.
const sheet = `<mods xmlns="http://www.loc.gov/mods/v3" version="3.7"><titleInfo><title>Sheet 7 &amp; others — Ærøskøbing</title></titleInfo></mods>`

// TestMetha has a repository of ours answer what metha 0.4.21 asks
// (docs/interoperability.md), byte for byte: who it is, all records, those of a
// set or a format, a day at a time.
func TestMetha(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "map.xml", sheet)
	write(t, dir, "one.txt", "one\n")
	write(t, dir, "two.txt", "two\n")
	p, err := startReady(exec.Command("lockstep", "serve", dir, "--oai-pmh", "--listen", "127.0.0.1:0", "--state", t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	raw, err := os.ReadFile(filepath.Join("testdata", "interop", "metha", "requests.http"))
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	for request := range bytes.SplitSeq(raw, []byte("\r\n\r\n")) {
		if len(request) == 0 {
			continue
		}
		asked++
		request = bytes.Replace(request, []byte("Accept-Encoding: gzip"), []byte("Connection: close"), 1)
		path := strings.Fields(string(request))[1]
		status, body := exchange(t, p.address, append(request, "\r\n\r\n"...))
		if status != http.StatusOK {
			t.Errorf("%s: status %d", path, status)
			continue
		}
		u, err := url.Parse(path)
		if err != nil {
			t.Fatal(err)
		}
		checkMetha(t, u.Query(), body)
	}
	if asked != 10 {
		t.Errorf("%d requests, want 10", asked)
	}
}

// checkMetha checks an answer by what was asked for. The files are younger than
// the day of the recording.
func checkMetha(t *testing.T, q url.Values, body string) {
	t.Helper()
	if q.Get("verb") == string(oaipmh.VerbIdentify) {
		if !strings.Contains(body, "<deletedRecord>persistent</deletedRecord>") {
			t.Errorf("%v: %s", q, body)
		}
		return
	}
	var rec oaipmh.Record
	r, n := oaipmh.NewReader(strings.NewReader(body), oaipmh.ReaderOptions{}), 0
	err := r.Read(&rec)
	for ; err == nil; err = r.Read(&rec) {
		n++
	}
	switch {
	case oaipmh.HasCode(err, oaipmh.CodeNoRecordsMatch):
		if !q.Has("until") { // a day before, or after, the files were made
			t.Errorf("%v: %v", q, err)
		}
	case !errors.Is(err, io.EOF):
		t.Errorf("%v: %v in %s", q, err, body)
	case q.Get("metadataPrefix") == "mods" && n != 1, q.Get("metadataPrefix") != "mods" && n != 3:
		t.Errorf("%v: %d records", q, n)
	}
}

// TestMethaCache harvests what metha 0.4.21 has kept of a repository of ours: not
// the responses but its own writing of them, of which the lists are served.
func TestMethaCache(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		text := `<Identify><repositoryName>metha</repositoryName><baseURL>http://` + r.Host + `/</baseURL><protocolVersion>2.0</protocolVersion>` +
			`<adminEmail>a@example.org</adminEmail><earliestDatestamp>2026-11-21T00:00:00Z</earliestDatestamp>` +
			`<deletedRecord>transient</deletedRecord><granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>`
		if q.Get("verb") == string(oaipmh.VerbListRecords) {
			kept, err := os.ReadFile(filepath.Join("testdata", "interop", "metha", filepath.Base(q.Get("metadataPrefix"))+".xml"))
			if err != nil {
				http.Error(w, err.Error(), http.StatusNotFound)
				return
			}
			text = string(kept)
			text = text[strings.Index(text, "<ListRecords>"):]
			text = text[:strings.Index(text, "</ListRecords>")] + "</ListRecords>"
		}
		w.Header().Set("Content-Type", "text/xml")
		fmt.Fprintf(w, `<OAI-PMH xmlns="http://www.openarchives.org/OAI/2.0/"><responseDate>2026-11-21T19:13:52Z</responseDate><request>http://%s/</request>%s</OAI-PMH>`, r.Host, text)
	}))
	defer server.Close()
	harvest := func(prefix string) map[string]string {
		t.Helper()
		dest := filepath.Join(t.TempDir(), "dest")
		out, err := exec.Command("lockstep", "sync", "oai-pmh:"+server.URL+"/?metadataPrefix="+prefix, dest).CombinedOutput()
		if err != nil {
			t.Fatalf("%v:\n%s", err, out)
		}
		return readMirror(t, dest)
	}
	if files := harvest("oai_dc"); len(files) != 3 || !strings.Contains(files["http:/%~@/127.0.0.1:18491/two.txt.xml"], "<dc:title>two.txt</dc:title>") {
		t.Errorf("files %q", files)
	}
	files := harvest("mods")
	if len(files) != 1 {
		t.Errorf("files %q", files)
	}
	for name, text := range files {
		if !strings.Contains(text, "<title>Sheet 7 &amp; others — Ærøskøbing</title>") || strings.Contains(text, "OAI") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

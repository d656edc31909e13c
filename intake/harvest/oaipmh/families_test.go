package oaipmh_test

import (
	"errors"
	"html"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/oaipmh"
)

const families = "../../../oaipmh/testdata/repositories"

var tokenIn = regexp.MustCompile(`<resumptionToken[^>]*[^/>]>([^<]+)<`)

// TestOAIPMHFamilies harvests what repositories of several families send.
func TestOAIPMHFamilies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"arxiv", "dspace", "eprints", "invenio", "ojs"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(family(t, name))
			t.Cleanup(server.Close)
			s := &stranger{harvested: &harvested{t: t, url: server.URL + "/oai", cat: catalog.NewMem(nil), contents: new(intake.MemContents)}}
			s.o.Contents, s.o.State = s.contents, filepath.Join(t.TempDir(), "state.json")
			s.open()
			if r := s.expect(""); r.Unreadable.Count+r.Skipped.Count > 0 {
				t.Errorf("report = %+v", r)
			}
			if got, want := s.summary(), fileOf(t, name, "want.txt"); got != want {
				t.Errorf("held:\n%swant:\n%s", got, want)
			}
			if st := s.oai.Status(); !st.Whole || !st.Complete || !st.Until.Equal(time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)) {
				t.Errorf("status = %+v", st)
			}
			s.open()
			if r := s.expect(""); r.Changed() || r.Unreadable.Count+r.Skipped.Count > 0 {
				t.Errorf("second report = %+v", r)
			}
		})
	}
}

func fileOf(t *testing.T, family, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(families, family, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// family answers as a repository of the family does.
func family(t *testing.T, name string) http.Handler {
	first := fileOf(t, name, "first.xml")
	token := html.UnescapeString(tokenIn.FindStringSubmatch(first)[1])
	var lists atomic.Int64
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		answer := "first.xml"
		switch q.FormValue("verb") {
		case "Identify":
			answer = "identify.xml"
		case "ListRecords":
			switch {
			case q.FormValue("resumptionToken") == token:
				answer = "second.xml"
			case q.Form.Has("resumptionToken"):
				t.Errorf("asked for %q, want the token %q", q.URL.RawQuery, token)
			case q.Form.Has("from"):
				answer = "from.xml"
			}
			if n := lists.Add(1); name == "arxiv" && n == 2 {
				w.Header().Set("Retry-After", "1")
				http.Error(w, "<html><body>Retry after 1 second</body></html>", http.StatusServiceUnavailable)
				return
			}
		default:
			t.Errorf("asked for %s", q.URL)
		}
		w.Header().Set("Content-Type", "text/xml;charset=utf-8")
		b, err := os.ReadFile(filepath.Join(families, name, answer))
		if errors.Is(err, fs.ErrNotExist) {
			b = []byte(`<OAI-PMH xmlns="` + oaipmh.Namespace + `"><responseDate>2026-03-01T08:00:00Z</responseDate>` + oaiError(oaipmh.CodeNoRecordsMatch) + `</OAI-PMH>`)
		}
		if name == "invenio" && answer == "from.xml" {
			w.WriteHeader(http.StatusUnprocessableEntity)
		}
		_, _ = w.Write(b)
	})
}

package oaipmh_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"lockstep/intake"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
)

// TestOAIPMHRecordsWithoutIdentifier: a record without an identifier makes a harvest
// incomplete, and nothing is deleted.
func TestOAIPMHRecordsWithoutIdentifier(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(string) string{
		"no identifier":    func(r string) string { return strings.Replace(r, "<identifier>b</identifier>", "", 1) },
		"empty identifier": func(r string) string { return strings.Replace(r, ">b<", "><", 1) },
		"no header": func(r string) string {
			return strings.NewReplacer("<header>", "<head>", "</header>", "</head>").Replace(r)
		},
		"foreign record":     func(r string) string { return strings.Replace(r, "<record>", `<record xmlns="urn:x">`, 1) },
		"foreign header":     func(r string) string { return strings.Replace(r, "<header>", `<header xmlns="urn:x">`, 1) },
		"foreign identifier": func(r string) string { return strings.Replace(r, "<identifier>", `<identifier xmlns="urn:x">`, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{FullInterval: 1})
			records := oaiRecord("a", "x") + oaiRecord("b", "x") + oaiRecord("c", "x")
			s.list = func(url.Values) string { return oaiList(records, "") }
			scan := func(incomplete bool, want int) {
				t.Helper()
				r, err := s.oai.Scan(t.Context())
				must(t, err)
				if got := r.Unreadable.Count > 0; got != incomplete {
					t.Errorf("incomplete: %v, want %v: %v", got, incomplete, r.Unreadable.First)
				}
				if got := len(s.held()); got != want {
					t.Errorf("%d records are held, want %d", got, want)
				}
			}
			scan(false, 3)
			s.while(func() { records = oaiRecord("a", "x") + change(oaiRecord("b", "x")) })
			scan(true, 3)
			s.while(func() { records = oaiRecord("a", "x") + oaiRecord("b", "x") })
			scan(false, 2)
		})
	}
}

// TestOAIPMHJunkBeforeXML: what a program printed in front of its XML document is
// left out in the answers to every verb, with a warning, and nothing is missing.
func TestOAIPMHJunkBeforeXML(t *testing.T) {
	t.Parallel()
	for name, junk := range map[string]string{
		"byte order marks": "\xef\xbb\xbf\xef\xbb\xbf",
		"PHP warning":      "<br />\n<b>Warning</b>: mysql_connect() & more in <b>oai.php</b> on line <b>3</b><br />\n",
		"comment":          "<!-- served by x -->\n",
		"text":             "Notice: undefined index <x\n\n",
		"much":             strings.Repeat("Deprecated: y\n", 4000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			warned := map[string]int{}
			s := newStranger(t, oaiintake.Options{OnEvent: func(e intake.Event) {
				if e.Kind == intake.EventUnreadable && strings.Contains(e.Err.Error(), "left out") {
					mu.Lock()
					defer mu.Unlock()
					warned[e.Path]++
				}
			}})
			s.list = func(url.Values) string { return oaiList(oaiRecord("a", "x")+oaiRecord("b", "y"), "") }
			s.get = func(id string) string { return "<GetRecord>" + oaiRecord(id, "x") + "</GetRecord>" }
			s.whole = func(w http.ResponseWriter, _ *http.Request, text string) { _, _ = io.WriteString(w, junk+text) }
			r, err := s.oai.Scan(t.Context())
			must(t, err)
			if r.Unreadable.Count > 0 || len(s.held()) != 2 {
				t.Errorf("%+v", r)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(warned) != 2 { // Identify and ListRecords, once each
				t.Errorf("warned of %v", warned)
			}
		})
	}
}

// TestOAIPMHJunkBeforeEveryVerb: the same in the answers that a scan needs only
// at times: those that say what a repository has instead of what was asked for,
// and a record by itself.
func TestOAIPMHJunkBeforeEveryVerb(t *testing.T) {
	t.Parallel()
	const junk = "\xef\xbb\xbf<br />\n<b>Notice</b>: session & more in oai.php\n"
	for name, tt := range map[string]struct {
		list, says string
		o          oaiintake.Options
	}{
		"ListSets":            {oaiError(oaipmh.CodeNoRecordsMatch), "its sets are maps", oaiintake.Options{SetSpec: "charts"}},
		"ListMetadataFormats": {oaiError(oaipmh.CodeCannotDisseminateFormat), "its metadataPrefixes are oai_dc", oaiintake.Options{}},
		"GetRecord":           {oaiList(oaiRecord("a", "x"), ""), "", oaiintake.Options{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, tt.o)
			s.o.Contents = nil // each record is asked for by itself
			s.open()
			s.list = func(url.Values) string { return tt.list }
			s.get = func(id string) string { return "<GetRecord>" + oaiRecord(id, "x") + "</GetRecord>" }
			s.sets = func(url.Values) string {
				return "<ListSets><set><setSpec>maps</setSpec><setName>Maps</setName></set></ListSets>"
			}
			s.whole = func(w http.ResponseWriter, q *http.Request, text string) {
				if q.URL.Query().Get("verb") == "ListMetadataFormats" {
					text = strings.Replace(text, oaiError(oaipmh.CodeIDDoesNotExist), "<ListMetadataFormats><metadataFormat><metadataPrefix>oai_dc</metadataPrefix>"+
						"<schema>http://www.openarchives.org/OAI/2.0/oai_dc.xsd</schema><metadataNamespace>"+oaipmh.DublinCoreNamespace+"</metadataNamespace></metadataFormat></ListMetadataFormats>", 1)
				}
				_, _ = io.WriteString(w, junk+text)
			}
			_, err := s.oai.Scan(t.Context())
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("error %v, want one that says %q", err, tt.says)
				}
				return
			}
			must(t, err)
			if held := s.held(); len(held) != 1 || held["a"] != "x" {
				t.Errorf("held: %v", held)
			}
			if !slices.ContainsFunc(s.asked, func(q url.Values) bool { return q.Get("verb") == "GetRecord" }) {
				t.Error("no record was asked for by itself")
			}
		})
	}
}

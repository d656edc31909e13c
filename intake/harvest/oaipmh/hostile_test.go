package oaipmh_test

import (
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
)

// TestOAIPMHEndless reads lists without an end: the harvest ends, reports that, keeps
// the records received, deletes nothing, and the next harvest starts again.
func TestOAIPMHEndless(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page func(n int) (records, token string)
		want string
		most int // requests
	}{
		"same token":         {func(n int) (string, string) { return oaiRecords(fmt.Sprint(n, "-"), 2), "t" }, " twice, so", 4},
		"two tokens in turn": {func(n int) (string, string) { return oaiRecords(fmt.Sprint(n, "-"), 2), fmt.Sprint("t", n%2) }, " twice, so", 8},
		"a loop far on": {func(n int) (string, string) {
			return oaiRecords(fmt.Sprint(n, "-"), 2), fmt.Sprint("t", max(n, 5+n%3)%50)
		}, " twice, so", 200},
		"new tokens, same records": {func(n int) (string, string) { return oaiRecords("a", 3), fmt.Sprint("t", n) }, "the same records again", 30},
		"new tokens, two pages":    {func(n int) (string, string) { return oaiRecords(fmt.Sprint(n%2, "-"), 3), fmt.Sprint("t", n) }, "the same records again", 40},
		"new tokens, no records":   {func(n int) (string, string) { return "", fmt.Sprint("t", n) }, "but no records", 1100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{})
			n, mended := 0, false
			s.list = func(url.Values) string {
				if mended {
					return oaiList(oaiRecord("only", "x"), "")
				}
				n++
				return oaiList(tt.page(n))
			}
			s.expect(tt.want)
			if n > tt.most {
				t.Errorf("%d requests, want at most %d", n, tt.most)
			}
			records, _ := tt.page(1)
			if held := len(s.held()); (held > 0) != (records != "") {
				t.Errorf("%d records are held of what was listed", held)
			}
			// Also where each stretch sees one page, in processes of their own.
			s.while(func() { n = 0 })
			s.open()
			var err error
			for more := true; more; {
				_, more, err = s.oai.Harvest(t.Context(), oaiintake.Stretch{Records: 1, Time: time.Nanosecond})
				s.while(func() { more = more && n <= 3*tt.most })
			}
			if records != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("in stretches: error = %v, want %s", err, tt.want)
			}
			s.while(func() { mended = true })
			s.open()
			for range 2 { // the second is whole
				s.expect("")
			}
			if held := s.held(); held["only"] != "x" {
				t.Errorf("%v is held, want what is listed now", held)
			}
		})
	}
}

// TestOAIPMHStopped ends lists before their end, in ways of all kinds: what was
// held stays, and what was listed comes.
func TestOAIPMHStopped(t *testing.T) {
	t.Parallel()
	const html = "<!DOCTYPE html><html><head><title>503</title></head><body>Please wait<br></body></html>"
	for name, tt := range map[string]struct {
		second string // response to the second page of a list,
		status int    // and its HTTP status
		want   string // error
		comes  bool   // and the records of that page do
	}{
		"empty token, more counted": {second: oaiList(oaiRecord("new2", "x"), "") + "<!--short-->", comes: true},
		"html":                      {second: html, want: "HTML page"},
		"html, 404":                 {second: html, status: 404, want: "404"},
		"another verb":              {second: "<Identify/>", want: "to ListRecords, but to Identify"},
		"identifiers":               {second: "<ListIdentifiers><header><identifier>new2</identifier></header></ListIdentifiers>", want: "but to ListIdentifiers"},
		"nothing":                   {second: "", want: "neither what was asked for nor an error"},
		"error":                     {second: oaiError("internalServerError"), want: "the repository answers internalServerError"},
		"error, 500":                {second: oaiError("badArgument"), status: 500, want: "badArgument"},
		"error in the list":         {second: "<ListRecords>" + oaiRecord("new2", "x") + oaiError("badArgument") + "</ListRecords>", want: "badArgument", comes: true},
		"format gone":               {second: oaiError(oaipmh.CodeCannotDisseminateFormat), want: "cannotDisseminateFormat"},
		"cut":                       {second: "<ListRecords>" + oaiRecord("new2", "x") + "<record><header><identifier>new3</ident", want: "line 1", comes: true},
		"cut in a tag":              {second: "<ListRecords>" + oaiRecord("new2", "x") + "<reco", want: "line 1", comes: true},
		"token refused":             {second: oaiError(oaipmh.CodeBadResumptionToken), want: "refuses its own resumption tokens"},
		"token refused, 400":        {second: oaiError(oaipmh.CodeBadResumptionToken), status: 400, want: "refuses its own resumption tokens"},
		"undeclared prefix":         {second: oaiList(oaiRecord("new2", "x")+oaiRecord("old0", "<zz:b/>"), ""), comes: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{FullInterval: time.Nanosecond, AllowEmpty: true})
			bad := false
			s.list = func(q url.Values) string {
				switch {
				case !bad:
					return oaiList(oaiRecords("old", 5), "")
				case q.Get("resumptionToken") == "":
					return strings.Replace(oaiList(oaiRecord("new1", "x"), "next"), "Token>", `Token completeListSize="50" cursor="0">`, 1)
				}
				return tt.second
			}
			s.whole = func(w http.ResponseWriter, q *http.Request, text string) {
				if q.FormValue("resumptionToken") != "" {
					w.WriteHeader(cmp.Or(tt.status, http.StatusOK))
					switch {
					case strings.HasPrefix(tt.second, "<!"):
						text = tt.second
					case strings.HasSuffix(tt.second, "<!--short-->"):
						text = strings.Replace(text, "Token>", `Token completeListSize="50" cursor="1">`, 1)
					case strings.HasPrefix(name, "cut"):
						text = strings.TrimSuffix(text, "</OAI-PMH>")
					}
				}
				_, _ = io.WriteString(w, text)
			}
			s.expect("")
			bad = true
			r := s.expect(tt.want)
			held := s.held()
			if n := len(held); r.Deleted > 0 || held["old3"] != "x" || held["old0"] != "x" || held["new1"] != "x" || (held["new2"] == "x") != tt.comes || n != 6+len(held["new2"]) {
				t.Errorf("%v are held, report %+v", held, r)
			}
			if st := s.oai.Status(); st.Complete {
				t.Errorf("status = %+v", st)
			}
		})
	}
}

// TestOAIPMHOdd harvests what is odd, but can be made sense of.
func TestOAIPMHOdd(t *testing.T) {
	t.Parallel()
	long := "oai:x:" + strings.Repeat("/long", 800)
	header := func(s string) string { return "<record><header>" + s + "</header>" }
	for name, tt := range map[string]struct {
		records string
		want    string // identifier=title, …
		skipped int64
		bad     int64
	}{
		"odd identifiers": {
			records: oaiRecord("a b", "1") + oaiRecord("../../etc/passwd", "2") + oaiRecord("ü/ß&amp;x=1#y?z", "3") + oaiRecord(long, "4") + oaiRecord("http://x/%2e%2e/", "5"),
			want:    "../../etc/passwd=2 a b=1 http://x/%2e%2e/=5 " + long + "=4 ü/ß&x=1#y?z=3",
		},
		"too long":            {records: oaiRecord(strings.Repeat("x", 20_000), "1") + oaiRecord("b", "2"), want: "b=2", skipped: 1},
		"no identifier":       {records: oaiRecord("", "1") + oaiRecord("b", "2"), want: "b=2", bad: 1},
		"twice":               {records: oaiRecord("a", "1") + oaiRecord("b", "2") + oaiRecord("a", "3"), want: "a=3 b=2"},
		"deleted, then back":  {records: header(`<identifier>a</identifier>`) + "</record>" + oaiRecord("a", "1"), want: "a=1", skipped: 1},
		"back, then deleted":  {records: oaiRecord("a", "1") + strings.Replace(header(`<identifier>a</identifier>`), "<header", `<header status="deleted"`, 1) + "</record>", want: ""},
		"deleted, with data":  {records: strings.Replace(oaiRecord("a", "1"), "<header", `<header status="deleted"`, 1), want: ""},
		"several roots":       {records: strings.Replace(oaiRecord("a", "1"), "</metadata>", "<t/></metadata>", 1), want: "a=1"},
		"no root":             {records: header("<identifier>a</identifier>") + "<metadata> </metadata></record>", skipped: 1},
		"about":               {records: strings.Replace(oaiRecord("a", "1"), "</record>", "<about><rights xmlns='urn:r'>none</rights></about><about/></record>", 1), want: "a=1"},
		"no datestamp":        {records: strings.Replace(oaiRecord("a", "1"), "datestamp", "date", 2), want: "a=1"},
		"datestamp of a day":  {records: strings.Replace(oaiRecord("a", "1"), "T10:00:00Z", "", 1), want: "a=1"},
		"datestamp to come":   {records: strings.Replace(oaiRecord("a", "1"), "2024", "2999", 1), want: "a=1", skipped: 1},
		"bad characters":      {records: oaiRecord("a", "\x01&#1;R&D\xe9"), want: "a=\uFFFD\uFFFDR&amp;D\uFFFD"},
		"prefixes undeclared": {records: strings.Replace(oaiRecord("a", "1"), "<t ", `<t xsi:schemaLocation="urn:t t.xsd" `, 1), want: "a=1"},
		"huge":                {records: oaiRecord("a", strings.Repeat("1", 17<<20)) + oaiRecord("b", "2"), want: "b=2", bad: 1},
		"large":               {records: oaiRecord("a", strings.Repeat("1", 3<<20)) + oaiRecord("b", "2"), want: "a=" + strings.Repeat("1", 3<<20) + " b=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{})
			s.list = func(url.Values) string { return oaiList(tt.records, "") }
			s.get = func(id string) string {
				if id != "a" { // only what was not readable in the list is asked for again
					t.Errorf("asked for %s", id)
				}
				return "<GetRecord>" + tt.records[:strings.Index(tt.records, "</record>")+9] + "</GetRecord>"
			}
			r := s.expect("")
			if n := len(r.Skipped.First); n > 0 && r.Skipped.First[n-1].Path == s.url && tt.bad > 0 { // it is reported that nothing is deleted then
				r.Skipped.Count--
			}
			if got := textOf(s.held()); got != tt.want || r.Skipped.Count != tt.skipped || r.Unreadable.Count != tt.bad {
				t.Errorf("%.200s is held, want %.200s; %d skipped, want %d; %d bad, want %d", got, tt.want, r.Skipped.Count, tt.skipped, r.Unreadable.Count, tt.bad)
			}
		})
	}
}

// TestOAIPMHKept deletes nothing that is listed in a way that says nothing, or that
// a set that vanished does not list, and asks before most of it goes.
func TestOAIPMHKept(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		answer string
		want   string
		left   int
	}{
		"no metadata any more": {answer: oaiList(strings.ReplaceAll(oaiRecords("a", 30), "metadata", "about"), ""), left: 30},
		"nothing matches":      {answer: oaiError(oaipmh.CodeNoRecordsMatch), want: "lists nothing to publish", left: 30},
		"an empty list":        {answer: "<ListRecords/>", want: "lists nothing to publish", left: 30},
		"no sets any more":     {answer: oaiError(oaipmh.CodeNoSetHierarchy), want: "noSetHierarchy", left: 30},
		"set unknown":          {answer: oaiError(oaipmh.CodeBadArgument), want: "badArgument", left: 30},
		"format unknown":       {answer: oaiError(oaipmh.CodeCannotDisseminateFormat), want: "cannotDisseminateFormat", left: 30},
		"a few are gone":       {answer: oaiList(oaiRecords("a", 28), ""), left: 28},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{FullInterval: time.Nanosecond, SetSpec: "s"})
			answer := oaiList(oaiRecords("a", 30), "")
			s.list = func(url.Values) string { return answer }
			s.expect("")
			answer = tt.answer
			s.expect(tt.want)
			s.expect(tt.want)
			if n := len(s.held()); n != tt.left {
				t.Errorf("%d are held, want %d", n, tt.left)
			}
			answer = oaiList(oaiRecords("a", 30), "")
			if s.expect(""); len(s.held()) != 30 {
				t.Errorf("%d are held after all", len(s.held()))
			}
		})
	}
}

// TestOAIPMHNoSet distinguishes a missing set from an empty one.
func TestOAIPMHNoSet(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{"a": "", "b": "", "b:c": "", "x": "there is no set x; its sets are a, b:c", "b:": "there is no set b:"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{SetSpec: spec})
			s.list = func(url.Values) string { return oaiError(oaipmh.CodeNoRecordsMatch) }
			s.sets = func(q url.Values) string {
				if q.Get("resumptionToken") != "" {
					return "<ListSets><set><setSpec>b:c</setSpec></set></ListSets>"
				}
				return "<ListSets><set><setSpec>a</setSpec></set><resumptionToken>n</resumptionToken></ListSets>"
			}
			s.expect(want)
		})
	}
}

// TestOAIPMHLostRecords asks by itself for what was not well formed in a list, in
// harvests that do not list it any more.
func TestOAIPMHLostRecords(t *testing.T) {
	t.Parallel()
	s := newStranger(t, oaiintake.Options{})
	records := oaiRecord("a&amp;1", "1") + oaiRecord("b", "2")
	s.list = func(q url.Values) string {
		if q.Get("from") != "" {
			return oaiError(oaipmh.CodeNoRecordsMatch)
		}
		return oaiList(records, "")
	}
	broken := oaiRecord("a&amp;1", "<b>")
	single := broken
	s.get = func(id string) string {
		if id != "a&1" {
			t.Errorf("asked for %q", id)
		}
		return "<GetRecord>" + single + "</GetRecord>"
	}
	records = strings.Replace(records, oaiRecord("a&amp;1", "1"), broken, 1)
	for range 2 {
		if r := s.expect(""); r.Unreadable.Count != 1 || r.Unreadable.First[0].Path != "a&1" || textOf(s.held()) != "b=2" {
			t.Errorf("%+v, %v", r, s.held())
		}
		if st := s.oai.Status(); st.Complete || st.Whole || st.Until.IsZero() {
			t.Errorf("status = %+v", st)
		}
		s.open()
	}
	single = oaiRecord("a&amp;1", "3")
	if r := s.expect(""); r.Unreadable.Count != 0 || r.Created != 1 || textOf(s.held()) != "a&1=3 b=2" {
		t.Errorf("%+v, %v", r, s.held())
	}
	s.get = nil
	s.expect("")
	if st := s.oai.Status(); !st.Complete {
		t.Errorf("status = %+v", st)
	}
}

// TestOAIPMHWire harvests over what HTTP has: redirects, compression, and busy
// servers that say when to come again.
func TestOAIPMHWire(t *testing.T) {
	t.Parallel()
	busy := func(after string) func(http.ResponseWriter, *http.Request, string) {
		n := 0
		return func(w http.ResponseWriter, _ *http.Request, text string) {
			if n++; n == 2 {
				w.Header().Set("Retry-After", after)
				http.Error(w, "<html>busy</html>", http.StatusServiceUnavailable)
				return
			}
			_, _ = io.WriteString(w, text)
		}
	}
	for name, whole := range map[string]func(w http.ResponseWriter, q *http.Request, text string){
		"gzip": func(w http.ResponseWriter, q *http.Request, text string) {
			if !strings.Contains(q.Header.Get("Accept-Encoding"), "gzip") || q.Method != http.MethodGet {
				t.Errorf("%s %v", q.Method, q.Header)
			}
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, text)
			_ = z.Close()
		},
		"redirect": func(w http.ResponseWriter, q *http.Request, text string) {
			if q.URL.Path == "/oai" {
				http.Redirect(w, q, "/new/oai?"+q.URL.RawQuery, http.StatusMovedPermanently)
				return
			}
			_, _ = io.WriteString(w, text)
		},
		"Retry-After seconds":  busy("1"),
		"Retry-After date":     busy(time.Now().Add(time.Second).UTC().Format(http.TimeFormat)),
		"Retry-After past":     busy("Mon, 02 Jan 2006 15:04:05 GMT"),
		"Retry-After nonsense": busy("soon"),
		"warnings of programs": func(w http.ResponseWriter, _ *http.Request, text string) {
			_, _ = io.WriteString(w, "<br />\n<b>Warning</b>: mysql_connect() & more in <b>oai.php</b><br />\n"+text+"\n<!-- 0.2 s --><br>Notice: x")
		},
		"blank lines before": func(w http.ResponseWriter, _ *http.Request, text string) { _, _ = io.WriteString(w, "\n\n"+text) },
		"type of HTML": func(w http.ResponseWriter, _ *http.Request, text string) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, text)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{})
			s.list = func(url.Values) string { return oaiList(oaiRecords("a", 3), "") }
			s.whole = whole
			if name == "warnings of programs" { // which Identify was spared
				s.whole = func(w http.ResponseWriter, q *http.Request, text string) {
					if q.FormValue("verb") == "Identify" {
						_, _ = io.WriteString(w, text)
						return
					}
					whole(w, q, text)
				}
			}
			if r := s.expect(""); r.Created != 3 || r.Unreadable.Count+r.Skipped.Count > 0 {
				t.Errorf("report = %+v", r)
			}
			if st := s.oai.Status(); !st.Whole {
				t.Errorf("status = %+v", st)
			}
		})
	}
}

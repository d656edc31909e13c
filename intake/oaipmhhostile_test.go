package intake_test

import (
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// A stranger is a repository that answers as a test says.
type stranger struct {
	*harvested
	mu    sync.Mutex // held while it answers
	asked []url.Values

	identify func(q url.Values) string // what is in the answer; by default what is usual
	list     func(q url.Values) string // what is in the response to ListRecords
	get      func(id string) string    // to GetRecord
	sets     func(q url.Values) string // to ListSets
	whole    func(w http.ResponseWriter, q *http.Request, text string)
}

func newStranger(t *testing.T, o intake.OAIPMHOptions) *stranger {
	t.Helper()
	s := &stranger{harvested: &harvested{t: t, cat: catalog.NewMem(nil), contents: new(intake.MemContents), o: o}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	s.url = server.URL + "/oai"
	s.o.State, s.o.Contents = filepath.Join(t.TempDir(), "state.json"), s.contents
	s.open()
	return s
}

// ServeHTTP answers one request at a time, as a harvest asks.
func (s *stranger) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	args := q.URL.Query()
	s.asked = append(s.asked, args)
	body := ""
	switch verb := args.Get("verb"); {
	case verb == "Identify":
		body = "<Identify><granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>"
		if s.identify != nil {
			body = s.identify(args)
		}
	case verb == "ListRecords":
		body = s.list(args)
	case verb == "GetRecord" && s.get != nil:
		body = s.get(args.Get("identifier"))
	case verb == "ListSets" && s.sets != nil:
		body = s.sets(args)
	default:
		body = oaiError(oaipmh.CodeIDDoesNotExist)
	}
	text := `<?xml version="1.0" encoding="UTF-8"?><OAI-PMH xmlns="` + oaipmh.Namespace + `"><responseDate>` +
		time.Now().UTC().Format("2006-01-02T15:04:05Z") + `</responseDate>` + body + `</OAI-PMH>`
	if s.whole != nil {
		s.whole(w, q, text)
		return
	}
	_, _ = io.WriteString(w, text)
}

func oaiError(code string) string { return `<error code="` + code + `">` + code + ` it is</error>` }

// oaiRecord is a record whose title is it.
func oaiRecord(id, title string) string {
	return `<record><header><identifier>` + id + `</identifier><datestamp>2024-05-01T10:00:00Z</datestamp></header><metadata><t xmlns="urn:t">` +
		title + `</t></metadata></record>`
}

// oaiRecords are n records in the first place of a list, with names of their own.
func oaiRecords(name string, n int) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(oaiRecord(fmt.Sprint(name, i), "x"))
	}
	return b.String()
}

// oaiList is a list, and the token that leads on.
func oaiList(records, token string) string {
	return "<ListRecords>" + records + "<resumptionToken>" + token + "</resumptionToken></ListRecords>"
}

// held returns what is in the catalog: the titles by identifier, read through
// Bitstream.
func (s *stranger) held() map[string]string {
	s.t.Helper()
	held := map[string]string{}
	for rec, err := range s.cat.Resources(s.t.Context(), harvestSet, catalog.Range{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		_, _, id, _ := oaipmh.ParseRecordURL(rec.URI)
		r, err := s.oai.Bitstream(s.t.Context(), &rec)
		if err != nil {
			s.t.Error(err)
			continue
		}
		b, _ := io.ReadAll(r)
		_, title, _ := strings.Cut(string(b), ">\n<")
		_, title, _ = strings.Cut(title, ">")
		title, _, _ = strings.Cut(title, "</")
		if held[id] = title; int64(len(b)) != rec.Length {
			s.t.Errorf("%s has %d bytes, not the %d of %s", id, rec.Length, len(b), b)
		}
	}
	return held
}

// expect scans and reports an error that is not as wanted: with the address in it.
func (s *stranger) expect(want string) intake.Report {
	s.t.Helper()
	s.settle()
	r, err := s.oai.Scan(s.t.Context())
	s.settle()
	switch {
	case want == "" && err != nil:
		s.t.Errorf("error = %v", err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), s.url)):
		s.t.Errorf("error = %v, want %s, with the address", err, want)
	}
	return r
}

// settle waits until nothing is answered, so that both sides see what the other did.
func (s *stranger) settle() { s.while(func() {}) }

// while runs f while nothing is answered: harvests may end before what they asked
// ahead is.
func (s *stranger) while(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

// TestOAIPMHEndless meets lists without an end: the harvest ends, says so, keeps
// what it got, deletes nothing, and the next one begins anew.
func TestOAIPMHEndless(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		page func(n int) (records, token string)
		want string
		most int // requests
	}{
		"same token":         {func(n int) (string, string) { return oaiRecords(fmt.Sprint(n, "-"), 2), "t" }, "a second time", 4},
		"two tokens in turn": {func(n int) (string, string) { return oaiRecords(fmt.Sprint(n, "-"), 2), fmt.Sprint("t", n%2) }, "a second time", 8},
		"a loop far on": {func(n int) (string, string) {
			return oaiRecords(fmt.Sprint(n, "-"), 2), fmt.Sprint("t", max(n, 5+n%3)%50)
		}, "a second time", 200},
		"new tokens, same records": {func(n int) (string, string) { return oaiRecords("a", 3), fmt.Sprint("t", n) }, "the same records again", 30},
		"new tokens, two pages":    {func(n int) (string, string) { return oaiRecords(fmt.Sprint(n%2, "-"), 3), fmt.Sprint("t", n) }, "the same records again", 40},
		"new tokens, no records":   {func(n int) (string, string) { return "", fmt.Sprint("t", n) }, "without a record", 1100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, intake.OAIPMHOptions{})
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
				_, more, err = s.oai.Harvest(t.Context(), intake.Stretch{Records: 1, Time: time.Nanosecond})
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
			s := newStranger(t, intake.OAIPMHOptions{FullInterval: time.Nanosecond, AllowEmpty: true})
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
		"datestamp to come":   {records: strings.Replace(oaiRecord("a", "1"), "2024", "2999", 1), want: "a=1"},
		"bad characters":      {records: oaiRecord("a", "\x01&#1;R&D\xe9"), want: "a=\uFFFD\uFFFDR&amp;D\uFFFD"},
		"prefixes undeclared": {records: strings.Replace(oaiRecord("a", "1"), "<t ", `<t xsi:schemaLocation="urn:t t.xsd" `, 1), want: "a=1"},
		"huge":                {records: oaiRecord("a", strings.Repeat("1", 17<<20)) + oaiRecord("b", "2"), want: "b=2", bad: 1},
		"large":               {records: oaiRecord("a", strings.Repeat("1", 3<<20)) + oaiRecord("b", "2"), want: "a=" + strings.Repeat("1", 3<<20) + " b=2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, intake.OAIPMHOptions{})
			s.list = func(url.Values) string { return oaiList(tt.records, "") }
			s.get = func(id string) string {
				if id != "a" { // only what was not readable in the list is asked for again
					t.Errorf("asked for %s", id)
				}
				return "<GetRecord>" + tt.records[:strings.Index(tt.records, "</record>")+9] + "</GetRecord>"
			}
			r := s.expect("")
			if n := len(r.Skipped.First); n > 0 && r.Skipped.First[n-1].Path == s.url && tt.bad > 0 { // nothing is deleted then, which is told
				r.Skipped.Count--
			}
			if got := textOf(s.held()); got != tt.want || r.Skipped.Count != tt.skipped || r.Unreadable.Count != tt.bad {
				t.Errorf("%.200s is held, want %.200s; %d skipped, want %d; %d bad, want %d", got, tt.want, r.Skipped.Count, tt.skipped, r.Unreadable.Count, tt.bad)
			}
		})
	}
}

// textOf tells of a map in one line.
func textOf(m map[string]string) string {
	var all []string
	for k, v := range m {
		all = append(all, k+"="+v)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
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
			s := newStranger(t, intake.OAIPMHOptions{FullInterval: time.Nanosecond, SetSpec: "s"})
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

// TestOAIPMHNoSet tells a set that is not there from one that is empty.
func TestOAIPMHNoSet(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]string{"a": "", "b": "", "b:c": "", "x": "there is no set x; its sets are a, b:c", "b:": "there is no set b:"} {
		t.Run(spec, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, intake.OAIPMHOptions{SetSpec: spec})
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
	s := newStranger(t, intake.OAIPMHOptions{})
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

// TestOAIPMHShort asks for the same once more where less was listed than counted,
// but not for ever.
func TestOAIPMHShort(t *testing.T) {
	t.Parallel()
	s := newStranger(t, intake.OAIPMHOptions{})
	s.list = func(q url.Values) string {
		return strings.Replace(oaiList(oaiRecords("a", 3), ""), "Token>", `Token completeListSize="9" cursor="0">`, 1)
	}
	full := 0
	for range 6 {
		s.expect("")
		if s.asked[len(s.asked)-1].Get("from") == "" {
			full++
		}
	}
	if full != 3 {
		t.Errorf("all was asked for %d times, want 3", full)
	}
	if st := s.oai.Status(); st.Complete || st.Whole {
		t.Errorf("status = %+v, though it was not all", st)
	}
}

// TestOAIPMHIdentify goes by what is told of datestamps only where that makes
// sense, and asks where it was told to ask.
func TestOAIPMHIdentify(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		identify string
		from     int // length of the argument in the second harvest
	}{
		"nothing":                {"", len("2024-05-01")},
		"days":                   {"<granularity>YYYY-MM-DD</granularity>", len("2024-05-01")},
		"seconds":                {"<granularity>YYYY-MM-DDThh:mm:ssZ</granularity>", len("2024-05-01T10:00:00Z")},
		"illegible":              {"<granularity>seconds</granularity><earliestDatestamp>long ago</earliestDatestamp>", len("2024-05-01")},
		"earliest in the future": {"<granularity>YYYY-MM-DDThh:mm:ssZ</granularity><earliestDatestamp>2999-01-01T00:00:00Z</earliestDatestamp>", len("2024-05-01T10:00:00Z")},
		"another base":           {"<granularity>YYYY-MM-DD</granularity><baseURL>http://localhost:1/elsewhere</baseURL>", len("2024-05-01")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, intake.OAIPMHOptions{})
			s.identify = func(url.Values) string { return "<Identify>" + tt.identify + "</Identify>" }
			s.list = func(url.Values) string { return oaiList(oaiRecords("a", 3), "") } // whatever is asked for
			s.expect("")
			if r := s.expect(""); r.Unchanged != 3 || r.Changed() {
				t.Errorf("report = %+v", r)
			}
			if from := s.asked[len(s.asked)-1].Get("from"); len(from) != tt.from {
				t.Errorf("asked from %q", from)
			}
		})
	}
}

// TestOAIPMHClock takes the time of the next harvest from the repository, the
// earlier of what it says; without any it asks for everything.
func TestOAIPMHClock(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC()
	for name, tt := range map[string]struct {
		said, date string
		want       time.Time
	}{
		"no responseDate":         {"", now.Format(http.TimeFormat), now},
		"local time, ahead":       {now.Add(5 * time.Hour).Format("2006-01-02T15:04:05"), now.Format(http.TimeFormat), now},
		"behind":                  {now.Add(-time.Hour).Format(time.RFC3339), now.Format(http.TimeFormat), now.Add(-time.Hour)},
		"with a zone":             {now.In(time.FixedZone("", 7200)).Format(time.RFC3339), now.Format(http.TimeFormat), now},
		"no Date":                 {now.Format(time.RFC3339), "", now},
		"neither":                 {"", "", time.Time{}},
		"illegible and neither":   {"now", "today", time.Time{}},
		"only the Date legible":   {"now", now.Format(http.TimeFormat), now},
		"only the other legible":  {now.Format(time.RFC3339), "today", now},
		"in the future, and both": {now.Add(time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(http.TimeFormat), now.Add(time.Hour)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, intake.OAIPMHOptions{})
			s.list = func(url.Values) string { return oaiList(oaiRecords("a", 3), "") }
			s.whole = func(w http.ResponseWriter, q *http.Request, text string) {
				w.Header()["Date"] = nil
				if tt.date != "" {
					w.Header().Set("Date", tt.date)
				}
				from, to := strings.Index(text, "<responseDate>"), strings.Index(text, "</responseDate>")
				_, _ = io.WriteString(w, text[:from]+"<responseDate>"+tt.said+text[to:])
			}
			s.expect("")
			s.expect("")
			want := ""
			if !tt.want.IsZero() {
				want = oaipmh.FormatDatestamp(tt.want.Truncate(time.Second).Add(-time.Minute), oaipmh.Second)
			}
			if from := s.asked[len(s.asked)-1].Get("from"); from != want {
				t.Errorf("asked from %q, want %q", from, want)
			}
		})
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
			s := newStranger(t, intake.OAIPMHOptions{})
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

// TestOAIPMHDeletedLies honours deletions of a repository that says it has none, and
// finds those that one forgets that says it keeps them.
func TestOAIPMHDeletedLies(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 300, Deleted: oaipmh.DeletedPersistent}, intake.OAIPMHOptions{})
	tampered(t, h, func(_ int64, w http.ResponseWriter, q *http.Request) bool {
		if q.FormValue("verb") == "Identify" {
			_, _ = io.WriteString(w, `<OAI-PMH xmlns="`+oaipmh.Namespace+`"><Identify><deletedRecord>no</deletedRecord></Identify></OAI-PMH>`)
			return true
		}
		return false
	})
	h.scan()
	h.repo.Delete("oai:example.org:0000003")
	if r := h.scan(); r.Deleted != 1 {
		t.Errorf("report = %+v", r)
	}
	h.same()
	h.repo.Drop("oai:example.org:0000004") // forgotten
	h.o.FullInterval = time.Nanosecond
	h.open()
	if r := h.scan(); r.Deleted != 1 {
		t.Errorf("report = %+v", r)
	}
	h.same()
	var e *intake.EmptyError
	for i := range 250 {
		h.repo.Drop(fmt.Sprintf("oai:example.org:%07d", i))
	}
	if _, err := h.oai.Scan(t.Context()); !errors.As(err, &e) {
		t.Errorf("error = %v, want an *EmptyError", err)
	}
}

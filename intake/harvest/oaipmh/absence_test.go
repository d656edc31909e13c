package oaipmh_test

import (
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
)

// TestListedAndNotFound: a record that is listed, and can be read neither there nor alone, is not
// deleted.
func TestListedAndNotFound(t *testing.T) {
	t.Parallel()
	s := newStranger(t, oaiintake.Options{FullInterval: time.Nanosecond})
	bad := false
	s.list = func(url.Values) string {
		if bad {
			return oaiList(oaiRecord("a", "x")+oaiRecord("b", "<broken>")+oaiRecord("c", "x"), "")
		}
		return oaiList(oaiRecords("", 0)+oaiRecord("a", "x")+oaiRecord("b", "x")+oaiRecord("c", "x"), "")
	}
	s.expect("")
	bad = true
	s.whole = func(w http.ResponseWriter, q *http.Request, text string) {
		if q.FormValue("verb") == "GetRecord" { // whose GetRecord does not know identifiers of this form
			text = `<OAI-PMH xmlns="` + oaipmh.Namespace + `">` + oaiError(oaipmh.CodeIDDoesNotExist) + `</OAI-PMH>`
		}
		_, _ = io.WriteString(w, text)
	}
	if r, err := s.oai.Scan(t.Context()); err != nil || r.Deleted > 0 || r.Unreadable.Count != 1 {
		t.Errorf("%v, %+v; want it to be kept, and to be reported as unreadable", err, r)
	}
}

// TestHourTwice: records of the hour that a repository's clock shows twice, at the end of summer
// time, are harvested.
func TestHourTwice(t *testing.T) {
	t.Parallel()
	s := newStranger(t, oaiintake.Options{})
	now := time.Now().UTC().Add(-4 * time.Hour).Truncate(time.Second) // the repository's clock shows local time
	stamp := func(t time.Time) string { return t.Format("2006-01-02T15:04:05Z") }
	records := map[string]time.Time{"a": now.Add(-time.Hour)}
	s.list = func(q url.Values) string {
		var b strings.Builder
		for id, at := range records {
			if q.Get("from") == "" || stamp(at) >= q.Get("from") {
				b.WriteString(strings.Replace(oaiRecord(id, "x"), "2024-05-01T10:00:00Z", stamp(at), 1))
			}
		}
		if b.Len() == 0 {
			return oaiError(oaipmh.CodeNoRecordsMatch)
		}
		return oaiList(b.String(), "")
	}
	s.whole = func(w http.ResponseWriter, _ *http.Request, text string) {
		from, to := strings.Index(text, "<responseDate>"), strings.Index(text, "</responseDate>")
		_, _ = io.WriteString(w, text[:from]+"<responseDate>"+stamp(now)+text[to:])
	}
	s.expect("")
	now = now.Add(10*time.Minute - time.Hour) // ten minutes later, and the clock went back an hour after one of them
	records["b"] = now.Add(-5 * time.Minute)
	for range 5 {
		s.expect("")
		now = now.Add(10 * time.Minute)
	}
	if held := s.held(); held["b"] != "x" {
		t.Errorf("held %v, want b, too; asked %v", held, s.asked)
	}
}

// TestConsentAfterAbsence: consent to delete what was absent once does not delete what is listed
// again.
func TestConsentAfterAbsence(t *testing.T) {
	t.Parallel()
	s := newStranger(t, oaiintake.Options{})
	short := false
	s.list = func(q url.Values) string {
		switch {
		case q.Get("from") != "":
			return oaiError(oaipmh.CodeNoRecordsMatch) // all datestamps are of 2024
		case short:
			return oaiList(oaiRecords("a", 10), "")
		}
		return oaiList(oaiRecords("a", 300), "")
	}
	s.expect("")
	short = true
	if _, _, err := s.oai.Harvest(t.Context(), oaiintake.Stretch{Full: true}); err == nil {
		t.Fatal("no error")
	}
	short = false                  // the repository has all of them again, a minute later
	_, _ = s.oai.Scan(t.Context()) // it is still refused
	s.o.AllowEmpty = true
	s.open()
	if r := s.expect(""); r.Deleted > 0 {
		t.Errorf("%d deleted that the repository has", r.Deleted)
	}
}

// TestTokensRefusedForAWhile: a repository that refused its tokens is harvested when it does not
// any more.
func TestTokensRefusedForAWhile(t *testing.T) {
	t.Parallel()
	s := newStranger(t, oaiintake.Options{})
	repaired := false
	s.list = func(q url.Values) string {
		switch q.Get("resumptionToken") {
		case "":
			if repaired {
				return oaiList(oaiRecord("a", "x")+oaiRecord("b", "x"), "new")
			}
			return oaiList(oaiRecord("b", "x")+strings.Replace(oaiRecord("a", "x"), "2024", "2023", 1), "old") // datestamps do not rise
		case "new":
			return oaiList(oaiRecord("c", "x"), "")
		}
		return oaiError(oaipmh.CodeBadResumptionToken) // it has expired
	}
	if _, err := s.oai.Scan(t.Context()); err == nil {
		t.Fatal("no error")
	}
	repaired = true
	s.open() // another process
	if r, err := s.oai.Scan(t.Context()); err != nil || len(s.held()) != 3 {
		t.Errorf("%v, %+v; asked %v", err, r, s.asked)
	}
}

// TestEmptyForAWhile: what a repository did not list for a while, and what was deleted for
// that, is harvested again although it has not changed.
func TestEmptyForAWhile(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		list  string // for a while
		times int    // how often it is harvested then
		held  int
	}{
		"empty": {oaiError(oaipmh.CodeNoRecordsMatch), 2, 0},
		"short": {oaiList(oaiRecords("a", 1), ""), 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{AllowEmpty: true})
			down := false
			s.list = func(q url.Values) string {
				switch {
				case q.Get("from") != "":
					return oaiError(oaipmh.CodeNoRecordsMatch) // all datestamps are of 2024
				case down:
					return tt.list
				}
				return oaiList(oaiRecords("a", 3), "")
			}
			s.expect("")
			down = true
			for range tt.times {
				if _, _, err := s.oai.Harvest(t.Context(), oaiintake.Stretch{Full: true}); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(s.held()); n != tt.held {
				t.Errorf("%d records are held, want %d", n, tt.held)
			}
			down = false
			s.open() // another process
			s.expect("")
			if n := len(s.held()); n != 3 {
				t.Errorf("%d records are held, want 3; asked %v", n, s.asked)
			}
			s.asked = nil
			s.expect("")
			if !slices.ContainsFunc(s.asked, func(q url.Values) bool { return q.Has("from") }) {
				t.Errorf("asked %v, want the changes only", s.asked)
			}
		})
	}
}

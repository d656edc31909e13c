package oaipmh_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"lockstep/intake"
	oaiintake "lockstep/intake/harvest/oaipmh"
	"lockstep/oaipmh"
	"lockstep/oaipmh/oaipmhtest"
)

// TestOAIPMHShort asks for the same once more where less was listed than counted,
// but not for ever.
func TestOAIPMHShort(t *testing.T) {
	t.Parallel()
	s := newStranger(t, oaiintake.Options{})
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

// TestOAIPMHIdentify uses what Identify states about datestamps only if it is
// plausible, and sends requests to the configured address.
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
			s := newStranger(t, oaiintake.Options{})
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
		"in the future, and both": {now.Add(time.Hour).Format(time.RFC3339), now.Add(time.Hour).Format(http.TimeFormat), now}, // ours: it may be corrected
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStranger(t, oaiintake.Options{})
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
			latest := time.Now()
			s.expect("")
			want := ""
			if !tt.want.IsZero() {
				want = oaipmh.FormatDatestamp(tt.want.Truncate(time.Second).Add(-time.Minute), oaipmh.Second)
			}
			from := s.asked[len(s.asked)-1].Get("from")
			if ours := strings.HasPrefix(name, "in the future"); ours && from >= want && from <= oaipmh.FormatDatestamp(latest.Add(-time.Minute), oaipmh.Second) {
				return
			}
			if from != want {
				t.Errorf("asked from %q, want %q", from, want)
			}
		})
	}
}

// TestOAIPMHDeletedLies honours deletions of a repository that says it has none, and
// finds those that one forgets that says it keeps them.
func TestOAIPMHDeletedLies(t *testing.T) {
	t.Parallel()
	h := newHarvested(t, oaipmhtest.Options{Records: 300, Deleted: oaipmh.DeletedPersistent}, oaiintake.Options{})
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

package atompmh_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/harvest/atompmh"
	"lockstep/intake/harvest/ledger"
)

// The feed is divided differently between two requests, so that an entry moves.
func TestFeedCutMeanwhile(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", prev("/a1"), live("a", "12:00")), "/a1": feedOf("11:00", "", live("0", "11:00"))})
	h.clean()
	s.put(map[string]string{
		"/feed": feedOf("15:00", prev("/a2"), live("d", "15:00")),
		"/a2":   feedOf("14:00", prev("/a1"), live("c", "14:00"), live("a", "12:00")),
	})
	// When the archive document is asked for, it is another already: c went into a newer one.
	cut := false
	s.onAsk = func(path string) {
		if path != "/a2" || cut {
			return
		}
		cut = true
		s.put(map[string]string{
			"/feed": feedOf("16:00", prev("/a3"), live("e", "16:00")),
			"/a3":   feedOf("15:00", prev("/a2"), live("d", "15:00"), live("c", "14:00")),
			"/a2":   feedOf("12:00", prev("/a1"), live("a", "12:00"), live("b", "11:59")),
		})
	}
	h.clean() // AP-HV-03, AP-HV-06
	h.holds("0 a b c d e")
	h.watermark("16:00:00")
}

// All addresses are others between two harvests.
func TestFeedRenumbered(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{})
	h.clean()
	s.put(map[string]string{
		"/feed": feedOf("16:00", prev("/a1"), live("f", "16:00")),
		"/a1":   feedOf("15:00", prev("/a2"), live("e", "15:00"), dead("a", "14:30"), live("d", "14:00")),
		"/a2":   feedOf("13:00", prev("/a3"), live("c", "13:00")),
		"/a3":   feedOf("12:00", "", live("b", "12:00")),
	})
	h.clean() // AP-HV-05
	h.holds("b c d e f")
	h.asked("/feed, /a1, /a2, /feed 304") // an entry of the watermark's own time does not end the walk
}

// An archive document changed afterwards is found by a full harvest.
func TestFeedChangedArchive(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	s.put(map[string]string{"/a3": feedOf("13:00", prev("/a2"), live("c", "13:00"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	s.put(map[string]string{
		"/a1":   feedOf("12:00", "", live("late", "10:30")),
		"/feed": feedOf("15:00", prev("/a3"), live("e", "15:00"), live("d", "14:00"), live("d", "13:30")),
	})
	h.clean()
	h.holds("a b c d e")
	if _, err := h.Harvest(t.Context(), true); err != nil { // AP-HV-12
		t.Fatal(err)
	}
	h.holds("a b c d e late")
	h.asked("/feed, /feed, /a3, /a2, /a1, /feed 304")

	// Which comes by itself, every thirty days.
	before(t, h, func(text string) string {
		return strings.ReplaceAll(text, `"full":"20`, `"full":"19`)
	})
	s.put(map[string]string{"/a1": feedOf("12:00", "", live("later", "10:31"))})
	h.clean()
	h.holds("a b c d e late later")
	before(t, h, func(text string) string { // our clock was ahead then
		return strings.ReplaceAll(text, `"full":"20`, `"full":"21`)
	})
	s.put(map[string]string{"/a1": feedOf("12:00", "", live("last", "10:32"))})
	h.clean()
	h.holds("a b c d e last late later")
	h.o.FullInterval = -1
	before(t, h, func(text string) string { return strings.ReplaceAll(text, `"full":"20`, `"full":"19`) })
	s.put(nil)
	h.clean()
	h.asked("/feed 304")
}

// before edits what is remembered.
func before(t *testing.T, h *harvest, edit func(string) string) {
	t.Helper()
	text, err := os.ReadFile(h.o.State)
	must(t, err)
	edited := edit(string(text))
	if edited == string(text) {
		t.Fatalf("nothing to edit in %s", text)
	}
	must(t, os.WriteFile(h.o.State, []byte(edited), 0o600))
	h.reopen(h.o)
}

func TestFeedOverlap(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", prev("/a1"), live("b", "12:00")), "/a1": feedOf("11:00", "", live("a", "11:00"))})
	h := follow(t, s, atompmh.Options{Overlap: 2 * time.Hour})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("12:00", prev("/a1"), live("b", "12:00")), "/a1": feedOf("11:00", "", live("a", "11:00"), live("late", "10:30"))})
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00"))})
	h.clean()
	h.holds("a b c late")
}

// A subscription document without entries never ends the walk.
func TestFeedEmptySubscription(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{
		"/feed": feedOf("12:00", prev("/a2")), "/a2": feedOf("12:00", prev("/a1")), "/a1": feedOf("11:00", "", live("a", "11:00")),
	})
	h := follow(t, s, atompmh.Options{})
	h.clean() // AP-AMB-12
	h.holds("a")
	h.asked("/feed, /a2, /a1, /feed 304")
	s.put(map[string]string{
		"/feed": feedOf("13:00", prev("/a3")), "/a3": feedOf("13:00", prev("/a2"), live("b", "13:00")),
	})
	h.clean()
	h.holds("a b")
	h.asked("/feed, /a3, /a2 304, /a1 304, /feed 304")
}

// A document in the middle that is not there, or not to be read: what could be
// had is applied, nothing is concluded, and the next harvest tries again.
func TestFeedMissing(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]http.HandlerFunc{
		"403": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) },
		"404": http.NotFound,
		"410": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) },
		"500": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"cut": func(w http.ResponseWriter, _ *http.Request) {
			text, _, _ := strings.Cut(feedOf("12:00", prev("/a0"), live("b", "12:00"), dead("a", "12:00")), "</feed>")
			_, _ = w.Write([]byte(strings.ReplaceAll(text, "BASE", "http://x.org")))
		},
		"body": func(w http.ResponseWriter, _ *http.Request) { // ends before what was announced
			w.Header().Set("Content-Length", "5000")
			_, _ = w.Write([]byte(feedOf("12:00", prev("/a0"))))
		},
		"page": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("<html><body>Sorry</body></html>"))
		},
		"entry": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`<entry xmlns="http://www.w3.org/2005/Atom"/>`))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFeedSite(t)
			s.put(map[string]string{"/feed": feedOf("11:00", "", live("a", "11:00"))})
			h := follow(t, s, atompmh.Options{})
			h.clean()
			s.put(map[string]string{
				"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00")),
				"/a1":   feedOf("12:00", prev("/a0"), live("b", "12:00"), dead("a", "12:00")),
				"/a0":   feedOf("11:00", "", live("a", "11:00")),
			})
			s.handle("/a1", broken)
			r := h.run() // AP-HV-08, AP-TS-08
			if r.Unreadable.Count != 1 || !strings.HasSuffix(r.Unreadable.First[0].Path, "/a1") {
				t.Errorf("told of %v, want /a1", r.Unreadable.First)
			}
			if text := r.Unreadable.First[0].String(); strings.Count(text, s.URL+"/a1") != 1 {
				t.Errorf("told of %s, want the address once", text)
			}
			if name == "cut" {
				h.holds("a c http://x.org/b") // what came before the break, but for deletions
			} else {
				h.holds("a c")
			}
			h.watermark("11:00:00")
			s.handle("/a1", nil)
			s.put(map[string]string{"/a1": feedOf("12:01", prev("/a0"), live("b", "12:00:01"), dead("a", "12:00"))})
			h.clean()
			h.holds("b c")
			h.asked("/feed, /a1, /a0, /feed 304") // no validators of what was not processed: AP-HTTP-06
			h.watermark("13:00:00")
		})
	}
}

// After repeated failure the harvest continues with the available documents; the gap
// is reported, and requested from time to time.
func TestFeedGap(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	docs := fourDocuments()
	docs["/a3"] = feedOf("13:00", prev("/a2"), live("c", "13:00"))
	delete(docs, "/a2")
	s.put(docs)
	h := follow(t, s, atompmh.Options{})
	for range 2 {
		if r := h.run(); r.Unreadable.Count != 1 {
			t.Errorf("told of %v", r.Unreadable)
		}
		if st := h.Status(); st.Whole || st.Gap != "" || !st.Watermark.IsZero() {
			t.Errorf("status %+v", st)
		}
	}
	h.run()
	h.holds("c d")
	h.watermark("14:00:00")
	if st := h.Status(); !st.Whole || st.Gap != s.URL+"/a2" {
		t.Errorf("status %+v, want a gap", st)
	}
	s.took()
	h.clean()
	h.asked("/feed 304")
	s.put(map[string]string{"/feed": feedOf("15:00", prev("/a3"), live("e", "15:00"), live("d", "14:00"), live("d", "13:00"))})
	reported(t, h.run().Skipped, "may be missing") // AP-HV-17
	h.asked("/feed")
	s.put(map[string]string{"/a2": fourDocuments()["/a2"]})
	before(t, h, func(text string) string { return strings.ReplaceAll(text, `"tried":"20`, `"tried":"19`) })
	h.clean()
	h.holds("a b c d e")
	if st := h.Status(); st.Gap != "" {
		t.Errorf("status %+v, want no gap", st)
	}
}

// A server in trouble is not given up so soon.
func TestFeedTrouble(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	s.status("/a2", http.StatusBadGateway)
	h := follow(t, s, atompmh.Options{})
	for range 5 {
		h.run()
	}
	if st := h.Status(); st.Whole || !st.Watermark.IsZero() {
		t.Errorf("status %+v", st)
	}
	s.handle("/a2", nil)
	h.clean()
	h.holds("a b c d")
}

func TestFeedCircle(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"itself": "/a2", "subscription": "/feed", "circle": "/a1", "elsewhere": "http://lockstep.test/feed", "nowhere": "ftp://x/"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFeedSite(t)
			link := prev(next)
			if strings.Contains(next, ":") {
				link = strings.ReplaceAll(link, "BASE", "")
			}
			s.put(map[string]string{
				"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00")),
				"/a1":   feedOf("12:00", prev("/a2"), live("b", "12:00")),
				"/a2":   feedOf("11:00", link, live("a", "11:00")),
			})
			h := follow(t, s, atompmh.Options{})
			for range 3 { // AP-HV-09
				if r := h.run(); r.Unreadable.Count != 1 {
					t.Errorf("told of %v, %v", r.Unreadable.First, r.Skipped.First)
				}
				h.holds("a b c")
				h.asked("/feed, /a1, /a2, /feed 304")
			}
			h.clean()
			h.asked("/feed 304")
		})
	}
	// A redirect closes a circle as well.
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00"))})
	s.handle("/a1", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/feed", http.StatusFound) })
	h := follow(t, s, atompmh.Options{})
	reported(t, h.run().Unreadable, "circle")
}

// A chain without end.
func TestFeedEndless(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/x/100"), live("a", "13:00"))})
	for i := range 101 {
		s.put(map[string]string{fmt.Sprintf("/x/%d", i): feedOf("12:00", prev(fmt.Sprintf("/x/%d", i-1)), live(fmt.Sprintf("b%d", i), "12:00", "/b"))})
	}
	h := follow(t, s, atompmh.Options{MaxDocuments: 10})
	reported(t, h.run().Unreadable, "more than 10 documents") // AP-HV-09
	if n := strings.Count(s.took(), "/x/"); n != 9 {
		t.Errorf("%d archive documents asked for, want 9", n)
	}
	h.holds("a b")
	h = follow(t, s, atompmh.Options{MaxBytes: 2000})
	reported(t, h.run().Unreadable, "bytes")
	if n := strings.Count(s.took(), "/x/"); n > 9 {
		t.Errorf("%d archive documents asked for, want less", n)
	}
}

// A crash between reading and applying: nothing hides behind a 304.
func TestFeedCrash(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{})
	broken := &failingLedger{Ledger: h.ledger}
	h.ledger = broken
	for i := range 3 {
		h.reopen(atompmh.Options{})
		broken.fail = true
		if _, err := h.Scan(t.Context()); !errors.Is(err, errFailing) {
			t.Fatalf("error %v", err)
		}
		broken.fail = false
		s.took()
		h.reopen(atompmh.Options{})
		h.clean() // AP-HTTP-06
		if got := s.took(); strings.HasPrefix(got, "/feed 304") {
			t.Errorf("asked for %s: the feed was not processed", got)
		}
		h.holds("a b c d")
		s.put(map[string]string{"/feed": feedOf("16:00", prev("/a3"), live("d", fmt.Sprintf("15:%02d", i)))})
	}
}

var errFailing = errors.New("no ledger")

type failingLedger struct {
	ledger.Ledger
	fail bool
}

func (l *failingLedger) Record(ctx context.Context, set string, put []ledger.Row, drop []string) error {
	if l.fail {
		return errFailing
	}
	return l.Ledger.Record(ctx, set, put, drop)
}

// Memory that does not fit what the catalog holds is no memory.
func TestFeedLost(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{})
	h.clean()
	h.cat = catalog.NewMem(nil) // the catalog was lost
	h.reopen(atompmh.Options{})
	h.clean()
	h.holds("a b c d")
	h.ledger = new(ledger.Mem) // and now the ledger, with the state
	must(t, os.Remove(h.o.State))
	s.put(map[string]string{"/a1": feedOf("12:00", "")})
	h.reopen(atompmh.Options{})
	h.clean()
	h.holds("a b c d") // that a record is not in the feed proves nothing
	s.put(map[string]string{"/feed": feedOf("15:00", prev("/a3"), dead("a", "15:00"), live("d", "14:00"))})
	h.clean()
	h.holds("b c d")
}

// Resources that another origin put into the set are deleted once the feed is known.
func TestFeedTakesOver(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{})
	_, err := h.cat.Apply(t.Context(), set, []catalog.Update{{Record: catalog.Record{URI: s.URL + "/foreign"}}, {Record: catalog.Record{URI: s.URL + "/a"}}})
	must(t, err)
	s.status("/a2", http.StatusForbidden)
	h.run()
	h.holds("a c d foreign")
	s.handle("/a2", nil)
	h.clean()
	h.holds("a b c d")
}

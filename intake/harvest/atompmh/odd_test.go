package atompmh_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/harvest/atompmh"
)

// Documents that contradict each other: read again, then all of them, then taken
// as they are, without the watermark.
func TestFeedDisorder(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", prev("/a1"), live("b", "12:00")), "/a1": feedOf("11:00", "", live("a", "11:00"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	wrong := map[string]string{"/feed": feedOf("15:00", prev("/a1"), live("c", "13:00")), "/a1": feedOf("14:00", "", live("d", "11:30"))}
	s.put(wrong)
	reported(t, h.run().Skipped, "AP-TS-03") // AP-HV-06
	h.holds("a b c d")
	h.watermark("12:00:00")
	if n := strings.Count(s.took(), "/feed"); n > 6 {
		t.Errorf("the feed was asked for %d times", n)
	}
	s.put(nil)
	h.clean()
	h.asked("/feed 304")
	s.put(map[string]string{"/feed": feedOf("15:01", prev("/a1"), live("c", "13:00"))})
	reported(t, h.run().Skipped, "AP-TS-03")
	h.asked("/feed, /a1, /a1 304")
	s.put(map[string]string{"/feed": feedOf("15:00", prev("/a1"), live("c", "13:00")), "/a1": feedOf("12:00", "", live("d", "11:30"))})
	h.clean()
	h.watermark("13:00:00")

	// A problem that is repaired before the document is read again is not reported.
	s.put(wrong)
	asked := 0
	s.onAsk = func(path string) {
		if asked++; asked == 3 {
			s.put(map[string]string{"/feed": feedOf("16:00", prev("/a1"), live("e", "16:00")), "/a1": feedOf("13:00", "", live("c", "13:00"), live("d", "11:30"))})
		}
	}
	h = follow(t, s, atompmh.Options{})
	h.clean()
	h.holds("c d e")
	h.watermark("16:00:00")
}

// A feed that never comes to rest is not read for ever.
func TestFeedRestless(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	n := 0
	s.onAsk = func(path string) {
		if path == "/feed" {
			n++
			at := fmt.Sprintf("12:%02d", n)
			s.put(map[string]string{
				"/feed":                    feedOf(at, prev(fmt.Sprintf("/a%d", n)), live("b", at)),
				fmt.Sprintf("/a%d", n):     feedOf("11:00", "", live("a", "11:00")),
				fmt.Sprintf("/a%d", n-100): "",
			})
		}
	}
	h := follow(t, s, atompmh.Options{})
	reported(t, h.run().Skipped, "kept changing")
	h.holds("a b")
	if n > 10 {
		t.Errorf("the feed was asked for %d times", n)
	}
	if !h.Status().Watermark.IsZero() {
		t.Error("the watermark was moved")
	}
}

func TestFeedTimes(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", "",
		live("offset", "2024-05-02T20:00:00+10:00"), live("later", "2024-05-02T12:30:00.5Z"), live("future", "2999-01-01T00:00:00Z"))})
	h := follow(t, s, atompmh.Options{})
	reported(t, h.run().Skipped, "AP-TS-01") // AP-HV-10
	h.holds("future@00:00 later@12:30 offset@10:00")
	w := h.Status().Watermark
	if w.Year() > 2100 || w.Year() < 2024 {
		t.Errorf("watermark %v, want the time of the answer", w)
	}
	// What comes with the right time is not lost on account of it.
	soon := w.Add(time.Second).Format(time.RFC3339Nano)
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("new", soon), live("future", "2999-01-01T00:00:00Z"))})
	h.run()
	if got, _, err := find(t, h.cat, s.URL+"/new"); err != nil || got.URI == "" {
		t.Errorf("what came after an entry of the future was lost: %v", err)
	}
}

func find(t *testing.T, cat catalog.Catalog, uri string) (catalog.Record, bool, error) {
	t.Helper()
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{From: uri, To: uri + "\x00"}) {
		return r, err == nil, err
	}
	return catalog.Record{}, false, nil
}

// Times that no document can state.
func TestFeedOddTimes(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("9999-12-31T23:59:59-10:00", "", live("a", "9999-12-31T23:59:59-10:00"), live("b", "0001-01-01T00:00:00+10:00"))})
	h := follow(t, s, atompmh.Options{})
	h.run()
	for _, p := range []string{"/a", "/b"} {
		if r, ok, err := find(t, h.cat, s.URL+p); err != nil || !ok || !r.Lastmod.IsZero() {
			t.Errorf("%s: %+v, %v, want no lastmod", p, r, err)
		}
	}
	h.reopen(atompmh.Options{})
	h.run()
}

func TestFeedAnother(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "11:00"), live("b", "12:00"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("10:00", "id:urn:x-test:other ", live("b", "09:00"), live("c", "10:00"))})
	_, err := h.Scan(t.Context()) // AP-HV-11
	var another *atompmh.AnotherFeedError
	if !errors.As(err, &another) || another.Was != "urn:x-test:feed" || another.Is != "urn:x-test:other" {
		t.Errorf("error %v, want one of another feed", err)
	}
	h.holds("a b")
	h.reopen(atompmh.Options{AcceptFeed: true})
	h.run()
	h.holds("b@09:00 c@10:00")
	h.watermark("10:00:00")
	h.reopen(atompmh.Options{})
	h.clean()
	h.asked("/feed, /feed, /feed, /feed 304")
}

// The producer was restored from a backup.
func TestFeedWentBack(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("14:00", prev("/a1"), live("b", "14:00"), live("a", "13:00")), "/a1": feedOf("12:00", "", live("a", "12:00", "/old"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("12:30", prev("/a1"), live("c", "12:30"))})
	reported(t, h.run().Skipped, "AP-HV-02")
	h.holds("b@14:00 c@12:30 old@12:00")
	h.watermark("12:30:00")
	s.put(map[string]string{"/feed": feedOf("12:45", prev("/a1"), live("d", "12:45"), live("c", "12:30"), live("c", "12:29"))})
	h.clean()
	h.holds("b c d old")
}

// Beginning at an archive document.
func TestFeedCurrent(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	current := `<link rel="current" href="BASE/now"/>`
	s.put(map[string]string{
		"/feed": feedOf("11:00", `<fh:archive/>`+current, live("a", "11:00")),
		"/now":  feedOf("12:00", current+prev("/feed"), live("b", "12:00")),
	})
	h := follow(t, s, atompmh.Options{})
	h.clean() // AP-HV-14
	h.holds("a b")
	s.took()
	h.clean()
	h.asked("/now 304")
	// It can go.
	s.put(map[string]string{"/now": "", "/feed": feedOf("13:00", "", live("c", "13:00"))})
	h.clean()
	h.holds("a b c")
	// Or never have been.
	s.put(map[string]string{"/feed": feedOf("14:00", `<fh:archive/>`+current, live("d", "14:00"))})
	reported(t, h.run().Skipped, "cannot be read")
	h.holds("a b c d")
}

func TestFeedMoved(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	redirect := func(to string, status int) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, status) }
	}
	s.put(map[string]string{"/b": feedOf("12:00", "", live("a", "12:00"))})
	s.handle("/feed", redirect("/b", http.StatusFound))
	h := follow(t, s, atompmh.Options{})
	h.clean()
	h.clean()
	h.asked("/feed, /b, /feed, /b 304") // AP-HV-15
	s.handle("/feed", redirect("/b", http.StatusPermanentRedirect))
	h.clean()
	s.took()
	h.reopen(atompmh.Options{})
	h.clean()
	h.clean()
	h.asked("/b, /b 304")
	// What is no longer there had not moved for good.
	s.handle("/feed", nil)
	s.put(map[string]string{"/b": "", "/feed": feedOf("13:00", "", live("b", "13:00"))})
	h.clean()
	h.holds("a b")
	s.status("/feed", http.StatusGone)
	if _, err := h.Scan(t.Context()); !errors.Is(err, atompmh.ErrEnded) {
		t.Errorf("error %v, want that the feed has ended", err)
	}
	h.holds("a b")
	// Watching one that has ended asks once, also beyond the second after which what
	// failed is tried again.
	s.took()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	h.reopen(atompmh.Options{ScanInterval: time.Millisecond, OnEvent: func(e intake.Event) {
		if e.Kind == intake.EventScanned {
			time.AfterFunc(1300*time.Millisecond, cancel)
		}
	}})
	_ = h.Watch(ctx, nil) // the end of ctx
	h.asked("/feed")
}

// A complete archive document: complete as of then, and newer ones on top.
func TestFeedCompleteArchive(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "11:00"), live("b", "12:00"), live("n", "12:00"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	s.put(map[string]string{
		"/feed": feedOf("14:00", prev("/a2"), live("d", "14:00")),
		"/a2":   feedOf("13:30", prev("/a1"), live("n", "13:30")),
		"/a1":   feedOf("13:00", complete, live("b", "12:00"), live("c", "13:00")),
	})
	h.clean() // AP-AMB-07
	h.holds("b c d n")
	s.put(map[string]string{"/feed": feedOf("15:00", prev("/a2"), live("e", "15:00"))})
	h.clean()
	h.holds("b c d e n")
}

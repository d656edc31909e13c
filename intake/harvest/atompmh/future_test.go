package atompmh_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/harvest/atompmh"
)

// lastmods returns the time of each resource in the catalog, by path.
func (h *harvest) lastmods() map[string]time.Time {
	h.t.Helper()
	all := map[string]time.Time{}
	for r, err := range h.cat.Resources(h.t.Context(), set, catalog.Range{}) {
		must(h.t, err)
		all[strings.TrimPrefix(r.URI, h.site.URL+"/")] = r.Lastmod
	}
	return all
}

// TestFeedClockCorrected: entries dated in our future are reported when they are
// first read, and what a producer dates earlier once its clock was corrected is not
// missed: neither where the later times stay in the document, nor where they are in
// archives, nor when our clock has reached them.
func TestFeedClockCorrected(t *testing.T) {
	t.Parallel()
	now := time.Now().UTC().Truncate(time.Second)
	at := func(d time.Duration) string { return now.Add(d).Format(time.RFC3339) }
	const ahead, past = 90 * time.Minute, -time.Minute
	type pages = map[string]string
	for name, tt := range map[string]struct{ before, after pages }{
		"in the document": {
			pages{"/feed": feedOf(at(ahead), "", live("b", at(ahead)), live("a", at(ahead-time.Hour)), live("d", at(ahead)))},
			pages{"/feed": feedOf(at(past), "", dead("d", at(past)), live("c", at(past)), live("a", at(past)), live("b", at(ahead)))},
		},
		"behind the new ones": {
			pages{"/feed": feedOf(at(ahead), "", live("b", at(ahead)), live("a", at(ahead-time.Hour)), live("d", at(ahead)))},
			pages{"/feed": feedOf(at(past), "", dead("d", at(past)), live("c", at(past)), live("a", at(past)), live("b", at(ahead)), live("a", at(ahead-time.Hour)), live("d", at(ahead)))},
		},
		"in an archive": {
			pages{"/feed": feedOf(at(ahead), "", live("b", at(ahead)), live("a", at(ahead-time.Hour)), live("d", at(ahead)))},
			pages{
				"/feed":    feedOf(at(past), prev("/archive"), dead("d", at(past)), live("c", at(past)), live("a", at(past))),
				"/archive": feedOf(at(ahead), "", live("b", at(ahead)), live("a", at(ahead-time.Hour)), live("d", at(ahead))),
			},
		},
		"complete": {
			pages{"/feed": feedOf(at(ahead), complete, live("b", at(ahead)), live("a", at(ahead-time.Hour)), live("d", at(ahead)))},
			pages{"/feed": feedOf(at(past), complete, live("c", at(past)), live("a", at(past)), live("b", at(ahead)))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFeedSite(t)
			for _, p := range []string{"/a", "/b", "/c", "/d"} {
				s.handle(p, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
			}
			s.handle("/d", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
			s.put(tt.before)
			h := follow(t, s, atompmh.Options{AllowEmpty: true})
			reported(t, h.run().Skipped, "times in our future")
			if r := h.run(); r.Skipped.Count > 0 {
				t.Errorf("a feed that is as it was is reported again: %v", r.Skipped.First)
			}
			if w := h.Status().Watermark; w.After(time.Now()) {
				t.Errorf("the watermark %s is in our future", w)
			}
			s.put(tt.after)
			h.reopen(atompmh.Options{AllowEmpty: true})
			h.run()
			got := h.lastmods()
			for path, want := range map[string]time.Time{"a": now.Add(past), "b": now.Add(ahead), "c": now.Add(past)} {
				if !got[path].Equal(want) {
					t.Errorf("%s is of %s, want %s", path, got[path], want)
				}
			}
			if _, ok := got["d"]; ok || len(got) != 3 {
				t.Errorf("the catalog holds %v", got)
			}
			if r := h.run(); r.Changed() {
				t.Errorf("a feed that is as it was changes something: %+v", r)
			}
		})
	}
}

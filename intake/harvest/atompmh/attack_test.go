package atompmh_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"lockstep/catalog"
	"lockstep/intake/harvest/atompmh"
)

// A circle through ever other addresses of the same documents.
func TestFeedDisguisedCircle(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]func(n int) string{
		"query":  func(n int) string { return fmt.Sprintf("/a1?n=%d", n) },
		"letter": func(n int) string { return "/" + strings.Repeat("x", n) + "/a1" },
		"moved":  func(n int) string { return fmt.Sprintf("/moved?n=%d", n) },
	} {
		for _, at := range []string{"12:00", "11:00"} { // in order, and not
			t.Run(name+at, func(t *testing.T) {
				t.Parallel()
				s := newFeedSite(t)
				n := 0
				answer := func(w http.ResponseWriter, r *http.Request) {
					n++
					if strings.HasPrefix(r.URL.Path, "/moved") {
						http.Redirect(w, r, fmt.Sprintf("/a2?n=%d", n), http.StatusMovedPermanently)
						return
					}
					_, _ = io.WriteString(w, strings.ReplaceAll(feedOf("12:00", prev(next(n)), live("a", at), live("b", "12:00")), "BASE", s.URL))
				}
				for i := range 200 {
					s.handle("/"+strings.Repeat("x", i)+"/a1", answer)
				}
				s.handle("/a1", answer)
				s.handle("/a2", answer)
				s.handle("/moved", answer)
				s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00"))})
				h := follow(t, s, atompmh.Options{})
				reported(t, h.run().Unreadable, "circle") // AP-HV-09
				h.holds("a b c")
				if n > 50 {
					t.Errorf("%d documents asked for", n)
				}
			})
		}
	}
	// By another way to write the host.
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": strings.Replace(feedOf("13:00", prev("/feed"), live("c", "13:00")), `prev-archive" href="BASE`, `prev-archive" href="`+strings.Replace(s.URL, "http", "HTTP", 1), 1)})
	h := follow(t, s, atompmh.Options{})
	reported(t, h.run().Unreadable, "circle")
	h.asked("/feed")
	// The newest entries in two documents are no circle.
	s.put(map[string]string{
		"/feed": feedOf("13:00", prev("/a2"), live("c", "13:00")),
		"/a2":   feedOf("13:00", prev("/a1"), live("c", "13:00")),
		"/a1":   feedOf("12:00", "", live("a", "12:00")),
	})
	h.clean()
	h.holds("a c")
}

// Archive documents that have moved, with relative addresses in them.
func TestFeedMovedArchives(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	relative := func(text string) string { return strings.ReplaceAll(text, "BASE/", "") }
	s.put(map[string]string{
		"/feed":      feedOf("13:00", prev("/old/2"), live("c", "13:00")),
		"/new/dir/2": relative(feedOf("12:00", prev("/1"), live("b", "12:00"))),
		"/new/dir/1": relative(feedOf("11:00", "", live("a", "11:00"), dead("b", "10:00"))),
	})
	s.handle("/old/2", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/new/dir/2", http.StatusMovedPermanently)
	})
	h := follow(t, s, atompmh.Options{})
	h.clean() // AP-DOC-12, AP-HV-05
	h.holds("c new/dir/a new/dir/b")
}

// An entry or document that is much too large is skipped and reported.
func TestFeedTooMuch(t *testing.T) {
	t.Parallel()
	var many []string
	for i := range 100_000 {
		many = append(many, fmt.Sprintf("/m/%d text/plain", i))
	}
	long := strings.Replace(live("l", "12:00"), "urn:x-test:l", "urn:x-test:"+strings.Repeat("l", 1<<20), 1)
	for name, entry := range map[string]string{
		"alternates": live("m", "12:00", many...), "id": long,
		"title": strings.Replace(live("t", "12:00"), "<title>t", "<title>"+strings.Repeat("t", 1<<20), 1),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newFeedSite(t)
			s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00"), entry, live("z", "11:00"))})
			h := follow(t, s, atompmh.Options{})
			r := h.run()
			for _, path := range []string{"/a", "/z"} {
				if _, ok, err := find(t, h.cat, s.URL+path); err != nil || !ok {
					t.Errorf("%s is missing: %v; told of %v, %v", path, err, r.Unreadable, r.Skipped)
				}
			}
			if r.Created > 1100 {
				t.Errorf("%d created", r.Created)
			}
			s.put(map[string]string{"/feed": feedOf("13:00", complete, live("z", "11:00"))})
			h.reopen(atompmh.Options{AllowEmpty: true})
			h.run()
			h.holds("z")
		})
	}
	// A document that is small until it is unpacked.
	s := newFeedSite(t)
	var bomb bytes.Buffer
	zip := gzip.NewWriter(&bomb)
	_, _ = io.WriteString(zip, feedOf("12:00", "")[:200]+"<!--") // a buffer takes all
	for range 8 {
		_, _ = zip.Write(bytes.Repeat([]byte("bomb"), 1<<18))
	}
	must(t, zip.Close())
	s.handle("/a1", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb.Bytes()) // who had enough does not read on
	})
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00"))})
	h := follow(t, s, atompmh.Options{MaxBytes: 1 << 20}) // AP-HTTP-08
	if r := h.run(); r.Unreadable.Count != 1 || r.Bytes > 2<<20 {
		t.Errorf("report %+v", r)
	}
	h.holds("c")
}

// What is remembered of a feed stays small, whatever it says.
func TestFeedLongMemory(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	long := strings.Repeat("é", 1<<16)
	text := feedOf("13:00", "id:urn:x-test:"+long+" "+prev("/"+strings.Repeat("p", 1<<17)), live("a", "13:00"))
	text = strings.Replace(text, "<title>Test", "<title>"+long, 1)
	s.put(map[string]string{"/feed": text})
	s.handle("/feed", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("ETag", `"`+strings.Repeat("e", 10_000)+`"`)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "BASE", s.URL))
	})
	h := follow(t, s, atompmh.Options{})
	for range 4 {
		reported(t, h.run().Unreadable, "address has more than")
		if info, err := os.Stat(h.o.State); err != nil || info.Size() > 64<<10 {
			t.Fatalf("the memory: %v, %v", info.Size(), err)
		}
		if h.Status().Whole {
			break
		}
	}
	h.holds("a")
	text = strings.Replace(text, long, long+"!", 1)
	h.reopen(atompmh.Options{})
	var another *atompmh.AnotherFeedError
	if _, err := h.Scan(t.Context()); !errors.As(err, &another) || len(err.Error()) > 10_000 { // AP-HV-11
		t.Errorf("Scan = %.1000v, want another feed", err)
	}
}

// A server that says 304 whatever it is asked.
func TestFeedUnchangedSinceNever(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00"))})
	s.status("/a1", http.StatusNotModified)
	reported(t, h.run().Unreadable, "304") // AP-HTTP-07
	h.holds("c")
	s.status("/feed", http.StatusNotModified)
	h = follow(t, s, atompmh.Options{})
	if _, err := h.Scan(t.Context()); err == nil || !strings.Contains(err.Error(), "304") {
		t.Errorf("Scan = %v", err)
	}
}

// Events with one time for all, in documents of two each: a harvest in steps finds
// them all, however they are cut.
func TestFeedAllAtOnce(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{
		"/feed": feedOf("12:00", prev("/a2"), live("f", "12:00"), live("e", "12:00")),
		"/a2":   feedOf("12:00", prev("/a1"), live("d", "12:00"), live("c", "12:00")),
		"/a1":   feedOf("12:00", "", live("b", "12:00"), live("a", "12:00")),
	})
	h := follow(t, s, atompmh.Options{})
	h.clean() // AP-TS-03: equality is legal
	h.holds("a b c d e f")
	s.put(map[string]string{
		"/feed": feedOf("12:00", prev("/a3"), live("h", "12:00"), dead("a", "12:00:01")),
		"/a3":   feedOf("12:00", prev("/a2"), live("g", "12:00"), live("f", "12:00"), live("e", "12:00")),
	})
	s.put(map[string]string{"/feed": feedOf("12:00:01", prev("/a3"), live("h", "12:00"), dead("a", "12:00:01"))})
	h.clean()
	h.holds("b c d e f g h")
	h.asked("/feed, /a3, /a2 304, /a1 304, /feed 304")
}

// Rules of the draft that are worded wrongly, as they have to be read.
func TestFeedWordings(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	// AP-AMB-01, AP-AMB-08: in a complete feed a deleted record has no entry at all,
	// also not the one that was active; and no document is needed beside it.
	s.put(map[string]string{"/feed": feedOf("12:00", complete+prev("/gone"), live("a", "11:00"), live("a", "12:00", "/a2"), live("b", "11:00"), live("c", "11:00"))})
	h.run()
	h.holds("a2 b c")
	s.put(map[string]string{"/feed": feedOf("12:00", complete, live("b", "11:00"), live("c", "11:00"))})
	h.clean()
	h.holds("b c")
	// AP-AMB-02, AP-AMB-03: what has no alternate link is the deletion entry, and the
	// new entry after a deletion; AP-HIS-03: the link of the entry that it makes
	// historical leads nowhere and is not followed. AP-AMB-13: there need not be one.
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("b", "11:00", "/nowhere"), dead("b", "13:00"), dead("c", "13:00"), live("d", "12:30"))})
	h.clean()
	h.holds("d")
	h.asked("/feed, /feed") // AP-CDL-04: the mode has changed
	// AP-AMB-10: the oldest document has no prev-archive, as there is nothing it could
	// lead to. AP-AMB-11: a feed dated long after its entries is no mark to stop at.
	s.put(map[string]string{"/feed": feedOf("20:00", prev("/a1"), live("e", "14:00")), "/a1": feedOf("13:30", "", live("d", "12:30"))})
	h.clean()
	h.watermark("14:00:00")
	s.put(map[string]string{"/feed": feedOf("20:00", prev("/a1"), live("e", "14:00"), live("f", "15:00"))})
	h.clean()
	h.holds("d e f")
	// AP-TS-09: a correction comes as a new entry, whatever the archive still says.
	s.put(map[string]string{"/feed": feedOf("20:30", prev("/a1"), live("e", "14:00"), live("f", "15:00"), live("d", "20:30", "/d2"))})
	h.clean()
	h.holds("d2 e f")
}

// A complete feed that says so behind its entries.
func TestFeedLateComplete(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "11:00"), live("b", "12:00"))})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("c", "13:00"), live("a", "11:00"), complete)})
	h.run() // AP-CDL-01
	h.holds("a c")
}

// What a feed puts into a catalog is what it may put there.
func TestFeedStrangeRecords(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	entry := func(id, href string) string {
		return `<entry><id>` + id + `</id><title/><updated>2024-05-02T12:00:00Z</updated><link rel="alternate" type="text/plain" href="` + href + `"/></entry>`
	}
	s.put(map[string]string{"/feed": feedOf("12:00", "", entry("tag:a", "javascript:alert(1)"), entry("tag:b", "file:///etc/passwd"), entry("tag:c", "data:,x"),
		entry("tag:d", "http://"), entry("tag:e", "//other.test/x"), entry("tag:f", ""), entry("  tag:g&#10;", "BASE/g"), entry("", "BASE/h"),
		entry("not absolute", "BASE/i"), entry("tag:J", "BASE/J"), entry("tag:j", "BASE/j"), entry("tag:%6a", "BASE/%6a"), entry("tag:k", "BASE/k#part"))})
	h := follow(t, s, atompmh.Options{})
	r := h.run()
	for _, words := range []string{"tag:a: it is no http", "tag:b: it is no http", "tag:c: it is no http", "tag:d: it is no http", "AP-CLS-04", "AP-DOC-05", "AP-DOC-09"} {
		reported(t, r.Skipped, words) // AP-GEN-06
	}
	var ids []string
	for rec, err := range h.cat.Resources(t.Context(), set, catalog.Range{}) {
		must(t, err)
		ids = append(ids, strings.TrimPrefix(rec.URI, s.URL)+"="+catalog.RecordID(rec.Links))
	}
	// AP-DOC-09: character by character.
	const want = "/%6a=tag:%6a /J=tag:J /g=tag:g /i= /j=tag:j /k=tag:k http://other.test/x=tag:e"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("the catalog holds %s, want %s", got, want)
	}
}

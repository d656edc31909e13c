package atompmh_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/harvest/atompmh"
	"lockstep/resourcesync"
)

// An active and a deletion entry of one instant: the representation decides.
func TestFeedTied(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	both := func(n string) string {
		return feedOf("12:00", "", live("a", "12:00"), dead("a", "12:00"), live("b", "11:00"), live("x", "12:00:0"+n))
	}
	for status, want := range map[int]string{200: "a b x", 403: "b x", 404: "b x", 410: "b x", 500: "b x", 401: "b x"} {
		h := follow(t, s, atompmh.Options{})
		s.put(map[string]string{"/feed": both("0")})
		s.status("/a", status)
		r := h.run() // AP-CLS-06
		h.holds(want)
		if open := status == 500 || status == 401; open != (r.Unreadable.Count == 1) {
			t.Errorf("status %d: told of %v", status, r.Unreadable.First)
		}
		if status < 500 && status != 401 {
			continue
		}
		// It is asked for again, also where the feed has nothing new.
		s.status("/a", http.StatusOK)
		s.put(nil)
		h.clean()
		h.holds("a b x")
		h.asked("/feed 304, /a")
	}
	// One of them was applied before; what is held stays until it is known.
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00"), live("b", "11:00"))})
	h.clean()
	s.status("/a", http.StatusInternalServerError)
	s.put(map[string]string{"/feed": both("0")})
	h.run()
	h.holds("a b x")
	s.status("/a", http.StatusGone)
	h.clean()
	h.holds("b x")
	// A newer entry settles it as well.
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("a", "12:00"), dead("a", "12:00"), live("a", "13:00"), live("b", "11:00"))})
	h.clean()
	h.holds("a b x")
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), dead("a", "13:00")), "/a1": feedOf("11:00", "", live("b", "11:00"))})
	s.handle("/a", nil) // 404
	h.clean()           // the active one is not in sight any more
	h.holds("b x")
}

// Two documents of one instant: the one whose feed is later counts.
func TestFeedLaterDocument(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{
		"/feed": feedOf("12:01", prev("/a1"), dead("a", "12:00"), live("b", "12:00", "/b2")),
		"/a1":   feedOf("12:00", "", live("a", "12:00"), live("b", "12:00")),
	})
	h := follow(t, s, atompmh.Options{})
	h.clean() // AP-CLS-03
	h.holds("b2")
	h.asked("/feed, /a1, /feed 304") // nothing had to be asked for
}

func TestFeedLenient(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": `<feed xmlns="http://www.w3.org/2005/Atom" xml:base="` + s.URL + `/sub/">
		<id>urn:x-test:feed</id><title/><updated>2024-05-02T12:00:00Z</updated>
		<entry><id>urn:x-test:both</id><title/><updated>2024-05-02T12:00:00Z</updated><link href="both"/><content type="text">text</content></entry>
		<entry><id>urn:x-test:neither</id><title/><updated>2024-05-02T12:00:00Z</updated></entry>
		<entry><id>urn:x-test:src</id><title/><updated>2024-05-02T12:00:00Z</updated><content src="src" type="text/plain"/></entry>
		<entry xml:base="deep/"><id>urn:x-test:types</id><title/><updated>2024-05-02T12:00:00Z</updated>
			<link rel="alternate" type="text/html" href="t1"/><link type="text/html" href="../t2"/><link href="t1"/><link rel="alternate" href="mailto:a@b"/></entry>
		<entry><id>urn:x-test:blank</id><title/><updated>2024-05-02T12:00:00Z</updated><content> </content></entry>
	</feed>`})
	h := follow(t, s, atompmh.Options{})
	r := h.run() // AP-CLS-04, AP-DOC-02, AP-DOC-07, AP-DOC-12, AP-AMB-09: no author, types twice, no rel, relative addresses
	h.holds("sub/both sub/deep/t1 sub/src sub/t2")
	reported(t, r.Skipped, "AP-CLS-04")
	reported(t, r.Skipped, "no http or https URI") // AP-GEN-06
}

// What the catalog says of a record's resources.
func TestFeedRecord(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	long := "urn:x-test:" + strings.Repeat("long", 1000)
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "2024-05-02T11:00:00.123456789Z", "/1 text/html", "/2 application/rdf+xml", "/3 text/plain"),
		strings.Replace(live("l", "12:00"), "urn:x-test:l", long, 1))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	get := func(path string) catalog.Record {
		r, ok, err := find(t, h.cat, s.URL+path)
		if err != nil || !ok {
			t.Fatalf("%s: %v", path, err)
		}
		return r
	}
	links := func(r catalog.Record) string {
		var b strings.Builder
		for _, l := range r.Links {
			b.WriteString(l.Rel + " " + strings.TrimPrefix(l.Href, s.URL) + " " + l.Type + ", ")
		}
		return b.String()
	}
	r := get("/1") // AP-ACT-07, AP-RS-01, AP-RS-03
	if got, want := links(r), "urn:x-lockstep:record urn:x-test:a , alternate /2 application/rdf+xml, alternate /3 text/plain, "; got != want {
		t.Errorf("links %q, want %q", got, want)
	}
	if r.Type != "text/html" || r.Length != -1 || r.Lastmod.Format("15:04:05.999999999") != "11:00:00.123456" {
		t.Errorf("%+v", r)
	}
	if catalog.RecordID(r.Links) != "urn:x-test:a" {
		t.Errorf("record %q", catalog.RecordID(r.Links))
	}
	if got, want := links(get("/2")), "urn:x-lockstep:record urn:x-test:a , canonical /1 , "; got != want {
		t.Errorf("links %q, want %q", got, want)
	}
	if got := catalog.RecordID(get("/l").Links); got != long {
		t.Errorf("record %q, want the long id", got)
	}
	// AP-AMB-14: other formats come with another time.
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("a", "13:00", "/2 application/rdf+xml", "/4 text/plain"), strings.Replace(dead("l", "12:00:01"), "urn:x-test:l", long, 1))})
	h.clean()
	h.holds("2 4")
	if got, want := links(get("/2")), "urn:x-lockstep:record urn:x-test:a , alternate /4 text/plain, "; got != want {
		t.Errorf("links %q, want %q", got, want)
	}
	// And without: found by a full harvest.
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("a", "13:00", "/4 text/plain"))})
	h.clean()
	h.holds("2 4")
	_, err := h.Harvest(t.Context(), true)
	must(t, err)
	h.holds("4")
}

// Formats that appear and vanish.
func TestFeedTypes(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	for _, kept := range []bool{false, true} {
		h := follow(t, s, atompmh.Options{Types: []string{"Application/RDF+XML", "text/*"}, KeepVanished: kept})
		s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00", "/a.rdf application/rdf+xml;profile=x", "/a.pdf application/pdf"),
			live("b", "12:00", "/b.pdf application/pdf"), live("c", "12:00", "/c.txt text/plain"))})
		h.clean()
		h.holds("a.rdf c.txt")
		s.put(map[string]string{"/feed": feedOf("13:00", "", live("a", "13:00", "/a.pdf application/pdf"), live("b", "13:00", "/b.html text/html"))})
		h.clean() // AP-CDL-07
		if kept {
			h.holds("a.rdf b.html c.txt")
		} else {
			h.holds("b.html c.txt")
		}
		s.put(map[string]string{"/feed": feedOf("14:00", "", live("a", "14:00", "/a.html text/html"), dead("b", "14:00"))})
		h.clean()
		h.holds("a.html c.txt")
	}
}

// One resource on the account of two records goes with the last of them.
func TestFeedShared(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "11:00", "/x text/a"), live("b", "12:00", "/x text/b"))})
	h.clean()
	if r, _, err := find(t, h.cat, s.URL+"/x"); err != nil || r.Type != "text/b" {
		t.Errorf("%+v, %v, want what was said last", r, err)
	}
	s.put(map[string]string{"/feed": feedOf("13:00", "", dead("b", "13:00"), live("b", "12:00", "/x text/b"))})
	h.clean()
	h.holds("x@11:00")
	if r, _, err := find(t, h.cat, s.URL+"/x"); err != nil || r.Type != "text/a" || catalog.RecordID(r.Links) != "urn:x-test:a" {
		t.Errorf("%+v, %v, want what the other record says", r, err)
	}
	// It moves from one to another in one harvest.
	s.put(map[string]string{"/feed": feedOf("14:00", "", live("c", "13:30", "/x text/c"), dead("a", "14:00"), dead("b", "13:00"))})
	h.clean()
	h.holds("x@13:30")
	s.put(map[string]string{"/feed": feedOf("15:00", "", dead("c", "15:00"), dead("a", "14:00"), dead("b", "13:00"))})
	h.clean()
	h.holds("")
}

// With contents: hashes, and representations that are not available.
func TestFeedContent(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{Content: true, Algorithms: []resourcesync.Algorithm{resourcesync.MD5}})
	hash := func(path string) string {
		r, _, err := find(t, h.cat, s.URL+path)
		must(t, err)
		return r.Hashes.String()
	}
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00"), live("b", "11:00")), "/a": "one", "/b": "two"})
	h.clean()
	if got, want := hash("/a"), "md5:f97c5d29941bfb1b2fdab0874906ab82"; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
	h.clean()
	if got := s.took(); !strings.Contains(got, "/a,") || !strings.Contains(got, "/b,") || strings.Count(got, ",") != 3 || !strings.HasSuffix(got, "/feed 304") {
		t.Errorf("asked for %s", got)
	}
	// 404: pending. The copy stays until the feed explains it.
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("a", "13:00"), live("b", "11:00")), "/a": ""})
	r := h.run() // AP-CDL-05
	reported(t, r.Unreadable, "status 404")
	h.asked("/feed, /a, /feed 304") // the feed is read again, in case it explains the 404
	h.holds("a@12:00 b@11:00")
	h.clean()
	h.asked("/feed 304")
	s.put(map[string]string{"/feed": feedOf("14:00", "", dead("a", "14:00"), live("b", "11:00"))})
	h.clean()
	h.holds("b")
	// 500: asked for again.
	s.put(map[string]string{"/feed": feedOf("15:00", "", dead("a", "14:00"), live("c", "15:00"), live("b", "11:00")), "/c": "three"})
	s.status("/c", http.StatusInternalServerError)
	r = h.run() // AP-CDL-06
	reported(t, r.Unreadable, "status 500")
	h.holds("b")
	s.status("/c", http.StatusUnauthorized)
	r = h.run()
	reported(t, r.Unreadable, "status 401")
	s.handle("/c", nil)
	s.put(nil)
	h.reopen(atompmh.Options{Content: true, Algorithms: []resourcesync.Algorithm{resourcesync.MD5}})
	h.clean() // AP-HV-03
	h.asked("/feed 304, /c")
	h.holds("b@11:00 c@15:00")
	// AP-HV-16: newer content than the entry says is fine, and found with the next.
	s.put(map[string]string{"/feed": feedOf("16:00", "", live("c", "16:00"), live("b", "11:00")), "/c": "one"})
	h.clean()
	if got, want := hash("/c"), "md5:f97c5d29941bfb1b2fdab0874906ab82"; got != want {
		t.Errorf("hash %s, want %s", got, want)
	}
}

// Without entity tags a date will do, unless it is of the second of the answer.
func TestFeedValidators(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	var conditions []string
	date, modified, tag := "Thu, 02 May 2024 12:00:01 GMT", "Thu, 02 May 2024 12:00:01 GMT", ""
	text := strings.ReplaceAll(feedOf("12:00", "", live("a", "12:00")), "BASE", s.URL)
	s.handle("/feed", func(w http.ResponseWriter, r *http.Request) {
		conditions = append(conditions, r.Header.Get("If-None-Match")+"|"+r.Header.Get("If-Modified-Since"))
		w.Header().Set("Date", date)
		w.Header().Set("Last-Modified", modified)
		if tag != "" {
			w.Header().Set("ETag", tag)
		}
		_, _ = w.Write([]byte(text))
	})
	h := follow(t, s, atompmh.Options{})
	h.run()
	h.run()
	text = strings.Replace(text, "12:00:00Z</updated><link", "12:00:00.5Z</updated><link", 1)
	date = "Thu, 02 May 2024 12:00:02 GMT"
	h.run()
	tag = `W/"odd  tag"`
	text += " "
	h.run()
	text += " "
	date = modified
	h.run()
	want := []string{"|", "|", "|", "|" + modified, `W/"odd  tag"|` + modified}
	if got := strings.Join(conditions, ","); got != strings.Join(want, ",") { // AP-HTTP-05
		t.Errorf("asked by %s, want %s", got, strings.Join(want, ","))
	}
}

// AP-HV-07: an archive document is trusted only if that is configured.
func TestFeedTrustArchives(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{TrustArchives: true})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("15:00", prev("/a3"), live("e", "15:00"))})
	h.clean()
	h.asked("/feed, /feed 304")
	h.holds("a b c d e")
}

// Several trusted archive documents in one walk, as with Overlap, form no circle.
func TestFeedTrustArchivesOverlap(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{TrustArchives: true, Overlap: 24 * time.Hour})
	h.clean()
	for i, id := range []string{"e", "f", "g", "h", "i"} { // more often than failures are tolerated
		h.reopen(h.o)
		s.put(map[string]string{"/feed": feedOf(fmt.Sprintf("15:%02d", i), prev("/a3"), live(id, fmt.Sprintf("15:%02d", i)))})
		h.clean()
		h.asked("/feed, /feed 304")
	}
	h.holds("a b c d e f g h i")
	h.watermark("15:04:00")
	if st := h.Status(); st.Gap != "" {
		t.Errorf("status %+v, want no gap", st)
	}
}

// A trusted archive document that is complete was applied when it was read, and is
// no reason to read everything again.
func TestFeedTrustCompleteArchive(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{
		"/feed": feedOf("13:00", prev("/a1"), live("c", "13:00")),
		"/a1":   feedOf("12:00", complete, live("a", "11:00"), live("b", "12:00")),
	})
	h := follow(t, s, atompmh.Options{TrustArchives: true, Overlap: 24 * time.Hour})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("14:00", prev("/a1"), live("d", "14:00"), live("c", "13:00"))})
	h.reopen(h.o)
	h.clean()
	h.asked("/feed, /feed 304")
	h.holds("a b c d")
}

// AP-HV-07, AP-HTTP-08: what is asked, and how.
func TestFeedRequests(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	var head http.Header
	s.handle("/feed", func(w http.ResponseWriter, r *http.Request) {
		head = r.Header.Clone()
		_, _ = w.Write([]byte(feedOf("12:00", "")))
	})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	if head.Get("Accept-Encoding") != "gzip" || !strings.HasPrefix(head.Get("Accept"), "application/atom+xml") || head.Get("User-Agent") == "" {
		t.Errorf("asked with %v", head)
	}
}

package atompmh_test

import (
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"lockstep/intake/harvest/atompmh"
)

// fourDocuments is test 1 of the catalogue: one record in each document, the
// feed of an older one as late as the entry of the next.
func fourDocuments() map[string]string {
	return map[string]string{
		"/feed": feedOf("14:00", prev("/a3"), live("d", "14:00")),
		"/a3":   feedOf("14:00", prev("/a2"), live("c", "13:00")),
		"/a2":   feedOf("13:00", prev("/a1"), live("b", "12:00")),
		"/a1":   feedOf("12:00", "", live("a", "11:00")),
	}
}

func TestFeedFull(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{})
	r := h.clean() // AP-HV-02, AP-TS-03
	h.holds("a@11:00 b@12:00 c@13:00 d@14:00")
	h.asked("/feed, /a3, /a2, /a1, /feed 304")
	h.watermark("14:00:00") // AP-HV-01
	if r.Created != 4 || r.Files != 4 {
		t.Errorf("report %+v, want 4 created of 4", r)
	}
	if st := h.Status(); st.ID != "urn:x-test:feed" || st.Title != "Test" || !st.Whole || st.Complete {
		t.Errorf("status %+v", st)
	}
}

// A quiet feed costs one request, and only what is needed is read of another.
func TestFeedIncremental(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(fourDocuments())
	h := follow(t, s, atompmh.Options{})
	h.clean()
	s.took()
	h.reopen(atompmh.Options{})
	r := h.clean()
	h.asked("/feed 304") // AP-HV-03, AP-HTTP-05
	if r.Changed() || r.Files != 4 || r.Unchanged != 4 {
		t.Errorf("report of a quiet feed %+v", r)
	}
	s.put(map[string]string{"/feed": feedOf("15:00", prev("/a3"), live("e", "15:00"), live("d", "14:00"), live("d0", "13:59"))})
	h.clean()
	h.holds("a b c d d0 e") // d0 was published late, and was met all the same
	h.asked("/feed")        // an entry before the watermark: no older document is needed
	s.put(map[string]string{
		"/feed": feedOf("17:00", prev("/a5"), live("g", "17:00")),
		"/a5":   feedOf("16:00", prev("/a4"), live("f", "16:00")),
		"/a4":   feedOf("15:00", prev("/a3"), live("e", "15:00"), live("d", "14:00")),
	})
	h.clean()
	h.holds("a b c d d0 e f g")
	h.asked("/feed, /a5, /a4, /feed 304")
	h.watermark("17:00:00")
}

// A harvest without a state remembers in memory.
func TestFeedMemory(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.plain = true
	s.put(map[string]string{"/feed": feedOf("14:00", "", live("a", "14:00"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	r := h.clean() // AP-HTTP-07: the same text is as good as 304
	h.asked("/feed, /feed")
	if r.Changed() {
		t.Errorf("report of a quiet feed %+v", r)
	}
}

// Within a document entries may be in any order.
func TestFeedOrder(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	entries := []string{live("a", "10:00"), live("a", "12:00", "/a2"), live("b", "09:00"), dead("b", "11:00"), live("c", "08:00"), dead("c", "08:30"), live("c", "09:30")}
	h := follow(t, s, atompmh.Options{})
	for range 5 {
		rand.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		s.put(map[string]string{"/feed": feedOf("12:00", "", entries...)})
		h := follow(t, s, atompmh.Options{})
		h.clean() // AP-CLS-01, AP-CLS-02, AP-CLS-03, AP-DOC-06
		h.holds("a2@12:00 c@09:30")
	}
	// Across documents, too.
	s.put(map[string]string{
		"/feed": feedOf("12:00", prev("/a1"), live("a", "12:00", "/a2"), dead("b", "11:00")),
		"/a1":   feedOf("10:00", "", live("a", "10:00"), live("b", "09:00")),
	})
	h.clean()
	h.holds("a2@12:00")
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("a", "11:30"), live("b", "13:00"), live("x", "11:59", "/x"))})
	h.clean() // that of a is historical, that of x the first one
	h.holds("a2@12:00 b@13:00 x@11:59")
}

// Two events of one instant, the second published after the first was harvested.
func TestFeedSameInstant(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00"))})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00"), live("b", "12:00"))})
	h.clean() // AP-HV-04
	h.holds("a b")
	// To the nanosecond, and beyond what a catalog keeps of it.
	s.put(map[string]string{"/feed": feedOf("12:01", "", live("a", "2024-05-02T12:00:00.000000001Z", "/a-new"), live("b", "12:00"))})
	h.clean()
	h.holds("a-new b")
}

func TestFeedDeletion(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "11:00"), live("b", "12:00"), dead("never", "12:00"))})
	h.clean()
	h.holds("a b")
	s.put(map[string]string{"/feed": feedOf("13:00", "", live("b", "12:00"), dead("a", "13:00"), dead("unknown", "13:00"))})
	r := h.clean() // AP-DEL-02, AP-DEL-04
	h.holds("b")
	if r.Deleted != 1 {
		t.Errorf("%d deleted, want 1", r.Deleted)
	}
	s.put(map[string]string{"/feed": feedOf("14:00", "", live("b", "12:00"), dead("a", "13:00"), live("a", "14:00"))})
	h.clean() // AP-DEL-08
	h.holds("a@14:00 b@12:00")
	// AP-CLS-05
	s.put(map[string]string{"/feed": feedOf("15:00", "", live("a", "14:00"),
		`<at:deleted-entry xmlns:at="http://purl.org/atompub/tombstones/1.0" ref="urn:x-test:b" when="2024-05-02T15:00:00Z"/>`)})
	h.run()
	h.holds("a")
}

// Entries that were published late, or dated before a watermark that is later than
// it should be, count where they are met; what was settled before does not.
func TestFeedLate(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", prev("/a1"), live("a", "11:00"), live("b", "12:00"), live("t", "10:30"), dead("t", "10:30")),
		"/a1": feedOf("10:00", "", live("0", "10:00"))})
	s.status("/t", 200)
	h := follow(t, s, atompmh.Options{})
	h.clean()
	h.holds("0 a b t")
	s.put(map[string]string{"/feed": feedOf("13:00", prev("/a1"), live("a", "11:00"), live("a", "10:59", "/older"), live("b", "12:00"),
		live("late", "11:30"), dead("0", "11:31"), dead("never", "10:31"), live("t", "10:30"), dead("t", "10:30"), dead("b", "10:29"), live("c", "13:00"))})
	h.clean() // AP-HV-03, AP-HV-10
	h.holds("a b c late t")
	h.asked("/feed") // and t is not asked for again
	s.put(map[string]string{"/feed": feedOf("14:00", prev("/a1"), dead("late", "11:45"), live("b", "12:00"), dead("a", "11:00"), live("d", "14:00"))})
	h.clean() // of two that contradict each other one does not come alone, below the watermark
	h.holds("a b c d t")
	h.asked("/feed")
}

// What a complete feed does not list is gone; what another does not, stays.
func TestFeedComplete(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "11:00"), live("b", "12:00"))})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("12:01", "", live("b", "12:00"))})
	h.clean() // AP-CDL-02, AP-AMB-06
	h.holds("a b")
	s.put(map[string]string{"/feed": feedOf("12:02", complete, live("b", "12:00"), live("c", "10:00"))})
	h.clean() // AP-CDL-01, AP-CDL-04: also with an entry that is older than the watermark
	h.holds("b c")
	if !h.Status().Complete {
		t.Error("the feed is not told to be complete")
	}
	// AP-AMB-05: a deletion entry in it counts as well; one that is not there is gone.
	s.put(map[string]string{"/feed": feedOf("12:03", complete, live("b", "12:00"), dead("b", "12:03"), live("d", "12:03"))})
	h.run()
	h.holds("d")
	// AP-HV-13: there is no walking.
	s.put(map[string]string{"/feed": feedOf("12:04", complete+prev("/a1"), live("d", "12:03"), live("e", "12:04"))})
	reported(t, h.run().Skipped, "AP-CMP-03")
	h.asked("/feed")
	h.holds("d e")
	// And back: a full harvest.
	s.put(map[string]string{"/feed": feedOf("12:05", prev("/a1"), live("e", "12:04")), "/a1": feedOf("12:00", "", live("z", "09:00"))})
	h.clean()
	h.holds("d e z")
}

// The text of a complete feed that breaks off deletes nothing.
func TestFeedTruncated(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	h := follow(t, s, atompmh.Options{})
	whole := feedOf("12:00", complete, live("a", "11:00"), live("b", "12:00"))
	s.put(map[string]string{"/feed": whole})
	h.clean()
	for _, cut := range []string{"</feed>", "<entry><id>urn:x-test:b", "/x-0\""} {
		text, _, _ := strings.Cut(whole, cut)
		s.put(map[string]string{"/feed": text})
		if _, err := h.Scan(t.Context()); err == nil { // AP-CDL-03
			t.Errorf("a feed cut before %q was harvested", cut)
		}
		h.holds("a b")
	}
	s.put(map[string]string{"/feed": "<!DOCTYPE html><html><body>Log in</body></html>"})
	if _, err := h.Scan(t.Context()); err == nil || !strings.Contains(err.Error(), "HTML") {
		t.Errorf("a page was harvested: %v", err)
	}
	// A complete feed with an unreadable entry does not show what was deleted.
	s.put(map[string]string{"/feed": feedOf("12:05", complete, live("a", "11:00"), `<entry><id>urn:x-test:b</id><updated>soon</updated></entry>`)})
	reported(t, h.run().Unreadable, "nothing was deleted")
	h.holds("a b")
}

func TestFeedEmptied(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	var all []string
	for _, id := range strings.Split("abcdefgh", "") {
		all = append(all, live(id, "11:00"))
	}
	h := follow(t, s, atompmh.Options{})
	s.put(map[string]string{"/feed": feedOf("12:00", complete, all...)})
	h.clean()
	s.put(map[string]string{"/feed": feedOf("13:00", complete)})
	for range 2 {
		_, err := h.Scan(t.Context())
		wantEmpty(t, err)
		h.holds("a b c d e f g h")
	}
	h.reopen(atompmh.Options{AllowEmpty: true})
	h.clean()
	h.holds("")
}

// An id with an at sign that has no authority is compared, stored and reported as it is:
// no part of it is a password.
func TestFeedIDWithAtSign(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	const alice, bob = "tag:alice@example.org,2005:feed", "tag:bob@example.org,2005:feed"
	s.put(map[string]string{"/feed": feedOf("12:00", "id:"+alice+" ", live("a", "12:00"))})
	h := follow(t, s, atompmh.Options{})
	h.clean()
	if id := h.Status().ID; id != alice {
		t.Errorf("id %q, want %q", id, alice)
	}
	s.put(map[string]string{"/feed": feedOf("13:00", "id:"+bob+" ", live("b", "13:00"))})
	_, err := h.Scan(t.Context())
	another, ok := errors.AsType[*atompmh.AnotherFeedError](err)
	if !ok || another.Was != alice || another.Is != bob {
		t.Errorf("error %v, want that the feed is another", err)
	}
	// Earlier versions stored the id without what is in front of the at sign.
	before(t, h, func(text string) string { return strings.Replace(text, alice, "example.org,2005:feed", 1) })
	s.put(map[string]string{"/feed": feedOf("13:00", "id:"+alice+" ", live("a", "12:00"), live("b", "13:00"))})
	h.clean()
	if id := h.Status().ID; id != alice {
		t.Errorf("id %q, want %q", id, alice)
	}
}

// User name and password in the address are no part of what identifies the feed.
func TestFeedAddressWithPassword(t *testing.T) {
	t.Parallel()
	s := newFeedSite(t)
	s.put(map[string]string{"/feed": feedOf("12:00", "", live("a", "12:00"))})
	h := follow(t, s, atompmh.Options{})
	open := func(password string) {
		address := strings.Replace(s.URL, "http://", "http://user:"+password+"@", 1) + "/feed"
		a, err := atompmh.New(address, s.client(t), h.cat, set, h.ledger, h.o)
		must(t, err)
		h.Harvester = a
	}
	open("s3cret1")
	h.clean()
	if text, err := os.ReadFile(h.o.State); err != nil || strings.Contains(string(text), "s3cret") {
		t.Errorf("the state has the password, or cannot be read: %v", err)
	}
	open("s3cret2")
	if st := h.Status(); st.ID != "urn:x-test:feed" || st.Address != s.URL+"/feed" {
		t.Errorf("status %+v, want that of the feed that was harvested", st)
	}
	s.put(map[string]string{"/feed": feedOf("13:00", "id:urn:x-test:other ", live("b", "13:00"))})
	_, err := h.Scan(t.Context())
	if _, ok := errors.AsType[*atompmh.AnotherFeedError](err); !ok || strings.Contains(err.Error(), "s3cret") {
		t.Errorf("error %v, want that the feed is another, without the password", err)
	}
}

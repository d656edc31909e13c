package destination_test

import (
	"fmt"
	"testing"

	"lockstep/catalog"
	"lockstep/destination/journal"
	"lockstep/destination/journaltest"
	"lockstep/resourcesync"
)

// TestOlderMirrorIsCompleted: the next run completes the rows of an earlier version
// from the documents, once, without requesting content or reporting changes.
func TestOlderMirrorIsCompleted(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noChanges: true}, {noHash: true}, {listParts: 2}} {
		t.Run(fmt.Sprintf("changes %v, hashes %v, parts %d", !st.noChanges, !st.noHash, st.listParts), func(t *testing.T) {
			t.Parallel()
			s, kind, links := describedSite(t, st)
			for i := range 5 {
				path := fmt.Sprintf("/f%d", i)
				kind[path], links[path] = "text/x", ln("collection", "urn:c", "")
				s.put(path, "content of "+path)
			}
			m := newMirror(t, s)
			j := &journaltest.Older{Journal: new(journal.Mem)}
			m.journal = j
			all := deliveries(m)
			m.mustSync()
			*all = nil
			m.mustSync()
			if row := m.row("/f1"); row.Stated != nil || len(row.Links) > 0 {
				t.Fatalf("the row of an earlier version: %+v", row)
			}
			j.Newer = true
			links["/f2"] = "" // this changes before the new version runs
			s.restate("/f2")
			s.reset()
			r := m.mustSync()
			if r.Updated+r.Failed+r.Created != 0 || s.resourceGets() != 0 && !st.noHash || len(*all) != 0 {
				t.Errorf("%s, %d requests for content, delivered %+v", counts(r), s.resourceGets(), *all)
			}
			for i := range 5 {
				path := fmt.Sprintf("/f%d", i)
				want := "collection=urn:c"
				if i == 2 {
					want = ""
				}
				if row := m.row(path); row.Type != "text/x" || relationsOf(row.Links) != want || row.Stated == nil {
					t.Errorf("row %+v", row)
				}
			}
			s.reset()
			m.mustSync()
			if n := s.got("/rs/resourcelist.xml"); n > 1 || n == 1 && !st.noChanges {
				t.Errorf("the list was requested %d times by the run after that", n)
			}
			links["/f2"] = ln("profile", "urn:p", "")
			s.restate("/f2")
			if r := m.mustSync(); r.Updated != 1 || len(*all) != 1 {
				t.Errorf("a change of links later: %s, %+v", counts(r), *all)
			}
		})
	}
}

// TestOlderHarvestIsCompleted: the same of a mirror of a feed, from what its Origin
// knows.
func TestOlderHarvestIsCompleted(t *testing.T) {
	t.Parallel()
	p := newPool(t)
	m := newReservoir(t, p)
	j := &journaltest.Older{Journal: new(journal.Mem)}
	m.journal = j
	p.brings([]catalog.Update{p.put("/a", "one", resourcesync.Link{Rel: "collection", Href: "urn:c"}), p.put("/b", "two")})
	m.mustSync("baseline created=2 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	row := func() journal.Held {
		t.Helper()
		hs, err := j.Lookup(t.Context(), []string{p.srv.URL + "/a"})
		if err != nil {
			t.Fatal(err)
		}
		return hs[0]
	}
	if h := row(); h.Stated != nil {
		t.Fatalf("the row of an earlier version: %+v", h)
	}
	j.Newer, p.gets = true, 0
	m.mustSync("none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	if h := row(); h.Stated == nil || h.Type != "text/plain" || relationsOf(h.Links) != "collection=urn:c" || p.gets != 0 {
		t.Errorf("row %+v after %d requests", h, p.gets)
	}
	change := p.put("/a", "one", resourcesync.Link{Rel: "collection", Href: "urn:other"})
	change.Record.Lastmod = row().Lastmod
	p.brings([]catalog.Update{change})
	m.mustSync("incremental created=0 updated=1 deleted=0 unchanged=0 failed=0 refused=0")
	if h := row(); relationsOf(h.Links) != "collection=urn:other" {
		t.Errorf("other links: %+v", h)
	}
}

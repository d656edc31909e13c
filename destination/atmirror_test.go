package destination_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination"
	"lockstep/destination/journaltest"
)

// TestAtOwnHistory restores a mirror from the versions it stores itself, with a kill
// at any write; the next run brings it to the present (RA-DST-07). One of the Sources
// has nothing but a Change List, so nothing else could repair an unfinished restore.
func TestAtOwnHistory(t *testing.T) {
	t.Parallel()
	for _, noList := range []bool{false, true} {
		for at := range faultPlaces() {
			s := newSite(t, style{dumpStyle: dumpStyle{noList: noList}})
			k := newKeeping(t, s, destination.Keep{All: true})
			for i := range 5 {
				s.put(fmt.Sprintf("/r/%d", i), fmt.Sprintf("first %d", i))
			}
			then, was := k.run()
			s.put("/r/1", "second")
			s.put("/r/6", "new")
			s.del("/r/2")
			k.run()
			back := func() (destination.Report, error) {
				d := k.destination()
				return d.SyncPast(context.Background(), d, then)
			}
			dir, journal := k.store, k.journal
			f := &faultfs.Faults{At: at}
			k.store, k.journal = &faultfs.Dir{Dir: dir.(*blob.Dir), Faults: f}, &journaltest.Faulty{Journal: journal, Faults: f}
			_, err := back()
			k.store, k.journal = dir, journal
			if err == nil {
				if got := k.resources(); !maps.Equal(got, was) {
					t.Fatalf("got %v, want %v", got, was)
				}
				break
			}
			if !errors.Is(err, faultfs.ErrCrash) {
				t.Fatal(err)
			}
			if at%2 == 0 {
				r, err := back()
				if got := k.resources(); err != nil || !maps.Equal(got, was) || r.Via != destination.ViaHistory && r.Created+r.Updated+r.Deleted > 0 {
					t.Fatalf("killed at write %d: %v: got %v, want %v; %+v", at, err, got, was, r)
				}
			}
			k.run()
		}
	}
}

// TestAtSets has several sets, and the past state of one of them is unknown: the
// other one is restored, and the error says so. Shared resources return to their
// present state afterwards, though the other set lists no change to them.
func TestAtSets(t *testing.T) {
	t.Parallel()
	s := newOneSite(t, style{}, func(s *oneSite) string { return fmt.Sprintf(`<rs:ln rel="memento" href="%s"/>`, s.url("/then")) })
	s.replace("/then", s.data[2])
	const shared = "what both have"
	s.del("/a")
	s.replace("/a", shared) // the other set still has it
	s.replace("/.well-known/resourcesync", doc("urlset", `<rs:md capability="description"/>`, fmt.Sprintf(
		`<url><loc>%s</loc><rs:md capability="capabilitylist"/></url><url><loc>%s</loc><rs:md capability="capabilitylist"/></url>`,
		s.url("/rs/capabilitylist.xml"), s.url("/rs/other/capabilitylist.xml"))))
	s.replace("/rs/other/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`,
		fmt.Sprintf(`<url><loc>%s</loc><rs:md capability="resourcelist"/></url>`, s.url("/rs/other/list.xml"))))
	s.replace("/rs/other/list.xml", doc("urlset", fmt.Sprintf(`<rs:md capability="resourcelist" at="%s"/>`, s.time(s.now.Add(time.Hour))),
		fmt.Sprintf(`<url><loc>%s</loc><rs:md hash="sha-256:%x" length="%d"/></url>`, s.url("/a"), sha256.Sum256([]byte(shared)), len(shared))))
	m := newMirror(t, s.site)
	m.opts.MaxDelete = 100
	for _, before := range []bool{false, true} {
		if before {
			m.mustSyncBeside()
			if got := m.files()["a"]; got != shared {
				t.Fatalf("the mirror has %q, want %q", got, shared)
			}
		}
		m.opts.At = s.at[2].Add(time.Millisecond)
		r, err := m.sync()
		var past *destination.PastError
		if !errors.As(err, &past) || past.Untold != 1 || m.files()["a"] != s.data[2] || len(r.BySet) != 2 || !r.BySet[0].AsOf.Equal(m.opts.At) || !r.BySet[1].AsOf.IsZero() {
			t.Fatalf("%v: %+v", err, r)
		}
		if !strings.Contains(err.Error(), "the state of 1 set is not known") {
			t.Fatal(err)
		}
		m.opts.At = time.Time{}
	}
	m.mustSyncBeside()
	if got := m.files()["a"]; got != shared {
		t.Fatalf("the mirror has %q, want %q", got, shared)
	}
}

// TestAtRefused asks for consent before it deletes most of a mirror; without it the
// mirror stays unchanged.
func TestAtRefused(t *testing.T) {
	t.Parallel()
	s := newOneSite(t, style{}, func(*oneSite) string { return "" })
	for i := range 30 {
		s.put(fmt.Sprintf("/later/%d", i), "text")
	}
	m := newMirror(t, s.site)
	m.mustSync()
	m.opts.At = s.at[2].Add(time.Millisecond)
	r, err := m.sync()
	if !errors.Is(err, destination.ErrRefused) || !r.AsOf.IsZero() || r.Deleted > 0 {
		t.Fatalf("%v: %+v", err, r)
	}
	m.same()
	m.opts.MaxDelete = 100
	if r, err = m.sync(); err != nil || r.Deleted != 30 || !r.AsOf.Equal(m.opts.At) || len(m.files()) != 1 {
		t.Fatalf("%v: %+v", err, r)
	}
	m.opts.At = time.Time{}
	m.mustSync()
}

// TestAtDryRun reports what would be done, and which instant the result would have.
func TestAtDryRun(t *testing.T) {
	t.Parallel()
	s := newOneSite(t, style{}, func(*oneSite) string { return "" })
	m := newMirror(t, s.site)
	m.opts.At, m.opts.DryRun = s.at[1].Add(time.Minute), true
	r, err := m.sync()
	if err != nil || r.Created != 1 || !r.AsOf.Equal(m.opts.At) || len(m.files()) > 0 {
		t.Fatalf("%v: %+v", err, r)
	}
}

// TestSyncPastNothing: a mirror that stores no versions, and a directory that is no
// mirror, are not accepted as a Source of past states.
func TestSyncPastNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "text")
	m, plain := newMirror(t, s), newMirror(t, s)
	if _, err := m.destination().SyncPast(context.Background(), plain.destination(), s.now); err == nil || len(m.files()) > 0 {
		t.Fatalf("from a directory that is no mirror: %v", err)
	}
	plain.mustSync()
	var none *destination.NoPastError
	if _, err := m.destination().SyncPast(context.Background(), plain.destination(), time.Now()); !errors.As(err, &none) || !none.Earliest.IsZero() || len(m.files()) > 0 {
		t.Fatalf("from a mirror without versions: %v", err)
	}
}

// TestAtAway restores the state of a Source that no longer answers: the mirror's own
// history is used, if there is one.
func TestAtAway(t *testing.T) {
	t.Parallel()
	for _, keep := range []destination.Keep{{All: true}, {}} {
		s := newSite(t, style{})
		k := newKeeping(t, s, keep)
		s.put("/r/1", "first")
		then, was := k.run()
		s.put("/r/1", "second")
		_, is := k.run()
		s.srv.Close()
		k.opts.At = then
		r, err := k.sync()
		got := k.resources()
		if keep.All && (err != nil || !maps.Equal(got, was) || len(r.Warnings) != 1 || !strings.Contains(r.Warnings[0], "cannot be asked")) {
			t.Errorf("got %v, want %v: %v; %+v", got, was, err, r)
		}
		if !keep.All && (err == nil || !maps.Equal(got, is)) {
			t.Errorf("without a history: got %v, want %v: %v", got, is, err)
		}
	}
}

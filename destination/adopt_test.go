package destination_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"lockstep/destination"
)

// byTime returns how many of n files are adopted without a hash.
func byTime(st style, n int64) int64 {
	if st.noHash || st.sitemap {
		return n
	}
	return 0
}

// TestAdopt takes over a directory that another program filled, and fetches
// no file that is right.
func TestAdopt(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{noChanges: true}, {noChanges: true, noHash: true}, {noChanges: true, noHash: true, noLength: true}, {sitemap: true}} {
		s := newSite(t, st)
		for i := range 200 {
			s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("content ", i))
		}
		s.put("/d/a%20b", "odd")
		s.put("/d/new", "new")
		s.later()
		m := newMirror(t, s)
		for i := range 200 {
			m.filled(fmt.Sprintf("d/f%d", i), fmt.Sprintf("/d/f%d", i))
		}
		m.filled("d/a%20b", "/d/a%20b")
		writeFile(t, m.path("d/f7"), "wrong") // with the time of now
		writeFile(t, m.path("notes"), "the user's")
		m.opts.Adopt, m.opts.DryRun = true, true
		if r, err := m.sync(); err != nil || r.Created != 2 || r.Unchanged != 200 || r.By.Adopted != 200 || r.By.AdoptedByTime != byTime(st, 200) {
			t.Errorf("%+v: dry run: %v, %+v", st, err, r)
		}
		m.opts.DryRun = false
		r, err := m.sync()
		if !errors.Is(err, destination.ErrIncomplete) || r.Created != 1 || r.By.Adopted != 200 || r.By.AdoptedByTime != byTime(st, 200) || r.Failed != 1 || s.bytes() != 3 {
			t.Errorf("%+v: %v, %+v, %d bytes", st, err, r, s.bytes())
		}
		if text, err := os.ReadFile(m.path("d/f7")); err != nil || string(text) != "wrong" {
			t.Errorf("%+v: %q, %v", st, text, err)
		}
		m.opts.Replace = true
		m.opts.Baseline = true
		if r, err = m.sync(); err != nil || s.bytes() != 9 {
			t.Errorf("%+v: %v, %+v, %d bytes", st, err, r, s.bytes())
		}
		m.opts.Adopt, m.opts.Replace, m.opts.Baseline = false, false, false
		m.mustSyncBeside()
		if s.bytes() != 0 {
			t.Errorf("%+v: %d bytes", st, s.bytes())
		}
		f := m.files()
		if f["d/f7"] != "content 7" || f["notes"] != "the user's" || f["d/a b"] != "odd" || f["d/a%20b"] != "odd" {
			t.Errorf("%+v: files %v", st, f)
		}
		wantKinds(t, "audit", m.audit(), "foreign d/a%20b, foreign notes")
		m.tidy()
		m.same()
	}
}

// bytes is how much of resources was sent since reset.
func (s *site) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// TestAdoptNotProven takes over no file that is not proven to be right.
func TestAdoptNotProven(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{noHash: true, seconds: true})
	for i := range 3 {
		s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("content ", i))
	}
	s.later()
	m := newMirror(t, s)
	m.filled("d/f0", "/d/f0")
	m.filled("d/f1", "/d/f1")
	m.filled("d/f2", "/d/f2")
	writeFile(t, m.path("d/f1"), "content X") // of the right length, with the time of now
	s.put("/d/f2", "content Y")               // listed with a time in whole seconds: it may have changed twice within that second
	m.filled("d/f2", "/d/f2")
	m.opts.Adopt = true
	r, err := m.sync()
	if !errors.Is(err, destination.ErrIncomplete) || r.By.Adopted != 1 || r.Failed != 2 {
		t.Errorf("%v, %+v", err, r)
	}
}

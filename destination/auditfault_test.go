package destination_test

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"lockstep/blob"
	"lockstep/blob/faultfs"
	"lockstep/destination/journaltest"
)

// faults lets every write of do fail in turn, permanently or once, and calls check
// with the mirror after each.
func faults(t *testing.T, begin func(t *testing.T) *mirror, do func(m *mirror) error, check func(m *mirror)) {
	attempt := func(t *testing.T, f *faultfs.Faults) (*mirror, error) {
		m := begin(t)
		dir, journal := m.store, m.journal
		m.store, m.journal = &faultfs.Dir{Dir: dir.(*blob.Dir), Faults: f}, &journaltest.Faulty{Journal: journal, Faults: f}
		err := do(m)
		m.store, m.journal = dir, journal
		return m, err
	}
	whole := &faultfs.Faults{}
	if _, err := attempt(t, whole); err != nil {
		t.Fatalf("without a fault: %v", err)
	}
	t.Logf("%d writes", whole.Steps())
	for at := range faultPlaces() {
		if at > whole.Steps() {
			break
		}
		for _, f := range []*faultfs.Faults{{At: at, Mode: faultfs.PowerCut}, {At: at, Err: syscall.ENOSPC, Count: 1}} {
			t.Run(fmt.Sprintf("%d %v", at, f.Err), func(t *testing.T) {
				t.Parallel()
				m, err := attempt(t, f)
				if err == nil && f.Count == 0 && f.Steps() >= f.At {
					t.Error("no error")
				}
				check(m)
			})
		}
	}
}

// TestFixFault interrupts a repair at each write: the mirror is no worse for it, and
// the next repair completes it.
func TestFixFault(t *testing.T) {
	t.Parallel()
	faults(t, func(t *testing.T) *mirror {
		s := newSite(t, style{})
		for i := range 7 {
			s.put(fmt.Sprintf("/d/f%d", i), fmt.Sprint("content ", i))
		}
		m := newMirror(t, s)
		m.opts.Jobs = 1
		m.mustSync()
		s.put("/d/f5", "changed")
		s.del("/d/f6")
		for i, d := range []damage{damages[0], damages[3], damages[5], damages[7]} {
			if err := d.do(testRand(), m.path(fmt.Sprint("d/f", i))); err != nil {
				t.Fatal(err)
			}
		}
		return m
	}, func(m *mirror) error {
		_, err := m.fix()
		return err
	}, func(m *mirror) {
		if r, err := m.sync(); err != nil {
			m.t.Errorf("sync: %v, %+v", err, r)
		}
		a, err := m.fix()
		if err != nil || !a.InSync || a.Foreign != 0 {
			m.t.Errorf("%v, %+v", err, a)
		}
		m.same()
	})
}

// TestAdoptFault interrupts adoption at each write: the next run continues, and no
// file that is right is fetched.
func TestAdoptFault(t *testing.T) {
	t.Parallel()
	faults(t, func(t *testing.T) *mirror {
		s := newSite(t, style{})
		m := newMirror(t, s)
		m.opts.Jobs = 1
		for _, path := range []string{"/d/f0", "/d/f1", "/d/a%20b", "/d/c%20d"} {
			s.put(path, "content of "+path)
			m.filled(path[1:], path)
		}
		s.put("/d/new", "new")
		m.opts.Adopt = true
		return m
	}, func(m *mirror) error {
		_, err := m.sync()
		return err
	}, func(m *mirror) {
		r, err := m.sync()
		if err != nil || m.site.bytes() > 3 {
			m.t.Errorf("%v, %d bytes, %+v", err, m.site.bytes(), r)
		}
		if err := errors.Join(os.Remove(m.path("d/a%20b")), os.Remove(m.path("d/c%20d"))); err != nil {
			m.t.Fatal(err)
		}
		m.same()
		if a := m.audit(); !a.InSync {
			m.t.Errorf("%+v", a)
		}
	})
}

package destination_test

import (
	"fmt"
	"testing"
)

func TestSync(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	for i := range 10 {
		s.put(fmt.Sprintf("/d%d/f%d.txt", i%3, i), fmt.Sprintf("content %d", i))
	}
	m := newMirror(t, s)
	wantCounts(t, m.mustSync(), "baseline created=10 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	wantCounts(t, m.mustSync(), "none created=0 updated=0 deleted=0 unchanged=0 failed=0 refused=0")
	if n := s.resourceGets(); n != 0 {
		t.Errorf("a quiet run asked for %d resources", n)
	}
	s.put("/d0/f0.txt", "new content")
	s.put("/d9/new.txt", "new")
	s.del("/d1/f1.txt")
	wantCounts(t, m.mustSync(), "incremental created=1 updated=1 deleted=1 unchanged=0 failed=0 refused=0")
	if n := s.resourceGets(); n != 2 {
		t.Errorf("asked for %d resources, want 2", n)
	}
	s.put("/d9", "a file where a directory was")
	s.del("/d9/new.txt")
	s.put("/d0/f0.txt/below", "a directory where a file was")
	s.del("/d0/f0.txt")
	m.mustSync()
	a := m.audit()
	if !a.InSync {
		t.Errorf("audit: %+v", a)
	}
}

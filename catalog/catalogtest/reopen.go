package catalogtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
)

// RunReopen tests that a persistent catalog has the same content after it was
// closed and opened again. open returns the same catalog each time, at first
// empty; shut closes what open returned last.
func RunReopen(t *testing.T, open func() catalog.Catalog, shut func()) {
	type state struct {
		Status    catalog.Status
		Resources []catalog.Record
		Changes   []catalog.Change
	}
	read := func(c catalog.Catalog) state {
		return state{status(t, c), resources(t, c, catalog.Range{}), changes(t, c, 0)}
	}
	var want state
	steps := []func(catalog.Catalog){
		func(c catalog.Catalog) { apply(t, c, catalog.Applied{Created: 2}, put("a", "1"), put("\xff", "1")) },
		func(c catalog.Catalog) { mark(t, c) },
		func(c catalog.Catalog) {
			apply(t, c, catalog.Applied{Created: 1, Deleted: 1}, put("b", "1"), gone("a")[0])
		},
		func(c catalog.Catalog) {
			m := mark(t, c)
			apply(t, c, catalog.Applied{Updated: 1}, put("b", "2"))
			if err := c.Forget(t.Context(), set, m); err != nil {
				t.Fatal(err)
			}
		},
	}
	for i, step := range steps {
		c := open()
		if diff := cmp.Diff(want, read(c)); diff != "" {
			t.Errorf("opened the %d. time (-want +got):\n%s", i+1, diff)
		}
		step(c)
		want = read(c)
		shut()
	}
	last := want.Status.LastTime
	c := open()
	defer shut()
	if m := mark(t, c); m.Seq != 5 || m.At.Before(last) {
		t.Errorf("Mark = %v after change 5 at %v", m, last)
	}
	apply(t, c, catalog.Applied{Created: 1}, put("c", "1"))
	if ch := changes(t, c, 5); len(ch) != 1 || ch[0].Seq != 6 || ch[0].EventTime.Before(last.Add(time.Microsecond)) {
		t.Errorf("changes after 5 at %v = %v", last, ch)
	}
}

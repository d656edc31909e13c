package report

import (
	"reflect"
	"testing"

	"lockstep/destination"
)

// TestAddBy adds every way by which contents come to a mirror that follows: none
// is forgotten when one is added.
func TestAddBy(t *testing.T) {
	t.Parallel()
	var a, b destination.By
	for i, v := range []reflect.Value{reflect.ValueOf(&a).Elem(), reflect.ValueOf(&b).Elem()} {
		for n := range v.NumField() {
			v.Field(n).SetInt(int64((n + 1) * (1 + 99*i)))
		}
	}
	sum := reflect.ValueOf(addBy(a, b))
	for n := range sum.NumField() {
		name := sum.Type().Field(n).Name
		if got, want := sum.Field(n).Int(), int64((n+1)*101); got != want {
			t.Errorf("%s adds up to %d, want %d", name, got, want)
		}
	}
}

// TestTallyOfFiles: the totals have what passes report of the files of the mirror, and of sets.
func TestTallyOfFiles(t *testing.T) {
	t.Parallel()
	var sum Tally
	r := destination.Report{Moved: 7, Local: &destination.LocalReport{}, Withdrawn: []destination.WithdrawnSet{{}}}
	sum.Add(&r, nil)
	sum.Add(&r, nil)
	if sum.Moved != 14 || sum.Local == nil || len(sum.Withdrawn) != 1 || len(sum.Copy().Withdrawn) != 1 {
		t.Errorf("%+v", sum.Report)
	}
}

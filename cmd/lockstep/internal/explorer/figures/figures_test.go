package figures_test

import (
	"fmt"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/figures"
	"lockstep/cmd/lockstep/internal/explorer/spool"
)

func TestSummary(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 1, 30, 12, 0, 0, 0, time.UTC)
	var a, b, all figures.Summary
	for n, r := range []spool.Row{
		{Type: "text/html; charset=utf-8", Length: 0, Time: day, Kind: "created"}, {Type: "text/html", Length: 500, Time: day}, {Length: -1}, {Type: "image/png", Length: 5000, Time: day.AddDate(0, 0, 3)},
	} {
		all.Add(&r)
		if n%2 == 0 {
			a.Add(&r)
		} else {
			b.Add(&r)
		}
	}
	a.Merge(&b)
	for _, s := range []figures.Summary{all, a.Clone()} {
		if s.Rows != 4 || s.Bytes != 5500 || s.Unsized != 1 || s.Undated != 1 || !s.Oldest.Equal(day) || !s.Newest.Equal(day.AddDate(0, 0, 3)) {
			t.Errorf("the summary is %+v", s)
		}
		if top, rest := figures.Ordered(s.Types, 1); len(top) != 1 || top[0] != (figures.Count{Name: "text/html", N: 2}) || rest != 2 {
			t.Errorf("the types are %v and %d others", top, rest)
		}
		if got := fmt.Sprint(s.Classes()); got != "[{empty 1} {below 1 KiB 1} {1 to 8 KiB 1}]" {
			t.Errorf("the sizes are %s", got)
		}
		spans, unit := s.Daily(10)
		if unit != "day" || len(spans) != 10 || spans[6].N != 2 || spans[7].N != 0 || spans[9].Name != "2026-02-02" {
			t.Errorf("by %s: %v", unit, spans)
		}
		if spans, unit := s.Daily(2); unit != "month" || len(spans) != 2 || spans[1].N != 1 {
			t.Errorf("by %s: %v", unit, spans)
		}
	}
}

// TestBounds keeps memory and charts small whatever is counted.
func TestBounds(t *testing.T) {
	t.Parallel()
	var s figures.Summary
	for n := range 10_000 {
		s.Add(&spool.Row{Type: fmt.Sprint("x/", n), Kind: fmt.Sprint(n), Time: time.Unix(int64(n)*1_000_000, 0), Length: int64(n) << 40})
	}
	if len(s.Types) > 201 || len(s.Kinds) > 201 || len(s.Days) > 4000 {
		t.Errorf("%d types, %d kinds, %d days", len(s.Types), len(s.Kinds), len(s.Days))
	}
	if spans, unit := s.Daily(92); unit != "year" || len(spans) > 93 {
		t.Errorf("%d columns by %s", len(spans), unit)
	}
}

package spool_test

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/spool"
)

func rowAt(n int) spool.Row {
	r := spool.Row{URI: fmt.Sprintf("https://example.org/Dir/%d", n), Type: "text/plain", Length: int64(n), Time: time.Unix(int64(n)*3600, 0).UTC()}
	switch {
	case n%10 == 0:
		r.Kind, r.Type, r.Length = "deleted", "", -1
	case n%7 == 0:
		r.Type, r.Time = "text/html; charset=utf-8", time.Time{}
		r.Detail = spool.Detail{Hash: "md5:00", Path: "p", Facts: []spool.Fact{{Name: "a", Value: "b"}}, Links: []spool.Link{{Rel: "up", Href: "https://example.org/"}}}
	case n == 1001:
		r.URI += strings.Repeat("long", 100_000) // longer than what is read at a time
	}
	return r
}

func fill(t *testing.T, s *spool.Spool, rows int) *spool.Segment {
	t.Helper()
	seg, err := s.Write(func(add func(*spool.Row) error) error {
		for n := range rows {
			r := rowAt(n)
			if err := add(&r); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seg
}

func open(t *testing.T) *spool.Spool {
	t.Helper()
	s, err := spool.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// TestRoundTrip reads what was written, from any position, although an attempt to write
// failed in between.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	s := open(t)
	first := fill(t, s, 100)
	failed := errors.New("connection reset")
	if _, err := s.Write(func(add func(*spool.Row) error) error {
		r := rowAt(1)
		return errors.Join(add(&r), failed)
	}); !errors.Is(err, failed) {
		t.Fatalf("the error of a part is %v", err)
	}
	second := fill(t, s, 3000)
	for _, n := range []int{0, 1, 99, 127, 128, 1000, 1001, 1002, 2999} {
		got, ok := s.Row(second, n)
		if !ok || !reflect.DeepEqual(got, rowAt(n)) {
			t.Errorf("row %d is %.200v, %v", n, got, ok)
		}
	}
	if got, ok := s.Row(first, 99); !ok || got.URI != rowAt(99).URI {
		t.Errorf("the last row of the first segment is %v", got)
	}
	for _, n := range []int{-0, 100} {
		if _, ok := s.Row(first, n); ok != (n == 0) {
			t.Errorf("row %d of 100 exists: %v", n, ok)
		}
	}
}

// TestFilter compares each search with a loop over all rows.
func TestFilter(t *testing.T) {
	t.Parallel()
	s := open(t)
	const rows = 2500
	seg := fill(t, s, rows)
	for name, c := range map[string]struct {
		filter  spool.Filter
		selects func(n int, r spool.Row) bool
	}{
		"all":       {spool.Filter{}, func(int, spool.Row) bool { return true }},
		"text":      {spool.Filter{Text: "dIR/12"}, func(_ int, r spool.Row) bool { return strings.Contains(r.URI, "Dir/12") }},
		"URI":       {spool.Filter{URI: rowAt(77).URI}, func(n int, _ spool.Row) bool { return n == 77 }},
		"kind":      {spool.Filter{Kind: "deleted"}, func(_ int, r spool.Row) bool { return r.Kind == "deleted" }},
		"type":      {spool.Filter{Type: "text/html"}, func(_ int, r spool.Row) bool { return strings.HasPrefix(r.Type, "text/html") }},
		"class":     {spool.Filter{Type: "text/"}, func(_ int, r spool.Row) bool { return r.Type != "" }},
		"no type":   {spool.Filter{Type: spool.NoType}, func(_ int, r spool.Row) bool { return r.Type == "" }},
		"from":      {spool.Filter{From: time.Unix(3600*2000, 0)}, func(n int, r spool.Row) bool { return !r.Time.IsZero() && n >= 2000 }},
		"to":        {spool.Filter{To: time.Unix(3600*5, 0)}, func(n int, r spool.Row) bool { return !r.Time.IsZero() && n < 5 }},
		"both":      {spool.Filter{Text: "1", Kind: "deleted"}, func(_ int, r spool.Row) bool { return r.Kind == "deleted" && strings.Contains(r.URI, "1") }},
		"selective": {spool.Filter{Text: "nothing"}, func(int, spool.Row) bool { return false }},
	} {
		var want []int
		for n := range rows {
			if c.selects(n, rowAt(n)) {
				want = append(want, n)
			}
		}
		const at, limit = 1234, 20
		var after, before []int
		for _, n := range want {
			if n >= at {
				after = append(after, n)
			} else {
				before = append(before, n)
			}
		}
		found, total, earlier := s.Search(seg, at, c.filter, limit)
		if total != len(want) || earlier != len(before) {
			t.Errorf("%s: %d rows, %d before; want %d and %d", name, total, earlier, len(want), len(before))
		}
		first := after[:min(limit, len(after))]
		if got := numbers(found); !equal(got, first) {
			t.Errorf("%s: search found %v, want %v", name, got, first)
		}
		if got := numbers(s.Forward(seg, at, c.filter, limit)); !equal(got, first) {
			t.Errorf("%s: forward %v, want %v", name, got, first)
		}
		if got, want := numbers(s.Backward(seg, at, c.filter, limit)), before[max(0, len(before)-limit):]; !equal(got, want) {
			t.Errorf("%s: backward %v, want %v", name, got, want)
		}
	}
}

func numbers(rows []spool.Numbered) []int {
	var out []int
	for _, r := range rows {
		out = append(out, r.N)
	}
	return out
}

func equal(a, b []int) bool { return len(a) == len(b) && (len(a) == 0 || reflect.DeepEqual(a, b)) }

// TestNothingIsLeft checks that no file remains in the directory.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := spool.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	fill(t, s, 10)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("%v, %v are left", left, err)
	}
}

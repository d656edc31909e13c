// Package ledgertest is the suite that every [ledger.Ledger] passes.
package ledgertest

import (
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/intake/harvest/ledger"
)

const set = "set"

// Run tests the Ledgers that open returns, each empty.
func Run(t *testing.T, open func(t *testing.T) ledger.Ledger) {
	for name, f := range map[string]func(*testing.T, ledger.Ledger){
		"Lookup": testLookup, "Owners": testOwners, "Open": testOpen, "Many": testMany, "Sets": testSets, "Refused": testRefused,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f(t, open(t))
		})
	}
}

// RunReopen tests that what was recorded is there when the Ledger that open opens,
// and shut closes, is opened again.
func RunReopen(t *testing.T, open func() ledger.Ledger, shut func()) {
	want := row("a", "u1", "u2")
	must(t, open().Record(t.Context(), set, []ledger.Row{want}, nil))
	shut()
	if diff := cmp.Diff([]ledger.Row{want}, all(t, open().Rows(t.Context(), set))); diff != "" {
		t.Errorf("Rows after reopening (-want +got):\n%s", diff)
	}
	shut()
}

func row(id string, uris ...string) ledger.Row {
	r := ledger.Row{ID: id, Updated: time.Date(2024, 5, 2, 6, 0, 0, 250_000_007, time.UTC)}
	for _, uri := range uris {
		r.Resources = append(r.Resources, ledger.Resource{URI: uri, Type: "text/" + uri})
	}
	return r
}

func testLookup(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	if rs, err := l.Lookup(ctx, set, []string{"a"}); err != nil || len(rs) != 1 || rs[0].ID != "" {
		t.Errorf("Lookup in an empty ledger = %v, %v, want a zero row", rs, err)
	}
	a, b := row("a", "u1"), row("b")
	b.Deleted = true
	b.Updated = time.Date(-3, 1, 1, 0, 0, 0, 1, time.UTC)
	odd := row("odd \xff☃", "uri \xff\"")
	odd.Open, odd.Next = ledger.OpenTied, []ledger.Resource{{URI: "n"}}
	odd.Updated = time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC)
	must(t, l.Record(ctx, set, []ledger.Row{a, b, odd}, nil))
	got, err := l.Lookup(ctx, set, []string{"b", "none", odd.ID, "a", "b"})
	must(t, err)
	if diff := cmp.Diff([]ledger.Row{b, {}, odd, a, b}, got); diff != "" {
		t.Errorf("Lookup (-want +got):\n%s", diff)
	}
	a = row("a", "u2", "u3")
	must(t, l.Record(ctx, set, []ledger.Row{a}, []string{"b", "none"}))
	if diff := cmp.Diff([]ledger.Row{a, odd}, all(t, l.Rows(ctx, set))); diff != "" {
		t.Errorf("Rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"u2", "u3", "uri \xff\""}, all(t, l.URIs(ctx, set))); diff != "" {
		t.Errorf("URIs (-want +got):\n%s", diff)
	}
}

func testOwners(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	owners := func(except string, uris ...string) string {
		t.Helper()
		ids, err := l.Owners(ctx, set, uris, func(id string) bool { return id == except })
		must(t, err)
		return fmt.Sprint(ids)
	}
	if got, want := owners("", "u", "v"), "[ ]"; got != want {
		t.Errorf("Owners in an empty ledger = %s, want %s", got, want)
	}
	must(t, l.Record(ctx, set, []ledger.Row{row("a", "u", "v"), row("b", "u"), row("c", "w", "w")}, nil))
	if got, want := owners("a", "u", "v", "w", "x"), "[b  c ]"; got != want {
		t.Errorf("Owners = %s, want %s", got, want)
	}
	must(t, l.Record(ctx, set, []ledger.Row{row("b", "v")}, []string{"c"}))
	if got, want := owners("a", "u", "v", "w"), "[ b ]"; got != want {
		t.Errorf("Owners = %s, want %s", got, want)
	}
	if got, want := all(t, l.URIs(ctx, set)), []string{"u", "v"}; !slices.Equal(got, want) {
		t.Errorf("URIs = %v, want %v", got, want)
	}
}

func testOpen(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	a, b := row("a", "u"), row("b", "v")
	a.Open = ledger.OpenPending
	must(t, l.Record(ctx, set, []ledger.Row{a, b}, nil))
	if diff := cmp.Diff([]ledger.Row{a}, all(t, l.Open(ctx, set))); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	a.Open, b.Open = ledger.OpenNothing, ledger.OpenRetry
	must(t, l.Record(ctx, set, []ledger.Row{a, b}, nil))
	if diff := cmp.Diff([]ledger.Row{b}, all(t, l.Open(ctx, set))); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
	c := row("c", "u", "w")
	c.New = true
	must(t, l.Record(ctx, set, []ledger.Row{c}, nil))
	c.New = false
	if diff := cmp.Diff([]ledger.Row{a, b, c}, all(t, l.Rows(ctx, set))); diff != "" {
		t.Errorf("Rows (-want +got):\n%s", diff)
	}
	a.Open, a.Updated = ledger.OpenClaim, time.Time{} // as what is to be dropped is claimed
	must(t, l.Record(ctx, set, []ledger.Row{a}, nil))
	if diff := cmp.Diff([]ledger.Row{a, b}, all(t, l.Open(ctx, set))); diff != "" {
		t.Errorf("Open (-want +got):\n%s", diff)
	}
}

// testMany has more rows than a page, and than a statement takes.
func testMany(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	const n = 2345
	var rows []ledger.Row
	var ids []string
	for i := range n {
		r := row(fmt.Sprintf("id-%05d", i), fmt.Sprintf("uri-%05d", i), fmt.Sprintf("uri-%05d", i+1))
		rows, ids = append(rows, r), append(ids, r.ID)
	}
	must(t, l.Record(ctx, set, rows, nil))
	if diff := cmp.Diff(rows, all(t, l.Rows(ctx, set))); diff != "" {
		t.Errorf("Rows (-want +got):\n%s", diff)
	}
	got, err := l.Lookup(ctx, set, ids)
	must(t, err)
	if diff := cmp.Diff(rows, got); diff != "" {
		t.Errorf("Lookup (-want +got):\n%s", diff)
	}
	if got := len(all(t, l.URIs(ctx, set))); got != n+1 {
		t.Errorf("%d URIs, want %d", got, n+1)
	}
	must(t, l.Record(ctx, set, nil, ids[1:]))
	if diff := cmp.Diff(rows[:1], all(t, l.Rows(ctx, set))); diff != "" {
		t.Errorf("Rows after a drop (-want +got):\n%s", diff)
	}
	if got := len(all(t, l.URIs(ctx, set))); got != 2 {
		t.Errorf("%d URIs after a drop, want 2", got)
	}
}

func testSets(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	must(t, l.Record(ctx, set, []ledger.Row{row("a", "u")}, nil))
	must(t, l.Record(ctx, "other", []ledger.Row{row("a", "v")}, nil))
	must(t, l.Record(ctx, "other", nil, []string{"a"}))
	if got := len(all(t, l.Rows(ctx, set))); got != 1 {
		t.Errorf("%d rows, want 1: another set is another", got)
	}
	if got := len(all(t, l.Rows(ctx, "other"))); got != 0 {
		t.Errorf("%d rows of the other set, want none", got)
	}
}

func testRefused(t *testing.T, l ledger.Ledger) {
	ctx := t.Context()
	for _, bad := range []ledger.Row{row(""), row("a\x00"), row("a", ""), row("a", "u\x00")} {
		if err := l.Record(ctx, set, []ledger.Row{row("good"), bad}, nil); err == nil {
			t.Errorf("Record(%+v) succeeded", bad)
		}
	}
	if err := l.Record(ctx, "", []ledger.Row{row("a")}, nil); err == nil {
		t.Error("Record in a set without name succeeded")
	}
	if got := len(all(t, l.Rows(ctx, set))); got != 0 {
		t.Errorf("%d rows, want none: all or nothing", got)
	}
}

func all[T any](t *testing.T, seq iter.Seq2[T, error]) (ts []T) {
	t.Helper()
	for v, err := range seq {
		must(t, err)
		ts = append(ts, v)
	}
	return ts
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

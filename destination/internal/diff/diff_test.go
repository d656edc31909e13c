package diff_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/diff"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/resourcesync"
)

// listed returns a resource with an MD5 hash; without a digest, only its URI is known.
func listed(uri, digest string) desired.Resource {
	w := desired.Resource{URI: uri, Length: -1, Rank: desired.Rank{Class: desired.Listed}}
	if digest != "" {
		w.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: digest}}
	}
	return w
}

// compare returns a comparison of two states of one set.
func compare(t *testing.T, from, to []desired.Resource) *diff.Comparison {
	t.Helper()
	j := &journal.Mem{}
	c := &diff.Comparison{Sorter: scratch.RoomOf(j).Sorter(), Report: new(report.DiffReport),
		Selects: func(w *desired.Resource) bool { return w.URI != "http://a/unselected" }}
	t.Cleanup(func() { _ = c.Sorter.Close() })
	for side, resources := range [][]desired.Resource{diff.From: from, diff.To: to} {
		st := stage.New(j)
		doc := st.AddDocument()
		for _, w := range resources {
			w.Doc = doc
			if err := st.Add(t.Context(), w); err != nil {
				t.Fatal(err)
			}
		}
		if err := c.Add(t.Context(), 0, diff.Side(side), resourcesync.Datetime{}, st); err != nil {
			t.Fatal(err)
		}
		if err := st.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// TestEachYieldsDifferencesInOrder compares two states of a set (RA-DST-06): differences
// come by URI, all resources are counted, and those that are not selected are ignored.
func TestEachYieldsDifferencesInOrder(t *testing.T) {
	t.Parallel()
	c := compare(t,
		[]desired.Resource{listed("http://a/same", "x"), listed("http://a/other", "x"), listed("http://a/gone", "x"), listed("http://a/unknown", ""), listed("http://a/unselected", "x")},
		[]desired.Resource{listed("http://a/new", "x"), listed("http://a/other", "y"), listed("http://a/same", "x"), listed("http://a/unknown", "")})
	var got []string
	if err := c.Each(t.Context(), func(d report.Difference) error {
		got = append(got, fmt.Sprint(d.Change, " ", d.URI))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	want := []string{"deleted http://a/gone", "created http://a/new", "updated http://a/other", "unknown http://a/unknown"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r := c.Report; r.Created != 1 || r.Updated != 1 || r.Deleted != 1 || r.Unknown != 1 || r.Unchanged != 1 {
		t.Errorf("counted %+v, want one of each", r)
	}
}

// TestEachEndsWithTheError stops at the first difference whose receiver fails.
func TestEachEndsWithTheError(t *testing.T) {
	t.Parallel()
	c := compare(t, nil, []desired.Resource{listed("http://a/1", ""), listed("http://a/2", "")})
	stop, n := errors.New("stop"), 0
	if err := c.Each(t.Context(), func(report.Difference) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
		t.Errorf("%d calls, error %v; want one call and its error", n, err)
	}
}

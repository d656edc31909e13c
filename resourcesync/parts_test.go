package resourcesync_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"

	"lockstep/resourcesync"
)

var listHeader = resourcesync.Header{Capability: resourcesync.ResourceList, At: day1, Links: []resourcesync.Link{up}}

// numbered yields n entries whose loc ends with their number and has at least
// size bytes.
func numbered(n, size int) iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for i := range n {
			loc := fmt.Sprintf("http://example.org/%s%07d", strings.Repeat("x", max(0, size-26)), i)
			if !yield(resourcesync.Entry{Loc: loc}, nil) {
				return
			}
		}
	}
}

// parts writes entries as parts, reads them strictly, and returns the number of
// entries in each.
func parts(t *testing.T, h resourcesync.Header, entries iter.Seq2[resourcesync.Entry, error]) (counts []int, locs []string) {
	t.Helper()
	n, err := resourcesync.WriteParts(h, entries, func(part int, write func(io.Writer) error) error {
		var buf bytes.Buffer
		if err := write(&buf); err != nil {
			return err
		}
		if part != len(counts)+1 || buf.Len() > resourcesync.MaxBytes {
			t.Errorf("part %d of %d bytes behind %d others", part, buf.Len(), len(counts))
		}
		got, err := readFrom(&buf, resourcesync.ReaderOptions{Strict: true})
		if err != nil {
			t.Errorf("part %d: %v", part, err)
		}
		counts = append(counts, len(got.entries))
		for _, e := range got.entries {
			locs = append(locs, e.Loc)
		}
		return nil
	})
	if err != nil || n != len(counts) {
		t.Errorf("WriteParts = %d, %v after %d parts", n, err, len(counts))
	}
	return counts, locs
}

// RS-IDX-01: 50,000 entries.
func TestWritePartsEntries(t *testing.T) {
	t.Parallel()
	for n, want := range map[int][]int{0: {0}, 1: {1}, 50_000: {50_000}, 50_001: {50_000, 1}} {
		counts, locs := parts(t, listHeader, numbered(n, 0))
		if !slices.Equal(counts, want) || !slices.IsSorted(locs) || len(slices.Compact(locs)) != n {
			t.Errorf("%d entries became parts of %v with %d locs, want %v", n, counts, len(locs), want)
		}
	}
}

// RS-IDX-01: 50,000,000 bytes.
func TestWritePartsBytes(t *testing.T) {
	t.Parallel()
	counts, locs := parts(t, listHeader, numbered(600, 100_000))
	if !slices.Equal(counts, []int{499, 101}) || !slices.IsSorted(locs) || len(locs) != 600 {
		t.Errorf("600 entries of 100 kB became parts of %v", counts)
	}
}

func TestWritePartsErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	discard := func(_ int, write func(io.Writer) error) error { return write(io.Discard) }
	one := func(e resourcesync.Entry, err error) iter.Seq2[resourcesync.Entry, error] {
		return func(yield func(resourcesync.Entry, error) bool) { yield(e, err) }
	}
	huge := resourcesync.Entry{Loc: "http://example.org/" + strings.Repeat("x", resourcesync.MaxBytes)}
	changes := resourcesync.Header{Capability: resourcesync.ChangeList, From: day1, Links: []resourcesync.Link{up}}
	many := func(yield func(resourcesync.Entry, error) bool) {
		for yield(resourcesync.Entry{Loc: loc, Metadata: changed(resourcesync.Created, day2, resourcesync.Metadata{})}, nil) {
		}
	}
	tests := []struct {
		name    string
		header  resourcesync.Header
		entries iter.Seq2[resourcesync.Entry, error]
		create  func(int, func(io.Writer) error) error
		parts   int
		want    error
	}{
		{"source fails", listHeader, one(resourcesync.Entry{}, broken), discard, 0, broken},
		{"create fails", listHeader, numbered(1, 0), func(int, func(io.Writer) error) error { return broken }, 0, broken},
		{"second part fails", listHeader, numbered(50_001, 0), func(part int, write func(io.Writer) error) error {
			if part == 2 {
				return broken
			}
			return write(io.Discard)
		}, 1, broken},
		{"larger than a document", listHeader, one(huge, nil), discard, 0, resourcesync.ErrTooLarge},
		{"changes beyond one document", changes, many, discard, 0, resourcesync.ErrTooLarge},
	}
	for _, tt := range tests {
		if n, err := resourcesync.WriteParts(tt.header, tt.entries, tt.create); n != tt.parts || !errors.Is(err, tt.want) {
			t.Errorf("%s: WriteParts = %d, %v, want %d, %v", tt.name, n, err, tt.parts, tt.want)
		}
	}
	_, err := resourcesync.WriteParts(listHeader, one(resourcesync.Entry{Loc: "relative"}, nil), discard)
	wantRule(t, err)
	_, err = resourcesync.WriteParts(resourcesync.Header{}, numbered(1, 0), discard)
	wantRule(t, err)
	if _, err := resourcesync.WriteParts(listHeader, numbered(1, 0), func(int, func(io.Writer) error) error { return nil }); err == nil {
		t.Error("a part that create did not write was counted")
	}
}

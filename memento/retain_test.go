package memento_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
)

// noonOf returns an instant for tests: noon of the n-th day.
func noonOf(n int) time.Time { return time.Date(2026, 1, n, 12, 0, 0, 0, time.UTC) }

// versionsOf returns the versions that a word describes: one letter a day, the
// n-th created by the change numbered n. An m is a memento, a g is gone.
func versionsOf(uri, word string) []memento.Version {
	var vs []memento.Version
	for i, letter := range word {
		if letter != '-' {
			vs = append(vs, memento.Version{URI: uri, At: noonOf(i + 1), Seq: int64(i + 1), Gone: letter == 'g'})
		}
	}
	return vs
}

// wordOf returns the remaining versions as a word.
func wordOf(t *testing.T, s memento.Store, uri, word string) string {
	t.Helper()
	left := []byte(strings.Repeat("-", len(word)))
	for v, err := range s.List(t.Context(), uri, time.Time{}) {
		if err != nil {
			t.Fatal(err)
		}
		left[v.At.Day()-1] = word[v.At.Day()-1]
	}
	return string(left)
}

const far = 1000 // a FloorSeq above all changes: nothing is listed

func TestRetain(t *testing.T) {
	t.Parallel()
	const hours = 24 * time.Hour
	tests := []struct {
		name       string
		policy     memento.Policy
		word, want string
	}{
		{"the zero policy keeps all", memento.Policy{}, "mmgmm", "mmgmm"},
		{"all", memento.Policy{All: true, FloorSeq: far}, "mmgmm", "mmgmm"},
		{"the present version stays", memento.Policy{FloorSeq: far}, "mmm", "--m"},
		{"so it does where it was gone before", memento.Policy{FloorSeq: far}, "mgm", "--m"},
		{"what is gone has no present one", memento.Policy{FloorSeq: far}, "mmg", "---"},
		{"two, the present one among them", memento.Policy{Count: 2, FloorSeq: far}, "mmmm", "--mm"},
		{"two of what is gone", memento.Policy{Count: 2, FloorSeq: far}, "mmmg", "-mmg"},
		{"that it was gone stays with what was before", memento.Policy{Count: 2, FloorSeq: far}, "mgmgm", "--mgm"},
		{"more than there are", memento.Policy{Count: 9, FloorSeq: far}, "mgm", "mgm"},
		{"replaced less than two days ago", memento.Policy{Age: 2 * hours, FloorSeq: far}, "mmmmmm", "---mmm"},
		{"what was replaced long after it came", memento.Policy{Age: 2 * hours, FloorSeq: far}, "m----m", "m----m"},
		{"deleted less than two days ago", memento.Policy{Age: 2 * hours, FloorSeq: far}, "mm---g", "-m---g"},
		{"deleted long ago", memento.Policy{Age: 2 * hours, FloorSeq: far}, "mmg---", "------"},
		{"count or age", memento.Policy{Age: 2 * hours, Count: 4, FloorSeq: far}, "mmmmmm", "--mmmm"},
		{"named by a change list", memento.Policy{Count: 1, FloorSeq: 3}, "mmmmmm", "---mmm"},
		{"named by resource lists", memento.Policy{FloorSeq: far, SnapshotSeqs: []int64{4, 2}}, "m-mm-m", "m--m-m"},
		{"a resource list from before it was there", memento.Policy{FloorSeq: far, SnapshotSeqs: []int64{1}}, "-mm", "--m"},
		{"a resource list from when it was gone", memento.Policy{FloorSeq: far, SnapshotSeqs: []int64{3}}, "mmgm", "---m"},
	}
	for _, tt := range tests {
		s := memento.NewMem()
		for _, uri := range []string{"a", "b"} { // the same for each resource
			if err := s.Append(t.Context(), "set", 1, versionsOf(uri, tt.word)); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := memento.Retain(t.Context(), s, "set", tt.policy, noonOf(6).Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		for _, uri := range []string{"a", "b"} {
			if got := wordOf(t, s, uri, tt.word); got != tt.want {
				t.Errorf("%s: of %s there is %s left, want %s", tt.name, tt.word, got, tt.want)
			}
		}
	}
}

// TestRetainEvent: the age of a replaced version counts from when the
// replacement was recorded. A file can be replaced by an older one.
func TestRetainEvent(t *testing.T) {
	t.Parallel()
	s := memento.NewMem()
	vs := versionsOf("a", "mm")
	vs[1].Event = noonOf(20)
	if err := s.Append(t.Context(), "set", 1, vs); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		now  int
		want string
	}{{21, "mm"}, {23, "-m"}} {
		p := memento.Policy{Age: 48 * time.Hour, FloorSeq: far}
		if _, err := memento.Retain(t.Context(), s, "set", p, noonOf(tt.now)); err != nil {
			t.Fatal(err)
		}
		if got := wordOf(t, s, "a", "mm"); got != tt.want {
			t.Errorf("on day %d there is %s left, want %s", tt.now, got, tt.want)
		}
	}
}

// A stubborn store fails after dropping some versions.
type stubborn struct {
	memento.Store
	drops int
}

var errStubborn = errors.New("no")

func (s *stubborn) Drop(ctx context.Context, set string, vs []memento.Version) error {
	if s.drops--; s.drops < 0 {
		return errStubborn
	}
	return s.Store.Drop(ctx, set, vs)
}

// TestRetainFails: versions dropped before a failure are counted, and the rest
// is dropped the next time.
func TestRetainFails(t *testing.T) {
	t.Parallel()
	s := &stubborn{Store: memento.NewMem(), drops: 2}
	for i := range 1500 {
		if err := s.Append(t.Context(), "set", 1, versionsOf(fmt.Sprintf("%04d", i), "mmm")); err != nil {
			t.Fatal(err)
		}
	}
	p := memento.Policy{FloorSeq: far}
	got, err := memento.Retain(t.Context(), s, "set", p, noonOf(9))
	if !errors.Is(err, errStubborn) || got.Dropped != 2000 {
		t.Errorf("Retain = %+v, %v", got, err)
	}
	s.drops = 9
	if got, err = memento.Retain(t.Context(), s, "set", p, noonOf(9)); err != nil || got.Dropped != 1000 || got.Kept != 1500 {
		t.Errorf("Retain again = %+v, %v", got, err)
	}
}

package stage

import (
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// TestOneWord stages the same entry very often: memory use does not grow.
func TestOneWord(t *testing.T) {
	t.Parallel()
	s := New(&journal.Mem{})
	s.AddDocument()
	at := resourcesync.NewDatetime(time.Unix(1e9, 0))
	for i := range 50_000 {
		w := desired.Resource{URI: "http://a/one", Change: resourcesync.Updated, Length: int64(i), Rank: desired.Rank{Class: desired.Changed, Pos: int64(i), Event: at, Modified: at}}
		if err := s.Add(t.Context(), w); err != nil {
			t.Fatal(err)
		}
	}
	most, n := 0, 0
	for c, err := range s.Chunks(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		most = max(most, cap(c.data))
		for w, err := range c.Resources {
			if n++; err != nil || w.Length != 49_999 {
				t.Errorf("%+v, %v", w, err)
			}
		}
	}
	if n != 1 || most > 1<<20 {
		t.Errorf("%d wants, %d bytes at a time", n, most)
	}
}

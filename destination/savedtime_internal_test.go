package destination

import (
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/internal/fetch"
)

// TestSavedByAClockAhead reads state that was saved when the clock of this machine
// was ahead by a year: no wait lasts that long.
func TestSavedByAClockAhead(t *testing.T) {
	t.Parallel()
	now := time.Now()
	year := now.AddDate(1, 0, 0)
	for at, respected := range map[time.Time]bool{year: false, now.Add(time.Hour): true, now.Add(fetch.MaxDeferral): true} {
		w, _, err := desired.Decode("u", string((&desired.Resource{NotBefore: at}).Append(nil)))
		if err != nil || w.NotBefore.IsZero() == respected {
			t.Errorf("pending until %s: %s, %v; want it respected: %t", at, w.NotBefore, err, respected)
		}
	}

	j := new(journal.Mem)
	was := push.State{Paused: year, Doubted: year}
	if err := j.Record(t.Context(), journal.Batch{Save: map[string][]byte{push.DocName(1): saved.Encode(was)}}); err != nil {
		t.Fatal(err)
	}
	p, err := push.Load(t.Context(), j, 1)
	if err != nil || !p.Paused.IsZero() || p.Doubted.After(time.Now()) {
		t.Errorf("notifications are not used until %s, compared last at %s, %v", p.Paused, p.Doubted, err)
	}
}

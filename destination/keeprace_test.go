package destination_test

import (
	"fmt"
	"testing"
	"time"

	"lockstep/destination"
)

// TestKeepWhileBatchesAreRecorded: rows that change without a file are noted while a batch of files is
// being recorded, which the race detector watches.
func TestKeepWhileBatchesAreRecorded(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	k := newKeeping(t, s, destination.Keep{All: true})
	const files = 6000 // more than one transaction has
	for i := range files {
		s.put(fmt.Sprintf("/%04d", i), "first")
	}
	t1, was := k.run()
	s.mu.Lock()
	s.now = s.now.Add(time.Second) // otherwise rows may remain the same
	s.mu.Unlock()
	for i := range files {
		data := "first" // only its time is another
		if i%100 == 0 {
			data = "second"
		}
		s.put(fmt.Sprintf("/%04d", i), data)
	}
	k.run()
	k.was(t1, was)
}

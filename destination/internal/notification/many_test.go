//go:build !race

// With the race detector this takes a minute.

package notification_test

import (
	"fmt"
	"testing"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/journal"
)

// TestPassRemembersSoMuch: a pass that is notified of more resources than it can remember
// applies all of them, and has the set read again.
func TestPassRemembersSoMuch(t *testing.T) {
	t.Parallel()
	const each, most = 50_000, 200_000
	var ms []*inbox.Message
	n := 0
	for m := range most/each + 1 {
		var changes []string
		for i := 0; i < each && n <= most; i++ {
			changes = append(changes, change("created", fmt.Sprintf("http://a.example/%d-%d", m, i), 1))
			n++
		}
		ms = append(ms, message(0, 2, set, changes...))
	}
	out, applied, _ := apply(t, new(journal.Mem), ms...)
	if out.LookAgain != "more was notified than can be remembered" || len(out.Announced) != most || len(applied) != n {
		t.Errorf("%d applied, %d remembered, look again for %q; want all %d, and the set read again", len(applied), len(out.Announced), out.LookAgain, n)
	}
}

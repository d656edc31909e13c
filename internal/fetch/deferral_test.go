package fetch_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

// TestDeferralsPass: documents that may be requested again, and are not, leave room for others that may not.
func TestDeferralsPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{}, nil)
		put := func(name string, n int) []fetch.Deferral {
			var ds []fetch.Deferral
			for i := range n {
				ds = append(ds, fetch.Deferral{URI: fmt.Sprintf("%s/%s%04d", source, name, i), NotBefore: time.Now().Add(time.Hour)})
			}
			fetch.Defer(c, ds)
			return fetch.DeferralsOf(c)
		}
		if all := put("a", 2000); len(all) != 1000 {
			t.Errorf("%d documents are deferred, want 1000", len(all))
		}
		time.Sleep(2 * time.Hour)
		if all := put("b", 1); len(all) != 1 || all[0].URI != source+"/b0000" {
			t.Errorf("deferred after the others: %v", all)
		}
	})
}

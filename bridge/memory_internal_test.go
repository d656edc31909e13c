package bridge

import (
	"errors"
	"fmt"
	"testing"

	"lockstep/catalog"
	"lockstep/destination"
)

// A catalog in memory does not exceed its limit.
func TestSmallCatalog(t *testing.T) {
	t.Parallel()
	c := &smallCatalog{catalog.NewMem(nil), 3}
	for i := range 5 {
		_, err := c.Apply(t.Context(), setName, []catalog.Update{{Record: catalog.Record{URI: fmt.Sprint("http://x/", i)}}})
		if errors.Is(err, destination.ErrScratch) != (i >= 3) {
			t.Errorf("record %d: %v", i, err)
		}
	}
}

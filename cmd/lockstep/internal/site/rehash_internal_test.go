package site

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/sourcefigures"
	"lockstep/intake/dir"
)

// An unreachable catalog answers nothing.
type unreachable struct {
	catalog.Catalog
	down bool
}

func (c *unreachable) Status(ctx context.Context, set string) (catalog.Status, error) {
	if c.down {
		return catalog.Status{}, errors.New("connection refused")
	}
	return c.Catalog.Status(ctx, set)
}

// TestFailedChecksArePublished: a check that fails may have listed a damaged file as it
// is, so there may be something to publish.
func TestFailedChecksArePublished(t *testing.T) {
	t.Parallel()
	cat := &unreachable{Catalog: catalog.NewMem(nil)}
	d, err := dir.New(t.TempDir(), cat, "set", dir.Options{BaseURI: "https://example.org/"})
	if err != nil {
		t.Fatal(err)
	}
	c := &fileChecks{tally: &sourcefigures.Tally{}, log: slog.New(slog.DiscardHandler)}
	c.add("main", func(onDamage func(dir.Damage)) *dir.Rehasher {
		return dir.NewRehasher(d, dir.RehashOptions{Share: 1, OnDamage: onDamage})
	})
	for _, down := range []bool{false, false, true, true, false} {
		cat.down = down
		if got := c.once(t.Context()); got != down {
			t.Errorf("once = %v while the catalog is unreachable: %v", got, down)
		}
	}
}

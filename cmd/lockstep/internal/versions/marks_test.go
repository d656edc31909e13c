package versions_test

import (
	"fmt"
	"log/slog"
	"sync"
	"testing"

	"lockstep/cmd/lockstep/internal/config"
	"lockstep/cmd/lockstep/internal/contentplace"
	"lockstep/cmd/lockstep/internal/versions"
	"lockstep/internal/statedir"
)

// TestMarksAreReadWhileWritten: a reload of the configuration reads which sets keep versions
// while an Upkeep records it. The race detector shows whether that is safe.
func TestMarksAreReadWhileWritten(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	place, err := contentplace.Open(t.Context(), contentplace.Options{StateDir: state, State: statedir.State{Notes: statedir.Files(state)}})
	if err != nil {
		t.Fatal(err)
	}
	store, err := versions.Open(t.Context(), place, statedir.Files(state), []config.Set{{Versions: new(config.Versions)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	u := &versions.Upkeep{Store: store, Log: slog.New(slog.DiscardHandler)}
	for i := range 20 {
		u.Sets = append(u.Sets, versions.Set{List: fmt.Sprint("list", i)})
	}
	last := u.Sets[len(u.Sets)-1].List
	var reading sync.WaitGroup
	reading.Go(func() {
		for !store.Marked(last) && t.Context().Err() == nil {
			if _, err := store.Options(last, new(config.Set), "https://example.org/"); err != nil {
				t.Error(err)
				return
			}
		}
	})
	if err := u.Begin(t.Context()); err != nil {
		t.Error(err)
	}
	if !store.Marked(last) {
		t.Fatalf("the set %s is not marked", last)
	}
	reading.Wait()
}

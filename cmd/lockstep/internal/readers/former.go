package readers

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"lockstep/internal/statedir"
)

// formerNote is the note of the state that records which sets are private.
const formerNote = "private-sets.json"

// A Former records which sets were private before: documents of sets that are not
// configured any more may be left, and subscriptions from before a set became private. It is safe
// for concurrent use.
type Former struct {
	notes statedir.Notes

	mu   sync.Mutex // guards sets; held across IO, for that is its purpose
	sets []string   // private ones whose former subscriptions have been ended
	any  bool       // there is or was a private set
}

// OpenFormer reads the record in a state.
func OpenFormer(notes statedir.Notes) (*Former, error) {
	f := &Former{notes: notes}
	var stored *struct {
		Sets []string `json:"sets"`
	}
	if err := statedir.ReadJSON(notes, formerNote, &stored); err != nil {
		return nil, fmt.Errorf("read which sets were private: %w", err)
	}
	if stored != nil {
		f.sets, f.any = stored.Sets, true
	}
	return f, nil
}

// Any reports whether there is or was a private set.
func (f *Former) Any() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.any
}

// Keep records that there are private sets, for good.
func (f *Former) Keep() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.any {
		return nil
	}
	return f.write(nil)
}

// New returns those of the private sets that were not private before.
func (f *Former) New(now []string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(now), func(set string) bool { return slices.Contains(f.sets, set) })
}

// Record records the private sets, of which new ones have no subscriptions left from
// before.
func (f *Former) Record(now []string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.Equal(now, f.sets) && (f.any || len(now) == 0) {
		return nil
	}
	return f.write(now)
}

// write replaces the record. f.mu is held.
func (f *Former) write(sets []string) error {
	text, err := json.Marshal(map[string][]string{"sets": append([]string{}, sets...)})
	if err == nil {
		err = f.notes.Save(formerNote, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("record which sets are private: %w", err)
	}
	f.sets, f.any = slices.Clone(sets), true
	return nil
}

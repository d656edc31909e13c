// Package saved defines the JSON documents of a Journal: the states of the mirror
// and of its sets, and the times in them. Fields may be added, but not renamed or
// removed.
package saved

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// Load reads a JSON document from the Journal into v and reports whether there
// is one.
func Load(ctx context.Context, j journal.Journal, name string, v any) (bool, error) {
	b, err := j.Load(ctx, name)
	if err != nil || b == nil {
		return false, err
	}
	if err := json.Unmarshal(b, v); err != nil {
		return false, fmt.Errorf("read %s from journal: %w", name, err)
	}
	return true, nil
}

// UpdateSet changes the saved state of a set, and nothing else: the state that a run has in
// memory may be that of a comparison that has not ended. A set that was never saved stays
// as it is.
func UpdateSet(ctx context.Context, j journal.Journal, number int, change func(*Set)) error {
	var st Set
	name := DocSet(number)
	known, err := Load(ctx, j, name, &st)
	if err != nil || !known {
		return err
	}
	change(&st)
	if err := j.Record(ctx, journal.Batch{Save: map[string][]byte{name: Encode(&st)}}); err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}

// Encode returns v as a JSON document.
func Encode(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err) // unreachable: documents have no value that JSON lacks, see Time
	}
	return b
}

// Time returns the time of d, or zero if JSON cannot represent its year.
func Time(d resourcesync.Datetime) time.Time {
	t := d.Time()
	if y := t.Year(); y < 1 || y > 9999 {
		return time.Time{}
	}
	return t
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// The clock of this machine may have been ahead when a time was saved, and have been
// set back since. A wait until such a time could last for years.

// Until returns the saved end of a wait that lasts at most most, or zero if it is
// further in the future.
func Until(t, now time.Time, most time.Duration) time.Time {
	if t.After(now.Add(most)) {
		return time.Time{}
	}
	return t
}

// Past returns the saved time of an event, or now if that is earlier.
func Past(t, now time.Time) time.Time {
	if t.After(now) {
		return now
	}
	return t
}

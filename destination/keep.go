package destination

import (
	"context"
	"errors"
	"time"

	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/saved"
)

// A Keep says which versions a mirror keeps of resources that are replaced or
// removed. At most one field is set. If none is, the mirror keeps its recorded
// setting; a mirror without one keeps no versions.
type Keep struct {
	All   bool          `json:"all,omitempty"`
	Count int           `json:"count,omitempty"` // this many versions of each resource, the newest
	Age   time.Duration `json:"age,omitempty"`   // every version that was current within this time
	None  bool          `json:"none,omitempty"`  // no version, not even those kept so far
}

func (k Keep) check() error {
	set := 0
	for _, is := range []bool{k.All, k.Count != 0, k.Age != 0, k.None} {
		if is {
			set++
		}
	}
	if set > 1 || k.Count < 0 || k.Age < 0 {
		return errors.New("which versions to keep: want all, a number of them above 0, or an age")
	}
	return nil
}

// openKeeper starts to record versions if the mirror is to keep any. whole says
// that the mirror is in the state that a completed run left.
func openKeeper(ctx context.Context, d *Destination, mirror *saved.Mirror, whole bool) (*history.Keeper, error) {
	m := history.Mirror{Journal: d.journal, Files: d.store, Versions: d.vault, Log: d.log, Clock: d.clock, Open: d.kept,
		Unavailable: failure.IsUnreadable}
	return history.Open(ctx, m, history.Rule(d.opts.Keep), whole, func(mark func(int, time.Time)) (known bool, err error) {
		if mirror.Found == nil {
			return false, nil
		}
		for _, n := range mirror.Numbers {
			var st saved.Set
			if _, err := saved.Load(ctx, d.journal, saved.DocSet(n), &st); err != nil {
				return false, err
			}
			mark(st.Number, st.Watermark)
		}
		return true, nil
	})
}

// endKeeping records that a run has completed, and reports the versions that are
// kept.
func endKeeping(ctx context.Context, k *history.Keeper, r *Report) error {
	if err := k.End(ctx); err != nil {
		return err
	}
	if k.IsOn() {
		versions, bytes, since := k.Kept()
		r.Kept = &Kept{Versions: versions, Bytes: bytes, Since: since}
	}
	return nil
}

// keptContent opens the contents that the mirror holds or has kept.
func keptContent(d *Destination) *history.Content {
	return &history.Content{Journal: d.journal, Files: d.store, Versions: d.vault}
}

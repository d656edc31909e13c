package vault

import (
	"context"
	"errors"

	"lockstep/blob"
)

// While a sweep changes anything there is a marker: after a crash, contents that
// nobody needed may seem whole whose sources are gone. As long as it is there,
// until a sweep has come to its end, a content is believed to be whole only after
// a look at its sources. See [Vault.sure].
const markerName = "sweeping"

type markerState uint8

const (
	markerUnknown markerState = iota
	markerAbsent
	markerThere
)

// unfinished reports whether a sweep has begun that has not come to its end.
func (v *Vault) unfinished(ctx context.Context) (bool, error) {
	if state := v.markerState(); state != markerUnknown {
		return state == markerThere, nil
	}
	_, err := v.store.Stat(ctx, markerName)
	switch {
	case err == nil:
		v.setMarker(markerUnknown, markerThere)
	case errors.Is(err, blob.ErrNotExist):
		v.setMarker(markerUnknown, markerAbsent)
	default:
		return false, err
	}
	return v.markerState() == markerThere, nil
}

// begun leaves the marker.
func (v *Vault) begun(ctx context.Context) error {
	w, err := v.store.Create(ctx, markerName)
	if err != nil {
		return err
	}
	defer w.Close() // drops it, unless committed
	v.setMarker(v.markerState(), markerThere)
	return v.store.Commit(ctx, w)
}

// finished removes the marker.
func (v *Vault) finished(ctx context.Context) error {
	if err := v.store.Remove(ctx, markerName); err != nil {
		return err
	}
	v.setMarker(markerThere, markerAbsent)
	return nil
}

func (v *Vault) markerState() markerState {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.marker
}

// setMarker changes the state, if it is still from.
func (v *Vault) setMarker(from, to markerState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.marker == from {
		v.marker = to
	}
}

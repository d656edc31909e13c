package vault

import (
	"context"
	"errors"

	"lockstep/blob"
)

// A marker exists while a sweep changes anything: after a crash, unneeded
// contents may seem whole although their sources were removed. As long as the
// marker exists, until a sweep is completed, a content counts as whole only after
// a check of its sources. See [Vault.sure].
const markerName = "sweeping"

type markerState uint8

const (
	markerUnknown markerState = iota
	markerAbsent
	markerThere
)

// unfinished reports whether a sweep was begun but not completed.
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

// begun creates the marker.
func (v *Vault) begun(ctx context.Context) error {
	w, err := v.store.Create(ctx, markerName)
	if err != nil {
		return err
	}
	defer w.Close() // drops it, unless committed
	v.setMarker(v.markerState(), markerThere)
	if err = v.store.Commit(ctx, w); err != nil {
		v.setMarker(markerThere, markerUnknown) // it may be there
	}
	return err
}

// finished removes the marker.
func (v *Vault) finished(ctx context.Context) error {
	if err := v.store.Remove(ctx, markerName); err != nil {
		v.setMarker(markerThere, markerUnknown) // it may be gone
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

package sqldb

import (
	"context"
	"errors"
	"iter"
	"time"

	"lockstep/memento"
)

// Versions is a [memento.Store] in a [DB].
type Versions struct{ db *DB }

var _ memento.Store = (*Versions)(nil)

// Versions returns the versions in the database.
func (db *DB) Versions() *Versions { return &Versions{db} }

// Append implements [memento.Store].
func (v *Versions) Append(ctx context.Context, set string, cursor int64, vs []memento.Version) error {
	return errors.ErrUnsupported
}

// Cursor implements [memento.Store].
func (v *Versions) Cursor(ctx context.Context, set string) (int64, error) {
	return 0, errors.ErrUnsupported
}

// Last implements [memento.Store].
func (v *Versions) Last(ctx context.Context, set string, uris []string) ([]memento.Version, error) {
	return nil, errors.ErrUnsupported
}

// Around implements [memento.Store].
func (v *Versions) Around(ctx context.Context, uri string, at time.Time) (memento.Around, error) {
	return memento.Around{}, errors.ErrUnsupported
}

// List implements [memento.Store].
func (v *Versions) List(ctx context.Context, uri string, after time.Time) iter.Seq2[memento.Version, error] {
	return func(yield func(memento.Version, error) bool) { yield(memento.Version{}, errors.ErrUnsupported) }
}

// Walk implements [memento.Store].
func (v *Versions) Walk(ctx context.Context, set, from string) iter.Seq2[memento.Version, error] {
	return func(yield func(memento.Version, error) bool) { yield(memento.Version{}, errors.ErrUnsupported) }
}

// Drop implements [memento.Store].
func (v *Versions) Drop(ctx context.Context, set string, vs []memento.Version) error {
	return errors.ErrUnsupported
}

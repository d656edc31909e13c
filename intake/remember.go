package intake

import (
	"context"
	"encoding/json"
	"os"

	"lockstep/catalog"
)

// A Point is where a set stood when an origin had been taken in to its end.
// What was remembered then holds only as long as the set stands there: a catalog
// that was lost, or filled by others, is compared anew.
type Point struct {
	Last      catalog.Seq `json:"last"`
	Resources int64       `json:"resources"`
}

// Point returns where the set stands now.
func (l *Origin) Point(ctx context.Context) (Point, error) {
	st, err := l.Catalog.Status(ctx, l.Set)
	return Point{st.Last, st.Resources}, err
}

// Recall reads what was remembered in the file at path. What cannot be read is
// not remembered: that costs a comparison.
func Recall(path string, v any) bool {
	if path == "" {
		return false
	}
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}

// Remember writes v to the file at path, which holds the old or the new
// whatever happens.
func Remember(path string, v any) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err // unreachable: our own types can be stated
	}
	next := path + ".new" // always the same: what a crash leaves is overwritten
	f, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		_ = os.Remove(next) // of no use
	}
	return err
}

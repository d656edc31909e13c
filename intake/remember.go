package intake

import (
	"context"
	"encoding/json"
	"os"

	"lockstep/catalog"
	"lockstep/internal/private"
)

// A Point is the state of a set at the time when an origin had been applied to its
// end. The state remembered then is valid only as long as the set is at that Point: a
// catalog that was lost, or filled by another process, is compared again.
type Point struct {
	Last      catalog.Seq `json:"last"`
	Resources int64       `json:"resources"`
}

// Point returns the present Point of the set.
func (l *Origin) Point(ctx context.Context) (Point, error) {
	st, err := l.Catalog.Status(ctx, l.Set)
	return Point{st.Last, st.Resources}, err
}

// Recall reads into v the state stored in the file at path and reports whether that
// worked. Without it the caller compares everything again.
func Recall(path string, v any) bool {
	if path == "" {
		return false
	}
	b, err := os.ReadFile(path)
	return err == nil && json.Unmarshal(b, v) == nil
}

// Remember writes v to the file at path, whole and durably.
func Remember(path string, v any) error {
	if path == "" {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return err // unreachable: our own types can be encoded
	}
	return private.Replace(path, b)
}

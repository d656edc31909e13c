package reconcile

import (
	"context"
	"strings"

	"lockstep/destination/filename"
	"lockstep/destination/internal/stage"
)

// Origin returns the scheme and authority of the first staged resource that has
// them, or "".
func Origin(ctx context.Context, st *stage.Stage) (string, error) {
	for w, err := range st.Resources(ctx) {
		if err != nil {
			return "", err
		}
		scheme, rest, ok := filename.CutScheme(w.URI)
		if !ok {
			continue
		}
		if i := strings.IndexAny(rest, "/?#"); i >= 0 {
			rest = rest[:i]
		}
		return scheme + "://" + rest, nil
	}
	return "", nil
}

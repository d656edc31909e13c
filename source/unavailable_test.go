package source_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"

	"lockstep/blob"
	"lockstep/source"
)

// A downStore is a store that cannot be reached.
type downStore struct{ blob.Store }

func (downStore) Open(_ context.Context, name string) (blob.Reader, error) {
	return nil, fmt.Errorf("open %s: %w", name, blob.ErrUnavailable)
}

// TestServeWhileTheStoreIsDown: clients are asked to come again.
func TestServeWhileTheStoreIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.docs = downStore{w.docs}
	for _, target := range []string{list, "/.well-known/resourcesync", "/resourcesync/main/resourcedump-20260501T020000.0000000Z-000001.zip"} {
		answer := httptest.NewRecorder()
		w.source().Handler().ServeHTTP(answer, httptest.NewRequest("GET", "https://data.example.org"+target, nil))
		if answer.Code != 503 || answer.Header().Get("Retry-After") != "5" {
			t.Errorf("%s: %d, Retry-After %q; want 503, 5", target, answer.Code, answer.Header().Get("Retry-After"))
		}
	}
}

package repository_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/internal/sleep"
)

// TestSlowContents: the index is finished although reading all contents takes longer than any
// client waits: each request continues where the one before it ended.
func TestSlowContents(t *testing.T) {
	t.Parallel()
	const n, each, patience = 80, 50 * time.Millisecond, 3 * time.Second
	w := newWorld(t, nil)
	w.opts.Sets[0].Open = func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
		if err := sleep.For(ctx, each); err != nil {
			return nil, err
		}
		return w.open(ctx, r)
	}
	for i := range n {
		w.put(fmt.Sprintf("https://example.org/%03d", i), "text/xml", `<r xmlns="urn:example:r">text</r>`)
	}
	w.restart()
	server := httptest.NewServer(w.repo)
	defer server.Close()
	client := http.Client{Timeout: patience}
	for range 30 {
		resp, err := client.Get(server.URL + "?verb=ListIdentifiers&metadataPrefix=oai_dc")
		if err != nil {
			continue
		}
		text, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			continue
		}
		if got := strings.Count(string(text), "<header>"); got != n {
			t.Errorf("%d of %d records", got, n)
		}
		return
	}
	t.Error("the index does not get finished")
}

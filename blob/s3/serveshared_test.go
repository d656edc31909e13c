package s3_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob/s3"
	"lockstep/catalog"
	"lockstep/source"
)

// TestDisconnectedClient: clients that wait until a document has been read for another client
// get it although that one disconnects.
func TestDisconnectedClient(t *testing.T) {
	t.Parallel()
	const name, others = "resourcesync/main/resourcelist.xml", 8
	var first sync.Once
	reading, opened := make(chan struct{}), make(chan struct{}, 1+others)
	b := open(t, s3.Options{Memory: 1, Endpoint: fake(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			held := false
			if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, name) {
				if r.Header.Get("Range") == "" {
					defer func() { opened <- struct{}{} }()
				} else {
					first.Do(func() { held = true })
				}
			}
			if held {
				close(reading)
				<-r.Context().Done()
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})})
	content := random(1, part+5)
	commit(t, b, name, content, time.Time{})
	src := must[*source.Source](t)(source.New(catalog.NewMem(nil), b, source.Options{BaseURL: siteURL}))
	server := httptest.NewServer(src.Handler())
	defer server.Close()
	get := func(ctx context.Context) (int, []byte, error) {
		req := must[*http.Request](t)(http.NewRequestWithContext(ctx, http.MethodGet, server.URL+"/"+name, nil))
		req.Header.Set("Accept-Encoding", "identity")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, nil, err
		}
		defer resp.Body.Close()
		data, err := io.ReadAll(resp.Body)
		return resp.StatusCode, data, err
	}
	ctx, disconnect := context.WithCancel(t.Context())
	var clients sync.WaitGroup
	clients.Go(func() { _, _, _ = get(ctx) })
	<-reading
	<-opened
	for range others {
		clients.Go(func() {
			status, data, err := get(t.Context())
			if err != nil || status != http.StatusOK || !bytes.Equal(data, content) {
				t.Errorf("status %d, %d bytes, %v; want 200 with all %d", status, len(data), err, len(content))
			}
		})
	}
	for range others {
		<-opened
	}
	time.Sleep(100 * time.Millisecond) // what is tested happens only to clients that wait by then
	disconnect()
	clients.Wait()
}

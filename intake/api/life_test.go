package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/api"
	"lockstep/internal/trust"
)

// TestAPISlowBodies checks that clients that send slowly do not keep others out.
func TestAPISlowBodies(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{BodyTime: 10 * time.Second})
	for range 50 {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(a.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() }) // it is of no use to anybody
		fmt.Fprintf(conn, "POST /-/api/v1/sets/papers/changes HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n[")
	}
	start := time.Now()
	a.want(put("http://x", "{}"), 201)
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("a small request took %s beside slow large ones", took)
	}
}

// TestAPILogs sees to it that no token gets into the log.
func TestAPILogs(t *testing.T) {
	t.Parallel()
	var log syncBuffer
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cat := &failing{Catalog: catalog.NewMem(nil), err: errors.New("disk on fire")}
	a := newAPI(t, cat, api.Options{TokenFile: token, Logger: log.logger()})
	a.want(put("http://x", "{}").with("Authorization", "Bearer s3cret"), 500, "disk on fire")
	a.want(put("http://x", "{}").with("Authorization", "Bearer wr0ng"), 403)
	if got := log.String(); !strings.Contains(got, "disk on fire") || strings.Contains(got, "s3cret") || strings.Contains(got, "wr0ng") {
		t.Errorf("log:\n%s", got)
	}
}

// TestAPIClientGone sees to it that what was begun for a client is finished,
// and the next one served, when it goes away.
func TestAPIClientGone(t *testing.T) {
	t.Parallel()
	g := newGate()
	a := newAPI(t, g, api.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan int)
	go func() {
		r := httptest.NewRequestWithContext(ctx, "PUT", "http://127.0.0.1"+resource("http://x"), strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r = r.WithContext(trust.WithOwner(r.Context()))
		w := httptest.NewRecorder()
		a.api.ServeHTTP(w, r)
		done <- w.Code
	}()
	<-g.arrived
	cancel()
	g.orders <- gateOrder{apply: true}
	if status := <-done; status != 201 {
		t.Errorf("status %d", status)
	}
	go func() {
		<-g.arrived
		g.orders <- gateOrder{apply: true}
	}()
	a.want(put("http://x", `{"length":1}`), 200, "updated")
}

// A syncBuffer is a log that is read while it is written.
type syncBuffer struct {
	mu  sync.Mutex
	buf strings.Builder
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func (b *syncBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

package requestlog_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"lockstep/internal/fetch/requestlog"
	"lockstep/internal/fetch/shown"
)

// TestTransport: each request of a client is a record at debug level; at others, the
// transport is used as it is.
func TestTransport(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	for level, want := range map[slog.Level]int{slog.LevelDebug: 2, slog.LevelInfo: 0} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))
		own := &http.Transport{}
		next := requestlog.Transport(own, log, shown.WithoutQuery)
		if level != slog.LevelDebug && next != own {
			t.Errorf("%s: the transport is wrapped", level)
		}
		client := &http.Client{Transport: next}
		resp, err := client.Post(s.URL+"/callback?id=s3cret", "text/plain", nil)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp, err := client.Get("http://127.0.0.1:1/"); err == nil {
			_ = resp.Body.Close()
			t.Error("there is a server at port 1")
		}
		client.CloseIdleConnections()
		if n := strings.Count(out.String(), "msg=request"); n != want {
			t.Errorf("%s: %d records, want %d", level, n, want)
		}
		if want > 0 && (!strings.Contains(out.String(), "method=POST uri="+s.URL+"/callback status=404 bytes=19 dur=") ||
			!strings.Contains(out.String(), "method=GET uri=http://127.0.0.1:1/ dur=")) || strings.Contains(out.String(), "s3cret") {
			t.Errorf("%s:\n%s", level, &out)
		}
	}
}

package fetch_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"lockstep/internal/fetch"
)

// TestRequestsAreLogged: at debug level each request is a record, whichever way it is
// sent, with what its response was; at other levels none is.
func TestRequestsAreLogged(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/moved":
			http.Redirect(w, r, "/a?token=t0ps3cret", http.StatusFound)
		case "/missing":
			http.NotFound(w, r)
		default:
			_, _ = w.Write([]byte("content"))
		}
	}))
	t.Cleanup(s.Close)
	run := func(level slog.Level, general bool) string {
		var out syncedBuffer
		c, err := fetch.New(fetch.Options{AllowPrivate: true, Retries: -1, Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if general {
			fetch.OnlyGeneral(c)
		}
		for _, r := range []fetch.Request{
			{URI: s.URL + "/a?x=1"}, {URI: s.URL + "/moved"}, {URI: s.URL + "/missing"}, {URI: "http://127.0.0.1:1/none"},
			{URI: s.URL + "/b", Verified: true, Expected: 7}, {URI: s.URL + "/c", Post: []byte("x")},
		} {
			resp, err := c.Get(t.Context(), r)
			if err != nil {
				continue
			}
			if _, err := io.Copy(io.Discard, resp.Body); err != nil {
				t.Error(err)
			}
			_ = resp.Body.Close()
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/hub", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return out.String()
	}
	for _, general := range []bool{false, true} {
		got := run(slog.LevelDebug, general)
		for _, want := range []string{
			fmt.Sprintf(`msg=request method=GET uri="%s/a?x=1" status=200 bytes=7 dur=`, s.URL),
			fmt.Sprintf(`msg=request method=GET uri=%s/moved status=302 bytes=`, s.URL),
			fmt.Sprintf(`msg=request method=GET uri="%s/a?token=REDACTED" status=200 bytes=7 dur=`, s.URL),
			fmt.Sprintf(`msg=request method=GET uri=%s/missing status=404 bytes=`, s.URL),
			`msg=request method=GET uri=http://127.0.0.1:1/none bytes=0 dur=`,
			fmt.Sprintf(`msg=request method=GET uri=%s/b status=200 bytes=7 dur=`, s.URL),
			fmt.Sprintf(`msg=request method=POST uri=%s/c status=200 bytes=7 dur=`, s.URL),
			fmt.Sprintf(`msg=request method=POST uri=%s/hub status=200 bytes=7 dur=`, s.URL),
		} {
			if strings.Count(got, want) != 1 {
				t.Errorf("net/http alone: %v: %d records %q in\n%s", general, strings.Count(got, want), want, got)
			}
		}
		if n := strings.Count(got, "msg=request"); n != 8 || strings.Contains(got, "t0ps3cret") {
			t.Errorf("%d requests are logged, want 8, without secrets:\n%s", n, got)
		}
		if !strings.Contains(got, "127.0.0.1:1/none") || !strings.Contains(got, "err=") {
			t.Errorf("no cause of the request that failed:\n%s", got)
		}
	}
	if got := run(slog.LevelInfo, false); got != "" {
		t.Errorf("at info level: %s", got)
	}
}

// TestRetriesAreLoggedWithoutSecrets: what the log has of a request that is sent again is its
// address without secrets, and the cause.
func TestRetriesAreLoggedWithoutSecrets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out syncedBuffer
		c := wired(t, fetch.Options{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))}, func(w *wire, _ *http.Request, n int) {
			switch n {
			case 1, 2: // sent again at once, with net/http, and then after a pause
				w.say("HTTP/1.1 503 x\nContent-Length: 0\n\n")
			case 3:
				w.say("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc")
			default:
				w.answer(200, "", "content")
			}
		})
		err := c.Fetch(t.Context(), &fetch.Request{URI: source + "/a?token=t0ps3cret"}, func(r *fetch.Response) error {
			_, err := io.Copy(io.Discard, r.Body)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		const uri = `uri="http://source.example/a?token=REDACTED"`
		for _, want := range []string{
			`msg="send the request again with net/http" ` + uri, `msg="try again" ` + uri + ` attempt=1 dur=`, `err="status 503 Service Unavailable"`,
			`msg="try again" ` + uri + ` attempt=2 dur=`, `err="unexpected EOF"`,
		} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %s in\n%s", want, out.String())
			}
		}
		if strings.Contains(out.String(), "t0ps3cret") {
			t.Errorf("the log has the secret:\n%s", out.String())
		}
	})
}

// A syncedBuffer is a buffer for several goroutines.
type syncedBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncedBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncedBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

package accesslog_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"lockstep/cmd/lockstep/internal/accesslog"
	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/reader"
	"lockstep/source"
)

// A safeBuffer may be written and read at the same time.
type safeBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// open opens a log with these flags, and has it run until the function returned is called.
func open(t *testing.T, kind func(string) string, args ...string) (l *accesslog.Log, stderr *safeBuffer, stop func()) {
	t.Helper()
	var o accesslog.Flags
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Declare(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	stderr = &safeBuffer{}
	l, err := o.Open(kind, []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, term.IO{Out: io.Discard, Err: stderr})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = l.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
		l.Close()
	})
	t.Cleanup(stop)
	return l, stderr, stop
}

// files answers with 200, 404, or the end of the connection.
func files(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/gone":
		http.NotFound(w, r)
	case "/broken":
		panic(http.ErrAbortHandler)
	default:
		_, _ = io.Copy(w, strings.NewReader("content"))
	}
}

func fetch(t *testing.T, method, address, agent string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("User-Agent", agent)
	r.Header.Set("Referer", "http://a.example/")
	answer, err := http.DefaultClient.Do(r)
	if err == nil {
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	}
}

func TestCombined(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	l, stderr, stop := open(t, admin.KindOf("file"), "--access-log", path)
	s := httptest.NewServer(l.Handler(http.HandlerFunc(files)))
	defer s.Close()
	fetch(t, "GET", s.URL+"/a%20b?x=%22", "curl/8")
	fetch(t, "GET", s.URL+"/gone", "evil\"\\\u00e9 \"GET / 200")
	fetch(t, "DELETE", s.URL+"/broken", "curl/8") // a GET would be repeated
	fetch(t, "HEAD", s.URL+"/-/healthz", "")
	s.Close()
	stop()
	text, err := os.ReadFile(path)
	if err != nil || stderr.String() != "" {
		t.Fatalf("%v, stderr %q", err, stderr)
	}
	want := regexp.MustCompile(`^127\.0\.0\.1 - - \[\d\d/[A-Z][a-z]{2}/\d{4}:\d\d:\d\d:\d\d [-+]\d{4}\] "GET /a%20b\?x=%22 HTTP/1\.1" 200 7 "http://a\.example/" "curl/8"
127\.0\.0\.1 - - \[.*\] "GET /gone HTTP/1\.1" 404 19 "http://a\.example/" "evil\\"\\\\\\xc3\\xa9 \\"GET / 200"
127\.0\.0\.1 - - \[.*\] "DELETE /broken HTTP/1\.1" 500 0 .*
127\.0\.0\.1 - - \[.*\] "HEAD /-/healthz HTTP/1\.1" 200 \d+ "http://a\.example/" "-"
$`)
	if !want.Match(text) {
		t.Errorf("logged\n%s", text)
	}
	m := admin.NewMetrics()
	m.Register(l.Figures)
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/", nil))
	for _, line := range []string{
		`lockstep_http_requests_total{code="2xx",kind="file"} 1`, `lockstep_http_requests_total{code="5xx",kind="file"} 1`, `lockstep_http_requests_total{code="4xx",kind="file"} 1`,
		`lockstep_http_requests_total{code="2xx",kind="page"} 1`, `lockstep_http_response_bytes_total{kind="file"} 26`,
		`lockstep_http_request_seconds_count{kind="file"} 3`, `lockstep_http_request_seconds_bucket{kind="page",le="60"} 1`,
	} {
		if !strings.Contains(answer.Body.String(), line+"\n") {
			t.Errorf("no metric %s in\n%s", line, answer.Body)
		}
	}
}

// TestMovedFile: after the file was moved away, lines go to a new one.
func TestMovedFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, old := filepath.Join(dir, "access.log"), filepath.Join(dir, "access.log.1")
	l, _, stop := open(t, admin.KindOf("file"), "--access-log", path, "--access-log-format", "json")
	h := l.AdminHandler(http.HandlerFunc(files))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/first", nil))
	for contents(path) == "" {
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.Rename(path, old); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(path); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/second", nil))
	stop()
	var line struct {
		URI, Kind string
		Status    int
		Bytes     int64
	}
	if err := json.Unmarshal([]byte(contents(path)), &line); err != nil || line.URI != "/second" || line.Status != 200 || line.Bytes != 7 || line.Kind != "admin" {
		t.Errorf("%v: %+v", err, line)
	}
	if text := contents(old); !strings.Contains(text, `"uri":"/first"`) || strings.Contains(text, "/second") {
		t.Errorf("the moved file has %q", text)
	}
}

func contents(path string) string {
	text, _ := os.ReadFile(path)
	return string(text)
}

// TestFullDisk: requests are answered, one warning says that they are not logged, and the
// lost lines are counted.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full, which is always full")
	}
	l, stderr, stop := open(t, admin.KindOf("file"), "--access-log", "/dev/full")
	h := l.Handler(http.HandlerFunc(files))
	for range 2 {
		answer := httptest.NewRecorder()
		h.ServeHTTP(answer, httptest.NewRequest("GET", "/a", nil))
		if answer.Body.String() != "content" {
			t.Errorf("answered %q", answer.Body)
		}
		for n := strings.Count(stderr.String(), "\n"); n == 0; n = strings.Count(stderr.String(), "\n") {
			time.Sleep(10 * time.Millisecond)
		}
	}
	stop()
	if got := stderr.String(); got != "warning: --access-log: write /dev/full: no space left on device; requests are answered without being logged\n" {
		t.Errorf("warned %q", got)
	}
}

// TestFront: what the front of a Source answers is logged as what its server answers.
func TestFront(t *testing.T) {
	t.Parallel()
	l, stderr, stop := open(t, admin.KindOf("file"), "--access-log", "-")
	remote := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1}
	l.Front(&source.FrontResponse{
		Remote: remote, Request: []byte("GET /a HTTP/1.1\r\nHost: a.example\r\nUser-Agent: curl/8\r\n\r\n"), Path: "/a", Bytes: 7, Took: time.Millisecond,
	})
	l.Front(&source.FrontResponse{
		Remote: remote, Request: []byte("GET /b HTTP/1.1\r\nHost: a.example\r\nX-Forwarded-For: 198.51.100.7\r\n\r\n"), Path: "/b", Bytes: 7, Took: time.Millisecond,
	})
	stop()
	if !strings.Contains(stderr.String(), "\n198.51.100.7 - - [") {
		t.Errorf("the client of a trusted proxy is not in %q", stderr)
	}
	line, _ := bufio.NewReader(strings.NewReader(stderr.String())).ReadString('\n')
	if !strings.HasPrefix(line, "127.0.0.1 - - [") || !strings.HasSuffix(line, `] "GET /a HTTP/1.1" 200 7 "-" "curl/8"`+"\n") {
		t.Errorf("logged %q", line)
	}
}

func TestBadFlags(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"--access-log-format", "clf"}, {"--access-log", filepath.Join(t.TempDir(), "none", "x")}} {
		var o accesslog.Flags
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.Declare(flags)
		if err := flags.Parse(args); err != nil {
			t.Fatal(err)
		}
		if _, err := o.Open(nil, nil, term.IO{}); err == nil {
			t.Errorf("%q is not refused", args)
		}
	}
}

// TestReader: the name of a reader is logged if its credential was accepted, in a form that
// cannot be taken for other fields, and the credential is not.
func TestReader(t *testing.T) {
	t.Parallel()
	const token = "5ec1e7"
	serve := func(w http.ResponseWriter, r *http.Request) {
		r = r.WithContext(reader.With(r.Context(), func() reader.Grant {
			if r.Header.Get("Authorization") == "Bearer "+token {
				return reader.Grant{Name: `al"ice]`, Sets: []string{"a"}}
			}
			return reader.Grant{Status: http.StatusUnauthorized}
		}))
		if r.URL.Path == "/private" && !reader.Of(r.Context()).Opens("a") {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
	for format, want := range map[string][]string{
		"combined": {
			`^192\.0\.2\.1 - al\\"ice\] \[`, `^192\.0\.2\.1 - - \[.* 401 `, `^192\.0\.2\.1 - - \[.* 401 `, `^192\.0\.2\.1 - - \[.* 200 `,
		},
		"json": {`"user":"al\\"ice\]"`, `"status":401`, `"status":401`, `"status":200`},
	} {
		path := filepath.Join(t.TempDir(), "access.log")
		l, _, stop := open(t, admin.KindOf("file"), "--access-log", path, "--access-log-format", format)
		h := l.Handler(http.HandlerFunc(serve))
		for _, ask := range [][2]string{{"/private", "Bearer " + token}, {"/private", "Basic YWxpY2U6eA=="}, {"/private", ""}, {"/public", "Bearer " + token}} {
			r := httptest.NewRequest("GET", ask[0], nil)
			if ask[1] != "" {
				r.Header.Set("Authorization", ask[1])
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
		stop()
		lines := strings.Split(strings.TrimSpace(contents(path)), "\n")
		for i, line := range lines {
			if len(lines) != len(want) || !regexp.MustCompile(want[i]).MatchString(line) || strings.Contains(line, token) || i > 0 && strings.Contains(line, "user\"") {
				t.Errorf("%s, request %d: %s", format, i, line)
			}
		}
	}
}

// TestProxies: of the requests of a trusted proxy, the client that it names is logged, with
// its whole address; what others say of themselves is not.
func TestProxies(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.log")
	l, _, stop := open(t, admin.KindOf("file"), "--access-log", path)
	for _, h := range []http.Handler{l.Handler(http.HandlerFunc(files)), l.AdminHandler(http.HandlerFunc(files))} {
		for _, from := range [][2]string{{"127.0.0.1:5", "198.51.100.1, 2001:db8::1:2"}, {"127.0.0.1:5", ""}, {"192.0.2.1:5", "198.51.100.1"}, {"127.0.0.1:5", "x\n"}, {"@", "198.51.100.1"}} {
			r := httptest.NewRequest("GET", "/a", nil)
			r.RemoteAddr = from[0]
			r.Header.Set("X-Forwarded-For", from[1])
			h.ServeHTTP(httptest.NewRecorder(), r)
		}
	}
	stop()
	var clients []string
	for line := range strings.Lines(contents(path)) {
		client, _, _ := strings.Cut(line, " ")
		clients = append(clients, client)
	}
	if got, want := strings.Join(clients, " "), "2001:db8::1:2 127.0.0.1 192.0.2.1 127.0.0.1 - "; got+" " != want+want {
		t.Errorf("logged %s", got)
	}
}

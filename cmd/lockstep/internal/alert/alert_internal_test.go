package alert

import (
	"bytes"
	"context"
	"errors"
	goio "io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// A monitor is a server that remembers what it is sent.
type monitor struct {
	*httptest.Server
	mu   sync.Mutex // guards got
	got  []string   // path, space, body
	fail func(n int) int
}

func newMonitor(t *testing.T, fail func(n int) int) *monitor {
	m := &monitor{fail: fail}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := goio.ReadAll(r.Body)
		m.mu.Lock()
		m.got = append(m.got, r.Method+" "+r.URL.String()+" "+string(body))
		n := len(m.got)
		m.mu.Unlock()
		if m.fail != nil {
			w.WriteHeader(m.fail(n))
		}
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *monitor) all() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got)
}

// streams returns an IO whose streams can be read.
func streams() (io term.IO, out, err *bytes.Buffer) {
	out, err = &bytes.Buffer{}, &bytes.Buffer{}
	return term.IO{Out: out, Err: err}, out, err
}

var errRun = errors.New("3 resources failed")

func code(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, term.ErrInterrupted):
		return 130
	}
	return 1
}

// watchRun runs a command that prints text and returns err.
func watchRun(t *testing.T, o *Flags, text string, failure error) (warnings string) {
	t.Helper()
	io, out, errs := streams()
	err := o.Watch(t.Context(), Run{Command: "sync", Source: "http://u:secret@a.example/", Dest: "copy"}, io, code, func(io term.IO, _ *Outcome) error {
		io.Printf("%s", text)
		return failure
	})
	if !errors.Is(err, failure) || failure == nil && err != nil {
		t.Errorf("Watch returned %v, want %v", err, failure)
	}
	if out.String() != text {
		t.Errorf("printed %q, want %q", out, text)
	}
	return errs.String()
}

func TestPings(t *testing.T) {
	t.Parallel()
	m := newMonitor(t, nil)
	o := &Flags{pingURL: m.URL + "/ping/a%2Fb?x=1"}
	if w := watchRun(t, o, "in step\n", nil); w != "" {
		t.Errorf("warned %q", w)
	}
	watchRun(t, o, "not yet in step\n", term.WithHint(errRun, "run it again"))
	want := []string{
		"POST /ping/a%2Fb/start?x=1 ", "POST /ping/a%2Fb?x=1 in step\n",
		"POST /ping/a%2Fb/start?x=1 ", "POST /ping/a%2Fb/fail?x=1 not yet in step\nerror: 3 resources failed\nhint: run it again\n",
	}
	if got := m.all(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	watchRun(t, o, "", term.ErrInterrupted)
	if got := m.all()[len(want):]; !slices.Equal(got, want[:1]) {
		t.Errorf("an interrupted run sent %q", got)
	}
}

// TestPingTriesAgain: after 503 and 429, not after 404; what is sent is bounded.
func TestPingTriesAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		answers []int
		want    int
		warning string
	}{
		{[]int{503, 429, 200}, 3, ""},
		{[]int{503, 503, 503, 503}, 3, "503 Service Unavailable"},
		{[]int{404, 200}, 1, "404 Not Found"},
		{[]int{302, 200}, 1, "302 Found"},
	} {
		m := newMonitor(t, func(n int) int { return tt.answers[n-1] })
		p, err := newPinger(m.URL+"/secret", nil)
		if err != nil {
			t.Fatal(err)
		}
		p.pause = time.Millisecond
		err = p.send(t.Context(), "/fail", "x", pingTries)
		if got := m.all(); len(got) != tt.want {
			t.Errorf("%v: %d requests, want %d", tt.answers, len(got), tt.want)
		}
		if tt.warning == "" && err != nil || tt.warning != "" && (err == nil || !strings.Contains(err.Error(), tt.warning)) {
			t.Errorf("%v: %v, want %q", tt.answers, err, tt.warning)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the path of the URL, which is a secret, is in %q", err)
		}
	}
	moved := httptest.NewServer(http.RedirectHandler("https://monitor.example/secret", http.StatusMovedPermanently))
	defer moved.Close()
	p, err := newPinger(moved.URL+"/secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	const redirected = "/…: 301 Moved Permanently: it redirects to https://monitor.example/…, which is not followed: give the address there"
	if err := p.send(t.Context(), "", "x", pingTries); err == nil || err.Error() != "--ping-url: POST to "+moved.URL+redirected {
		t.Error(err)
	}
	m := newMonitor(t, nil)
	watchRun(t, &Flags{pingURL: m.URL}, strings.Repeat("a line of text\n", 10_000)+"the end\n", nil)
	if got := m.all()[1]; len(got) > maxSummary+20 || !strings.HasSuffix(got, "the end\n") {
		t.Errorf("sent %d bytes", len(got))
	}
}

// TestPingHangs: a monitor that does not answer costs a bounded time, and changes nothing.
func TestPingHangs(t *testing.T) {
	t.Parallel()
	block := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-block }))
	defer s.Close()
	defer close(block)
	p, err := newPinger(s.URL+"/secret", nil)
	if err != nil {
		t.Fatal(err)
	}
	p.client.Timeout, p.pause = 20*time.Millisecond, time.Millisecond
	if err = p.send(t.Context(), "", "x", pingTries); err == nil || err.Error() != "--ping-url: POST to "+s.URL+"/…: no answer in time" {
		t.Error(err)
	}
	if _, err := newPinger("ftp://secret", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

func TestOnFailure(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "alert")
	o := &Flags{onFailure: `cat >` + file + `; echo "$LOCKSTEP_COMMAND $LOCKSTEP_SOURCE $LOCKSTEP_DEST $LOCKSTEP_EXIT_CODE" >>` + file}
	watchRun(t, o, "in step\n", nil)
	watchRun(t, o, "", term.ErrInterrupted)
	if _, err := os.Stat(file); err == nil {
		t.Fatal("the command ran without a failure")
	}
	if w := watchRun(t, o, "not yet in step\n", errRun); w != "" {
		t.Errorf("warned %q", w)
	}
	const want = "not yet in step\nerror: 3 resources failed\nsync http://a.example/ copy 1\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("the command got %q, %v; want %q", got, err, want)
	}
	o.onFailure = "echo no mail; exit 75"
	if w := watchRun(t, o, "", errRun); w != "no mail\nwarning: --on-failure \"echo no mail; exit 75\": exit status 75\n" {
		t.Errorf("warned %q", w)
	}
}

func TestMetricsFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lockstep.prom")
	o := &Flags{metricsFile: path}
	value := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, name) && strings.Contains(line, `command="sync",dest="copy"`) {
				return strings.TrimSpace(line[strings.LastIndex(line, " "):])
			}
		}
		return ""
	}
	const success, exit = "lockstep_run_last_success_timestamp_seconds", "lockstep_run_exit_code"
	watchRun(t, o, "", errRun)
	if value(exit) != "1" || value(success) != "" {
		t.Errorf("a first run that failed: exit code %q, success %q", value(exit), value(success))
	}
	watchRun(t, o, "", nil)
	when := value(success)
	if value(exit) != "0" || when == "" {
		t.Errorf("a run that succeeded: exit code %q, success %q", value(exit), when)
	}
	watchRun(t, o, "", term.ErrInterrupted)
	if value(exit) != "130" || value(success) != when {
		t.Errorf("an interrupted run: exit code %q, success %q, was %q", value(exit), value(success), when)
	}
	io, _, errs := streams()
	_ = o.Watch(t.Context(), Run{Command: "sync", Dest: "copy"}, io, code, func(_ term.IO, out *Outcome) error {
		out.Figures = Sync(&destination.Report{Created: 7})
		return nil
	})
	if got := value(`lockstep_run_resources{`); got != "7" || errs.Len() > 0 {
		t.Errorf("created %q, warned %q", got, errs)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v, %v: node exporter cannot read it", info.Mode(), err)
	}
	if err := os.WriteFile(path, []byte("} no metrics\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if w := watchRun(t, o, "", nil); w != "" || value(exit) != "0" {
		t.Errorf("after a broken file: warned %q, exit code %q", w, value(exit))
	}
	directory := filepath.Join(t.TempDir(), "x.prom")
	if err := os.Mkdir(directory, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{directory, filepath.Join(t.TempDir(), "none", "x.prom"), filepath.Join(t.TempDir(), "x.txt")} {
		if err := checkMetricsFile(bad); code(err) == 0 {
			t.Errorf("%s is not refused", bad)
		}
	}
}

// TestService: the beginning of a failure is reported once, when it has lasted; then that
// all is well again.
func TestService(t *testing.T) {
	t.Parallel()
	m := newMonitor(t, nil)
	io, _, _ := streams()
	s, err := (&Flags{pingURL: m.URL + "/p", failureAfter: 0}).Service(Run{Command: "follow"}, io)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	steps := []string{"", "main: connection refused\n", "main: connection refused\n", "", ""}
	n := 0
	_ = s.Run(ctx, func() string {
		if n == len(steps)-1 {
			cancel()
		}
		n++
		return steps[n-1]
	})
	want := []string{"POST /p all is well\n", "POST /p/fail main: connection refused\n", "POST /p all is well\n"}
	if got := m.all(); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	s.after = time.Hour
	n = 0
	ctx, cancel = context.WithCancel(t.Context())
	_ = s.Run(ctx, func() string {
		if n++; n == 2 {
			cancel()
		}
		return "main: connection refused\n"
	})
	if got := m.all(); len(got) != len(want) {
		t.Errorf("a short failure was reported: %q", got[len(want):])
	}
	if err := (*Service)(nil).Run(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

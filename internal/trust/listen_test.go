//go:build unix

package trust_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"lockstep/internal/trust"
)

// shortDir returns a directory whose path is short enough for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// serve serves a page that requires the admin token.
func serve(t *testing.T, l *trust.Listener) {
	t.Helper()
	page := trust.NewGuard(nil).Protect(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, "page") }))
	srv := &http.Server{Handler: l.Handler(page)}
	go func() { _ = srv.Serve(l) }() // until it is closed
	t.Cleanup(func() { _ = srv.Close() })
}

// ask asks for the page at a socket, or at a TCP address.
func ask(t *testing.T, network, address string) (int, error) {
	t.Helper()
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	defer tr.CloseIdleConnections()
	resp, err := (&http.Client{Transport: tr}).Get("http://localhost/")
	if err != nil {
		return 0, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, nil
}

// TestListenSocket: only the same user can connect to the socket; requests
// there are trusted, and over TCP they are not.
func TestListenSocket(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	path := filepath.Join(dir, "new", "admin.sock")
	l, err := trust.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	for name, want := range map[string]os.FileMode{path: 0o600 | os.ModeSocket, filepath.Dir(path): 0o700 | os.ModeDir} {
		if info, err := os.Lstat(name); err != nil || info.Mode() != want {
			t.Errorf("%s: %v, %v, want %v", name, info.Mode(), err, want)
		}
	}
	if status, err := ask(t, "unix", path); status != 200 {
		t.Errorf("on the socket: %d, %v", status, err)
	}
	if files, err := os.ReadDir(filepath.Dir(path)); err != nil || len(files) != 1 {
		t.Errorf("in the directory: %v, %v", files, err)
	}
	if l.Address() != "unix:"+path || l.Socket() != path {
		t.Errorf("listens at %s", l.Address())
	}

	tcp, err := trust.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, tcp)
	if status, err := ask(t, "tcp", tcp.Address()); status != 401 {
		t.Errorf("over TCP: %d, %v, want 401", status, err)
	}
}

// TestListenAgain: the socket of a killed process is replaced, one in use is
// not, nor is another file.
func TestListenAgain(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	path := filepath.Join(dir, "admin.sock")
	stale, err := net.ListenUnix("unix", &net.UnixAddr{Name: path})
	if err != nil {
		t.Fatal(err)
	}
	stale.SetUnlinkOnClose(false) // as if the process were killed
	_ = stale.Close()
	l, err := trust.Listen(t.Context(), "unix:"+path)
	if err != nil {
		t.Fatalf("where a socket was left: %v", err)
	}
	serve(t, l)
	if _, err := trust.Listen(t.Context(), "unix:"+path); !errors.Is(err, trust.ErrSocketInUse) {
		t.Errorf("where another process listens: %v", err)
	}
	if status, err := ask(t, "unix", path); status != 200 {
		t.Errorf("afterwards: %d, %v", status, err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is left behind: %v", err)
	}
	if err := os.WriteFile(path, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.Listen(t.Context(), "unix:"+path); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("where a file is: %v", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "precious" {
		t.Errorf("the file: %q, %v", text, err)
	}
}

// TestListenLongPath: a path that is too long is refused with a clear error, and
// a state directory with a long path has its socket elsewhere, always at the
// same path.
func TestListenLongPath(t *testing.T) {
	dir := shortDir(t)
	t.Setenv("TMPDIR", dir)
	state := filepath.Join(dir, strings.Repeat("d", 100))
	if _, err := trust.Listen(t.Context(), "unix:"+filepath.Join(state, "admin.sock")); !errors.Is(err, trust.ErrSocketPath) {
		t.Errorf("too long a path: %v", err)
	}
	l, err := trust.ListenIn(t.Context(), state)
	if err != nil {
		t.Fatal(err)
	}
	serve(t, l)
	if filepath.Dir(filepath.Dir(l.Socket())) != dir {
		t.Errorf("listens at %s", l.Address())
	}
	if status, err := ask(t, "unix", l.Socket()); status != 200 {
		t.Errorf("on the socket: %d, %v", status, err)
	}
	if _, err := trust.ListenIn(t.Context(), state); !errors.Is(err, trust.ErrSocketInUse) {
		t.Errorf("a second one: %v", err)
	}
	if err := os.Chmod(filepath.Dir(l.Socket()), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := trust.ListenIn(t.Context(), state+"2"); err == nil {
		t.Error("a directory that others can enter is used")
	}
	short, err := trust.ListenIn(t.Context(), filepath.Join(dir, "s"))
	if err != nil || short.Socket() != filepath.Join(dir, "s", "admin.sock") {
		t.Errorf("a short path: %v, %v", short, err)
	}
	_ = short.Close()
}

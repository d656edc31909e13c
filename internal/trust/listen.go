package trust

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// SocketName is the name of the admin socket in a state directory.
const SocketName = "admin.sock"

// unixPrefix begins the address of a Unix socket.
const unixPrefix = "unix:"

var (
	// ErrSocketPath reports a path that is too long for a Unix socket.
	ErrSocketPath = errors.New("too long for the path of a socket")
	// ErrSocketInUse reports a socket that another process listens on.
	ErrSocketInUse = errors.New("another process listens there")
)

// liveTime is how long a process may take to accept a connection before its
// socket counts as in use.
const liveTime = 2 * time.Second

// A Listener is the result of [Listen]: a listener for administration.
type Listener struct {
	net.Listener
	address string
	owner   bool // only the same user can connect
	remove  func()
}

// Address returns the Listener's address in the form that Listen accepts.
func (l *Listener) Address() string { return l.address }

// Socket returns the path of the socket; "" if it is not a Unix socket.
func (l *Listener) Socket() string {
	path, ok := strings.CutPrefix(l.address, unixPrefix)
	if !ok {
		return ""
	}
	return path
}

// Handler wraps next for the requests of this Listener. Those that arrive on a
// Unix socket are trusted; over TCP, and on Windows, which does not restrict
// who connects to a socket, they need a token.
func (l *Listener) Handler(next http.Handler) http.Handler {
	if !l.owner {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(WithOwner(r.Context())))
	})
}

// Close stops listening and removes the socket.
func (l *Listener) Close() error {
	err := l.Listener.Close()
	if l.remove != nil {
		l.remove()
	}
	return err
}

// Listen listens at an address: unix:PATH or HOST:PORT. The directory of a
// socket is created with mode 0700, the socket with 0600. Listen replaces the
// socket of a process that was killed, but no socket in use and no other file.
func Listen(ctx context.Context, address string) (*Listener, error) {
	path, ok := strings.CutPrefix(address, unixPrefix)
	if !ok {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err != nil {
			return nil, err
		}
		return &Listener{Listener: l, address: l.Addr().String()}, nil
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	l, err := listenUnix(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", path, err)
	}
	return l, nil
}

// ListenIn listens on the admin socket of a state directory. If its path would
// be too long for a socket, which happens from about 90 bytes on, the socket is
// in a directory of the user's own below that for temporary files, with a name
// derived from the state directory.
func ListenIn(ctx context.Context, state string) (*Listener, error) {
	path, err := SocketIn(state)
	if err != nil {
		return nil, err
	}
	if dir := filepath.Dir(path); dir == tempDir() {
		if err := privateDir(dir); err != nil {
			return nil, err
		}
	}
	return Listen(ctx, unixPrefix+path)
}

// SocketIn returns the path of the admin socket of a state directory, on which
// [ListenIn] listens, whether a process does or not.
func SocketIn(state string) (string, error) {
	path, err := filepath.Abs(filepath.Join(state, SocketName))
	if err != nil || checkLength(path) == nil {
		return path, err
	}
	sum := sha256.Sum256([]byte(path))
	return filepath.Join(tempDir(), fmt.Sprintf("%x.sock", sum[:8])), nil
}

// tempDir returns the directory of sockets whose paths would be too long elsewhere.
func tempDir() string { return filepath.Join(os.TempDir(), fmt.Sprintf("lockstep-%d", os.Getuid())) }

// privateDir creates a directory that no other user can enter. An existing one,
// in a place where others may create it, must belong to this user.
func privateDir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() || !ours(info) || info.Mode().Perm()&0o077 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("%s is not a directory that only we can enter", dir)
	}
	return nil
}

// maxSocketPath returns the maximum length of a socket's path in bytes.
func maxSocketPath() int {
	if runtime.GOOS == "linux" {
		return 107
	}
	return 103
}

// roomForBinding is the additional length of the temporary name with which a
// socket is bound before it is moved to its path.
const roomForBinding = len("/.a1234567890/s")

// checkLength returns an error if a path is too long for a socket.
func checkLength(path string) error {
	if n := max(len(path), len(filepath.Dir(path))+roomForBinding); n > maxSocketPath() {
		return fmt.Errorf("%d bytes are %w: at most %d", n, ErrSocketPath, maxSocketPath())
	}
	return nil
}

func listenUnix(ctx context.Context, path string) (*Listener, error) {
	if err := checkLength(path); err != nil {
		return nil, err
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := checkStale(ctx, path); err != nil {
		return nil, err
	}
	if runtime.GOOS == "windows" {
		_ = os.Remove(path) // no process listens there
		l, err := (&net.ListenConfig{}).Listen(ctx, "unix", path)
		if err != nil {
			return nil, err
		}
		return &Listener{Listener: l, address: unixPrefix + path}, nil
	}
	l, err := bindPrivate(ctx, dir, path)
	if err != nil {
		return nil, err
	}
	return &Listener{Listener: l, address: unixPrefix + path, owner: true, remove: removeOwn(path)}, nil
}

// bindPrivate binds a socket in a directory that no other user can enter,
// restricts it, and only then moves it to its path: at no time can others
// connect.
func bindPrivate(ctx context.Context, dir, path string) (_ net.Listener, err error) {
	tmp, err := os.MkdirTemp(dir, ".a*") // with mode 0700
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }() // empty by then, or useless
	bound := filepath.Join(tmp, "s")
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", bound)
	if err != nil {
		return nil, err
	}
	if u, ok := l.(*net.UnixListener); ok {
		u.SetUnlinkOnClose(false) // of the temporary name, which another process may use by then
	}
	if err = os.Chmod(bound, 0o600); err == nil {
		err = os.Rename(bound, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}

// removeOwn returns a function that removes the socket at path, unless another
// process has replaced it.
func removeOwn(path string) func() {
	own, err := os.Lstat(path)
	if err != nil {
		return nil
	}
	return func() {
		if now, err := os.Lstat(path); err == nil && os.SameFile(own, now) {
			_ = os.Remove(path) // the next process replaces it
		}
	}
}

// checkStale returns an error unless there is nothing at path, or the socket of
// a process that has ended.
func checkStale(ctx context.Context, path string) error {
	info, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case info.Mode().Type() != fs.ModeSocket && runtime.GOOS != "windows":
		return errors.New("there is a file that is not a socket")
	}
	c, err := (&net.Dialer{Timeout: liveTime}).DialContext(ctx, "unix", path)
	if err == nil {
		_ = c.Close() // nothing was sent
		return ErrSocketInUse
	}
	if errors.Is(err, syscall.ECONNREFUSED) || runtime.GOOS == "windows" {
		return nil
	}
	return fmt.Errorf("%w, or it cannot be asked: %w", ErrSocketInUse, err)
}

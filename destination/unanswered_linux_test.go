package destination_test

import (
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/destination"
)

// silentPort returns an address whose connections are never established, because its
// queue is full, and a function after which handler answers there.
func silentPort(t *testing.T, handler http.Handler) (address string, open func()) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address = net.JoinHostPort("127.0.0.1", strconv.Itoa(name.(*syscall.SockaddrInet4).Port))
	var queue []net.Conn
	for len(queue) < 8 {
		c, err := net.DialTimeout("tcp", address, time.Second)
		if err != nil {
			break
		}
		queue = append(queue, c)
	}
	return address, func() {
		for _, c := range queue {
			_ = c.Close() // nothing was sent
		}
		_ = syscall.Close(fd) // nothing was accepted
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
		go func() { _ = srv.Serve(l) }() // until Close
		t.Cleanup(func() { _ = srv.Close() })
	}
}

// TestUnansweredConnection: a resource whose host does not answer when a connection is
// made has failed, and is fetched by a later run.
func TestUnansweredConnection(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.put("/b", "two")
	address, open := silentPort(t, s)
	s.rewrite = func(_, text string) string { return strings.ReplaceAll(text, s.url("/b"), "http://"+address+"/b") }
	m := newMirror(t, s)
	m.opts.AllowHosts = []string{"*"}
	if r, err := m.sync(); !errors.Is(err, destination.ErrIncomplete) || r.Created != 1 || r.Failed != 1 {
		t.Errorf("the host does not answer: %s, %v", counts(r), err)
	}
	open()
	if r, err := m.sync(); err != nil || len(m.files()) != 2 {
		t.Errorf("the host answers again: %s, %v, %d files", counts(r), err, len(m.files()))
	}
}

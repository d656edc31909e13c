package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"testing"
)

// TestStandardLog meets a server that says more than it was asked, of which
// net/http tells the standard logger: people see it only if they want to.
func TestStandardLog(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go chatter(conn)
		}
	}()
	for level, want := range map[string]bool{"info": false, "debug": true} {
		out, err := exec.Command("lockstep", "sync", "http://"+l.Addr().String()+"/", t.TempDir(), "--log-level", level).CombinedOutput()
		if code, err := exitCodeOf(err); err != nil || code != exitFailed {
			t.Errorf("sync = %d, %v, want %d", code, err, exitFailed)
		}
		if got := strings.Contains(string(out), "Unsolicited response"); got != want {
			t.Errorf("--log-level %s: told of it: %v, want %v:\n%s", level, got, want, out)
		}
	}
}

// chatter answers each request with 404 and a few bytes more.
func chatter(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	for r := bufio.NewReader(conn); ; {
		if _, err := http.ReadRequest(r); err != nil {
			return
		}
		if _, err := fmt.Fprint(conn, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\nand another thing"); err != nil {
			return
		}
	}
}

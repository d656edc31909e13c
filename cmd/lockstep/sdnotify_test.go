//go:build unix

package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestNotifySystemd: serve, hub and follow report to systemd that they accept
// requests, then that they are ready, and at the end that they stop.
func TestNotifySystemd(t *testing.T) {
	t.Parallel()
	files := t.TempDir()
	if err := os.WriteFile(filepath.Join(files, "a.txt"), []byte("a"), 0o644); err != nil {
		t.Fatal(err)
	}
	source, err := startReady(exec.Command("lockstep", "serve", files, "--listen", "127.0.0.1:0", "--state", t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(source.kill)
	for _, args := range [][]string{
		{"serve", files, "--listen", "127.0.0.1:0", "--state", t.TempDir()},
		{"hub", "--listen", "127.0.0.1:0", "--state", t.TempDir()},
		{"follow", source.address, filepath.Join(t.TempDir(), "mirror")},
	} {
		t.Run(args[0], func(t *testing.T) {
			t.Parallel()
			reports := listenForReports(t)
			cmd := exec.Command("lockstep", args...)
			cmd.Env = append(os.Environ(), "NOTIFY_SOCKET="+reports.LocalAddr().String())
			p, err := startReady(cmd)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(p.kill)
			if got := nextReport(t, reports); !strings.HasPrefix(got, "READY=1\nSTATUS=") {
				t.Errorf("the first report is %q, want READY=1 and a status", got)
			}
			if got, want := nextReport(t, reports), "STATUS=ready: "+p.address; got != want {
				t.Errorf("the second report is %q, want %q", got, want)
			}
			if _, err := p.end(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
			if got := nextReport(t, reports); got != "STOPPING=1" {
				t.Errorf("the last report is %q, want STOPPING=1", got)
			}
		})
	}
}

// listenForReports opens a socket as systemd does.
func listenForReports(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	c, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "socket"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func nextReport(t *testing.T, c *net.UnixConn) string {
	t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(readyLimit)); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("read a report: %v", err)
	}
	return string(buf[:n])
}

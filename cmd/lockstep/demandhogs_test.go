package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The places that serve has by default for packages on demand: packages being sent,
// and being made.
const (
	sendingPlaces = 16
	makingPlaces  = 4
)

// TestClientsThatDoNotReadLeaveAPlaceForAPackageOnDemand: clients that take all
// places for packages on demand and do not read lose them to one that reads, which has
// its package long before an answer that nobody reads is given up for its own sake.
func TestClientsThatDoNotReadLeaveAPlaceForAPackageOnDemand(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	large := make([]byte, 8<<20) // more than the system holds for a connection, and cannot be compressed
	_, _ = rand.NewChaCha8([32]byte{}).Read(large)
	dir := filepath.Join(room, "files")
	write(t, dir, "large.bin", string(large))
	write(t, dir, "small.txt", "small")
	p, err := startReady(exec.Command("lockstep", "serve", dir, "--dump", "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	u, err := url.Parse(p.address)
	if err != nil {
		t.Fatal(err)
	}
	const path = "/resourcesync/main/dump"
	uri := p.address + "large.bin"
	request := fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", path, u.Host, len(uri), uri)
	var sending, refused atomic.Int64 // clients that have read the beginning of an answer
	connect := func() {
		conn, err := net.Dial("tcp", u.Host)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.(*net.TCPConn).SetReadBuffer(4096) // not every system can; then it holds more
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		go func() {
			resp, err := http.ReadResponse(bufio.NewReaderSize(conn, 512), nil)
			switch {
			case err != nil: // the test is over
			case resp.StatusCode == http.StatusOK:
				sending.Add(1)
			default:
				refused.Add(1)
			}
		}()
	}
	for range sendingPlaces + makingPlaces {
		connect()
	}
	within(t, "packages being sent in all places", func() bool {
		for range refused.Swap(0) { // on a machine that is busy making packages: another client asks
			if sending.Load() < sendingPlaces {
				connect()
			}
		}
		return sending.Load() >= sendingPlaces
	})
	start, tries := time.Now(), 0
	within(t, "a package for a client that reads", func() bool {
		tries++
		resp, err := http.Post(strings.TrimSuffix(p.address, "/")+path, "text/plain", strings.NewReader(uri+"\n"+p.address+"small.txt\n"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "" {
			return false // on a machine that is busy: ask again
		}
		if resp.StatusCode != http.StatusOK || err != nil {
			t.Fatalf("%s, %v, want a package", resp.Status, err)
		}
		z, err := zip.NewReader(bytes.NewReader(text), int64(len(text)))
		if err != nil || len(z.File) != 3 { // and a manifest
			t.Errorf("the package: %v, %v", z, err)
		}
		return true
	})
	// The server gives up an answer that nobody reads after half a minute in any case.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("the package came after %s", took)
	}
}

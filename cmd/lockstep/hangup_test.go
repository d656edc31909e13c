package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestClientThatHangsUpIsNoErrorAndGetsNoWrongStatus has clients of each protocol
// that serve speaks hang up: before the answer, in the answer, in the body of the
// request, and with a half-closed connection, on which the status that the server
// chose can be read. That status is the one of a client that stays, or the
// connection is cut; no warning or error is logged, and the next client is
// answered.
func TestClientThatHangsUpIsNoErrorAndGetsNoWrongStatus(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	dir := filepath.Join(room, "files")
	for i := range 60 {
		write(t, dir, fmt.Sprintf("%d.txt", i), strings.Repeat("text ", i))
	}
	write(t, dir, "large.bin", strings.Repeat("0123456789abcdef", 3<<20/16)) // more than the buffers of a connection hold
	p, err := startReady(exec.Command("lockstep", "serve", dir, "--listen", "127.0.0.1:0", "--state", filepath.Join(room, "state"),
		"--versions", "--oai-pmh", "--atom-pmh", "--hub", "embedded"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	u, err := url.Parse(p.address)
	if err != nil {
		t.Fatal(err)
	}
	const form = "application/x-www-form-urlencoded"
	for _, tt := range []hangingClient{
		{name: "resource", path: "/large.bin", status: 200},
		{name: "small resource", path: "/7.txt", status: 200},
		{name: "missing resource", path: "/none.txt", status: 404},
		{name: "list", path: "/resourcesync/main/resourcelist.xml", status: 200},
		{name: "package on demand", path: "/resourcesync/main/dump", contentType: "text/plain", body: p.address + "large.bin\n" + p.address + "1.txt\n", status: 200},
		{name: "OAI-PMH", path: "/oai?verb=ListRecords&metadataPrefix=oai_dc", status: 200},
		{name: "OAI-PMH by POST", path: "/oai", contentType: form, body: "verb=ListIdentifiers&metadataPrefix=oai_dc", status: 200},
		{name: "Atom feed", path: "/resourcesync/main/atom.xml", status: 200},
		{name: "TimeGate", path: "/timegate/" + p.address + "large.bin", status: 302},
		{name: "TimeMap", path: "/timemap/" + p.address + "large.bin", status: 200},
		{name: "event stream", path: "/resourcesync/main/changes", accept: "text/event-stream", status: 200},
		{name: "topic", path: "/resourcesync/main/changes", status: 204},
		{name: "subscription", path: "/hub", contentType: form, body: "hub.mode=subscribe&hub.topic=x", status: 400},
		{name: "hub status page", path: "/-/hub", admin: true, status: 200},
		{name: "hub API", path: "/-/api/v1/hub", admin: true, status: 200},
		{name: "change through the hub API", path: "/-/api/v1/hub/none", admin: true, contentType: "application/json", body: "{}", status: 404},
	} {
		tt.TB, tt.network, tt.address = t, "tcp", u.Host
		if tt.admin {
			tt.network, tt.address = "unix", p.admin
		}
		tt.stay() // until the server is ready for this protocol
		tt.hangUp(len(tt.body), 0)
		tt.hangUp(len(tt.body), 1)
		tt.hangUpInAnswer()
		if status, _ := tt.halfClose(len(tt.body)); status != 0 && status != tt.status {
			t.Errorf("%s: a client that closes its half of the connection gets status %d, want %d or none", tt.name, status, tt.status)
		}
		if tt.body != "" {
			tt.hangUp(len(tt.body)+1000, 0)
			if status, text := tt.halfClose(len(tt.body) + 1000); status >= 500 || status != 0 && status < 400 {
				t.Errorf("%s: a client that sends half a request gets status %d, want a refusal or none: %.200s", tt.name, status, text)
			}
		}
		tt.stay()
	}
	if _, err := p.end(os.Interrupt); err != nil { // it waits for what answers clients
		t.Error(err)
	}
	for line := range strings.Lines(p.stderr.String()) {
		if strings.Contains(line, "level=WARN") || strings.Contains(line, "level=ERROR") || strings.HasPrefix(line, "warning") || strings.Contains(line, "panic") {
			t.Errorf("logged: %s", line)
		}
	}
}

// A hangingClient sends one request again and again, and hangs up at different
// moments.
type hangingClient struct {
	testing.TB
	name, path, accept, contentType, body string
	admin                                 bool // it asks at the admin socket
	status                                int  // of a client that stays
	network, address                      string
}

// send sends the request, with a Content-Length of its own choice. Nothing waits
// longer for the answer than a test may take.
func (c *hangingClient) send(length int) net.Conn {
	c.Helper()
	conn, err := (&net.Dialer{}).DialContext(context.Background(), c.network, c.address)
	if err != nil {
		c.Fatal(err)
	}
	if err := conn.SetDeadline(time.Now().Add(readyLimit)); err != nil {
		c.Fatal(err)
	}
	method, host := http.MethodGet, c.address
	if c.body != "" {
		method = http.MethodPost
	}
	if c.admin {
		host = "localhost"
	}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", method, c.path, host)
	if c.accept != "" {
		head += "Accept: " + c.accept + "\r\n"
	}
	if c.body != "" {
		head += fmt.Sprintf("Content-Type: %s\r\nContent-Length: %d\r\n", c.contentType, length)
	}
	if _, err := io.WriteString(conn, head+"\r\n"+c.body); err != nil {
		c.Fatal(err)
	}
	return conn
}

// reset closes a connection so that the server learns at once that the client has
// gone.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0) // where that fails, it is closed all the same
	}
	_ = conn.Close()
}

// hangUp reads that many bytes of the answer and goes.
func (c *hangingClient) hangUp(length int, read int64) {
	c.Helper()
	conn := c.send(length)
	defer reset(conn)
	if _, err := io.CopyN(io.Discard, conn, read); err != nil {
		c.Errorf("%s: read the answer: %v", c.name, err)
	}
}

// hangUpInAnswer goes after the header of the answer and the first byte of its body.
func (c *hangingClient) hangUpInAnswer() {
	c.Helper()
	conn := c.send(len(c.body))
	defer reset(conn)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		c.Errorf("%s: read the answer: %v", c.name, err)
		return
	}
	if _, err := resp.Body.Read(make([]byte, 1)); err != nil && !errors.Is(err, io.EOF) {
		c.Errorf("%s: read the body: %v", c.name, err)
	}
	// The body is not closed: that would read all of it, and a stream has no end.
}

// halfClose says that it sends nothing more, which the server takes for a client
// that has gone, and returns the status that it still gets and what follows it.
// The status is 0 if there is no answer, or one that is cut short.
func (c *hangingClient) halfClose(length int) (status int, text string) {
	c.Helper()
	conn := c.send(length)
	defer reset(conn)
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		c.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err == nil {
		var body []byte
		if body, err = io.ReadAll(resp.Body); err == nil && len(body) == 0 && c.status == http.StatusOK {
			c.Errorf("%s: a client that closes its half of the connection gets status %d and nothing else", c.name, resp.StatusCode)
		}
		text = string(body)
	}
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
		c.Errorf("%s: the connection of a client that has gone is not closed", c.name)
	}
	if err != nil {
		return 0, ""
	}
	return resp.StatusCode, text
}

// stay is a client that waits for its answer, and asks again as long as the
// server is starting.
func (c *hangingClient) stay() {
	c.Helper()
	for deadline := time.Now().Add(readyLimit); ; time.Sleep(10 * time.Millisecond) {
		conn := c.send(len(c.body))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		reset(conn)
		switch {
		case err != nil:
			c.Fatalf("%s: %v", c.name, err)
		case resp.StatusCode == c.status:
			return
		case resp.StatusCode != http.StatusServiceUnavailable || time.Now().After(deadline):
			c.Fatalf("%s: status %d, want %d", c.name, resp.StatusCode, c.status)
		}
	}
}

package memento_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
)

// TestRecordedMementoClients replays requests of other clients, as described in
// docs/interoperability.md: each header as recorded, except for the addresses.
func TestRecordedMementoClients(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	const uri = "http://127.0.0.1:18461/7.txt"
	versions := []time.Time{time.Date(2024, 5, 2, 6, 0, 1, 0, time.UTC), time.Date(2024, 5, 3, 8, 10, 0, 0, time.UTC), time.Date(2025, 11, 20, 12, 0, 0, 0, time.UTC)}
	for _, at := range versions {
		s.put(t, uri, at, at.String())
	}
	const python = "HEAD /timegate/" + uri + " HTTP/1.1\r\nHost: 127.0.0.1:18463\r\nUser-Agent: python-requests/2.34.2\r\n" +
		"Accept-Encoding: gzip, deflate\r\nAccept: */*\r\nConnection: keep-alive\r\nAccept-Datetime: %s\r\n\r\n"
	tests := []struct {
		name, request string
		status        int
		version       int    // that it leads to; -1: none
		text          string // beginning of the answer
	}{
		{"memento_client 0.6.1, before the first", fmt.Sprintf(python, "Wed, 01 Jan 2020 00:00:00 GMT"), 302, 0, ""},
		{"memento_client 0.6.1, between", fmt.Sprintf(python, "Tue, 31 Dec 2024 00:00:00 GMT"), 302, 1, ""},
		{"memento_client 0.6.1, after the last", fmt.Sprintf(python, "Sun, 01 Nov 2026 00:00:00 GMT"), 302, 2, ""},
		{"MemGator 1.0-rc9", "GET /timemap/link/" + uri + " HTTP/1.1\r\nHost: 127.0.0.1:18463\r\n" +
			"User-Agent: MemGator/1.0-rc9 <https://git.io/MemGator>\r\nAccept-Encoding: gzip\r\n\r\n", 200, -1, `<` + uri + `>; rel="original",`},
	}
	for _, tt := range tests {
		conn, err := net.Dial("tcp", s.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		method, rest, _ := strings.Cut(tt.request, " /")
		if _, err := io.WriteString(conn, method+" /past/"+rest); err != nil {
			t.Fatal(err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		to := ""
		if tt.version >= 0 {
			to = s.base.Memento(uri, versions[tt.version])
		}
		if err != nil || resp.StatusCode != tt.status || resp.Header.Get("Location") != to || !strings.HasPrefix(string(text), tt.text) {
			t.Errorf("%s: status %d to %q, %v\n%s", tt.name, resp.StatusCode, resp.Header.Get("Location"), err, text)
		}
	}
}

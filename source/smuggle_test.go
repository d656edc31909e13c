package source_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"
)

var datesOf = regexp.MustCompile(`(?m)^(Date|Last-Modified): .*\r\n`)

// raw sends bytes on one connection, says that no more will come, and returns all
// that is answered, without its dates.
func (w *frontWorld) raw(address, text string) string {
	w.t.Helper()
	c, err := net.Dial("tcp", address)
	if err != nil {
		w.t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(c, text) // an answer may come before all is sent
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
	var got bytes.Buffer
	_, _ = io.Copy(&got, c) // up to the end, whatever it is
	return datesOf.ReplaceAllString(got.String(), "")
}

// Requests that servers on the way may understand otherwise than we do are all
// left to net/http: with the front and without, the same is answered.
func TestFrontLeavesTheUnusualToTheServerBehind(t *testing.T) {
	t.Parallel()
	w := newFrontWorld(t, map[string]string{"a.txt": "hello", "b.txt": "world"})
	const next = "GET /b.txt" + plainHead + "\r\n"
	cases := map[string]string{
		"plain":                       "GET /a.txt" + plainHead + "\r\n" + next,
		"folded header":               "GET /a.txt" + plainHead + "Accept: a,\r\n b\r\n\r\n" + next,
		"folded Host":                 "GET /a.txt HTTP/1.1\r\nHost: x\r\n y\r\n\r\n" + next,
		"two equal lengths":           "POST /a.txt" + plainHead + "Content-Length: 2\r\nContent-Length: 2\r\n\r\nxx" + next,
		"two lengths":                 "POST /a.txt" + plainHead + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nxxx" + next,
		"list of lengths":             "POST /a.txt" + plainHead + "Content-Length: 2, 2\r\n\r\nxx" + next,
		"signed length":               "POST /a.txt" + plainHead + "Content-Length: +2\r\n\r\nxx" + next,
		"length of a GET":             "GET /a.txt" + plainHead + "Content-Length: 4\r\n\r\nGET " + next,
		"length and chunks":           "POST /a.txt" + plainHead + "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
		"chunks and length":           "GET /a.txt" + plainHead + "Transfer-Encoding: chunked\r\nContent-Length: 40\r\n\r\n0\r\n\r\n" + next,
		"chunks":                      "POST /a.txt" + plainHead + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + next,
		"two codings":                 "POST /a.txt" + plainHead + "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n" + next,
		"two Transfer-Encodings":      "POST /a.txt" + plainHead + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n" + next,
		"odd Transfer-Encoding":       "POST /a.txt" + plainHead + "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n" + next,
		"space before the colon":      "GET /a.txt" + plainHead + "Accept : a\r\n\r\n" + next,
		"length with space before":    "POST /a.txt" + plainHead + "Content-Length : 2\r\n\r\nxx" + next,
		"space before a name":         "GET /a.txt HTTP/1.1\r\n Host: x\r\nHost: data.example.org\r\n\r\n" + next,
		"bare line feeds":             "GET /a.txt HTTP/1.1\nHost: data.example.org\n\n" + next,
		"one bare line feed":          "GET /a.txt HTTP/1.1\r\nHost: data.example.org\nAccept: a\r\n\r\n" + next,
		"bare carriage return":        "GET /a.txt HTTP/1.1\r\nHost: data.example.org\rAccept: a\r\n\r\n" + next,
		"absolute form":               "GET http://data.example.org/a.txt" + plainHead + "\r\n" + next,
		"absolute form, another host": "GET http://other.example.org/a.txt" + plainHead + "\r\n" + next,
		"authority form":              "CONNECT data.example.org:80" + plainHead + "\r\n" + next,
		"asterisk form":               "OPTIONS *" + plainHead + "\r\n" + next,
		"HTTP/1.0":                    "GET /a.txt HTTP/1.0\r\n\r\n" + next,
		"HTTP/1.0, kept":              "GET /a.txt HTTP/1.0\r\nConnection: keep-alive\r\n\r\n" + next,
		"HTTP/1.2":                    "GET /a.txt HTTP/1.2\r\nHost: x\r\n\r\n" + next,
		"HTTP/2 preface":              "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"lower case method":           "get /a.txt" + plainHead + "\r\n" + next,
		"two spaces":                  "GET  /a.txt HTTP/1.1\r\nHost: x\r\n\r\n" + next,
		"tab":                         "GET\t/a.txt HTTP/1.1\r\nHost: x\r\n\r\n" + next,
		"no Host":                     "GET /a.txt HTTP/1.1\r\n\r\n" + next,
		"two Hosts":                   "GET /a.txt" + plainHead + "Host: other\r\n\r\n" + next,
		"empty Host":                  "GET /a.txt HTTP/1.1\r\nHost:\r\n\r\n" + next,
		"odd Host":                    "GET /a.txt HTTP/1.1\r\nHost: a/b@c\r\n\r\n" + next,
		"empty lines first":           "\r\n\r\nGET /a.txt" + plainHead + "\r\n" + next,
		"Expect":                      "POST /a.txt" + plainHead + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\nxx" + next,
		"odd Expect":                  "GET /a.txt" + plainHead + "Expect: something\r\n\r\n" + next,
		"Upgrade":                     "GET /a.txt" + plainHead + "Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + next,
		"Connection names a header":   "GET /a.txt" + plainHead + "Connection: keep-alive, host\r\n\r\n" + next,
		"trailer":                     "POST /a.txt" + plainHead + "Transfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\nX: y\r\n\r\n" + next,
		"header beyond the front":     "GET /a.txt" + plainHead + "X: " + strings.Repeat("x", 6000) + "\r\n\r\n" + next,
		"header beyond the server":    "GET /a.txt" + plainHead + "X: " + strings.Repeat("x", 100_000) + "\r\n\r\n",
		"NUL in a header":             "GET /a.txt" + plainHead + "Accept: a\x00b\r\n\r\n" + next,
		"NUL in the path":             "GET /a\x00.txt" + plainHead + "\r\n" + next,
		"header without a colon":      "GET /a.txt" + plainHead + "nonsense\r\n\r\n" + next,
		"empty name":                  "GET /a.txt" + plainHead + ": x\r\n\r\n" + next,
		"many pipelined":              strings.Repeat("GET /a.txt"+plainHead+"\r\n"+next, 20),
		"half a request":              "GET /a.txt HTTP/1.1\r\nHost: data",
		"TLS":                         "\x16\x03\x01\x00\xa5\x01\x00",
	}
	for name, text := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				want, got := w.raw(w.plain, text), w.raw(w.front, text)
				if want != got {
					t.Errorf("with a front:\n%.1000q\nwithout:\n%.1000q", got, want)
				}
			}
		})
	}
}

func TestAConnectionIsClosedAfterLengthAndTransferEncoding(t *testing.T) {
	t.Parallel()
	w := newFrontWorld(t, map[string]string{"a.txt": "hello", "b.txt": "world"})
	for name, first := range map[string]string{
		"length first": "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n",
		"length last":  "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n",
	} {
		for _, address := range []string{w.plain, w.front} {
			for _, method := range []string{http.MethodGet, http.MethodPost} {
				before := "GET /a.txt" + plainHead + "\r\n"
				got := w.raw(address, before+method+" /a.txt"+plainHead+first+"\r\n0\r\n\r\nGET /b.txt"+plainHead+"\r\n")
				if n := strings.Count(got, "HTTP/1.1 "); n != 2 || !strings.Contains(got, "Connection: close\r\n") || strings.Contains(got, "world") {
					t.Errorf("%s, %s: %d answers; want those before what follows, and the connection closed:\n%.800q", method, name, n, got)
				}
			}
		}
	}
}

package front

import (
	"bufio"
	"bytes"
	"net/http"
	"testing"

	"lockstep/internal/negotiate"
)

// FuzzRequest checks that net/http reads the same from each request that the
// front answers.
func FuzzRequest(f *testing.F) {
	for _, s := range []string{
		"GET /a/b.txt HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x:80\r\nAccept-Encoding: gzip, br\r\nConnection: Keep-Alive\r\nUser-Agent: u\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n",
		"GET /a/../b HTTP/1.1\r\nHost: x\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc",
		"GET /a HTTP/1.1\r\nHost : x\r\n\r\n",
		"GET /a HTTP/1.1\r\nHost: x\r\n folded\r\n\r\n",
		"GET /a HTTP/1.1\nHost: x\n\n",
		"GET  /a HTTP/1.1\r\nHost: x\r\n\r\n",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		n := headerEnd(text)
		if n == 0 {
			return
		}
		a, ok := parseRequest(text[:n])
		if !ok {
			return
		}
		r, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(text[:n])))
		if err != nil {
			t.Fatalf("%q: %v", text[:n], err)
		}
		if r.Method != http.MethodGet || r.RequestURI != a.path || r.URL.Path != a.path || r.ContentLength != 0 || r.Close ||
			r.ProtoMinor != 1 || negotiate.Gzip(r.Header["Accept-Encoding"]) != a.gzip {
			t.Errorf("%q: %+v, net/http %+v", text[:n], a, r)
		}
		for _, name := range []string{"Range", "If-None-Match", "If-Modified-Since", "Expect", "Upgrade", "Transfer-Encoding", "Authorization"} {
			if r.Header.Get(name) != "" {
				t.Errorf("%q: accepted with %s", text[:n], name)
			}
		}
	})
}

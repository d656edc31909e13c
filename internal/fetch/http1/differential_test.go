package http1_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/internal/fetch/http1"
)

// A script is a connection on which the server sends the same whatever it gets.
type script struct {
	net.Conn
	text   []byte
	piece  int // bytes of one read
	closed bool
}

func (s *script) Read(p []byte) (int, error) {
	if len(s.text) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), s.piece)], s.text)
	s.text = s.text[n:]
	return n, nil
}

func (s *script) Write(p []byte) (int, error)      { return len(p), nil }
func (s *script) Close() error                     { s.closed = true; return nil }
func (s *script) SetReadDeadline(time.Time) error  { return nil }
func (s *script) SetWriteDeadline(time.Time) error { return nil }

// A verdict is what a client makes of the bytes of a server.
type verdict struct {
	err     error // of the header
	status  int
	header  http.Header
	length  int64
	body    []byte
	bodyErr error
	kept    bool // the connection would serve another request
}

// verdictOfHTTP1 returns the verdict of this package.
func verdictOfHTTP1(text []byte, piece int) (v verdict) {
	s := &script{text: text, piece: piece}
	p := &http1.Pool{Dial: func(context.Context, string, string) (net.Conn, error) { return s, nil }}
	defer p.Close()
	r, err := p.Get(context.Background(), &http1.Request{Host: "a.example", Target: "/", Began: time.Now(), Patience: time.Hour})
	if err != nil {
		return verdict{err: err, kept: !s.closed}
	}
	v = verdict{status: r.Status, header: r.Header, length: r.Length}
	v.body, v.bodyErr = io.ReadAll(r)
	v.kept = !s.closed && len(s.text) == 0 // bytes on the wire would be noticed before the next request
	_ = r.Close()                          // has no error
	return v
}

// verdictOfNetHTTP returns that of net/http.
func verdictOfNetHTTP(text []byte) (v verdict) {
	br := bufio.NewReaderSize(bytes.NewReader(text), 16<<10)
	var r *http.Response
	for {
		var err error
		if r, err = http.ReadResponse(br, &http.Request{Method: http.MethodGet}); err != nil {
			return verdict{err: err}
		}
		if r.StatusCode >= 200 || r.StatusCode == http.StatusSwitchingProtocols {
			break
		}
	}
	v = verdict{status: r.StatusCode, header: r.Header, length: r.ContentLength}
	v.body, v.bodyErr = io.ReadAll(r.Body)
	v.kept = !r.Close && v.bodyErr == nil && br.Buffered() == 0
	_ = r.Body.Close() // read to its end
	return v
}

// compare reports where the verdicts differ. What this package does not interpret is
// sent again with net/http, whose verdict is the result then.
func compare(t *testing.T, text []byte, piece int) (unusual bool) {
	t.Helper()
	ours, theirs := verdictOfHTTP1(bytes.Clone(text), piece), verdictOfNetHTTP(text)
	if _, unusual = errors.AsType[*http1.UnusualError](ours.err); unusual {
		if ours.kept {
			t.Errorf("the connection of an unusual response was kept: %q", text)
		}
		return true
	}
	switch {
	case ours.kept && (ours.err != nil || ours.bodyErr != nil):
		t.Errorf("a connection was kept after an error (%v, %v): %q", ours.err, ours.bodyErr, text)
	case (ours.err == nil) != (theirs.err == nil):
		t.Errorf("error %v, of net/http %v: %q", ours.err, theirs.err, text)
	case ours.err != nil:
	case ours.status != theirs.status || ours.length != theirs.length:
		t.Errorf("status %d and length %d, of net/http %d and %d: %q", ours.status, ours.length, theirs.status, theirs.length, text)
	case (ours.bodyErr == nil) != (theirs.bodyErr == nil) || !bytes.Equal(ours.body, theirs.body):
		t.Errorf("body %q, %v; of net/http %q, %v: %q", ours.body, ours.bodyErr, theirs.body, theirs.bodyErr, text)
	case ours.kept && !theirs.kept:
		t.Errorf("the connection was kept, but net/http would not: %q", text)
	default:
		for _, name := range []string{"Connection", "Keep-Alive", "Proxy-Connection", "Trailer"} {
			delete(theirs.header, name)
		}
		if !maps.EqualFunc(ours.header, theirs.header, slices.Equal) {
			t.Errorf("header %v, of net/http %v: %q", ours.header, theirs.header, text)
		}
	}
	return false
}

// responses are those with which fuzzing begins: name, whether this package interprets
// them, and the text.
var responses = []struct {
	name    string
	unusual bool
	text    string
}{
	{"plain", false, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nETag: \"a\"\r\n\r\nhello"},
	{"as from nginx", false, "HTTP/1.1 200 OK\r\nServer: nginx\r\nDate: Mon, 23 Nov 2026 04:50:20 GMT\r\nContent-Type: text/plain\r\nContent-Length: 5\r\nLast-Modified: Mon, 23 Nov 2026 04:50:11 GMT\r\nConnection: keep-alive\r\nETag: \"6b03c603-1000\"\r\nAccept-Ranges: bytes\r\n\r\nhello"},
	{"no reason", false, "HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n"},
	{"empty", false, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"},
	{"until the end", false, "HTTP/1.1 200 OK\r\n\r\nhello"},
	{"closes", false, "HTTP/1.1 200 OK\r\ncontent-length: 5\r\nconnection: Foo, Close\r\n\r\nhello"},
	{"HTTP/1.0", false, "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"HTTP/1.0 kept", false, "HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 5\r\n\r\nhello"},
	{"not modified", false, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\nETag: W/\"a\"\r\n\r\n"},
	{"no content", false, "HTTP/1.1 204 No Content\r\n\r\n"},
	{"not found", false, "HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno"},
	{"redirect", false, "HTTP/1.1 301 Moved\r\nLocation: /b\r\nContent-Length: 0\r\n\r\n"},
	{"unavailable", false, "HTTP/1.1 503 x\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n"},
	{"part", false, "HTTP/1.1 206 x\r\nContent-Range: bytes 0-1/2\r\nContent-Length: 2\r\n\r\nab"},
	{"repeated field", false, "HTTP/1.1 200 OK\r\nVary: a\r\nvary:\tb \r\nContent-Length: 0\r\n\r\n"},
	{"no-cache", false, "HTTP/1.1 200 OK\r\nPragma: no-cache\r\nContent-Length: 0\r\n\r\n"},
	{"interim", false, "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nab"},
	{"chunked", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n5\r\nhello\r\n6 ; a=\"b\"\r\n world\r\n0\r\n\r\n"},
	{"trailer", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-A\r\n\r\n1\r\na\r\n0\r\nX-A: b\r\n\r\n"},
	{"bad trailer", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\nX A\r\n\r\n"},
	{"chunked without end", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"},
	{"chunked without last line", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n"},
	{"chunk with LF", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\nhello\r\n0\r\n\r\n"},
	{"negative chunk", false, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n"},
	{"less than announced", false, "HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello"},
	{"more than announced", false, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello world"},
	{"twice", false, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nworld"},
	{"not modified with body", false, "HTTP/1.1 304 x\r\nContent-Length: 5\r\n\r\nhello"},
	{"no content with body", false, "HTTP/1.1 204 x\r\nContent-Length: 5\r\n\r\nhello"},
	{"header without end", false, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"},
	{"no HTTP", false, "SSH-2.0-x\r\n\r\n"},
	{"nothing", false, ""},
	{"both lengths", true, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n"},
	{"two lengths", true, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello"},
	{"same length twice", true, "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello"},
	{"list of lengths", true, "HTTP/1.1 200 OK\r\nContent-Length: 5, 5\r\n\r\nhello"},
	{"signed length", true, "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello"},
	{"negative length", true, "HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"},
	{"no length", true, "HTTP/1.1 200 OK\r\nContent-Length: \r\n\r\nhello"},
	{"huge length", true, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\nhello"},
	{"other coding", true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"},
	{"chunked twice", true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"chunked HTTP/1.0", true, "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"chunked without content", true, "HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"},
	{"length in the trailer", true, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Content-Length\r\n\r\n0\r\n\r\n"},
	{"folded", true, "HTTP/1.1 200 OK\r\nX-A: b\r\n c\r\nContent-Length: 5\r\n\r\nhello"},
	{"folded first line", true, "HTTP/1.1 200 OK\r\n X-A: b\r\nContent-Length: 5\r\n\r\nhello"},
	{"LF", true, "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello"},
	{"one LF", true, "HTTP/1.1 200 OK\r\nContent-Length: 5\n\r\nhello"},
	{"lone CR", true, "HTTP/1.1 200 OK\r\nX-A: b\rContent-Length: 6\r\nContent-Length: 5\r\n\r\nhello"},
	{"CR CR LF", true, "HTTP/1.1 200 OK\r\nX-A: b\r\r\nContent-Length: 5\r\n\r\nhello"},
	{"space before colon", true, "HTTP/1.1 200 OK\r\nContent-Length : 5\r\n\r\nhello"},
	{"no colon", true, "HTTP/1.1 200 OK\r\nContent-Length 5\r\n\r\nhello"},
	{"no name", true, "HTTP/1.1 200 OK\r\n: 5\r\n\r\nhello"},
	{"NUL", true, "HTTP/1.1 200 OK\r\nX-A: \x00\r\nContent-Length: 5\r\n\r\nhello"},
	{"NUL in a name", true, "HTTP/1.1 200 OK\r\nX\x00A: b\r\nContent-Length: 5\r\n\r\nhello"},
	{"HTTP/2", true, "HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"long version", true, "HTTP/1.10 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"status of four digits", true, "HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"signed status", true, "HTTP/1.1 +20 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"two spaces", true, "HTTP/1.1  200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"unknown status", true, "HTTP/1.1 600 x\r\nContent-Length: 5\r\n\r\nhello"},
	{"upgrade", true, "HTTP/1.1 101 x\r\nUpgrade: foo\r\nConnection: upgrade\r\n\r\nhello"},
	{"other interim", true, "HTTP/1.1 102 x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"interim with a body", true, "HTTP/1.1 103 x\r\nContent-Length: 1\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"many interim", true, strings.Repeat("HTTP/1.1 103 x\r\n\r\n", 6) + "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	{"large header", true, "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 20<<10) + "\r\nContent-Length: 5\r\n\r\nhello"},
}

// TestSameAsNetHTTP: what this package interprets, it interprets as net/http does,
// however the bytes arrive; and it interprets what is usual.
func TestSameAsNetHTTP(t *testing.T) {
	t.Parallel()
	for _, tt := range responses {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, piece := range []int{1, 2, 7, 1 << 20} {
				if unusual := compare(t, []byte(tt.text), piece); unusual != tt.unusual {
					t.Errorf("in pieces of %d: unusual %v, want %v", piece, unusual, tt.unusual)
				}
			}
		})
	}
}

// FuzzSameAsNetHTTP is TestSameAsNetHTTP for any bytes.
func FuzzSameAsNetHTTP(f *testing.F) {
	for _, r := range responses {
		f.Add([]byte(r.text), uint16(1<<15))
		f.Add([]byte(r.text), uint16(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, piece uint16) { compare(t, text, int(piece)+1) })
}

// TestHeaderBomb: a header beyond the limit is refused, without a second request.
func TestHeaderBomb(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"one field":   "HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 1<<20),
		"many fields": "HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: b\r\n", 1<<20),
	} {
		if v := verdictOfHTTP1([]byte(text), 1<<15); !errors.Is(v.err, http1.ErrHeaderSize) || v.kept {
			t.Errorf("%s: %v, kept %v; want ErrHeaderSize", name, v.err, v.kept)
		}
	}
}

// TestRequestAsFromNetHTTP: requests are byte for byte those of net/http.
func TestRequestAsFromNetHTTP(t *testing.T) {
	t.Parallel()
	header := http.Header{"User-Agent": {"lockstep"}, "Accept-Encoding": {"identity"}, "X-B": {" two ", "values"}, "Authorization": {"Bearer x"}, "If-None-Match": {`"a"`}}
	want := make(chan string, 1)
	theirs := &http.Transport{DisableCompression: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		go func() {
			buf := make([]byte, 4096)
			n, _ := far.Read(buf) // one write
			want <- string(buf[:n])
			_ = far.Close()
		}()
		return near, nil
	}}
	defer theirs.CloseIdleConnections()
	req, err := http.NewRequest(http.MethodGet, "http://A.example:8080/b%20c;d?e=f&g", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	if resp, err := theirs.RoundTrip(req); err == nil {
		_ = resp.Body.Close()
		t.Fatal("a response without a server")
	}
	fields, ok := http1.AppendFields(nil, header)
	if !ok || !http1.CanSend(req.URL.Host, req.URL.RequestURI()) {
		t.Fatal("not sent")
	}
	var got bytes.Buffer
	p := &http1.Pool{Dial: func(context.Context, string, string) (net.Conn, error) {
		return &recorder{script: script{piece: 1}, to: &got}, nil
	}}
	_, err = p.Get(t.Context(), &http1.Request{Host: req.URL.Host, Target: req.URL.RequestURI(), Fields: fields, Began: time.Now(), Patience: time.Hour})
	if w := <-want; err == nil || got.String() != w {
		t.Errorf("sent %q, %v; net/http sends %q", got.String(), err, w)
	}
}

type recorder struct {
	script
	to io.Writer
}

func (r *recorder) Write(p []byte) (int, error) { return r.to.Write(p) }

// TestNotSent: requests that net/http would refuse or change are left to it.
func TestNotSent(t *testing.T) {
	t.Parallel()
	for name, h := range map[string]http.Header{
		"line break in a value": {"User-Agent": {"a"}, "X-A": {"b\r\nX-C: d"}},
		"malformed name":        {"User-Agent": {"a"}, "X A": {"b"}},
		"Connection":            {"User-Agent": {"a"}, "Connection": {"close"}},
		"no User-Agent":         {"X-A": {"b"}},
	} {
		if fields, ok := http1.AppendFields(nil, h); ok {
			t.Errorf("%s: sent as %q", name, fields)
		}
	}
	for _, u := range [][2]string{{"a b", "/"}, {"bücher.example", "/"}, {"[fe80::1%25eth0]", "/"}, {"a.example", "/b c"}, {"a.example", "/\r\nX: y"}, {"a.example", "*"}, {"a.example", ""}, {"", "/"}} {
		if http1.CanSend(u[0], u[1]) {
			t.Errorf("sends %q", u)
		}
	}
}

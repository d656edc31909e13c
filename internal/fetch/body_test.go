package fetch_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

func zip(t testing.TB, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := io.WriteString(z, s); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// Answers that do not match the request, or do not end as announced.
func TestMisbehaviour(t *testing.T) {
	t.Parallel()
	type answer struct {
		status       int
		header, body string
	}
	gzipped := zip(t, strings.Repeat("lockstep ", 1000))
	zipped, nothing := "Content-Encoding: gzip\r\n", zip(t, "")
	tests := []struct {
		name    string
		request fetch.Request
		answer  answer
		raw     string // instead of answer
		want    string // the body; or, with a leading "!", a part of the error
		part    string // of the body, before the error; "": any
	}{
		{name: "204", answer: answer{204, "", ""}, want: "!get http://source.example/a: status 204 No Content, but content was expected"},
		{name: "205", answer: answer{205, "", ""}, want: "!status 205 Reset Content, but content was expected"},
		{name: "202", answer: answer{202, "", "later"}, want: "!status 202 Accepted, but content was expected"},
		{name: "206 unasked", answer: answer{206, "Content-Range: bytes 0-1/9\r\n", "ab"}, want: "!status 206 Partial Content, but no range was asked for"},
		{name: "304 unasked", answer: answer{304, "", ""}, want: "!status 304 Not Modified, but the request was not conditional"},
		{name: "304", request: fetch.Request{IfNoneMatch: `"1"`}, answer: answer{304, "", ""}, want: ""},
		{name: "206", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "Content-Range: bytes 5-9/10\r\n", "56789"}, want: "56789"},
		{name: "200 to a range", request: fetch.Request{RangeFrom: 5}, answer: answer{200, "", "0123456789"}, want: "0123456789"},
		{name: "another range", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "Content-Range: bytes 0-4/10\r\n", "01234"}, want: "!another range"},
		{name: "part of a range", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "Content-Range: bytes 5-7/10\r\n", "567"}, want: "!less than was asked for"},
		{name: "part of a range with an end", request: fetch.Request{RangeFrom: 2, RangeTo: 5}, answer: answer{206, "Content-Range: bytes 2-4/10\r\n", "234"}, want: "!less than was asked for"},
		{name: "range beyond the end", request: fetch.Request{RangeFrom: 5, RangeTo: 50}, answer: answer{206, "Content-Range: bytes 5-9/10\r\n", "56789"}, want: "56789"},
		{name: "range of unknown total", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "Content-Range: bytes 5-9/*\r\n", "56789"}, want: "56789"},
		{name: "several ranges", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "Content-Range: bytes 5-9/10\r\nContent-Type: Multipart/Byteranges; boundary=x\r\n", "--x\r\n"}, want: "!several parts"},
		{name: "no range", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "", "01234"}, want: "!not a byte range"},
		{name: "range of another length", request: fetch.Request{RangeFrom: 5}, answer: answer{206, "Content-Range: bytes 5-9/10\r\n", "01"}, want: "!body of 2 bytes"},
		{name: "range cut short", request: fetch.Request{RangeFrom: 5}, raw: "HTTP/1.1 206 x\r\nContent-Range: bytes 5-9/10\r\n\r\n56", want: "!body ended early after 2 of 5 bytes"},
		{name: "range with more behind it", request: fetch.Request{RangeFrom: 5}, raw: "HTTP/1.1 206 x\r\nContent-Range: bytes 5-9/10\r\n\r\n56789x", want: "!range \"bytes 5-9/10\": more bytes than that", part: "56789"},
		{name: "range with more in chunks", request: fetch.Request{RangeFrom: 5}, raw: "HTTP/1.1 206 x\r\nContent-Range: bytes 5-9/10\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n56789\r\n3\r\nxyz\r\n0\r\n\r\n", want: "!more bytes than that", part: "56789"},
		{name: "range in chunks", request: fetch.Request{RangeFrom: 5}, raw: "HTTP/1.1 206 x\r\nContent-Range: bytes 5-9/10\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n56789\r\n0\r\n\r\n", want: "56789"},
		{name: "416", request: fetch.Request{RangeFrom: 5}, answer: answer{416, "Content-Range: bytes */3\r\n", ""}, want: "!status 416"},
		{name: "cut short", raw: "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", want: "!get http://source.example/a: body ended early after 3 of 10 bytes"},
		{name: "chunks cut short", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n", want: "!body ended early after 3 bytes"},
		{name: "bad chunk", raw: "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", want: "!after 3 bytes"},
		{name: "more than announced", raw: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcdef", want: "abc"},
		{name: "two lengths", raw: "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", want: "!Content-Length"},
		{name: "early hints", raw: "HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", want: "abc"},
		{name: "hints for ever", raw: strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n", 20000), want: "!get http"},
		{name: "101", raw: "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", want: "!status 101 Switching Protocols, but content was expected"},
		{name: "too large, announced", request: fetch.Request{MaxBytes: 3}, answer: answer{200, "", "abcd"}, want: "!body of 4 bytes: larger than the limit of 3"},
		{name: "too large", request: fetch.Request{MaxBytes: 3}, raw: "HTTP/1.1 200 OK\r\n\r\nabcd", want: "!larger than the limit of 3 after 4 bytes"},
		{name: "as large as may be", request: fetch.Request{MaxBytes: 3}, raw: "HTTP/1.1 200 OK\r\n\r\nabc", want: "abc"},
		{name: "gzip", request: fetch.Request{AcceptGzip: true, MaxBytes: 9000}, answer: answer{200, zipped, gzipped}, want: strings.Repeat("lockstep ", 1000)},
		{name: "gzip in two members", request: fetch.Request{AcceptGzip: true}, answer: answer{200, zipped, zip(t, "ab") + zip(t, "cd")}, want: "abcd"},
		{name: "gzip of nothing", request: fetch.Request{AcceptGzip: true}, answer: answer{200, zipped, ""}, want: ""},
		{name: "gzip of nothing many times", request: fetch.Request{AcceptGzip: true}, answer: answer{200, zipped, strings.Repeat(nothing, 1000) + zip(t, "ab")}, want: "ab"},
		{name: "gzip of nothing on and on", request: fetch.Request{AcceptGzip: true}, answer: answer{200, zipped, strings.Repeat(nothing, 100_000)}, want: "!larger than the limit of 1048576 bytes that contain nothing"},
		{name: "gzip, and nothing on and on", request: fetch.Request{AcceptGzip: true, MaxBytes: 9000}, answer: answer{200, zipped, gzipped + nothing[:10] + strings.Repeat("\x00\x00\x00\xff\xff", 400_000)}, want: "!larger than the limit of 1048576 bytes that contain nothing"},
		{name: "gzip not unpacked", answer: answer{200, zipped, gzipped}, want: gzipped},
		{name: "identity where gzip was allowed", request: fetch.Request{AcceptGzip: true}, answer: answer{200, "", "plain"}, want: "plain"},
		{name: "gzip bomb", request: fetch.Request{AcceptGzip: true, MaxBytes: 8999}, answer: answer{200, zipped, gzipped}, want: "!larger than the limit of 8999"},
		{name: "gzip cut", request: fetch.Request{AcceptGzip: true}, answer: answer{200, zipped, gzipped[:20]}, want: "!body ended early after 20 of 20 bytes"},
		{name: "gzip that is none", request: fetch.Request{AcceptGzip: true, Once: true}, answer: answer{200, zipped, strings.Repeat("x", 99)}, want: "!gzip: invalid header"},
		{name: "gzip with more behind it", request: fetch.Request{AcceptGzip: true}, answer: answer{200, zipped, gzipped + strings.Repeat("x", 99)}, want: "!gzip: invalid header"},
		{name: "another coding", request: fetch.Request{AcceptGzip: true}, answer: answer{200, "Content-Encoding: br\r\n", "x"}, want: "!content coding not asked for: br"},
		{name: "control characters", raw: "HTTP/1.1 200 \x1b[31m\r\n\x1b]0;x\x07\r\n\r\n", request: fetch.Request{Once: true}, want: "!malformed"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
					if tt.raw != "" {
						w.say("%s", tt.raw)
						return
					}
					w.answer(tt.answer.status, tt.answer.header, tt.answer.body)
				})
				tt.request.URI = "/a"
				got, err := get(t.Context(), c, tt.request)
				if want, fails := strings.CutPrefix(tt.want, "!"); fails {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Fatalf("Get = %.20q, %v, want %s", got, err, want)
					}
					if strings.ContainsAny(err.Error(), "\x1b\x07\r\n") {
						t.Errorf("Get: %q has control characters", err)
					}
					if tt.part != "" && got != tt.part {
						t.Errorf("Get = %q before the error, want %q", got, tt.part)
					}
				} else if err != nil || got != want {
					t.Errorf("Get = %.20q, %v, want %.20q", got, err, want)
				}
			})
		})
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	const long = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n"
	chunk := fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n", 1000000)
	tests := []struct {
		name string
		on   func(w *wire)
		want error
		took time.Duration // at most
	}{
		{"stalls", func(w *wire) { w.say("%sabc", long); w.request() }, fetch.ErrTimeout, time.Minute},
		{"drips", func(w *wire) { w.say(long); w.drip(strings.Repeat("x", 1000), 20*time.Second) }, fetch.ErrTooSlow, time.Minute},
		{"slows down", func(w *wire) {
			w.say("%s", long+strings.Repeat("x", 5000))
			w.drip(strings.Repeat("x", 1000), 20*time.Second)
		}, fetch.ErrTooSlow, 2 * time.Minute},
		{"moves", func(w *wire) {
			w.say(long)
			for range 200 {
				time.Sleep(10 * time.Second)
				w.say("%s", strings.Repeat("x", 5000))
			}
		}, nil, 3 * time.Hour},
		{"moves within a chunk", func(w *wire) {
			w.say("%s", chunk)
			for range 200 {
				time.Sleep(10 * time.Second)
				w.say("%s", strings.Repeat("x", 5000))
			}
			w.say("\r\n0\r\n\r\n")
		}, nil, 3 * time.Hour},
		{"stalls within a chunk", func(w *wire) { w.say("%s", chunk+strings.Repeat("x", 50000)); w.request() }, fetch.ErrTimeout, 2 * time.Minute},
		{"drips within a chunk", func(w *wire) { w.say("%s", chunk); w.drip(strings.Repeat("x", 1000), 20*time.Second) }, fetch.ErrTimeout, 2 * time.Minute},
	}
	for _, tt := range tests {
		for _, document := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, document %v", tt.name, document), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { tt.on(w) })
					start := time.Now()
					n := int64(0)
					err := c.Fetch(t.Context(), &fetch.Request{URI: source + "/a", Document: document, Once: true}, func(r *fetch.Response) (err error) {
						n, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, r.Body, make([]byte, 128<<10))
						return err
					})
					if took := time.Since(start); !errors.Is(err, tt.want) || took > tt.took || err == nil && n != 1e6 {
						t.Errorf("Fetch = %d bytes, %v after %s; want %v within %s", n, err, took, tt.want, tt.took)
					}
				})
			})
		}
	}
}

// A slow caller does not cause an error.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("x", 100<<10)
	for name, answer := range map[string]string{
		"one length": fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(text), text),
		"one chunk":  fmt.Sprintf("Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n0\r\n\r\n", len(text), text),
	} {
		for _, document := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, document %v", name, document), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) { w.say("HTTP/1.1 200 OK\r\n%s", answer) })
					resp, err := c.Get(t.Context(), fetch.Request{URI: source + "/a", Document: document})
					if err != nil {
						t.Fatal(err)
					}
					defer resp.Body.Close()
					buf, total := make([]byte, 100), 0
					for err == nil {
						var n int
						n, err = resp.Body.Read(buf)
						total += n
						time.Sleep(20 * time.Second)
					}
					if !errors.Is(err, io.EOF) || total != len(text) {
						t.Errorf("read %d bytes, %v", total, err)
					}
					if _, err := resp.Body.Read(buf); err != io.EOF {
						t.Errorf("Read at the end = %v, want io.EOF again", err)
					}
				})
			})
		}
	}
}

// TestUnneededBodies: the body of a response that is not needed is waited for for a moment at
// most, however it arrives, and a short one leaves the connection usable.
func TestUnneededBodies(t *testing.T) {
	t.Parallel()
	for name, head := range map[string]string{
		"404":            "404 x\r\nContent-Length: 12000\r\n\r\n",
		"404, chunked":   "404 x\r\nTransfer-Encoding: chunked\r\n\r\n2ee0\r\n",
		"503":            "503 x\r\nContent-Length: 12000\r\n\r\n",
		"redirect":       "302 x\r\nLocation: ftp://a/\r\nContent-Length: 12000\r\n\r\n",
		"206, unasked":   "206 x\r\nContent-Range: bytes 0-11999/12000\r\nContent-Length: 12000\r\n\r\n",
		"404 of unknown": "404 x\r\n\r\n",
	} {
		for _, document := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, document %v", name, document), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					c := wired(t, fetch.Options{}, func(w *wire, _ *http.Request, _ int) {
						w.say("HTTP/1.1 %s", head)
						w.drip(strings.Repeat("x", 12000), 900*time.Millisecond)
					})
					start := time.Now()
					_, err := c.Get(t.Context(), fetch.Request{URI: source + "/a", Document: document, Once: true})
					if took := time.Since(start); err == nil || took > 2*time.Second {
						t.Errorf("Get = %v after %s", err, took)
					}
				})
			})
		}
	}
	synctest.Test(t, func(t *testing.T) {
		conns := 0
		c := wired(t, fetch.Options{}, func(w *wire, r *http.Request, _ int) {
			for conns++; r != nil; r = w.request() {
				w.say("HTTP/1.1 404 x\r\nContent-Length: 4000\r\n\r\n")
				time.Sleep(500 * time.Millisecond)
				w.say("%s", strings.Repeat("x", 4000))
			}
		})
		for range 3 {
			if _, err := c.Get(t.Context(), fetch.Request{URI: source + "/a"}); err == nil {
				t.Error("Get succeeded")
			}
		}
		if conns != 1 {
			t.Errorf("%d connections for short bodies, want 1", conns)
		}
	})
}

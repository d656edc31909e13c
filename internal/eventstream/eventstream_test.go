package eventstream_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"lockstep/internal/eventstream"
	"lockstep/internal/fetch"
)

// limits of one event, as the Reader documents them.
const (
	maxID   = 1024
	maxData = 8 << 20
)

// FuzzReader reads streams of events: each stays within its limits, and the
// events are the same however the stream is cut.
func FuzzReader(f *testing.F) {
	for _, s := range []string{
		": welcome\n\nevent: hello\nid: 4\ndata:\n\nevent: notification\r\nid:5\r\ndata: <a>\r\ndata: </a>\r\n\r\n",
		"\xef\xbb\xbfevent:x\rdata\r\rid\n\n", "retry: 10\ndata: a\n\n", "data: no end", "id: \x00\ndata: x\n\n", "\r\n\r\r\n\n", ":",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		read := func(in io.Reader) (out []string) {
			r := eventstream.NewReader(in)
			for {
				e, err := r.Next()
				if err != nil {
					return out
				}
				if len(e.ID) > 3*maxID || len(e.Type) > maxID || len(e.Data) > maxData {
					t.Fatalf("event of %d, %d, %d bytes", len(e.ID), len(e.Type), len(e.Data))
				}
				out = append(out, fmt.Sprintf("%q %q %q", e.Type, e.ID, e.Data))
			}
		}
		whole := read(strings.NewReader(s))
		bytewise := read(iotest.OneByteReader(strings.NewReader(s)))
		if fmt.Sprint(whole) != fmt.Sprint(bytewise) {
			t.Fatalf("read at once: %v, byte by byte: %v", whole, bytewise)
		}
	})
}

// TestReaderIgnoresIDsThatNoHeaderCanCarry: with such an ID the stream could
// never be opened again.
func TestReaderIgnoresIDsThatNoHeaderCanCarry(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"7": "7", "a b": "a b", "\u00e9": "\u00e9", "x\x00": "", "\x1b[31m": "", "a\tb": "", "a\x7f": "", strings.Repeat("9", maxID+1): "",
	} {
		r := eventstream.NewReader(strings.NewReader(fmt.Sprintf("event: hello\nid: %s\n\n", id)))
		if e, err := r.Next(); err != nil || e.ID != want {
			t.Errorf("id %q is read as %q, %v", id, e.ID, err)
		}
	}
}

// TestStreamIsOpenedAgain has answers that are no stream, a stream that is held
// back on the way, one that goes silent, and an event that is too large: each is
// given up, and the stream is opened again behind the last event.
func TestStreamIsOpenedAgain(t *testing.T) {
	t.Parallel()
	var calls atomic.Int32
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch calls.Add(1) {
		case 1:
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, "<html>login")
		case 2:
			w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done() // nothing is sent
		case 3:
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		case 4:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: hello\nid: 7\n\nevent: notification\nid: 8\ndata: x\n\n")
		case 5:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "event: hello\nid: 9\n\nevent: notification\nid: 9\ndata: after %s\n\n", r.Header.Get("Last-Event-ID"))
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprint(w, "event: hello\nid: 9\n\ndata: "+strings.Repeat("x", maxData+1)+"\n\n")
		}
	}))
	defer srv.Close()
	client, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got, losses []string
	s := &eventstream.Stream{
		Client: client, URI: srv.URL, First: time.Millisecond, Idle: 300 * time.Millisecond,
		Opened: func(resumed bool) { got = append(got, fmt.Sprint("opened ", resumed)) },
		Allow:  func(string) error { return nil },
		Event:  func(e eventstream.Event) { got = append(got, fmt.Sprintf("%s %s %s", e.Type, e.ID, e.Data)) },
		Lost: func(err error) {
			if losses = append(losses, fmt.Sprint(err)); strings.Contains(losses[len(losses)-1], "too large") {
				cancel()
			}
		},
	}
	s.Run(ctx)
	want := []string{"opened false", "hello 7 ", "notification 8 x", "opened true", "hello 9 ", "notification 9 after 8", "opened true", "hello 9 "}
	if got = got[:min(len(got), len(want))]; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("events %q, want %q", got, want)
	}
	if text := strings.Join(losses, "|"); !strings.Contains(text, "no stream") || !strings.Contains(text, "silent for 300ms") || !strings.Contains(text, "too large") {
		t.Errorf("losses %q", losses)
	}
}

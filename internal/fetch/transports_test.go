package fetch_test

import (
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/internal/fetch"
)

// TestTransportsAreDroppedWhenIdle: a Client keeps none without requests, whichever kind
// the last one was, and none is dropped under a request.
func TestTransportsAreDroppedWhenIdle(t *testing.T) {
	t.Parallel()
	const idle = 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{Idle: idle}, func(w *wire, r *http.Request, _ int) {
			if r.URL.Path == "/slow" {
				time.Sleep(5 * idle)
			}
			w.answer(200, "", "hello")
		})
		if c.HasTransports() {
			t.Error("transports before the first request")
		}
		for _, path := range []string{"/a", "/slow", "/a"} {
			if got, err := get(t.Context(), c, fetch.Request{URI: path}); err != nil || got != "hello" {
				t.Fatalf("get %s: %q, %v", path, got, err)
			}
			time.Sleep(idle / 2)
			if !c.HasTransports() {
				t.Errorf("%s: no transports while connections may be open", path)
			}
			time.Sleep(2 * idle)
			if c.HasTransports() {
				t.Errorf("%s: there still are transports", path)
			}
		}
	})
}

// TestBodyOutlastsItsTransport: the body of an answer can be read to its end when its
// transport was dropped.
func TestBodyOutlastsItsTransport(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := wired(t, fetch.Options{Idle: time.Second}, func(w *wire, _ *http.Request, _ int) {
			w.say("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell")
			time.Sleep(10 * time.Second)
			w.say("o")
		})
		resp, err := c.Get(t.Context(), fetch.Request{URI: source + "/a"})
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if c.HasTransports() {
			t.Error("the transport was not dropped")
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if string(body) != "hello" || err != nil {
			t.Errorf("body %q, %v", body, err)
		}
	})
}

// TestMostJobs caps the number that adapts.
func TestMostJobs(t *testing.T) {
	t.Parallel()
	c, err := fetch.New(fetch.Options{MostJobs: 40})
	if err != nil || c.Jobs() != 40 {
		t.Errorf("%d requests at a time, %v; want 40", c.Jobs(), err)
	}
	if _, err := fetch.New(fetch.Options{MostJobs: -1}); err == nil {
		t.Error("a negative number is accepted")
	}
}

//go:build linux

package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"
)

// topicOf is the address of a Source's channel.
func topicOf(base string) string { return base + "resourcesync/main/changes" }

// listenEvents has the Source's own events pass a stage: what it costs until a
// notification is made.
func (w *followWorld) listenEvents(base string) {
	w.Helper()
	s := w.stage("events")
	ctx, cancel := context.WithCancel(context.Background())
	w.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, topicOf(base), nil)
	if err != nil {
		w.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	resp, err := http.DefaultClient.Do(req)
	if err != nil || resp.StatusCode != http.StatusOK {
		w.Fatalf("events of %s: %v, %v", topicOf(base), resp, err)
	}
	go func() {
		defer func() { _ = resp.Body.Close() }()
		lines := bufio.NewReader(resp.Body)
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return // the Source ends
			}
			w.entries(s, line)
		}
	}()
}

// listenHub has the hub's deliveries pass a stage: it subscribes as anybody
// may, and is called back.
func (w *followWorld) listenHub(hub, base string) {
	w.Helper()
	s := w.stage("hub")
	verified := make(chan struct{}, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if challenge := r.URL.Query().Get("hub.challenge"); r.Method == http.MethodGet {
			_, _ = fmt.Fprint(rw, challenge)
			verified <- struct{}{}
			return
		}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			w.entries(s, body)
		}
	}))
	w.Cleanup(srv.Close)
	resp, err := http.PostForm(hub, url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topicOf(base)}, "hub.callback": {srv.URL}})
	if err != nil {
		w.Fatal(err)
	}
	answer, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		w.Fatalf("subscribe at %s: %s: %s", hub, resp.Status, answer)
	}
	select {
	case <-verified:
	case <-time.After(10 * time.Second):
		w.Fatal("the hub never asked whether the subscription is meant")
	}
}

// entries books all files that a notification names.
func (w *followWorld) entries(s *followStage, text []byte) {
	for {
		_, rest, ok := bytes.Cut(text, []byte("<loc>"))
		if !ok {
			return
		}
		loc, after, _ := bytes.Cut(rest, []byte("</loc>"))
		text = after
		path, _ := url.PathUnescape(string(loc))
		var file int
		if _, err := fmt.Sscanf(path[strings.LastIndexByte(path, '/')+1:], "file %05d.txt", &file); err == nil && file < len(w.names) {
			w.pass(s, file, -1)
		}
	}
}

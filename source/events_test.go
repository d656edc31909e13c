package source_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/source"
)

// plainURL is the base URL as requests in memory name it.
const plainURL = "http://data.example.org/"

// An event is one of a stream.
type event struct {
	name, id, data string
	comment        bool
}

// A stream is a client of one.
type stream struct {
	testing.TB
	res    *http.Response
	events chan event // closed when the stream ends
}

// openStream asks a client for the events of a set.
func openStream(t testing.TB, c *http.Client, base, last string) *stream {
	t.Helper()
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, base+topicRel, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if last != "" {
		req.Header.Set("Last-Event-ID", last)
	}
	res, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	s := &stream{TB: t, res: res, events: make(chan event, 100)}
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != "text/event-stream" || res.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("status %d, header %v", res.StatusCode, res.Header)
	}
	go s.read()
	return s
}

// read takes the stream apart as the HTML standard says.
func (s *stream) read() {
	defer close(s.events)
	var e event
	lines := bufio.NewScanner(s.res.Body)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		field, value, _ := strings.Cut(lines.Text(), ":")
		value = strings.TrimPrefix(value, " ")
		switch field {
		case "":
			if lines.Text() != "" {
				select {
				case s.events <- event{comment: true}:
				default: // of so many, some are enough
				}
			} else if e.data != "" {
				s.events <- e
			}
			if lines.Text() == "" {
				e = event{}
			}
		case "event":
			e.name = value
		case "id":
			e.id = value
		case "data":
			e.data += value + "\n"
		}
	}
}

func (s *stream) next() event {
	s.Helper()
	e, ok := <-s.events
	if !ok {
		s.Fatal("the stream has ended")
	}
	return e
}

func (s *stream) want(name, id string) event {
	s.Helper()
	e := s.next()
	for e.comment {
		e = s.next()
	}
	if e.name != name || e.id != id {
		s.Errorf("event %q with id %q, want %q with %q; data\n%s", e.name, e.id, name, id, e.data)
	}
	return e
}

func (s *stream) close() { _ = s.res.Body.Close() }

// pipes listens in memory, so that time can be ruled.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.done) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

func (p *pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	p.conns <- theirs
	return ours, nil
}

// serve serves the Source as `lockstep serve` does, and returns a client.
func (w *newsWorld) serve() (*http.Client, *http.Server) {
	l, h := newPipes(), w.src.Handler()
	srv := source.NewServer(h)
	go func() { _ = srv.Serve(w.src.Front(l, h)) }()
	return &http.Client{Transport: &http.Transport{DialContext: l.dial}}, srv
}

// TestEvents: who can have no hub call gets what hubs get, as a stream that
// outlives the server's patience with slow clients, shows signs of life, goes
// on where it broke off, and says when it cannot. It needs no hub.
func TestEvents(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t, source.Options{Streams: 2, Keep: 48 * time.Hour, Grace: time.Hour})
		c, srv := w.serve()
		s := openStream(t, c, plainURL, "")
		defer s.close()
		if e := s.want("hello", "0"); e.data != fmt.Sprintf("{\"topic\":%q,\"until\":\"2000-01-01T00:00:00Z\"}\n", topicOf("main")) {
			t.Errorf("hello says %s", e.data)
		}
		got := make([]payload, 0)
		for i := range 3 {
			time.Sleep(10 * time.Minute)
			w.change("main", fmt.Sprintf("a=%d", i), fmt.Sprintf("b=%d", i))
			w.publish()
			e := s.want("notification", fmt.Sprint(2*i+2))
			got = append(got, readPayload(t, topicOf("main"), nil, []byte(e.data)))
		}
		if gaps, twice := w.covers(w.happened["main"], got); gaps+twice > 0 {
			t.Errorf("%d gaps, %d told twice", gaps, twice)
		}
		again := openStream(t, c, plainURL, "3")
		again.want("hello", "3")
		e := again.want("notification", "6")
		if p := readPayload(t, topicOf("main"), nil, []byte(e.data)); len(p.changes) != 3 {
			t.Errorf("resumed, %d changes are told, want 3", len(p.changes))
		}
		again.close()
		synctest.Wait()
		for _, last := range []string{"7", "-1", "x", "99999999999999999999"} {
			odd := openStream(t, c, plainURL, last)
			odd.want("hello", "6")
			odd.want("gap", "6")
			odd.close()
			synctest.Wait()
		}
		time.Sleep(60 * time.Hour)
		w.change("main", "new=1")
		w.publish()
		s.want("notification", "7")
		time.Sleep(time.Hour) // until no client reads the list that was replaced
		w.publish()           // and let old changes go
		old := openStream(t, c, plainURL, "1")
		old.want("hello", "7")
		old.want("gap", "7")
		old.close()
		synctest.Wait()
		for len(s.events) > 0 { // signs of life
			<-s.events
		}
		begin := time.Now()
		_ = srv.Shutdown(t.Context())
		if _, open := <-s.events; open || time.Since(begin) > time.Second {
			t.Errorf("the server took %s to shut down", time.Since(begin))
		}
		w.stop()
	})
}

// TestEventsBounded: there are so many streams at a time; who comes too many is
// told when to come again, and who does not read loses his place.
func TestEventsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t, source.Options{Streams: 2})
		c, srv := w.serve()
		defer srv.Close()
		lazy, other := openStream(t, c, plainURL, ""), openStream(t, c, plainURL, "")
		lazy.want("hello", "0")
		other.want("hello", "0")
		ask := func() *http.Response {
			req, _ := http.NewRequest(http.MethodGet, plainURL+topicRel, nil)
			req.Header.Set("Accept", "application/xml;q=0.5, Text/Event-Stream;q=1")
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			_ = res.Body.Close()
			return res
		}
		if res := ask(); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("one too many is answered %d, %v", res.StatusCode, res.Header)
		}
		other.close()
		synctest.Wait()
		if res := ask(); res.StatusCode != http.StatusOK {
			t.Errorf("when there is a place again: %d", res.StatusCode)
		}
		lazy.close()
		w.stop()
	})
}

// TestEventsUnread: a stream that is not read ends, and holds up nobody.
func TestEventsUnread(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t, source.Options{Streams: 1})
		l, h := newPipes(), w.src.Handler()
		srv := source.NewServer(h)
		go func() { _ = srv.Serve(w.src.Front(l, h)) }()
		defer srv.Close()
		conn, _ := l.dial(t.Context(), "", "")
		defer conn.Close()
		fmt.Fprintf(conn, "GET /%s HTTP/1.1\r\nHost: data.example.org\r\nAccept: text/event-stream\r\n\r\n", topicRel)
		synctest.Wait()
		time.Sleep(2 * time.Minute)
		c := &http.Client{Transport: &http.Transport{DialContext: l.dial}}
		s := openStream(t, c, plainURL, "")
		s.want("hello", "0")
		s.close()
		w.stop()
	})
}

// TestEventsHeartbeat: a silent stream shows signs of life.
func TestEventsHeartbeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t, source.Options{Streams: 1})
		c, srv := w.serve()
		defer srv.Close()
		s := openStream(t, c, plainURL, "")
		s.want("hello", "0")
		begin := time.Now()
		for i := range 20 {
			if e := s.next(); !e.comment || time.Since(begin) != time.Duration(i+1)*15*time.Second {
				t.Errorf("after %s came %+v", time.Since(begin), e)
			}
		}
		s.close()
		w.stop()
	})
}

// TestEventsNone: without Options.Streams there are none, and before the first
// publication who asks is told to come again.
func TestEventsNone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	if res := get(w.source().Handler(), http.MethodGet, topicRel, "Accept", "text/event-stream"); res.Code != http.StatusNoContent {
		t.Errorf("without streams: %d", res.Code)
	}
	w = newWorld(t, source.Options{Streams: 1})
	if res := get(w.source().Handler(), http.MethodGet, topicRel, "Accept", "text/event-stream"); res.Code != http.StatusServiceUnavailable {
		t.Errorf("before there is anything: %d", res.Code)
	}
}

// TestEventsReal: the same over real connections, many at a time, all told.
func TestEventsReal(t *testing.T) {
	t.Parallel()
	const n = 50
	w := newWorld(t, source.Options{Streams: n})
	s := w.source()
	w.publish(s)
	srv := httptest.NewUnstartedServer(nil)
	h := s.Handler()
	srv.Config = source.NewServer(h)
	srv.Listener = s.Front(srv.Listener, h)
	srv.Start()
	streams := make([]*stream, n)
	for i := range streams {
		streams[i] = openStream(t, srv.Client(), srv.URL+"/", "")
		streams[i].want("hello", "0")
	}
	for i := range 5 {
		w.pass(time.Minute)
		w.put(fmt.Sprintf("a=%d", i))
		w.publish(s)
	}
	for _, s := range streams {
		last := ""
		for last != "5" {
			e := s.next()
			if !e.comment {
				last = e.id
				if !bytes.Contains([]byte(e.data), []byte(`capability="change-notification"`)) {
					t.Errorf("told of %q", e.data)
				}
			}
		}
	}
	done := make(chan struct{})
	go func() {
		_ = srv.Config.Shutdown(context.Background())
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		t.Error("streams keep the server from shutting down")
	}
	srv.Close()
}

// TestEventsLagging: streams that are not read and lag behind, each at another
// place, hold so many bytes at most. Who finds no room for what he lacks is told
// of a gap, and goes on from now; those who keep up notice nothing.
func TestEventsLagging(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newNewsWorld(t, source.Options{Streams: 100})
		const changes = 800 // a notification has room for about 600
		for i := range changes {
			w.change("main", fmt.Sprintf("%d-%s=x", i, strings.Repeat("y", 1500)))
			time.Sleep(time.Millisecond)
		}
		w.publish()
		c, srv := w.serve()
		defer srv.Close()
		lazy := func(id int) *http.Response {
			req, _ := http.NewRequest(http.MethodGet, plainURL+topicRel, nil)
			req.Header.Set("Accept", "text/event-stream")
			req.Header.Set("Last-Event-ID", fmt.Sprint(id))
			res, err := c.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			return res
		}
		var all []*http.Response
		for i := range 40 {
			all = append(all, lazy(i))
		}
		synctest.Wait()
		late := openStream(t, c, plainURL, "50")
		late.want("hello", "50")
		late.want("gap", fmt.Sprint(changes))
		w.change("main", "news=x")
		w.publish()
		late.want("notification", fmt.Sprint(changes+1))
		for _, res := range all {
			_ = res.Body.Close()
		}
		synctest.Wait()
		again := openStream(t, c, plainURL, "50")
		again.want("hello", "50")
		if e := again.next(); e.name != "notification" {
			t.Errorf("when there is room again comes %s %s", e.name, e.id)
		}
		again.close()
		late.close()
		w.stop()
	})
}

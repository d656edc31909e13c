package source_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/source"
)

// get asks a handler for an address below the base URL.
func get(h http.Handler, method, rel string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, baseURL+rel, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

const topicRel = "resourcesync/main/changes"

// TestTopic: the topic answers GET and HEAD with links to itself, the hubs and
// the Capability List (RN-PB-08, WS-D-01, WS-D-02), has one representation
// (WS-D-11), 204 before there is anything (RN-CH-11), and then the last payload
// byte for byte (RN-PB-09, RN-AMB-02), also after a restart.
func TestTopic(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hub := &sink{t: t}
		w := newNewsWorld(t, source.Options{Streams: 1, Hubs: []source.Hub{
			{URL: "https://a.example.net/", Notifier: hub}, {URL: "https://b.example.net/"},
		}})
		links := `<` + topicOf("main") + `>; rel="self", <https://a.example.net/>; rel="hub", <https://b.example.net/>; rel="hub", <` +
			baseURL + `resourcesync/main/capabilitylist.xml>; rel="resourcesync"`
		check := func(when string, want []byte) {
			t.Helper()
			h := w.src.Handler()
			g, head := get(h, http.MethodGet, topicRel, "Accept", "text/html, */*"), get(h, http.MethodHead, topicRel)
			status := http.StatusOK
			if want == nil {
				status = http.StatusNoContent
			}
			if g.Code != status || head.Code != status || !bytes.Equal(g.Body.Bytes(), want) || head.Body.Len() > 0 {
				t.Errorf("%s: GET %d, HEAD %d, the body\n%s\nwant %d and\n%s", when, g.Code, head.Code, g.Body, status, want)
			}
			for _, res := range []*httptest.ResponseRecorder{g, head} {
				if res.Header().Get("Link") != links || want != nil && res.Header().Get("Content-Type") != "application/xml" {
					t.Errorf("%s: header %v", when, res.Header())
				}
			}
			if want == nil {
				return
			}
			if again := get(h, http.MethodGet, topicRel, "If-None-Match", g.Header().Get("ETag")); again.Code != http.StatusNotModified {
				t.Errorf("%s: asked again with its tag, the answer is %d", when, again.Code)
			}
		}
		check("at the beginning", nil)
		for i := range 3 {
			w.change("main", fmt.Sprintf("a=%d", i))
			w.publish()
			synctest.Wait()
			time.Sleep(time.Minute)
		}
		got := hub.accepted("main")
		check("after some changes", got[len(got)-1].body)
		w.restart()
		check("after a restart", got[len(got)-1].body)
		h := w.src.Handler()
		if res := get(h, http.MethodPost, topicRel); res.Code != http.StatusMethodNotAllowed {
			t.Errorf("POST: %d", res.Code)
		}
		if res := get(h, http.MethodGet, "resourcesync/other/changes"); res.Code != http.StatusNotFound {
			t.Errorf("the topic of no set: %d", res.Code)
		}
		w.stop()
	})
}

// TestTopicFront: what answers quickly never answers with an old payload.
func TestTopicFront(t *testing.T) {
	t.Parallel()
	hub := &sink{t: t}
	w := newWorld(t, source.Options{Static: true, Hubs: []source.Hub{{URL: "https://a.example.net/", Notifier: hub}}})
	s := w.source()
	w.publish(s)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := s.Handler()
	srv := source.NewServer(h)
	go func() { _ = srv.Serve(s.Front(l, h)) }()
	defer srv.Close()
	for i := range 5 {
		w.pass(time.Minute)
		w.put(fmt.Sprintf("a=%d", i))
		w.publish(s)
		if err := s.NotifyOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			res, err := http.Get("http://" + l.Addr().String() + "/" + topicRel)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			got := hub.accepted("main")
			if err != nil || i > 0 && !bytes.Equal(body, got[len(got)-1].body) {
				t.Errorf("%v: at the topic stands\n%s", err, body)
			}
		}
	}
}

// TestTopicStatic: for web servers of others what stands at a topic is a
// document, there before the hub is told.
func TestTopicStatic(t *testing.T) {
	t.Parallel()
	hub := &sink{t: t}
	w := newWorld(t, source.Options{Static: true, Hubs: []source.Hub{{URL: "https://a.example.net/", Notifier: hub}}})
	hub.check = func(p payload) {
		if data, err := reader(w.docs)(topicRel); err != nil || !bytes.Equal(data, p.body) {
			t.Errorf("at the topic stands %q, %v", data, err)
		}
	}
	s := w.source()
	w.publish(s)
	for i := range 3 {
		if err := s.NotifyOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		w.put(fmt.Sprintf("a=%d", i))
		w.publish(s)
		s = w.source() // each run is a process
		w.publish(s)
	}
	if n := hub.asked(); n != 2 {
		t.Errorf("%d notifications, want 2", n)
	}
	if typ, caching := source.Attributes(topicRel); typ != "application/xml" || caching != "no-cache" {
		t.Errorf("the topic is %s, %s", typ, caching)
	}
}

// TestTopicWindow: a hub that fetches the topic when it is pinged, that merges
// pings and comes late, misses nothing (RN-PB-09, RN-AMB-02): the window holds
// all since the last but two of the pings it accepted, of ten minutes at least,
// and no more than a notification may.
func TestTopicWindow(t *testing.T) {
	t.Parallel()
	for seed := range uint64(5) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { playWindow(t, rand.New(rand.NewPCG(seed, 1))) })
		})
	}
}

func playWindow(t *testing.T, rnd *rand.Rand) {
	hub := &sink{t: t, thins: true}
	var down atomic.Bool
	w := newNewsWorld(t, source.Options{Hubs: []source.Hub{{URL: "https://thin.example.net/", Notifier: hub}}})
	var pings atomic.Int64 // not answered yet by a look at the topic
	hub.fail = func(string, int) error {
		if down.Load() || pings.Load() > 1 { // it looks before it takes a third
			return errDown
		}
		pings.Add(1)
		return nil
	}
	var got []payload
	fetch := func() {
		res := get(w.src.Handler(), http.MethodGet, topicRel)
		p := readPayload(t, topicOf("main"), nil, res.Body.Bytes())
		if len(p.changes) > 1000 || len(p.body) > 1<<20 {
			t.Errorf("RN-PL-06: %d changes, %d bytes", len(p.changes), len(p.body))
		}
		for _, one := range w.happened["main"] { // all of the last ten minutes
			if at := parseTime(t, one.at); at.After(time.Now().Add(-10*time.Minute)) && at.Before(p.until) && !at.After(p.from) && len(p.changes) < 1000 {
				t.Errorf("RN-PB-09: the window begins at %s and lacks %v", p.from, one)
			}
		}
		w.inChangeList(p)
		got = append(got, p)
	}
	for range 60 {
		for range rnd.IntN(5) {
			w.change("main", fmt.Sprintf("r%d=%d", rnd.IntN(20), rnd.Int()))
		}
		w.publish()
		synctest.Wait()
		switch rnd.IntN(8) {
		case 0:
			down.Store(!down.Load())
		case 1:
			time.Sleep(time.Duration(rnd.Int64N(int64(time.Hour))))
		case 2:
			w.restart()
		default:
			time.Sleep(time.Duration(rnd.Int64N(int64(time.Minute))))
		}
		if n := pings.Load(); n > 1 || n > 0 && rnd.IntN(2) == 0 { // else this ping and the next are one
			fetch()
			pings.Store(0)
		}
	}
	down.Store(false)
	w.change("main", "last=1")
	w.publish()
	time.Sleep(2 * time.Minute)
	fetch()
	w.stop()
	if !mergedCovers(t, w.happened["main"], got) {
		t.Error("RN-PB-09: the windows do not join")
	}
}

// mergedCovers reports whether windows that reach back hold all changes, with
// no gap between them.
func mergedCovers(t *testing.T, happened []told, got []payload) bool {
	seen := make(map[told]bool)
	for i, p := range got {
		for _, one := range p.changes {
			seen[one] = true
		}
		if i > 0 && p.from.After(got[i-1].until) {
			t.Errorf("a window from %s after one until %s", p.from, got[i-1].until)
		}
	}
	for _, one := range happened {
		if !seen[one] {
			t.Logf("%v was never to be seen", one)
			return false
		}
	}
	return true
}

// TestTopicWindowBounded: a window has room for so much, and begins where it
// says (RN-PL-06).
func TestTopicWindowBounded(t *testing.T) {
	t.Parallel()
	for _, long := range []string{"", strings.Repeat("long/", 300)} {
		synctest.Test(t, func(t *testing.T) {
			hub := &sink{t: t, thins: true}
			w := newNewsWorld(t, source.Options{Hubs: []source.Hub{{URL: "https://thin.example.net/", Notifier: hub}}})
			words := make([]string, 2500)
			for i := range words {
				words[i] = fmt.Sprintf("%sr%d=1", long, i)
			}
			w.change("main", words...)
			w.publish()
			synctest.Wait()
			p := readPayload(t, topicOf("main"), nil, get(w.src.Handler(), http.MethodGet, topicRel).Body.Bytes())
			n, all := len(p.changes), w.happened["main"]
			if n < 400 || n > 1000 || len(p.body) > 1<<20 || p.changes[n-1] != all[len(all)-1] || p.changes[0] != all[len(all)-n] {
				t.Errorf("a window of %d changes, %d bytes", n, len(p.body))
			}
			if before := parseTime(t, all[len(all)-n-1].at); !p.from.After(before) {
				t.Errorf("the window says that it begins at %s, but %s is not in it", p.from, before)
			}
			if hub.asked() != 1 {
				t.Errorf("RN-PB-09: %d pings for one window", hub.asked())
			}
			w.stop()
		})
	}
}

// TestRefusal: what a hub refuses is reported, not brought again, and shows as
// a gap; what it does not take for the moment is brought again in order, no
// sooner than the hub says; one hub does not delay another, nor a publication
// (RN-PB-06, RN-AMB-14).
func TestRefusal(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		quick, slow, strict := &sink{t: t}, &slowSink{}, &sink{t: t}
		answers := []error{nil, refused{}, busy{10 * time.Minute}, nil}
		strict.fail = func(_ string, n int) error { return answers[min(n-1, len(answers)-1)] }
		var told []source.Notification
		w := newNewsWorld(t, source.Options{
			Hubs: []source.Hub{
				{URL: "https://slow.example.net/", Notifier: slow}, {URL: "https://quick.example.net/", Notifier: quick},
				{URL: "https://strict.example.net/", Notifier: strict},
			},
			OnNotify: func(n source.Notification) {
				if n.Hub == "https://strict.example.net/" { // told of one after the other
					told = append(told, n)
				}
			},
		})
		begin := time.Now()
		for i := range 3 {
			w.change("main", fmt.Sprintf("a=%d", i))
			w.publish()
			synctest.Wait()
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(begin); took > 10*time.Millisecond || len(quick.accepted("main")) != 3 {
			t.Errorf("after %s the quick hub was told %d times, want 3", took, len(quick.accepted("main")))
		}
		time.Sleep(9 * time.Minute)
		if n := strict.asked(); n != 3 {
			t.Errorf("asked %d times before the hub wanted to be", n)
		}
		time.Sleep(3 * time.Minute)
		gaps, _ := w.covers(w.happened["main"], strict.accepted("main"))
		if n := strict.asked(); n != 4 || gaps != 1 {
			t.Errorf("RN-PB-06: asked %d times, %d gaps; want 4 and 1", n, gaps)
		}
		hubs := w.src.Channels()[0].Hubs
		if last := hubs[2]; len(hubs) != 3 || last.Accepted != 2 || last.Refused != 1 || last.Failures != 1 || last.Behind != 0 || last.Err != nil {
			t.Errorf("Channels tells of %+v", hubs)
		}
		if slow := hubs[0]; slow.Accepted != 0 || slow.Behind != 3 || slow.Failures == 0 || slow.Err == nil {
			t.Errorf("of the slow one Channels tells %+v", slow)
		}
		w.stop()
		if len(told) != 4 || !told[1].Refused || told[1].Retry != 0 || told[2].Refused || told[2].Retry < 10*time.Minute || told[3].Err != nil {
			t.Errorf("OnNotify was told %+v", told)
		}
	})
}

// A slowSink never answers.
type slowSink struct{}

func (*slowSink) Publish(ctx context.Context, _ string, _ http.Header, _ []byte) error {
	<-ctx.Done()
	return ctx.Err()
}

package hub_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/blob/faultfs"
	"lockstep/hub"
	"lockstep/hub/hubstore"
	"lockstep/storage/sqlite"
)

// TestRestart: a restarted hub continues at its position: no message is lost
// and, because the hub could save its progress, none is delivered twice
// (WS-C-12).
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{})
	for i := range 10 {
		r.subscribe(fmt.Sprintf("%s/cb/%d", s.URL, i), "secret")
	}
	const rounds, each = 4, 100
	for i := range rounds {
		r.publish(numbers(i*each+1, (i+1)*each)...)
		if err := r.stop(); err != nil {
			t.Fatal(err)
		}
		r = run(t, store, hub.Options{})
	}
	for i := range 10 {
		path := fmt.Sprintf("/cb/%d", i)
		eventually(t, path, func() bool { g := s.at(path); return len(g) > 0 && g[len(g)-1] == strconv.Itoa(rounds*each) })
		if got := s.at(path); !same(got, numbers(1, rounds*each)) {
			t.Errorf("%s: %d messages, out of order, or not each once", path, len(got))
		}
	}
}

// TestEndWhileHanging: hanging deliveries do not keep the hub from stopping, and
// do not count as attempts.
func TestEndWhileHanging(t *testing.T) {
	t.Parallel()
	under, over := make(chan struct{}, 1), make(chan struct{})
	s := newSink(t, func(_ http.ResponseWriter, r *http.Request, _ string) {
		under <- struct{}{}
		<-over
	})
	t.Cleanup(func() { close(over) })
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{Timeout: time.Minute})
	r.subscribe(s.URL+"/cb", "")
	r.publish("1")
	<-under
	start := time.Now()
	if err := r.stop(); err != nil || time.Since(start) > 30*time.Second {
		t.Errorf("%v, after %v", err, time.Since(start))
	}
	for _, row := range rows(t, store) {
		if row.Progress.Cursor != 0 || row.Progress.Attempts != 0 {
			t.Errorf("%+v", row.Progress)
		}
	}
}

// TestBacklog: a subscriber that has missed many messages gets them all, read
// in pages.
func TestBacklog(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	store := hubstore.NewMem()
	r := run(t, store, hub.Options{})
	for i := range 5 {
		r.subscribe(fmt.Sprintf("%s/cb/%d", s.URL, i), "")
	}
	_ = r.stop()
	const count = 1500
	var backlog []hubstore.Message
	for _, n := range numbers(1, count) {
		backlog = append(backlog, hubstore.Message{Topic: topicURL, ID: n, Body: []byte(n + strings.Repeat(" ", 1000)), At: time.Now()})
	}
	if _, err := store.Append(context.Background(), backlog); err != nil {
		t.Fatal(err)
	}
	r = run(t, store, hub.Options{})
	r.publish(numbers(count+1, count+100)...)
	for i := range 5 {
		path := fmt.Sprintf("/cb/%d", i)
		eventually(t, path, func() bool { return len(s.at(path)) >= count+100 })
		got := strings.Fields(strings.Join(s.at(path), " "))
		if !same(got, numbers(1, count+100)) {
			t.Errorf("%s: %d messages, out of order, or not each once", path, len(got))
		}
	}
}

// A faulty store fails as its faults say.
type faulty struct {
	hubstore.Store
	faults *faultfs.Faults
}

func (f *faulty) Append(ctx context.Context, m []hubstore.Message) ([]int64, error) {
	if err := f.faults.Step(); err != nil {
		return nil, err
	}
	return f.Store.Append(ctx, m)
}

func (f *faulty) Save(ctx context.Context, c hubstore.Changes) error {
	if err := f.faults.Step(); err != nil {
		return err
	}
	return f.Store.Save(ctx, c)
}

func (f *faulty) Trim(ctx context.Context, topic string, upto int64) error {
	if err := f.faults.Step(); err != nil {
		return err
	}
	return f.Store.Trim(ctx, topic, upto)
}

// TestDiskFull: whichever write fails, accepted messages are delivered once and
// in order, and the publisher learns which were not accepted.
func TestDiskFull(t *testing.T) {
	t.Parallel()
	for first := 1; first <= 16; first++ {
		t.Run(strconv.Itoa(first), func(t *testing.T) {
			t.Parallel()
			s := newSink(t, nil)
			store := &faulty{hubstore.NewMem(), &faultfs.Faults{At: first, Err: syscall.ENOSPC, Count: 3}}
			r := run(t, store, hub.Options{Keep: 300 * time.Millisecond})
			again := func(what string, f func() error) {
				for tries := 0; ; tries++ {
					err := f()
					if err == nil {
						return
					}
					if !errors.Is(err, syscall.ENOSPC) || tries > 3 {
						t.Fatalf("%s: %v", what, err)
					}
				}
			}
			var gone hubstore.Key
			for _, path := range []string{"/cb", "/gone"} {
				again("subscribe", func() (err error) {
					gone, err = r.SubscribeVerified(context.Background(), topicURL, s.URL+path, "x", time.Hour, time.Now())
					return err
				})
			}
			again("unsubscribe", func() error { return r.End(context.Background(), gone) })
			for _, n := range numbers(1, 8) {
				again("publish", func() error {
					_, err := r.Accept(context.Background(), hubstore.Message{Topic: topicURL, Body: []byte(n)})
					return err
				})
			}
			eventually(t, "all", func() bool { return len(s.at("/cb")) == 8 })
			eventually(t, "the end of the disk's fullness", func() bool {
				if store.faults.Steps() < first+3 {
					_, _ = r.Accept(context.Background(), hubstore.Message{Topic: topicURL, Body: []byte("more")}) // or there is nothing to write
				}
				return store.faults.Steps() >= first+3
			})
			if err := r.stop(); err != nil {
				t.Fatal(err)
			}
			if all := rows(t, store); len(all) != 1 {
				t.Errorf("rows: %+v", all)
			}
			r = run(t, store.Store, hub.Options{})
			r.publish("last")
			eventually(t, "the last", func() bool { got := s.at("/cb"); return got[len(got)-1] == "last" })
			got := s.at("/cb")
			if !same(got[:8], numbers(1, 8)) || len(s.at("/gone")) > 0 {
				t.Errorf("got %v and %v", got, s.at("/gone"))
			}
		})
	}
}

// TestFullForGood: a hub that cannot save its progress returns an error from
// Run.
func TestFullForGood(t *testing.T) {
	t.Parallel()
	s := newSink(t, nil)
	store := &faulty{hubstore.NewMem(), &faultfs.Faults{At: 3, Err: syscall.ENOSPC}}
	h, err := hub.New(store, hub.Options{PublicURL: "https://hub.example/", AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	r := running{Hub: h, t: t}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- h.Run(ctx) }()
	<-h.Ready()
	r.subscribe(s.URL+"/cb", "")
	r.publish("1")
	eventually(t, "delivery", func() bool { return len(s.at("/cb")) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, syscall.ENOSPC) || strings.Count(err.Error(), "no space") != 1 {
		t.Errorf("Run: %v", err)
	}
}

const killEnv = "LOCKSTEP_TEST_KILL_HUB"

// TestKill kills a hub with SIGKILL under load, repeatedly: every message that
// it answered with 202 is delivered to every subscriber, in order (WS-C-12).
func TestKill(t *testing.T) {
	if path := os.Getenv(killEnv); path != "" {
		if err := hubToKill(path); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Parallel()
	s := newSink(t, func(w http.ResponseWriter, r *http.Request, _ string) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, r.URL.Query().Get("hub.challenge"))
		} else if rand.IntN(20) == 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	const subscribers, rounds = 20, 12
	path := filepath.Join(t.TempDir(), "hub.db")
	address, kill := hubProcess(t, path)
	for i := range subscribers {
		publishOrSubscribe(t, address, "application/x-www-form-urlencoded", "hub.mode=subscribe&hub.secret=x&hub.topic="+topicURL+"&hub.callback="+s.URL+fmt.Sprintf("/cb/%d", i))
	}
	got := func(i int) []string { return s.at(fmt.Sprintf("/cb/%d", i)) }
	last := 0
	eventually(t, "all to be subscribed", func() bool {
		if last++; !publishOrSubscribe(t, address, "text/plain", strconv.Itoa(last)) {
			t.Fatal("not accepted")
		}
		time.Sleep(50 * time.Millisecond)
		for i := range subscribers {
			if !strings.Contains(" "+strings.Join(got(i), " ")+" ", fmt.Sprintf(" %d ", last)) {
				return false
			}
		}
		return true
	})
	from := last
	for range rounds {
		end := time.Now().Add(time.Duration(20+rand.IntN(150)) * time.Millisecond)
		timer := time.AfterFunc(time.Until(end), kill)
		for accepted := true; accepted; {
			if accepted = publishOrSubscribe(t, address, "text/plain", strconv.Itoa(last+1)); accepted {
				last++
			}
		}
		timer.Stop()
		address, kill = hubProcess(t, path)
	}
	last++
	publishOrSubscribe(t, address, "text/plain", strconv.Itoa(last))
	for i := range subscribers {
		eventually(t, "the last", func() bool { g := got(i); return g[len(g)-1] == strconv.Itoa(last) })
		next := from
		for _, n := range got(i) {
			switch k, err := strconv.Atoi(n); {
			case err != nil:
				t.Fatalf("%q was never published", n)
			case k == next+1:
				next++
			case k > next+1:
				t.Fatalf("subscriber %d: %d came after %d", i, k, next)
			}
		}
		if next != last {
			t.Errorf("subscriber %d got up to %d of %d", i, next, last)
		}
	}
	t.Logf("%d messages, %d kills", last-from, rounds)
	kill()
}

// publishOrSubscribe posts to a hub that may be killed meanwhile, and reports
// whether the hub accepted.
func publishOrSubscribe(t *testing.T, address, contentType, body string) bool {
	t.Helper()
	r, err := http.NewRequest(http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	r.Header.Set("Link", "<"+topicURL+">; rel=self")
	r.Close = true
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	_ = a.Body.Close()
	if a.StatusCode != http.StatusAccepted {
		t.Fatalf("%s", a.Status)
	}
	return true
}

// hubProcess starts a hub on the file at path. It returns its address and a
// function that kills it.
func hubProcess(t *testing.T, path string) (address string, kill func()) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKill$")
	cmd.Env = append(os.Environ(), killEnv+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("hub process: %v", err)
	}
	kill = func() { _ = cmd.Process.Kill() }
	t.Cleanup(func() { kill(); _ = cmd.Wait() }) // killed
	return strings.TrimSpace(line), kill
}

func hubToKill(path string) error {
	db, err := sqlite.Open(path)
	if err != nil {
		return err
	}
	h, err := hub.New(db.Hub(), hub.Options{
		PublicURL: "https://hub.example/", AllowPrivate: true, PublishOpen: true, Secret: []byte(strings.Repeat("k", 32)),
		RetryFirst: 5 * time.Millisecond, RetryMost: 20 * time.Millisecond,
	})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() {
		<-h.Ready()
		fmt.Printf("http://%s\n", l.Addr())
		_ = http.Serve(l, h)
	}()
	return h.Run(context.Background())
}

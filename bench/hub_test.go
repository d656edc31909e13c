//go:build linux

package bench

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/storage/sqlite"
)

var hubRounds = flag.Int("hub.rounds", 7, "measurements of BenchmarkHubFanOut and of its yardstick, in turn")

const (
	benchTopic = "http://source.example/topic"
	hubBody    = 2048
	bareJobs   = 64     // connections of the yardstick, as many as the hub has to one host
	fanOut     = 40_000 // deliveries, and POSTs of the yardstick, in a round

	deadRounds   = 5
	deadMessages = 30 // of a round
)

// hubMessage returns the n-th message: number and time, filled up to 2 KB.
func hubMessage(n int) []byte {
	b := fmt.Appendf(nil, "%20d%20d", n, time.Now().UnixNano())
	return append(b, bytes.Repeat([]byte("x"), hubBody-len(b))...)
}

// A hubWorld is a hub and a sink, each a process of its own.
type hubWorld struct {
	b         *testing.B
	hub, sink *child
	client    *http.Client
	sent      int // messages
}

func newHubWorld(b *testing.B) *hubWorld {
	b.Helper()
	w := &hubWorld{b: b, client: &http.Client{Transport: &http.Transport{MaxIdleConns: 256, MaxIdleConnsPerHost: 256}}}
	w.sink = spawn(b, "sink")
	w.hub = spawn(b, "hub", filepath.Join(b.TempDir(), "hub.db"), "56")
	b.Cleanup(w.client.CloseIdleConnections)
	return w
}

func (w *hubWorld) do(r *http.Request, want int) []byte {
	w.b.Helper()
	a, err := w.client.Do(r)
	if err != nil {
		w.b.Fatal(err)
	}
	body, err := io.ReadAll(a.Body)
	_ = a.Body.Close()
	if err != nil || a.StatusCode != want {
		w.b.Fatalf("%s %s: %s, %s %v", r.Method, r.URL, a.Status, body, err)
	}
	return body
}

// ask asks to subscribe a callback, or to unsubscribe it.
func (w *hubWorld) ask(mode, callback, secret string) {
	w.b.Helper()
	form := url.Values{"hub.mode": {mode}, "hub.topic": {benchTopic}, "hub.callback": {callback}}
	if secret != "" {
		form.Set("hub.secret", secret)
	}
	r, err := http.NewRequest(http.MethodPost, w.hub.address, bytes.NewReader([]byte(form.Encode())))
	if err != nil {
		w.b.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w.do(r, http.StatusAccepted)
}

// publish publishes the next message and returns how long the answer took.
func (w *hubWorld) publish() time.Duration {
	w.b.Helper()
	w.sent++
	r, err := http.NewRequest(http.MethodPost, w.hub.address, bytes.NewReader(hubMessage(w.sent)))
	if err != nil {
		w.b.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("Link", fmt.Sprintf("<%s>; rel=self", benchTopic))
	start := time.Now()
	w.do(r, http.StatusAccepted)
	return time.Since(start)
}

func (w *hubWorld) get(path string, v any) {
	w.b.Helper()
	r, err := http.NewRequest(http.MethodGet, w.sink.address+path, nil)
	if err != nil {
		w.b.Fatal(err)
	}
	if err := json.Unmarshal(w.do(r, http.StatusOK), v); err != nil {
		w.b.Fatal(err)
	}
}

// collect waits until the sink has got that many deliveries, and returns what it
// has.
func (w *hubWorld) collect(deliveries int64) (r sinkReport) {
	w.b.Helper()
	var count, last int64
	for quiet := time.Now(); count < deliveries; time.Sleep(20 * time.Millisecond) {
		if w.get("/count", &count); count > last {
			last, quiet = count, time.Now()
		}
		if time.Since(quiet) > 20*time.Second {
			w.b.Fatalf("%d of %d deliveries came", count, deliveries)
		}
	}
	w.get("/report", &r)
	return r
}

// ready subscribes callbacks and waits until all get what is published.
func (w *hubWorld) ready(callbacks int, secret string) {
	w.b.Helper()
	for i := range callbacks {
		w.ask("subscribe", fmt.Sprintf("%s/cb/%d", w.sink.address, i), secret)
	}
	for tries := 0; ; tries++ {
		time.Sleep(300 * time.Millisecond)
		w.publish()
		time.Sleep(300 * time.Millisecond)
		var r sinkReport
		if w.get("/report", &r); r.Deliveries == int64(callbacks) {
			return
		}
		if tries > 50 {
			w.b.Fatal("not all subscriptions were verified")
		}
	}
}

// bare returns how many POSTs a second a bare client makes to the same sink: with
// the bodies and the header fields of the hub's deliveries, signed if there is a
// secret, to as many addresses, over as many connections.
func (w *hubWorld) bare(callbacks int, secret string) float64 {
	w.b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConns: bareJobs, MaxIdleConnsPerHost: bareJobs, DisableCompression: true}}
	defer client.CloseIdleConnections()
	addresses := make([]string, callbacks)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("%s/bare/%d", w.sink.address, i)
	}
	var next atomic.Int64
	var wg sync.WaitGroup
	start := time.Now()
	for range bareJobs {
		wg.Go(func() {
			mac := hmac.New(sha256.New, []byte(secret))
			body := hubMessage(1)
			for n := next.Add(1); n <= fanOut; n = next.Add(1) {
				r, err := http.NewRequest(http.MethodPost, addresses[n%int64(callbacks)], bytes.NewReader(body))
				if err != nil {
					w.b.Error(err)
					return
				}
				r.Header.Set("Content-Type", "text/plain")
				r.Header.Set("Link", `<http://hub.example/>; rel="hub", <`+benchTopic+`>; rel="self"`)
				r.Header.Set("Hub-Delivery-Id", "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
				if secret != "" {
					mac.Reset()
					_, _ = mac.Write(body) // never fails
					r.Header.Set("X-Hub-Signature", "sha256="+hex.EncodeToString(mac.Sum(nil)))
				}
				a, err := client.Do(r)
				if err != nil {
					w.b.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, a.Body)
				_ = a.Body.Close()
			}
		})
	}
	wg.Wait()
	return fanOut / time.Since(start).Seconds()
}

// fanOut has the hub deliver messages that are published at a steady pace, so that
// there would be that many deliveries a second. It returns how many there were, and
// how long the answers to the publisher took.
func (w *hubWorld) fanOut(callbacks int, pace float64) (rate float64, took []float64) {
	w.b.Helper()
	messages := fanOut / callbacks
	between := time.Duration(float64(time.Second) * float64(callbacks) / pace)
	var publishing sync.WaitGroup
	start := time.Now()
	publishing.Go(func() {
		for i := range messages {
			time.Sleep(time.Until(start.Add(time.Duration(i) * between)))
			took = append(took, w.publish().Seconds())
		}
	})
	r := w.collect(int64(messages * callbacks))
	publishing.Wait()
	if r.Duplicates+r.Disorders > 0 || r.Deliveries != int64(messages*callbacks) {
		w.b.Errorf("%d deliveries of %d, %d twice, %d out of order", r.Deliveries, messages*callbacks, r.Duplicates, r.Disorders)
	}
	return float64(r.Deliveries) / time.Unix(0, r.Last).Sub(start).Seconds(), took
}

// BenchmarkHubFanOut sets the deliveries a second of the hub beside the POSTs a
// second of a bare client, same requests, same sink, in turn. Messages are
// published as fast as the bare client could fan them out, so that the hub is busy
// all the time. Beside the rates it sets processor times, which depend less on what
// else runs: cpu-bare/hub is that of a POST of the bare client, with the sink's, in
// relation to that of a delivery, with the sink's and the publisher's.
func BenchmarkHubFanOut(b *testing.B) {
	for _, subscribers := range []int{100, 1000} {
		for _, secret := range []string{"", "0123456789abcdef"} {
			b.Run(fmt.Sprintf("subscribers=%d/signed=%v", subscribers, secret != ""), func(b *testing.B) {
				for b.Loop() {
					w := newHubWorld(b)
					w.ready(subscribers, secret)
					w.bare(subscribers, secret) // warm
					var bares, rates, ratios, took, hubTime, bareTime, allTime []float64
					// times returns the processor time, in µs for each POST, of the hub, of this process, and of these two and the sink.
					times := func() [3]float64 {
						hub, own, sink := processorTimeOf(b, w.hub.Process.Pid), processorTime(b), processorTimeOf(b, w.sink.Process.Pid)
						return [3]float64{hub.Seconds() / fanOut * 1e6, own.Seconds() / fanOut * 1e6, (hub + own + sink).Seconds() / fanOut * 1e6}
					}
					bare := func() (rate, all float64) {
						start := times()
						rate = w.bare(subscribers, secret)
						end := times()
						bares, bareTime = append(bares, rate), append(bareTime, end[1]-start[1])
						return rate, end[2] - start[2]
					}
					before, allBefore := bare()
					for range *hubRounds {
						start := times()
						rate, t := w.fanOut(subscribers, before)
						end := times()
						after, allAfter := bare()
						rates, took, hubTime = append(rates, rate), append(took, t...), append(hubTime, end[0]-start[0])
						ratios = append(ratios, 2*rate/(before+after))
						allTime = append(allTime, (allBefore+allAfter)/2/(end[2]-start[2]))
						before, allBefore = after, allAfter
					}
					b.ReportMetric(quantile(slices.Sorted(slices.Values(took)), .99)*1000, "publish-p99-ms")
					b.ReportMetric(median(rates), "deliveries/s")
					b.ReportMetric(median(bares), "bare/s")
					b.ReportMetric(median(ratios), "hub/bare")
					b.ReportMetric(median(allTime), "cpu-bare/hub")
					b.ReportMetric(median(hubTime), "hub-cpu-us")
					b.ReportMetric(median(bareTime), "bare-cpu-us")
					b.ReportMetric(float64(peakMemory(w.hub.Process.Pid, w.hub.Args))/(1<<20), "hub-MB")
				}
			})
		}
	}
}

// BenchmarkHubComplete has 1,000 subscribers get 1,000 messages each: none is
// lost, doubled, or out of order.
func BenchmarkHubComplete(b *testing.B) {
	for b.Loop() {
		w := newHubWorld(b)
		w.ready(1000, "")
		start := time.Now()
		go func() {
			for range 1000 {
				w.publish()
			}
		}()
		r := w.collect(1000 * 1000)
		time.Sleep(time.Second)
		var more sinkReport
		w.get("/report", &more)
		if r.Duplicates+r.Disorders+more.Deliveries > 0 || r.Deliveries != 1000*1000 {
			b.Errorf("%d deliveries, %d twice, %d out of order", r.Deliveries+more.Deliveries, r.Duplicates, r.Disorders)
		}
		b.ReportMetric(float64(r.Deliveries)/time.Unix(0, r.Last).Sub(start).Seconds(), "deliveries/s")
	}
}

// BenchmarkHubDead measures the effect of one endpoint that never answers on 999
// others on the same host: the time from publishing to delivery. The endpoint is
// present in alternating periods, so that both cases are measured alike.
func BenchmarkHubDead(b *testing.B) {
	for b.Loop() {
		w := newHubWorld(b)
		w.ready(999, "")
		round := func() float64 {
			for range deadMessages {
				w.publish()
				time.Sleep(100 * time.Millisecond)
			}
			return w.collect(999 * deadMessages).P99
		}
		round()
		var without, with []float64
		for range deadRounds {
			without = append(without, round())
			w.ask("subscribe", w.sink.address+"/hang/1", "")
			with = append(with, round())
			w.ask("unsubscribe", w.sink.address+"/hang/1", "")
		}
		b.ReportMetric(median(without), "without-p99-ms")
		b.ReportMetric(median(with), "with-p99-ms")
		b.ReportMetric(median(with)/median(without), "with/without")
	}
}

// BenchmarkHubStart measures how long a hub with many subscriptions takes from
// the start of its process until it is ready, and its memory then.
func BenchmarkHubStart(b *testing.B) {
	for _, subscriptions := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(subscriptions), func(b *testing.B) {
			for b.Loop() {
				path := filepath.Join(b.TempDir(), "hub.db")
				fillSubscriptions(b, path, subscriptions)
				c := spawn(b, "hub", path, "160") // the command's limit with 68 MB in use
				time.Sleep(3 * time.Second)
				b.ReportMetric(c.took.Seconds(), "start-s")
				b.ReportMetric(float64(peakMemory(c.Process.Pid, c.Args))/(1<<20), "idle-MB")
			}
		})
	}
}

// fillSubscriptions puts subscriptions with secrets into the file at path.
func fillSubscriptions(b *testing.B, path string, subscriptions int) {
	b.Helper()
	db, err := sqlite.Open(path)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }() // what was saved is durable
	var c hubstore.Changes
	for i := range subscriptions {
		topic, callback := fmt.Sprintf("%s/%d", benchTopic, i%1000), fmt.Sprintf("https://host-%d.example/callback/%032d", i%3000, i)
		c.Put = append(c.Put, hubstore.Subscription{
			Key: hubstore.KeyOf(topic, callback), Topic: topic, Callback: callback, Secret: bytes.Repeat([]byte{7}, 92),
			Created: time.Now(), Expires: time.Now().Add(240 * time.Hour),
		})
		if len(c.Put) == 5000 || i == subscriptions-1 {
			if err := db.Hub().Save(context.Background(), c); err != nil {
				b.Fatal(err)
			}
			c = hubstore.Changes{}
		}
	}
}

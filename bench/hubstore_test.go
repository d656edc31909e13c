package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"lockstep/hub/hubstore"
	"lockstep/storage/postgres"
	"lockstep/storage/postgres/postgrestest"
	"lockstep/storage/sqlite"
)

// hubStores are those that outlive the process.
var hubStores = []struct {
	name string
	open func(testing.TB) hubstore.Store
}{
	{"sqlite", func(tb testing.TB) hubstore.Store {
		db, err := sqlite.Open(filepath.Join(tb.TempDir(), "hub.db"))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = db.Close() })
		return db.Hub()
	}},
	{"postgres", func(tb testing.TB) hubstore.Store {
		db, err := postgres.Open(context.Background(), postgrestest.URL(tb))
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { _ = db.Close() })
		return db.Hub()
	}},
}

// eachHubStore runs a benchmark on each of them.
func eachHubStore(b *testing.B, run func(*testing.B, func(testing.TB) hubstore.Store)) {
	for _, s := range hubStores {
		b.Run(s.name, func(b *testing.B) { run(b, s.open) })
	}
}

const hubTopic = "https://data.example.org/resourcesync/main/changes"

// fillHub makes n subscriptions and returns their keys, in no order.
func fillHub(tb testing.TB, s hubstore.Store, n int) []hubstore.Key {
	tb.Helper()
	var c hubstore.Changes
	var keys []hubstore.Key
	at := time.Unix(1_700_000_000, 0)
	for i := range n {
		callback := fmt.Sprintf("https://mirror-%06d.example.org/lockstep/callbacks/0123456789abcdef?set=%d", i, i)
		k := hubstore.KeyOf(hubTopic, callback)
		keys = append(keys, k)
		c.Put = append(c.Put, hubstore.Subscription{
			Key: k, Topic: hubTopic, Callback: callback, Secret: make([]byte, 60), Created: at, Expires: at.Add(240 * time.Hour),
			Progress: hubstore.Progress{Cursor: int64(i), LastTaken: at, Taken: int64(i)},
		})
	}
	if err := s.Save(context.Background(), c); err != nil {
		tb.Fatal(err)
	}
	return keys
}

// BenchmarkHubStoreSave saves the cursors of 10,000 subscriptions at a time.
func BenchmarkHubStoreSave(b *testing.B) { eachHubStore(b, benchHubStoreSave) }

func benchHubStoreSave(b *testing.B, open func(testing.TB) hubstore.Store) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprintf("subscriptions=%d", n), func(b *testing.B) {
			const batch = 10_000
			s := open(b)
			keys := fillHub(b, s, n)
			b.ReportAllocs()
			for b.Loop() {
				rand.Shuffle(n, func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
				c := hubstore.Changes{Progress: make(map[hubstore.Key]hubstore.Progress)}
				for _, k := range keys[:batch] {
					c.Progress[k] = hubstore.Progress{Cursor: rand.Int64N(1 << 20), LastTaken: time.Now(), Taken: rand.Int64N(1 << 20)}
				}
				if err := s.Save(context.Background(), c); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, batch)
		})
	}
}

// BenchmarkHubStoreLoad reads all subscriptions, as a hub does that starts.
func BenchmarkHubStoreLoad(b *testing.B) { eachHubStore(b, benchHubStoreLoad) }

func benchHubStoreLoad(b *testing.B, open func(testing.TB) hubstore.Store) {
	const n = 100_000
	s := open(b)
	fillHub(b, s, n)
	for _, shards := range []int{1, hubstore.Shards} {
		b.Run(fmt.Sprintf("shards=%d", shards), func(b *testing.B) {
			for b.Loop() {
				got := 0
				for shard := range shards {
					if shards == 1 {
						shard = -1
					}
					for _, err := range s.Subscriptions(context.Background(), shard) {
						if err != nil {
							b.Fatal(err)
						}
						got++
					}
				}
				if got != n {
					b.Fatal(got)
				}
			}
			perRow(b, n)
		})
	}
}

// BenchmarkHubStoreLog appends messages of 2 KB in groups, reads and trims them.
func BenchmarkHubStoreLog(b *testing.B) { eachHubStore(b, benchHubStoreLog) }

func benchHubStoreLog(b *testing.B, open func(testing.TB) hubstore.Store) {
	body := bytes.Repeat([]byte("0123456789abcdef"), 128)
	group := func(n int) []hubstore.Message {
		ms := make([]hubstore.Message, n)
		for i := range ms {
			ms[i] = hubstore.Message{Topic: hubTopic, ID: fmt.Sprint(rand.Uint64()), At: time.Now(), ContentType: "application/xml", Body: body}
		}
		return ms
	}
	for _, n := range []int{1, 10, 100, 300} {
		b.Run(fmt.Sprintf("append=%d", n), func(b *testing.B) {
			s := open(b)
			for b.Loop() {
				if _, err := s.Append(context.Background(), group(n)); err != nil {
					b.Fatal(err)
				}
			}
			perRow(b, n)
		})
	}
	const all = 50_000
	fill := func() hubstore.Store {
		s := open(b)
		for range all / 500 {
			if _, err := s.Append(context.Background(), group(500)); err != nil {
				b.Fatal(err)
			}
		}
		return s
	}
	b.Run("read", func(b *testing.B) {
		s := fill()
		for b.Loop() {
			for _, err := range s.Log(context.Background(), hubTopic, 0) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		perRow(b, all)
	})
	b.Run("trim", func(b *testing.B) {
		for b.Loop() {
			b.StopTimer()
			s := fill()
			b.StartTimer()
			if err := s.Trim(context.Background(), hubTopic, all); err != nil {
				b.Fatal(err)
			}
		}
		perRow(b, all)
	})
}

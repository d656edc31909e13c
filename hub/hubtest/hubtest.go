// Package hubtest is the conformance suite of [hubstore.Store].
//
//	func TestHub(t *testing.T) {
//		hubtest.Run(t, func(t *testing.T) hubstore.Store { return open(t).Hub() })
//	}
package hubtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lockstep/hub/hubstore"
)

// Run tests the stores that open returns. Each must be new and empty; open must
// arrange for it to be closed.
func Run(t *testing.T, open func(*testing.T) hubstore.Store) {
	tests := []struct {
		name string
		test func(*testing.T, hubstore.Store)
	}{
		{"Append", testAppend},
		{"Log", testLog},
		{"LogMoving", testLogMoving},
		{"Messages", testMessages},
		{"Trim", testTrim},
		{"TrimMany", testTrimMany},
		{"Topics", testTopics},
		{"Subscriptions", testSubscriptions},
		{"Removals", testRemovals},
		{"Progress", testProgress},
		{"Requests", testRequests},
		{"ReplacedRequests", testReplacedRequests},
		{"Shards", testShards},
		{"Twice", testTwice},
		{"Refused", testRefused},
		{"Break", testBreak},
		{"Cancel", testCancel},
		{"Ownership", testOwnership},
		{"ConcurrentAppend", testConcurrentAppend},
		{"ConcurrentSave", testConcurrentSave},
		{"Model", testModel},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.test(t, open(t))
		})
	}
}

// hostile are strings a stranger may have sent. As topics none is empty or has
// a NUL byte, which no URL has.
var hostile = []string{
	"https://example.org/a'; DROP TABLE hub_topic; --",
	"https://example.org/?q=\"$1\"&r=?&s=%s%00\\",
	"https://example.org/%FF/\xff\xfe\xc3(",
	"https://example.org/é/日本/\U0001f4da/\ufeff",
	"https://example.org/\x01\x7f\r\n\t ",
	"https://example.org/" + strings.Repeat("long/", 500),
	"https://example.org/" + fmt.Sprintf("%x", random(1014)), // 2,048 bytes that do not compress
	"\\x00ff",
	"-",
}

// random returns n bytes, always the same.
func random(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b) // it never fails
	return b
}

// Helpers.

func message(topic, body string) hubstore.Message {
	return hubstore.Message{Topic: topic, ID: "id of " + body, ContentType: "text/plain", Body: []byte(body)}
}

func appendTo(t testing.TB, s hubstore.Store, messages ...hubstore.Message) []int64 {
	t.Helper()
	seqs, err := s.Append(context.Background(), messages)
	if err != nil {
		t.Fatalf("Append: %v", err)
	}
	if len(seqs) != len(messages) {
		t.Fatalf("Append of %d messages returns %d numbers", len(messages), len(seqs))
	}
	return seqs
}

func save(t testing.TB, s hubstore.Store, c hubstore.Changes) {
	t.Helper()
	if err := s.Save(context.Background(), c); err != nil {
		t.Fatalf("Save: %v", err)
	}
}

func trim(t testing.TB, s hubstore.Store, topic string, upto int64) {
	t.Helper()
	if err := s.Trim(context.Background(), topic, upto); err != nil {
		t.Fatalf("Trim: %v", err)
	}
}

// bodies returns number and body of the messages of a topic.
func bodies(t testing.TB, s hubstore.Store, topic string, after int64) []string {
	t.Helper()
	var all []string
	for _, m := range collect(t, s.Log(context.Background(), topic, after)) {
		all = append(all, fmt.Sprintf("%d %s", m.Seq, m.Body))
	}
	return all
}

func topics(t testing.TB, s hubstore.Store) []hubstore.Topic {
	t.Helper()
	return collect(t, s.Topics(context.Background()))
}

func subscriptions(t testing.TB, s hubstore.Store, shard int) []hubstore.Subscription {
	t.Helper()
	return collect(t, s.Subscriptions(context.Background(), shard))
}

func requests(t testing.TB, s hubstore.Store, shard int) []hubstore.Request {
	t.Helper()
	return collect(t, s.Requests(context.Background(), shard))
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, v)
	}
	return all
}

func same[T any](t testing.TB, what string, got, want T) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return // cmp.Diff is slow with long lists
	}
	if d := cmp.Diff(want, got, cmpopts.EquateEmpty(), sameInstant, sameBytes); d != "" {
		t.Fatalf("%s (-want +got):\n%.3000s", what, d)
	}
}

// sameInstant compares times by instant: all must be in UTC.
var sameInstant = cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) && a.Location() == b.Location() })

// sameBytes compares bytes like cmp, but faster.
var sameBytes = cmp.FilterValues(func(a, b []byte) bool { return len(a) > 0 || len(b) > 0 }, cmp.Comparer(bytes.Equal))

// failed checks that an iterator yields one error and nothing else.
func failed[T any](t testing.TB, what string, seq iter.Seq2[T, error], want error) {
	t.Helper()
	n := 0
	for v, err := range seq {
		if n++; !errors.Is(err, want) || cmp.Diff(*new(T), v) != "" {
			t.Errorf("%s yields %+v, %v, want %v", what, v, err, want)
		}
	}
	if n != 1 {
		t.Errorf("%s yields %d times, want once", what, n)
	}
}

package hubtest

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

const (
	topicA = "https://example.org/a"
	topicB = "https://example.org/b"
)

func testAppend(t *testing.T, s hubstore.Store) {
	same(t, "Append of nothing", appendTo(t, s), nil)
	same(t, "topics", topics(t, s), nil)
	same(t, "numbers", appendTo(t, s, message(topicA, "1"), message(topicB, "2"), message(topicA, "3")), []int64{1, 1, 2})
	same(t, "numbers", appendTo(t, s, message(topicB, "4"), message(topicB, "5"), message(topicA, "6")), []int64{2, 3, 3})
	m := message(topicA, "7")
	m.Seq = 1000 // the store ignores it
	same(t, "number", appendTo(t, s, m), []int64{4})
	same(t, "log of a", bodies(t, s, topicA, 0), []string{"1 1", "2 3", "3 6", "4 7"})
	same(t, "log of b", bodies(t, s, topicB, 0), []string{"1 2", "2 4", "3 5"})
	same(t, "topics", topics(t, s), []hubstore.Topic{
		{URL: topicA, First: 1, Last: 4, Bytes: 4},
		{URL: topicB, First: 1, Last: 3, Bytes: 3},
	})
	// Many topics at once, some of them new, in no order.
	var many []hubstore.Message
	for i := range 300 {
		many = append(many, message(fmt.Sprintf("%s%03d", topicA, i*7%150), "x"))
	}
	for round := range int64(2) {
		for i, seq := range appendTo(t, s, many...) {
			if want := 1 + int64(i/150) + 2*round; seq != want {
				t.Fatalf("message %d got number %d, want %d", i, seq, want)
			}
		}
	}
	if n := len(topics(t, s)); n != 152 {
		t.Errorf("%d topics, want 152", n)
	}
}

func testLog(t *testing.T, s hubstore.Store) {
	same(t, "log of a topic that is not there", bodies(t, s, topicA, 0), nil)
	var all []string
	for chunk := range 13 {
		var ms []hubstore.Message
		for i := range 77 {
			n := chunk*77 + i + 1
			ms = append(ms, message(topicA, fmt.Sprint(n)), message(topicB, "other"))
			all = append(all, fmt.Sprintf("%d %d", n, n))
		}
		appendTo(t, s, ms...)
	}
	log := s.Log(t.Context(), topicA, 0)
	for range 2 {
		if n := len(collect(t, log)); n != len(all) {
			t.Errorf("%d messages, want %d", n, len(all))
		}
	}
	for _, after := range []int64{math.MinInt64, -1, 0, 1, 99, 100, 101, 500, 1000, 1001, 1002, math.MaxInt64 - 1, math.MaxInt64} {
		from := min(max(after, 0), int64(len(all)))
		same(t, fmt.Sprint("log after ", after), bodies(t, s, topicA, after), all[from:])
	}
}

// testLogMoving appends and trims while the log is read.
func testLogMoving(t *testing.T, s hubstore.Store) {
	for range 5 {
		appendTo(t, s, slices.Repeat([]hubstore.Message{message(topicA, "x")}, 100)...)
	}
	last, n := int64(0), 0
	for m, err := range s.Log(t.Context(), topicA, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if m.Seq <= last {
			t.Fatalf("message %d follows %d", m.Seq, last)
		}
		last = m.Seq
		if n++; n%50 == 0 && n <= 500 {
			trim(t, s, topicA, m.Seq) // behind the position
			appendTo(t, s, message(topicA, "new"))
		}
	}
	if n < 500 || last < 500 {
		t.Errorf("%d messages, the last is %d, want at least 500", n, last)
	}
}

func testMessages(t *testing.T, s hubstore.Store) {
	messages := []hubstore.Message{
		{Topic: topicA},
		{Topic: topicA, ID: "\x00", At: time.Unix(0, 0).UTC(), ContentType: "a/b; charset=\"\xe9\"", Links: []string{""}, Whole: true, Body: []byte{0}},
		{Topic: topicA, At: time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.FixedZone("", 7200)), Links: []string{"<a>; rel=\"b\"", "", "\x00\xff,\r\n"}},
		{Topic: topicA, At: time.Date(1907, 3, 4, 5, 6, 7, 89_000, time.UTC), Body: []byte("\x00\xff'\"\\x")},
		{Topic: topicA, At: time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC), Whole: true, Body: bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16)},
		{Topic: topicA, ID: strings.Repeat("i", 70_000), ContentType: strings.Repeat("t", 70_000)},
	}
	for _, url := range hostile {
		messages = append(messages, hubstore.Message{Topic: url, ID: url, ContentType: url, Links: []string{url, url}, Body: []byte(url)})
	}
	seqs := appendTo(t, s, messages...)
	for i := range messages {
		m := messages[i]
		got := collect(t, s.Log(t.Context(), m.Topic, seqs[i]-1))
		m.Seq = seqs[i]
		if !m.At.IsZero() {
			m.At = m.At.Truncate(time.Microsecond).UTC()
		}
		if len(got) == 0 || i > 5 && len(got) > 1 {
			t.Fatalf("message %d of %q: %d found", i, m.Topic, len(got))
		}
		same(t, fmt.Sprintf("message %d", i), got[0], m)
	}
	urls := append([]string{topicA}, hostile...)
	slices.Sort(urls)
	var got []string
	for _, topic := range topics(t, s) {
		got = append(got, topic.URL)
	}
	same(t, "topics, ordered by their bytes", got, urls)
}

func testTrim(t *testing.T, s hubstore.Store) {
	trim(t, s, topicA, 10) // of a topic that does not exist
	same(t, "topics", topics(t, s), nil)
	appendTo(t, s, message(topicA, "1"), message(topicA, "22"), message(topicA, "333"), message(topicA, "4444"), message(topicB, "b"))
	state := func(first, last, size int64) {
		t.Helper()
		same(t, "topics", topics(t, s), []hubstore.Topic{
			{URL: topicA, First: first, Last: last, Bytes: size}, {URL: topicB, First: 1, Last: 1, Bytes: 1},
		})
	}
	trim(t, s, topicA, 0)
	trim(t, s, topicA, -5)
	state(1, 4, 10)
	trim(t, s, topicA, 2)
	state(3, 4, 7)
	trim(t, s, topicA, 1)
	state(3, 4, 7)
	same(t, "log", bodies(t, s, topicA, 0), []string{"3 333", "4 4444"})
	same(t, "log", bodies(t, s, topicA, 3), []string{"4 4444"})
	trim(t, s, topicA, math.MaxInt64)
	state(5, 4, 0)
	same(t, "log", bodies(t, s, topicA, 0), nil)
	same(t, "number after everything went", appendTo(t, s, message(topicA, "5")), []int64{5})
	state(5, 5, 1)
	same(t, "log", bodies(t, s, topicA, 0), []string{"5 5"})
}

// testTrimMany trims more messages than a store deletes in one step, while
// others append.
func testTrimMany(t *testing.T, s hubstore.Store) {
	const many, kept = 3456, 7
	m := message(topicA, strings.Repeat("x", 100))
	appendTo(t, s, slices.Repeat([]hubstore.Message{m}, many)...)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 20 {
			if _, err := s.Append(t.Context(), []hubstore.Message{m}); err != nil {
				t.Error(err)
			}
		}
	})
	trim(t, s, topicA, many-kept)
	wg.Wait()
	same(t, "topics", topics(t, s), []hubstore.Topic{{URL: topicA, First: many - kept + 1, Last: many + 20, Bytes: 100 * (kept + 20)}})
	if n := len(bodies(t, s, topicA, 0)); n != kept+20 {
		t.Errorf("%d messages, want %d", n, kept+20)
	}
	large := hubstore.Message{Topic: topicB, Body: make([]byte, 5<<20)}
	appendTo(t, s, large, large, large, large, large)
	trim(t, s, topicB, 4)
	same(t, "topic of large messages", topics(t, s)[1], hubstore.Topic{URL: topicB, First: 5, Last: 5, Bytes: 5 << 20})
}

func testTopics(t *testing.T, s hubstore.Store) {
	state := []byte("\x00state\xff")
	save(t, s, hubstore.Changes{Topics: []hubstore.Topic{{URL: topicA, First: 7, Last: 9, Bytes: 3, State: state}}})
	same(t, "topics", topics(t, s), []hubstore.Topic{{URL: topicA, First: 1, Last: 0, State: state}})
	same(t, "number", appendTo(t, s, message(topicA, "1"), message(topicB, "1")), []int64{1, 1})
	save(t, s, hubstore.Changes{Topics: []hubstore.Topic{{URL: topicB, State: []byte("b")}, {URL: topicA, State: nil}}})
	same(t, "topics", topics(t, s), []hubstore.Topic{
		{URL: topicA, First: 1, Last: 1, Bytes: 1}, {URL: topicB, First: 1, Last: 1, Bytes: 1, State: []byte("b")},
	})
	var many []hubstore.Topic
	for i := range 2500 { // more than a page
		many = append(many, hubstore.Topic{URL: fmt.Sprintf("https://example.org/many/%04d", i), First: 1, State: []byte{byte(i)}})
	}
	save(t, s, hubstore.Changes{Topics: many})
	same(t, "many topics", topics(t, s)[2:], many)
}

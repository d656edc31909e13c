package hubtest

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

// subscription returns one with every field set.
func subscription(topic, callback string) hubstore.Subscription {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123_456_000, time.UTC)
	return hubstore.Subscription{
		Key: hubstore.KeyOf(topic, callback), Topic: topic, Callback: callback, Secret: []byte("\x00sealed\xff" + callback),
		Created: at, Expires: at.Add(240 * time.Hour),
		Progress: hubstore.Progress{
			Cursor: math.MaxInt64, Attempts: 3, Next: at.Add(time.Second), Failing: at.Add(time.Microsecond),
			LastError: callback, LastTaken: at.Add(-time.Hour), Taken: 1 << 40, GivenUp: 7,
		},
	}
}

// bare returns a subscription in which every optional field is zero.
func bare(callback string) hubstore.Subscription {
	return hubstore.Subscription{Key: hubstore.KeyOf(topicA, callback), Topic: topicA, Callback: callback}
}

func byKey[T any](all []T, key func(T) hubstore.Key) []T {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(string(key(a)), string(key(b))) })
	return all
}

func subscriptionKey(s hubstore.Subscription) hubstore.Key { return s.Key }
func requestKey(r hubstore.Request) hubstore.Key           { return r.Key }

func testSubscriptions(t *testing.T, s hubstore.Store) {
	same(t, "subscriptions", subscriptions(t, s, -1), nil)
	all := []hubstore.Subscription{bare("https://example.org/bare"), subscription(topicA, "https://example.org/full")}
	for _, h := range hostile {
		all = append(all, subscription(h, h), subscription(topicA, h+"\x00"))
	}
	save(t, s, hubstore.Changes{Put: all})
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all, subscriptionKey))
	same(t, "topics", topics(t, s), nil) // a subscription creates none

	// Renewed: every field is replaced.
	renewed := all[1]
	renewed.Secret, renewed.Progress = nil, hubstore.Progress{Cursor: 5}
	renewed.Expires = time.Date(2030, 1, 1, 0, 0, 0, 1999, time.FixedZone("", -3600))
	save(t, s, hubstore.Changes{Put: []hubstore.Subscription{renewed}})
	renewed.Expires = renewed.Expires.Truncate(time.Microsecond).UTC()
	all[1] = renewed
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all, subscriptionKey))

	var remove []hubstore.Removal
	for _, k := range []hubstore.Key{all[0].Key, hubstore.KeyOf("none", "none"), all[0].Key, "nonsense", "", "\x00"} {
		remove = append(remove, hubstore.Removal{Key: k})
	}
	save(t, s, hubstore.Changes{Remove: remove})
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all[1:], subscriptionKey))
	// Again after that: no previous value is left.
	save(t, s, hubstore.Changes{Put: all[:1]})
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all, subscriptionKey))
}

// testRemovals deletes only the rows that were known: neither those created later, nor those renewed.
func testRemovals(t *testing.T, s hubstore.Store) {
	var all []hubstore.Subscription
	for i := range 5 {
		all = append(all, subscription(topicA, fmt.Sprint("https://example.org/", i)))
	}
	save(t, s, hubstore.Changes{Put: all})
	removal := func(i int, created, expires time.Duration) hubstore.Removal {
		return hubstore.Removal{Key: all[i].Key, Created: all[i].Created.Add(created), Expires: all[i].Expires.Add(expires)}
	}
	save(t, s, hubstore.Changes{Remove: []hubstore.Removal{
		removal(0, -time.Microsecond, 0), removal(1, 0, -time.Microsecond), // before the row was written
		removal(2, time.Nanosecond, 0), removal(3, 0, time.Hour), {Key: all[4].Key},
	}})
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all[:2], subscriptionKey))
	progress := map[hubstore.Key]hubstore.Progress{all[0].Key: {Cursor: 7}}
	save(t, s, hubstore.Changes{Progress: progress})
	all[0].Progress = progress[all[0].Key]
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all[:2], subscriptionKey))
}

func testProgress(t *testing.T, s hubstore.Store) {
	var all []hubstore.Subscription
	for i := range 2345 { // more than a page
		all = append(all, bare(fmt.Sprint("https://example.org/", i)))
	}
	save(t, s, hubstore.Changes{Put: all})
	progress := map[hubstore.Key]hubstore.Progress{hubstore.KeyOf("none", "none"): {Cursor: 9}, "nonsense": {}, "": {}}
	for i := range all {
		if i%3 > 0 {
			all[i].Progress = subscription(topicA, strings.Repeat("e", i)).Progress
			all[i].Progress.Cursor = int64(i)
			progress[all[i].Key] = all[i].Progress
		}
	}
	save(t, s, hubstore.Changes{Progress: progress})
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all, subscriptionKey))
	clear(progress)
	for i := range all {
		all[i].Progress = hubstore.Progress{Cursor: -1, Next: time.UnixMicro(-1).UTC(), LastError: hostile[i%len(hostile)] + "\x00"}
		progress[all[i].Key] = all[i].Progress
	}
	save(t, s, hubstore.Changes{Progress: progress})
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all, subscriptionKey))
	late := time.Date(2024, 2, 29, 23, 59, 59, 999_999_999, time.FixedZone("", 7200))
	save(t, s, hubstore.Changes{Progress: map[hubstore.Key]hubstore.Progress{all[0].Key: {Next: late, Failing: late, LastTaken: late}}})
	late = late.Truncate(time.Microsecond).UTC()
	all[0].Progress = hubstore.Progress{Next: late, Failing: late, LastTaken: late}
	same(t, "subscriptions", subscriptions(t, s, -1), byKey(all, subscriptionKey))
}

// testReplacedRequests tests that a request remains that has taken the place of another one, whatever is
// saved of that afterwards.
func testReplacedRequests(t *testing.T, s hubstore.Store) {
	first := request(topicA, "https://example.org/")
	first.Attempts = 0
	second, third := first, first
	second.At, second.Mode = first.At.Add(-time.Second), "unsubscribe" // by another clock
	third.At = first.At.Add(time.Microsecond)
	save(t, s, hubstore.Changes{Ask: []hubstore.Request{first}})
	first.Attempts = 1
	save(t, s, hubstore.Changes{Ask: []hubstore.Request{first}})
	same(t, "request asked again", requests(t, s, -1), []hubstore.Request{first})
	for _, r := range []hubstore.Request{second, third} {
		save(t, s, hubstore.Changes{Ask: []hubstore.Request{r}})
		save(t, s, hubstore.Changes{Ask: []hubstore.Request{first}})
		save(t, s, hubstore.Changes{Settle: []hubstore.Request{first, {Key: first.Key}}})
		same(t, "request", requests(t, s, -1), []hubstore.Request{r})
	}
	save(t, s, hubstore.Changes{Settle: []hubstore.Request{third, second}})
	same(t, "requests", requests(t, s, -1), nil)
	save(t, s, hubstore.Changes{Ask: []hubstore.Request{second}, Settle: []hubstore.Request{first}})
	same(t, "request put while another is settled", requests(t, s, -1), []hubstore.Request{second})
}

// request returns one with every field set.
func request(topic, callback string) hubstore.Request {
	at := time.Date(2024, 5, 6, 7, 8, 9, 123_456_000, time.UTC)
	return hubstore.Request{
		Key: hubstore.KeyOf(topic, callback), Mode: "subscribe", Topic: topic, Callback: callback, Secret: []byte("\x00sealed\xff"),
		Lease: 240*time.Hour + time.Microsecond, VerifyToken: callback, At: at, Attempts: 3, Next: at.Add(time.Minute),
	}
}

func testRequests(t *testing.T, s hubstore.Store) {
	same(t, "requests", requests(t, s, -1), nil)
	all := []hubstore.Request{request(topicA, "https://example.org/full"), {Key: hubstore.KeyOf(topicA, "bare")}}
	for _, h := range hostile {
		r := request(h, h+"\x00")
		r.Mode, r.VerifyToken = h, "\x00"+h
		all = append(all, r)
	}
	save(t, s, hubstore.Changes{Ask: all})
	same(t, "requests", requests(t, s, -1), byKey(all, requestKey))
	same(t, "subscriptions", subscriptions(t, s, -1), nil)

	all[0].Mode, all[0].Secret, all[0].Lease, all[0].Attempts, all[0].Next = "unsubscribe", nil, 0, 0, time.Time{}
	save(t, s, hubstore.Changes{Ask: all[:1], Settle: []hubstore.Request{all[1], {Key: "nonsense"}, {Key: hubstore.KeyOf("none", "none")}}})
	all = append(all[:1], all[2:]...)
	same(t, "requests", requests(t, s, -1), byKey(all, requestKey))

	// Verified: the request is removed and the subscription added in one
	// transaction.
	sub := bare("https://example.org/full")
	save(t, s, hubstore.Changes{Put: []hubstore.Subscription{sub}, Settle: all[:1]})
	same(t, "requests", requests(t, s, -1), byKey(all[1:], requestKey))
	same(t, "subscriptions", subscriptions(t, s, -1), []hubstore.Subscription{sub})
}

func testShards(t *testing.T, s hubstore.Store) {
	var c hubstore.Changes
	for i := range 3000 {
		callback := fmt.Sprint("https://example.org/", i)
		c.Put, c.Ask = append(c.Put, bare(callback)), append(c.Ask, request(topicA, callback))
	}
	save(t, s, c)
	var subs []hubstore.Subscription
	var asked []hubstore.Request
	for shard := range hubstore.Shards {
		ss, rs := subscriptions(t, s, shard), requests(t, s, shard)
		for _, sub := range ss {
			if sub.Key.Shard() != shard {
				t.Errorf("%s is in shard %d, not %d", sub.Key, sub.Key.Shard(), shard)
			}
		}
		subs, asked = append(subs, ss...), append(asked, rs...)
	}
	same(t, "subscriptions of all shards", subs, byKey(c.Put, subscriptionKey))
	same(t, "requests of all shards", asked, byKey(c.Ask, requestKey))
	same(t, "subscriptions", subscriptions(t, s, -1), subs)
	same(t, "subscriptions of a shard that is none", subscriptions(t, s, hubstore.Shards), nil)
}

// testTwice names the same key twice in one Save.
func testTwice(t *testing.T, s hubstore.Store) {
	sub, again := subscription(topicA, "https://example.org/"), bare("https://example.org/")
	ask, askAgain := request(topicA, "https://example.org/"), hubstore.Request{Key: again.Key, Mode: "again"}
	save(t, s, hubstore.Changes{
		Topics: []hubstore.Topic{{URL: topicA, State: []byte("1")}, {URL: topicA, State: []byte("2")}},
		Put:    []hubstore.Subscription{sub, bare("https://example.org/other"), again},
		Ask:    []hubstore.Request{ask, askAgain},
	})
	same(t, "topics", topics(t, s), []hubstore.Topic{{URL: topicA, First: 1, State: []byte("2")}})
	same(t, "subscription", subscriptions(t, s, again.Key.Shard()), []hubstore.Subscription{again})
	same(t, "request", requests(t, s, -1), []hubstore.Request{askAgain})
	save(t, s, hubstore.Changes{Put: []hubstore.Subscription{again}, Progress: map[hubstore.Key]hubstore.Progress{again.Key: {Cursor: 3}}})
	again.Progress.Cursor, ask.Attempts = 3, 0
	same(t, "subscription put, with Progress beside", subscriptions(t, s, again.Key.Shard()), []hubstore.Subscription{again})
	save(t, s, hubstore.Changes{
		Put: []hubstore.Subscription{again}, Remove: []hubstore.Removal{{Key: again.Key}}, Progress: map[hubstore.Key]hubstore.Progress{again.Key: {Cursor: 4}},
		Ask: []hubstore.Request{ask}, Settle: []hubstore.Request{ask},
	})
	same(t, "subscription put and removed", subscriptions(t, s, again.Key.Shard()), nil)
	same(t, "request put and settled", requests(t, s, -1), nil)
	save(t, s, hubstore.Changes{})
}

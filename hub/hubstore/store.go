// Package hubstore declares what a hub stores, and implements it in memory.
//
// A [Store] has a log of messages for each topic, a row for each subscription
// with its position in that log, and the requests that have not been verified
// yet. There is no record of a single delivery. A [Sharer] is a Store that
// several hubs use at the same time. Package hubtest checks that a Store does
// what its documentation says.
package hubstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"time"

	"lockstep/websub"
)

// A Key identifies a subscription, and the request for it: the pair of topic
// and callback (WS-H-07), regardless of equivalent spellings (WS-H-09).
type Key string

// KeyOf returns the key of the subscription of callback to topic.
func KeyOf(topic, callback string) Key {
	sum := sha256.Sum256([]byte(websub.Canonical(topic) + "\n" + websub.Canonical(callback)))
	return Key(hex.EncodeToString(sum[:16]))
}

// Shards is the number of parts the subscriptions are divided into, so that
// several processes can share them.
const Shards = 256

// Shard returns the number of the part that the subscription belongs to, from 0
// to Shards-1.
func (k Key) Shard() int {
	var b [1]byte
	if len(k) < 2 {
		return 0
	}
	_, _ = hex.Decode(b[:], []byte(k[:2])) // 0 for keys that KeyOf did not return
	return int(b[0])
}

// A Topic is a log of messages.
type Topic struct {
	URL   string // as websub.Canonical spells it
	First int64  // number of the oldest stored message; Last+1 if none is stored
	Last  int64  // number of the newest message ever; 0: there was none
	Bytes int64  // of the stored bodies
	State []byte // further state of the topic; opaque to the store
}

// A Message is one entry of a topic's log. It is immutable.
type Message struct {
	Topic       string // as websub.Canonical spells it
	Seq         int64  // 1, 2, 3, … for each topic; assigned by the Store, never reused
	ID          string // unique among the messages of all topics; stays the same when the message is delivered again
	At          time.Time
	ContentType string   // character for character (WS-C-01); may be empty
	Links       []string // values of Link header fields to relay (RN-PB-02)
	Whole       bool     // it is the whole content of the topic, so that a newer one supersedes it (WS-C-11)
	Body        []byte
}

// A Subscription is one verified subscription. Its row is written when it is
// created, renewed, or ended; in between only its Progress changes.
type Subscription struct {
	Key      Key
	Topic    string // as the subscriber spelt it: sent back unchanged
	Callback string // likewise, including the query
	Secret   []byte // encrypted by the hub, opaque to the store; nil: none
	Created  time.Time
	Expires  time.Time // end of the lease
	Progress Progress
}

// Progress is the position of a subscription in its topic's log, and its
// delivery statistics.
type Progress struct {
	Cursor    int64     // number of the last message that was delivered or given up
	Attempts  int       // failed attempts since the last successful delivery
	Next      time.Time // when to retry; zero: at once
	Failing   time.Time // time of the first of those attempts; zero: none
	LastError string    // of the last of them
	LastTaken time.Time // when a message was last delivered
	Taken     int64     // messages delivered
	GivenUp   int64     // messages given up
}

// A Request is a request to subscribe or unsubscribe that was accepted and is
// not verified yet. There is at most one for a Key: the newest. Or it is a ping
// that another hub has to handle; it has no Callback then.
type Request struct {
	Key         Key
	Mode        string // websub.ModeSubscribe, websub.ModeUnsubscribe or websub.ModePublish
	Topic       string // as sent
	Callback    string
	Secret      []byte        // encrypted; nil: none
	Lease       time.Duration // granted
	VerifyToken string        // of old subscribers, sent back (WS-OLD-01)
	At          time.Time     // when it was accepted
	Attempts    int           // to verify it
	Next        time.Time     // when to retry; zero: at once
}

// A Removal deletes the row of a subscription as its hub knew it. A row that was written later remains: the subscription
// was requested again, or renewed by another hub.
type Removal struct {
	Key     Key
	Created time.Time // of the row; zero: whatever the store has is deleted
	Expires time.Time // of the row, or later
}

// Matches reports whether r is for a row with these times, to the microsecond.
func (r *Removal) Matches(created, expires time.Time) bool {
	return r.Created.IsZero() || r.Created.UnixMicro() == created.UnixMicro() && expires.UnixMicro() <= r.Expires.UnixMicro()
}

// Changes are written by Save, field by field in this order. If a field names
// something twice, the later value wins.
type Changes struct {
	Topics   []Topic // only their State is written; missing topics are created
	Put      []Subscription
	Remove   []Removal        // of subscriptions
	Progress map[Key]Progress // of existing subscriptions; others are ignored
	Ask      []Request        // written in place of an earlier request; one with Attempts only in place of itself, as At shows
	Settle   []Request        // requests that are complete; only Key and At count: another request for the Key remains
}

// ErrStore reports that a Store can no longer be used.
var ErrStore = errors.New("hub store is closed")

// A Store holds the state of a hub: a log for each topic, and a row for each
// subscription with its progress. There is no row for a delivery.
//
// Every method that writes is one transaction, durable when it returns. All
// methods are safe for concurrent use. The store retains no slices it is given;
// slices it returns belong to the caller. Iterators stop after the first error,
// which they yield with a zero value. Times are stored to the microsecond and
// returned in UTC. Strings may hold any bytes, except that keys come from
// KeyOf, and topics are not empty and have no NUL byte in them.
type Store interface {
	// Append adds messages to the logs of their topics, in order, and returns the
	// number of each. It ignores Seq of the messages. It creates a topic with its
	// first message.
	Append(ctx context.Context, messages []Message) ([]int64, error)

	// Log yields the stored messages of a topic numbered above after, in order.
	Log(ctx context.Context, topic string, after int64) iter.Seq2[Message, error]

	// Topics yields all topics, ordered by URL.
	Topics(ctx context.Context) iter.Seq2[Topic, error]

	// Subscriptions yields the subscriptions of a shard, ordered by Key, or of
	// all shards if it is negative.
	Subscriptions(ctx context.Context, shard int) iter.Seq2[Subscription, error]

	// Requests yields the requests of a shard in the same way.
	Requests(ctx context.Context, shard int) iter.Seq2[Request, error]

	// Save writes all changes, or none.
	Save(ctx context.Context, c Changes) error

	// Trim deletes the messages of a topic up to and including upto. Numbering
	// continues unchanged. Trim may use several transactions, the oldest messages
	// first, so that other writers get their turn.
	Trim(ctx context.Context, topic string, upto int64) error
}

// A Sharer is a Store that several hubs can use at a time, each responsible for
// some of the shards.
type Sharer interface {
	// Claim renews the claims of owner for ttl and claims further shards that no
	// other owner has, up to want shards in all, the lowest first. If owner has
	// more than want, Claim gives up the highest. It returns the shards that belong
	// to owner until ttl ends, counted from before the call, in rising order.
	// Owners is the number of hubs that have called Claim and have neither released
	// their claims nor let their ttl expire, including this one, whether they got
	// shards or not.
	Claim(ctx context.Context, owner string, want int, ttl time.Duration) (shards []int, owners int, err error)

	// Release ends the claims of owner.
	Release(ctx context.Context, owner string) error

	// News returns, for topics that got messages after a mark, the number of the
	// newest one; and the mark for the next call. The first mark is 0. Hubs use it
	// to learn of messages that others accepted. A topic may be returned again. The
	// next mark is below mark if the store has lost messages, as after a failover
	// to a standby that did not have them.
	News(ctx context.Context, mark int64) (topics map[string]int64, next int64, err error)

	// Remember records the digest of a signed publication until a time by the
	// store's own clock. It returns false if any hub has already recorded the
	// digest, or if the time has passed, so that the digest may have been
	// forgotten: of all calls with the same digest at most one returns true.
	Remember(ctx context.Context, digest [sha256.Size]byte, until time.Time) (fresh bool, err error)

	// Forget removes a digest, so that it can be recorded again.
	Forget(ctx context.Context, digest [sha256.Size]byte) error
}

// A Checker is a Store that can check whether it works.
type Checker interface {
	// Check reads and writes, changing nothing, and returns an error if that is not
	// possible. It returns within seconds and may be called often.
	Check(ctx context.Context) error
}

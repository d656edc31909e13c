package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"iter"
	"time"

	"lockstep/websub"
)

// A Key names a subscription, and a request for one: it stands for the pair of
// topic and callback (WS-H-07), spelt alike where they are alike (WS-H-09).
type Key string

// KeyOf returns the key of the subscription of callback to topic.
func KeyOf(topic, callback string) Key {
	sum := sha256.Sum256([]byte(websub.Canonical(topic) + "\n" + websub.Canonical(callback)))
	return Key(hex.EncodeToString(sum[:16]))
}

// Shards is how many parts the subscriptions are divided into, for several
// processes to share them.
const Shards = 256

// Shard returns the part the subscription is in: 0 to Shards-1.
func (k Key) Shard() int {
	var b [1]byte
	if len(k) < 2 {
		return 0
	}
	_, _ = hex.Decode(b[:], []byte(k[:2])) // of what KeyOf did not make, 0
	return int(b[0])
}

// A Topic is a log of messages.
type Topic struct {
	URL   string // as websub.Canonical spells it
	First int64  // number of the oldest message kept; Last+1 if none is
	Last  int64  // number of the newest message ever; 0: there was none
	Bytes int64  // of the bodies kept
	State []byte // what the hub knows of the topic besides, see topicState; opaque to the store
}

// A Message is one entry of a topic's log. It is never changed.
type Message struct {
	Topic       string // as websub.Canonical spells it
	Seq         int64  // 1, 2, 3, … for each topic; assigned by the Store, never reused
	ID          string // tells the message from all others, whatever the topic; stays the same when it is delivered again
	At          time.Time
	ContentType string   // character for character (WS-C-01); may be empty
	Links       []string // values of Link header fields to relay (RN-PB-02)
	Whole       bool     // it is the whole content of the topic, so that the next of its kind makes it superfluous (WS-C-11)
	Body        []byte
}

// A Subscription is one verified subscription. A row is written when it comes
// to be, is renewed, or ends; in between only its Progress changes.
type Subscription struct {
	Key      Key
	Topic    string // as the subscriber spelt it: sent back like that
	Callback string // likewise, query string and all
	Secret   []byte // sealed by the hub, opaque to the store; nil: none
	Created  time.Time
	Expires  time.Time // end of the lease
	Progress Progress
}

// Progress is how far the deliveries of a subscription have come.
type Progress struct {
	Cursor    int64     // number of the last message that was taken, or given up
	Attempts  int       // made in vain since a message was taken last
	Next      time.Time // when to try again; zero: at once
	Failing   time.Time // when the first of those attempts was; zero: there is none
	LastError string    // of the last of them
	LastTaken time.Time // when a message was taken last
	Taken     int64     // messages
	GivenUp   int64     // messages
}

// A Request is a request for a subscription, or for its end, that was accepted
// and is not verified yet. There is at most one for a Key: the newest.
type Request struct {
	Key         Key
	Mode        string // websub.ModeSubscribe or websub.ModeUnsubscribe
	Topic       string // as sent
	Callback    string
	Secret      []byte        // sealed; nil: none
	Lease       time.Duration // granted
	VerifyToken string        // of older subscribers, sent back (WS-OLD-01)
	At          time.Time     // when it was accepted
	Attempts    int           // to verify it
	Next        time.Time     // when to try again; zero: at once
}

// Changes are what Save writes, field by field in this order. Where a field names
// something twice, what comes later holds.
type Changes struct {
	Topics   []Topic // of these only State is written; a topic that is not there is made
	Put      []Subscription
	Remove   []Key            // subscriptions
	Progress map[Key]Progress // of subscriptions that are there; others are passed over
	Ask      []Request        // put, in place of an earlier one
	Settle   []Key            // requests that are done with
}

// ErrStore reports that a Store can not be used any more.
var ErrStore = errors.New("hub store is closed")

// A Store is the memory of a hub: a log for each topic, a row for each
// subscription with how far it has come. There is no row for a delivery.
//
// Every method that writes is one transaction, durable when it returns. All are
// safe for concurrent use. Slices handed in are not kept; those handed out are
// the caller's. Iterators stop after the first error, which they yield with a
// zero value. Times are kept to the microsecond, and handed out in UTC. Strings
// hold any bytes, but that keys are made by KeyOf and that topics are not empty
// and have no NUL byte in them.
type Store interface {
	// Append adds messages to the logs of their topics, in order, and returns
	// the number of each. Seq of what is handed in says nothing. A topic comes
	// to be with its first message.
	Append(ctx context.Context, messages []Message) ([]int64, error)

	// Log yields the messages of a topic numbered above after, in order, those
	// that are kept.
	Log(ctx context.Context, topic string, after int64) iter.Seq2[Message, error]

	// Topics yields all topics, ordered by URL.
	Topics(ctx context.Context) iter.Seq2[Topic, error]

	// Subscriptions yields the subscriptions of a shard, ordered by Key, or of
	// all shards if it is negative.
	Subscriptions(ctx context.Context, shard int) iter.Seq2[Subscription, error]

	// Requests does so with requests.
	Requests(ctx context.Context, shard int) iter.Seq2[Request, error]

	// Save writes changes, all or none.
	Save(ctx context.Context, c Changes) error

	// Trim forgets the messages of a topic up to and including upto. Numbers
	// go on where they were. It may do so in several transactions, the oldest
	// messages first, so that others can write in between.
	Trim(ctx context.Context, topic string, upto int64) error
}

// A Sharer is a Store that several hubs can use at a time, each with some of
// the shards.
type Sharer interface {
	// Claim renews the claims of owner for ttl, and takes what nobody else has
	// a claim on, up to want shards in all, the lowest first; of more than want
	// it lets the highest go. It returns the shards that are owner's until ttl
	// is over, counted from before the call, in rising order. Owners is how many
	// hubs have called Claim and neither released nor outlived their ttl, this
	// one included, whether they got shards or not.
	Claim(ctx context.Context, owner string, want int, ttl time.Duration) (shards []int, owners int, err error)

	// Release ends the claims of owner.
	Release(ctx context.Context, owner string) error

	// News returns, for topics that got messages after a mark, the number of
	// the newest; and the mark to go on from. The first mark is 0. It is how a
	// hub learns of what others accepted. A topic may come up again.
	News(ctx context.Context, mark int64) (topics map[string]int64, next int64, err error)

	// Remember notes the digest of a signed publication until a time by the
	// store's own clock. It reports false if the digest was noted before, by
	// whichever hub, or if the time has passed, so that the digest may have been
	// forgotten: of all calls with the same digest at most one reports true.
	Remember(ctx context.Context, digest [sha256.Size]byte, until time.Time) (fresh bool, err error)

	// Forget takes a digest back, so that it can be noted again.
	Forget(ctx context.Context, digest [sha256.Size]byte) error
}

package destination

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

const (
	docFirst  = "inbox/first" // no message has a lower number; written by who processes
	docNext   = "inbox/next"  // nor one as high; written by who takes
	docMail   = "inbox/"      // and a number: a message
	docAside  = "aside/"      // and a number below maxAside: a message that was not applied
	docAsides = "asides"      // how many there were

	maxInbox      = 100_000   // messages that wait: beyond, hubs have to keep them
	maxInboxBytes = 256 << 20 // of these
	maxInboxHeld  = 16 << 20  // of these in memory
	maxAside      = 32        // messages kept aside, the newest
	maxAsideBytes = 64 << 10  // of each, for a person to look at
)

// errInboxFull reports that hubs deliver more than is processed.
var errInboxFull = errors.New("too many notifications wait")

// An inbox stores messages from when they are acknowledged until what they
// announce was applied (RN-RX-01). Each is a document in the Journal; those
// that arrive at the same time are written together.
type inbox struct {
	journal *lateJournal

	mu     sync.Mutex      // guards what follows
	low    int64           // no message has a lower number
	next   int64           // number of the next message, from 1
	flying int64           // number of the first that is being written; zero: none is
	there  map[int64]int64 // lengths, by number
	bytes  int64
	held   int64 // bytes of bodies in memory
	posts  []*post
	posted chan struct{} // holds a token while posts are written
}

// A post is a message on its way into the inbox.
type post struct {
	set  string // URI
	mail mail
	done chan struct{}
	err  error
}

// A mail is a message as the Journal keeps it: raw.
type mail struct {
	Set   string    `json:"set"`
	Topic string    `json:"topic"`
	ID    string    `json:"id,omitempty"`
	Type  string    `json:"type,omitempty"`
	Links []string  `json:"links,omitempty"`
	At    time.Time `json:"at"`
	Cause string    `json:"cause,omitempty"` // of one put aside
	Body  []byte    `json:"body"`
}

func newInbox(j *lateJournal) *inbox {
	return &inbox{journal: j, there: map[int64]int64{}, posted: make(chan struct{}, 1)}
}

func mailName(n int64) string { return fmt.Sprint(docMail, n) }

// load reads what an earlier run left, in order, and hands each message to take.
func (b *inbox) load(ctx context.Context, take func(set string, m *message)) error {
	first, next := int64(1), int64(1)
	if _, err := saved.Load(ctx, b.journal, docFirst, &first); err != nil {
		return err
	}
	if _, err := saved.Load(ctx, b.journal, docNext, &next); err != nil {
		return err
	}
	b.mu.Lock()
	b.low, b.next, b.there, b.bytes, b.held = first, next, map[int64]int64{}, 0, 0
	b.mu.Unlock()
	for n := first; n < next; n++ {
		var l mail
		ok, err := saved.Load(ctx, b.journal, mailName(n), &l)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		take(l.Set, b.hold(n, &l))
	}
	return nil
}

// hold counts a message that is in the Journal.
func (b *inbox) hold(n int64, l *mail) *message {
	m := &message{number: n, topic: l.Topic, body: l.Body, size: int64(len(l.Body)), at: l.At, id: l.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.there[n] = m.size
	b.bytes += m.size
	if b.held+m.size > maxInboxHeld {
		m.body = nil
	} else {
		b.held += m.size
	}
	return m
}

// put makes a message durable and then hands it to take, in order of the
// numbers.
func (b *inbox) put(ctx context.Context, l mail, take func(set string, m *message)) error {
	p := &post{set: l.Set, mail: l, done: make(chan struct{})}
	b.mu.Lock()
	if len(b.there)+len(b.posts) >= maxInbox || b.bytes+int64(len(l.Body)) > maxInboxBytes {
		b.mu.Unlock()
		return errInboxFull
	}
	b.posts = append(b.posts, p)
	b.mu.Unlock()
	select {
	case b.posted <- struct{}{}:
		b.write(ctx, take) // ours, unless who had the token before has
		<-b.posted
	case <-p.done:
	}
	return p.err
}

// write writes all posts there are in one transaction.
func (b *inbox) write(ctx context.Context, take func(set string, m *message)) {
	b.mu.Lock()
	posts := b.posts
	b.posts = nil
	first := b.next
	b.next += int64(len(posts)) // a transaction that fails leaves a hole
	b.flying = first
	docs := map[string][]byte{docNext: saved.Encode(b.next)}
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.flying = 0
	}()
	if len(posts) == 0 {
		return
	}
	for i, p := range posts {
		docs[mailName(first+int64(i))] = saved.Encode(&p.mail)
	}
	// Who waits for one of them must not decide on all.
	err := b.journal.Record(context.WithoutCancel(ctx), journal.Batch{Save: docs})
	for i, p := range posts {
		if p.err = err; err == nil {
			take(p.set, b.hold(first+int64(i), &p.mail))
		}
		close(p.done)
	}
}

// body returns the body of a message.
func (b *inbox) body(ctx context.Context, m *message) ([]byte, error) {
	if m.body != nil || m.number == 0 && m.size == 0 {
		return m.body, nil
	}
	var l mail
	ok, err := saved.Load(ctx, b.journal, mailName(m.number), &l)
	if err == nil && !ok {
		err = errors.New("a notification is gone from the journal")
	}
	return l.Body, err
}

// strike adds to docs that messages are processed.
func (b *inbox) strike(ms []*message, docs map[string][]byte) {
	b.mu.Lock()
	defer b.mu.Unlock()
	struck := false
	for _, m := range ms {
		size, ok := b.there[m.number]
		if !ok {
			continue
		}
		struck = true
		delete(b.there, m.number)
		b.bytes -= size
		if m.body != nil {
			b.held -= size
		}
		docs[mailName(m.number)] = nil
	}
	if !struck {
		return
	}
	for ; b.low < b.next; b.low++ {
		if _, ok := b.there[b.low]; ok || b.low == b.flying {
			break
		}
	}
	docs[docFirst] = saved.Encode(b.low)
}

// putAside adds to docs messages that were not applied, in place of the oldest
// of those (RN-RX-09).
func putAside(ctx context.Context, j journal.Journal, set string, as []aside, docs map[string][]byte) error {
	if len(as) == 0 {
		return nil
	}
	b, err := j.Load(ctx, docAsides)
	if err != nil {
		return err
	}
	var n int64
	if b != nil {
		if err := json.Unmarshal(b, &n); err != nil {
			return fmt.Errorf("read %s from journal: %w", docAsides, err)
		}
	}
	kept := map[string][]byte{}
	for _, a := range as {
		body := a.message.body[:min(len(a.message.body), maxAsideBytes)]
		l := mail{Set: set, Topic: a.message.topic, ID: a.message.id, At: a.message.at, Cause: a.cause, Body: body}
		kept[fmt.Sprint(docAside, n%maxAside)] = saved.Encode(&l)
		n++
	}
	kept[docAsides] = saved.Encode(n)
	maps.Copy(docs, kept)
	return nil
}

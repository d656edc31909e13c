// Package inbox stores notifications from their acknowledgment until they have been applied.
package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
)

const (
	docFirst  = "inbox/first" // no message has a lower number; written when messages are processed
	docNext   = "inbox/next"  // nor one as high; written when messages arrive
	docMail   = "inbox/"      // and a number: a message
	docAside  = "aside/"      // and a number below maxAside: a message that was not applied
	docAsides = "asides"      // how many there were

	maxInbox      = 100_000   // messages that wait: beyond, hubs have to keep them
	maxInboxBytes = 256 << 20 // of these
	maxInboxHeld  = 16 << 20  // of these in memory
	maxAside      = 32        // messages kept aside, the newest
	maxAsideBytes = 64 << 10  // of each, for a person to look at
)

// ErrFull reports that hubs deliver more than is processed.
var ErrFull = errors.New("too many notifications wait")

// A Box stores messages from when they are acknowledged until what they
// announce was applied (RN-RX-01). Each is a document in the Journal; those
// that arrive at the same time are written together.
type Box struct {
	journal journal.Journal

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
	mail Mail
	done chan struct{}
	err  error
}

// A Mail is a message as it arrived and as the Journal stores it.
type Mail struct {
	Set   string    `json:"set"`
	Topic string    `json:"topic"`
	ID    string    `json:"id,omitempty"`
	Type  string    `json:"type,omitempty"`
	Links []string  `json:"links,omitempty"`
	At    time.Time `json:"at"`
	Cause string    `json:"cause,omitempty"` // of one put aside
	Body  []byte    `json:"body"`
}

// New returns a Box that stores its messages in j. Call [Box.Load] before anything else.
func New(j journal.Journal) *Box {
	return &Box{journal: j, there: map[int64]int64{}, posted: make(chan struct{}, 1)}
}

func mailName(n int64) string { return fmt.Sprint(docMail, n) }

// Load reads what an earlier run left, in order, and hands each message to take.
func (b *Box) Load(ctx context.Context, take func(set string, m *Message)) error {
	first, next := int64(1), int64(1)
	if _, err := saved.Load(ctx, b.journal, docFirst, &first); err != nil {
		return err
	}
	if _, err := saved.Load(ctx, b.journal, docNext, &next); err != nil {
		return err
	}
	next = max(next, first) // of one that failed only the first was saved
	b.mu.Lock()
	b.low, b.next, b.there, b.bytes, b.held = first, next, map[int64]int64{}, 0, 0
	b.mu.Unlock()
	for n := first; n < next; n++ {
		var l Mail
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
func (b *Box) hold(n int64, l *Mail) *Message {
	m := &Message{number: n, Topic: l.Topic, Body: l.Body, Size: int64(len(l.Body)), At: l.At, id: l.ID}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.there[n] = m.Size
	b.bytes += m.Size
	if b.held+m.Size > maxInboxHeld {
		m.Body = nil
	} else {
		b.held += m.Size
	}
	return m
}

// Put makes a message durable and then hands it to take, in order of the
// numbers.
func (b *Box) Put(ctx context.Context, l Mail, take func(set string, m *Message)) error {
	p := &post{set: l.Set, mail: l, done: make(chan struct{})}
	b.mu.Lock()
	if len(b.there)+len(b.posts) >= maxInbox || b.bytes+int64(len(l.Body)) > maxInboxBytes {
		b.mu.Unlock()
		return ErrFull
	}
	b.posts = append(b.posts, p)
	b.mu.Unlock()
	select {
	case b.posted <- struct{}{}:
		b.write(ctx, take) // ours, unless the previous writer has written it
		<-b.posted
	case <-p.done:
	}
	return p.err
}

// write writes all posts there are in one transaction.
func (b *Box) write(ctx context.Context, take func(set string, m *Message)) {
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
	// A caller that waits for one of them must not cancel all.
	err := b.journal.Record(context.WithoutCancel(ctx), journal.Batch{Save: docs})
	for i, p := range posts {
		if p.err = err; err == nil {
			take(p.set, b.hold(first+int64(i), &p.mail))
		}
		close(p.done)
	}
}

// Body returns the body of a message.
func (b *Box) Body(ctx context.Context, m *Message) ([]byte, error) {
	if m.Body != nil || m.number == 0 && m.Size == 0 {
		return m.Body, nil
	}
	var l Mail
	ok, err := saved.Load(ctx, b.journal, mailName(m.number), &l)
	if err == nil && !ok {
		err = errors.New("a notification is gone from the journal")
	}
	return l.Body, err
}

// Remove adds to docs that messages are processed.
func (b *Box) Remove(ms []*Message, docs map[string][]byte) {
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
		if m.Body != nil {
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

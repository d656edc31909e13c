package hubstore

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Mem is a Store in memory. Its content is lost when the process ends.
type Mem struct {
	mu            sync.Mutex // guards all below
	topics        map[string]*memTopic
	subscriptions map[Key]Subscription
	requests      map[Key]Request
}

// A memTopic is a topic with its log.
type memTopic struct {
	Topic
	log []Message // First to Last; slices given to readers are never written again
}

var _ Store = (*Mem)(nil)

// NewMem returns an empty store.
func NewMem() *Mem {
	return &Mem{
		topics:        make(map[string]*memTopic),
		subscriptions: make(map[Key]Subscription),
		requests:      make(map[Key]Request),
	}
}

// Append implements [Store].
func (m *Mem) Append(ctx context.Context, messages []Message) ([]int64, error) {
	if err := CheckMessages(messages); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	seqs := make([]int64, len(messages))
	for i := range messages {
		t := m.topic(messages[i].Topic)
		t.Last++
		t.Bytes += int64(len(messages[i].Body))
		c := messages[i].clone()
		c.Seq, c.At = t.Last, inMicros(c.At)
		t.log = append(t.log, c)
		seqs[i] = t.Last
	}
	return seqs, nil
}

// Log implements [Store].
func (m *Mem) Log(ctx context.Context, topic string, after int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for _, msg := range m.log(topic, after) {
			if err := ctx.Err(); err != nil {
				yield(Message{}, err)
				return
			}
			if !yield(msg.clone(), nil) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Message{}, err)
		}
	}
}

func (m *Mem) log(topic string, after int64) []Message {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil {
		return nil
	}
	return t.log[min(max(after+1-t.First, 0), int64(len(t.log))):]
}

// Topics implements [Store].
func (m *Mem) Topics(ctx context.Context) iter.Seq2[Topic, error] {
	return func(yield func(Topic, error) bool) {
		m.mu.Lock()
		topics := make([]Topic, 0, len(m.topics))
		for _, t := range m.topics {
			c := t.Topic
			c.State = slices.Clone(c.State)
			topics = append(topics, c)
		}
		m.mu.Unlock()
		slices.SortStableFunc(topics, func(a, b Topic) int { return strings.Compare(a.URL, b.URL) })
		yieldAll(ctx, topics, yield)
	}
}

// Subscriptions implements [Store].
func (m *Mem) Subscriptions(ctx context.Context, shard int) iter.Seq2[Subscription, error] {
	return func(yield func(Subscription, error) bool) {
		m.mu.Lock()
		subscriptions := ofShard(m.subscriptions, shard)
		m.mu.Unlock()
		for i := range subscriptions {
			subscriptions[i].Secret = slices.Clone(subscriptions[i].Secret)
		}
		yieldAll(ctx, subscriptions, yield)
	}
}

// Requests implements [Store].
func (m *Mem) Requests(ctx context.Context, shard int) iter.Seq2[Request, error] {
	return func(yield func(Request, error) bool) {
		m.mu.Lock()
		requests := ofShard(m.requests, shard)
		m.mu.Unlock()
		for i := range requests {
			requests[i].Secret = slices.Clone(requests[i].Secret)
		}
		yieldAll(ctx, requests, yield)
	}
}

// Save implements [Store].
func (m *Mem) Save(ctx context.Context, c Changes) error {
	if err := c.Check(); err != nil {
		return err
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range c.Topics {
		m.topic(t.URL).State = slices.Clone(t.State)
	}
	for _, s := range c.Put {
		s.Secret = slices.Clone(s.Secret)
		s.Created, s.Expires = inMicros(s.Created), inMicros(s.Expires)
		s.Progress = s.Progress.inMicros()
		m.subscriptions[s.Key] = s
	}
	for _, r := range c.Remove {
		if s := m.subscriptions[r.Key]; r.Matches(s.Created, s.Expires) {
			delete(m.subscriptions, r.Key)
		}
	}
	for k, p := range c.Progress {
		if s, ok := m.subscriptions[k]; ok {
			s.Progress = p.inMicros()
			m.subscriptions[k] = s
		}
	}
	last := make(map[Key]int)
	for i, r := range c.Ask {
		last[r.Key] = i
	}
	for _, i := range last {
		r := c.Ask[i]
		if stored, ok := m.requests[r.Key]; ok && r.Attempts > 0 && !stored.At.Equal(inMicros(r.At)) {
			continue
		}
		r.Secret = slices.Clone(r.Secret)
		r.At, r.Next, r.Lease = inMicros(r.At), inMicros(r.Next), r.Lease.Truncate(time.Microsecond)
		m.requests[r.Key] = r
	}
	for _, r := range c.Settle {
		if m.requests[r.Key].At.Equal(inMicros(r.At)) {
			delete(m.requests, r.Key)
		}
	}
	return nil
}

// Trim implements [Store].
func (m *Mem) Trim(ctx context.Context, topic string, upto int64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.topics[topic]
	if t == nil {
		return nil
	}
	n := min(max(upto+1-t.First, 0), int64(len(t.log)))
	if n == 0 {
		return nil
	}
	for _, msg := range t.log[:n] {
		t.Bytes -= int64(len(msg.Body))
	}
	t.First += n
	t.log = slices.Clone(t.log[n:]) // release the bodies of trimmed messages
	return nil
}

// topic returns the topic and creates it if it does not exist. The caller holds
// m.mu.
func (m *Mem) topic(url string) *memTopic {
	t := m.topics[url]
	if t == nil {
		t = &memTopic{Topic: Topic{URL: url, First: 1}}
		m.topics[url] = t
	}
	return t
}

// ofShard returns the values of a shard, or of all shards, ordered by key.
func ofShard[T any](all map[Key]T, shard int) []T {
	var keys []Key
	for k := range all {
		if shard < 0 || k.Shard() == shard {
			keys = append(keys, k)
		}
	}
	slices.Sort(keys)
	values := make([]T, len(keys))
	for i, k := range keys {
		values[i] = all[k]
	}
	return values
}

func yieldAll[T any](ctx context.Context, values []T, yield func(T, error) bool) {
	for _, v := range values {
		if ctx.Err() != nil {
			break
		}
		if !yield(v, nil) {
			return
		}
	}
	if err := ctx.Err(); err != nil {
		var zero T
		yield(zero, err)
	}
}

func (m *Message) clone() Message {
	c := *m
	c.Links = slices.Clone(m.Links)
	c.Body = slices.Clone(m.Body)
	return c
}

func (p Progress) inMicros() Progress {
	p.Next, p.Failing, p.LastTaken = inMicros(p.Next), inMicros(p.Failing), inMicros(p.LastTaken)
	return p
}

// inMicros returns t with the precision of stores.
func inMicros(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro()).UTC()
}

package delivery

import (
	"context"
	"net/http"
	"slices"
	"sort"

	"lockstep/hub/hubstore"
)

const (
	recentBytes = 64 << 20  // of the newest messages, held in memory for subscribers that keep up
	pageBytes   = 512 << 10 // of messages read at a time, for subscribers that lag behind
	pageCount   = 256       // messages read at a time
	pagesBytes  = 32 << 20  // of pages shared by subscribers that lag at the same position
	pagesMost   = 1024      // number of pages
	entryBytes  = 512       // approximate size of a message besides its body
)

// logs reads messages for delivery, from memory if they are there.
type logs struct {
	registry *registry
	store    hubstore.Store
	cache    cache
	header   func(m *hubstore.Message, self string) http.Header // of deliveries
}

// An entry is a message of a log in memory. It is immutable.
type entry struct {
	hubstore.Message
	log    *topic
	header http.Header // of unsigned deliveries to subscribers that spell the topic like the log
	size   int64
}

// entry returns m ready to be delivered.
func (l *logs) entry(t *topic, m hubstore.Message) *entry {
	return &entry{Message: m, log: t, header: l.header(&m, m.Topic), size: entryBytes + int64(len(m.Body))}
}

// add adds the newest message of a log to those in memory. The caller holds the
// lock of the registry.
func (l *logs) add(e *entry) { l.cache.add(e) }

// A window is the end of a log.
type window struct{ entries fifo[*entry] }

// find returns the message numbered seq, or nil.
func (w *window) find(seq int64) *entry {
	if w.entries.len() == 0 {
		return nil
	}
	i := seq - w.entries.at(0).Seq
	if i < 0 || i >= int64(w.entries.len()) {
		return nil
	}
	return w.entries.at(int(i))
}

// A cache holds the parts of all logs that are in memory. The lock of the
// registry guards it.
type cache struct {
	recent      fifo[*entry] // of all windows, the oldest first
	recentBytes int64
	pages       fifo[*page]
	pagesBytes  int64
}

// add appends e to the window of its log.
func (c *cache) add(e *entry) {
	w := &e.log.recent
	if n := w.entries.len(); n > 0 && w.entries.at(n-1).Seq != e.Seq-1 {
		w.entries = fifo[*entry]{} // a window has no gaps
	}
	w.entries.push(e)
	c.recent.push(e)
	c.recentBytes += e.size
	for c.recentBytes > recentBytes && c.recent.len() > 1 {
		old := c.recent.pop()
		c.recentBytes -= old.size
		if old.log.recent.find(old.Seq) == old {
			old.log.recent.entries.pop() // the first entry: all before it were older
		}
	}
}

// A page is a part of a log: all stored messages numbered above after, up to
// upto.
type page struct {
	log         *topic
	after, upto int64
	step        int64 // of the registry when it had been read
	entries     []*entry
	size        int64
}

// find returns the first message whose number is not below seq.
func (p *page) find(seq int64) *entry {
	i := sort.Search(len(p.entries), func(i int) bool { return p.entries[i].Seq >= seq })
	if i == len(p.entries) {
		return nil
	}
	return p.entries[i]
}

func (c *cache) addPage(p *page) {
	p.log.pages = append(p.log.pages, p)
	c.pages.push(p)
	c.pagesBytes += p.size
	for c.pagesBytes > pagesBytes && c.pages.len() > 1 || c.pages.len() > pagesMost {
		old := c.pages.pop()
		c.pagesBytes -= old.size
		if pages := old.log.pages; len(pages) > 0 && pages[0] == old { // all before it were older; it may have been dropped
			old.log.pages = slices.Delete(pages, 0, 1)
		}
	}
}

// at returns the message of t numbered seq. If that is forgotten it returns the
// next stored one, or nil and the number of the last forgotten one. The caller
// holds the lock of the registry, which is released while the store is read.
func (l *logs) at(ctx context.Context, t *topic, seq int64) (e *entry, forgotten int64, err error) {
	for {
		if e := t.recent.find(seq); e != nil {
			return e, 0, nil
		}
		for i := len(t.pages) - 1; i >= 0; i-- {
			if p := t.pages[i]; p.after < seq && seq <= p.upto {
				return p.find(seq), p.upto, nil
			}
		}
		if seq > t.last {
			return nil, 0, nil // the subscription was moved back meanwhile
		}
		if read := t.read; read != nil { // by another goroutine, perhaps the same page
			l.registry.mu.Unlock()
			<-read
			l.registry.mu.Lock()
			continue
		}
		if err := l.readPage(ctx, t, seq-1); err != nil {
			return nil, 0, err
		}
	}
}

// readPage reads a part of the log of t into the cache.
func (l *logs) readPage(ctx context.Context, t *topic, after int64) error {
	done, epoch := make(chan struct{}), t.epoch
	t.read = done
	p := &page{log: t, after: after, upto: t.last}
	l.registry.mu.Unlock()
	err := l.fill(ctx, p)
	l.registry.mu.Lock()
	t.read = nil
	close(done)
	if err != nil || t.epoch != epoch {
		return err
	}
	for _, e := range p.entries {
		if e.Whole {
			t.whole = max(t.whole, e.Seq)
		}
	}
	p.step = l.registry.step.Load()
	l.cache.addPage(p)
	return nil
}

func (l *logs) fill(ctx context.Context, p *page) error {
	for m, err := range l.store.Log(ctx, p.log.url, p.after) {
		if err != nil {
			return err
		}
		if p.size > 0 && p.size+int64(len(m.Body)) > pageBytes || len(p.entries) == pageCount {
			p.upto = p.entries[len(p.entries)-1].Seq
			break
		}
		e := l.entry(p.log, m)
		p.entries = append(p.entries, e)
		p.size += e.size
		p.upto = max(p.upto, m.Seq)
	}
	return nil
}

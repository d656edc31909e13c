package memento

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"
	"time"
)

// A pageKey identifies a page of a TimeMap.
type pageKey struct {
	form, page, uri string
	json            bool
}

// pages are the pages of TimeMaps in use. A page that several clients request is
// generated once for all that wait when that begins, and is in memory once,
// however slowly they read it.
type pages struct {
	mu      sync.Mutex // guards what follows, and what pageBody says
	waiting map[pageKey]*pageTask
	running map[pageKey]*pageTask
	sent    map[[32]byte]*pageBody
}

// A pageTask is the generation of a page.
type pageTask struct {
	done chan struct{} // closed when the fields below are set
	body *pageBody     // nil: the page is empty
	err  error
}

// A pageBody is a generated page.
type pageBody struct {
	text    []byte
	sum     [32]byte
	readers int // guarded by pages.mu
}

// page generates a page, or waits until another request has; nil if it is empty.
// The caller releases it. It includes every version that existed at the time of
// the call.
func (h *Handler) page(r *http.Request, m *timeMap) (*pageBody, error) {
	ctx := r.Context()
	key := pageKey{m.form, m.page, m.uri, m.json}
	for {
		t, mine := h.pages.join(key)
		if mine {
			h.write(r, m, key, t)
		}
		select {
		case <-t.done:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		switch {
		case t.err == nil && t.body == nil:
			return nil, nil
		case t.err == nil:
			return h.pages.hold(t.body), nil
		case mine || ctx.Err() != nil || !errors.Is(t.err, context.Canceled):
			return nil, t.err
		} // otherwise the client that was about to generate it has disconnected
	}
}

// write generates a page for all that wait for it, when its turn comes: a page is
// generated once at a time, and only a few pages concurrently.
func (h *Handler) write(r *http.Request, m *timeMap, key pageKey, t *pageTask) {
	ctx := r.Context()
	defer h.pages.end(key, t)
	if before := h.pages.before(key); before != nil {
		select {
		case <-before.done:
		case <-ctx.Done():
			t.err = context.Canceled
			return
		}
	}
	select {
	case h.writing <- struct{}{}:
		defer func() { <-h.writing }()
	case <-ctx.Done():
		t.err = context.Canceled
		return
	}
	h.pages.begin(key, t)
	m.around, t.err = h.store.Around(ctx, m.uri, time.Time{})
	if t.err == nil && !m.around.First.IsZero() {
		t.err = h.list(r, m)
	}
	switch {
	case ctx.Err() != nil:
		t.err = context.Canceled
	case t.err == nil && len(m.list) > 0:
		text := m.links
		if m.json {
			text = m.object
		}
		t.body = &pageBody{text: text()}
		t.body.sum = sha256.Sum256(t.body.text)
	}
	m.list = nil // it takes as much memory again, and sending takes time
}

// join returns the task of a page that has not begun; mine means that the
// caller has to do it.
func (p *pages) join(key pageKey) (t *pageTask, mine bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.waiting[key]; t != nil {
		return t, false
	}
	if p.waiting == nil {
		p.waiting, p.running = make(map[pageKey]*pageTask), make(map[pageKey]*pageTask)
		p.sent = make(map[[32]byte]*pageBody)
	}
	t = &pageTask{done: make(chan struct{})}
	p.waiting[key] = t
	return t, true
}

// before returns the task of a page that is in progress; nil if there is none.
func (p *pages) before(key pageKey) *pageTask {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.running[key]
}

func (p *pages) begin(key pageKey, t *pageTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.waiting, key)
	p.running[key] = t
}

func (p *pages) end(key pageKey, t *pageTask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, of := range []map[pageKey]*pageTask{p.waiting, p.running} {
		if of[key] == t {
			delete(of, key)
		}
	}
	close(t.done)
}

// hold returns b, or an equal page that is being sent, for one more reader.
func (p *pages) hold(b *pageBody) *pageBody {
	p.mu.Lock()
	defer p.mu.Unlock()
	if other := p.sent[b.sum]; other != nil {
		b = other
	}
	p.sent[b.sum] = b
	b.readers++
	return b
}

// release releases a page.
func (p *pages) release(b *pageBody) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if b.readers--; b.readers == 0 {
		delete(p.sent, b.sum)
	}
}

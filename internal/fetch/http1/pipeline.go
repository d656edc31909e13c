package http1

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"
)

// Requests that may be pipelined (RFC 9112, section 9.3.2) are sent in batches: while the
// responses to one batch arrive, further requests wait, and are then sent together, on a
// connection on which nothing else is under way. To a near host that saves work: requests
// wait for a batch even if another connection is free. To a far one it saves connections:
// requests wait only if there are many already. What is left of a batch is sent again,
// each request alone, as soon as a response is not as expected.

const (
	// MaxPipelined is the largest body, in bytes, that a response to a pipelined
	// request should have. Behind a larger one the others would wait too long.
	MaxPipelined = 16 << 10

	// batchMost is how many requests a batch has at most, and batchBytes about their size:
	// the server must be able to send responses while it has not read all of them.
	batchMost  = 8
	batchBytes = 16 << 10
	// nearConns is how many connections of a near peer have a batch at a time, if enough
	// requests wait; farConns is how many of a far peer are in use before requests wait.
	nearConns = 8
	farConns  = 128
	// batchBuffer holds most of the responses to a batch.
	batchBuffer = 64 << 10

	// defaultStall is the default of Pool.Stall.
	defaultStall = time.Second
	// slowly is the time for a response, after the first of a batch, from which a server is
	// slow, if all of them also take longer than the first: more requests side by side get
	// more responses then. With nearConns, a server that is not slow sends 16,000 in a
	// second.
	slowly = 500 * time.Microsecond
	// slowCost is how many batches that were not slow compensate for one that was.
	slowCost = 4

	// maxQueues is how many peers may have a queue, unless more are busy.
	maxQueues = 256
)

// errAlone reports that a request has to be sent alone.
var errAlone = errors.New("request is not pipelined")

// A queue has the requests to one peer that wait for being sent in a batch.
type queue struct {
	waiting []*turn
	near    bool   // of the peer
	active  int    // connections with a batch
	alone   int    // requests sent alone, whose response has not arrived
	limit   int    // requests after which the server closes a connection; 0: unknown
	record  Record // of responses: a server that does not support pipelining gets no more batches
	pace    Record // of batches: likewise one that is slow
}

// works reports whether batches are worthwhile.
func (q *queue) works() bool { return !q.record.Unusual() && !q.pace.Unusual() }

// A turn is a request that is sent in a batch.
type turn struct {
	request Request
	next    chan *batch // of capacity 1: the batch, when its next response is that to request; nil: send it alone
	gone    bool        // it is not waited for; guarded by Pool.mu
}

var turns = sync.Pool{New: func() any { return &turn{next: make(chan *batch, 1)} }}

// A batch has requests that were sent together, or will be. The goroutine whose
// turn it is uses it.
type batch struct {
	to     peer
	queue  *queue
	conn   *conn
	buf    *bufio.Reader // nil: not sent yet
	turns  []*turn
	size   int // how many requests were sent
	at     int // whose turn it is
	sent   time.Time
	first  time.Duration // for the first response
	waited time.Duration // for the others
	cut    bool          // responses follow that are not waited for
	left   bool          // the queue does not wait for its end any more
}

var batchBuffers = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, batchBuffer) }}

// getPipelined sends r in a batch. Its error is errAlone if r has to be sent alone.
func (p *Pool) getPipelined(ctx context.Context, r *Request) (*Response, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	to := peer{r.Secure, r.Host, true}
	p.mu.Lock()
	q := p.queueOf(to)
	if !q.works() {
		p.mu.Unlock()
		return nil, errAlone
	}
	q.near = r.Near
	var c *conn
	if !q.near || q.active == 0 || q.active < nearConns && len(q.waiting) >= batchMost-1 {
		c = p.takeLocked(to)
		if c == nil && (q.near || q.active+q.alone < farConns) {
			q.alone++
			p.mu.Unlock()
			return p.getCounted(ctx, q, r)
		}
	}
	t := turns.Get().(*turn)
	t.request = *r
	q.waiting = append(q.waiting, t)
	if c != nil {
		q.send(to, c)
	}
	p.mu.Unlock()
	var b *batch
	select {
	case b = <-t.next:
	case <-ctx.Done():
		p.quit(q, t)
		return nil, context.Cause(ctx)
	}
	err := errAlone
	var resp *Response
	if b != nil {
		resp, err = p.receive(ctx, b)
	}
	turns.Put(t) // its batch is past it
	if !errors.Is(err, errAlone) {
		return resp, err
	}
	p.mu.Lock()
	q.alone++
	p.mu.Unlock()
	return p.getCounted(ctx, q, r)
}

// getCounted sends r alone, and counts it no longer when its response has arrived.
func (p *Pool) getCounted(ctx context.Context, q *queue, r *Request) (*Response, error) {
	r.Began = time.Now()
	resp, err := p.getAlone(ctx, r)
	p.mu.Lock()
	q.alone--
	q.relieve()
	p.mu.Unlock()
	return resp, err
}

// relieve has waiting requests sent alone if no connection is left that will send them. The
// caller holds the lock.
func (q *queue) relieve() {
	n := len(q.waiting)
	switch {
	case n == 0 || q.works() && q.active+q.alone > 0:
		return
	case q.works():
		n = min(n, farConns)
	}
	sendAlone(q.waiting[:n])
	q.shift(n)
}

// shift removes the n requests that wait for longest.
func (q *queue) shift(n int) {
	rest := copy(q.waiting, q.waiting[n:])
	clear(q.waiting[rest:])
	q.waiting = q.waiting[:rest]
}

// quit ends the turn t, whose context has ended.
func (p *Pool) quit(q *queue, t *turn) {
	p.mu.Lock()
	t.gone = true
	q.waiting = slices.DeleteFunc(q.waiting, func(other *turn) bool { return other == t })
	p.mu.Unlock()
	select {
	case b := <-t.next: // it came before
		if b != nil {
			p.abandon(b, b.at+1, false)
			return
		}
		p.mu.Lock()
		q.relieve()
		p.mu.Unlock()
	default:
	}
}

// queueOf returns the queue of a peer. The caller holds the lock.
func (p *Pool) queueOf(to peer) *queue {
	if q := p.queues[to]; q != nil {
		return q
	}
	if p.queues == nil {
		p.queues = make(map[peer]*queue)
	}
	if len(p.queues) >= maxQueues {
		for other, q := range p.queues {
			if q.active == 0 && len(q.waiting) == 0 {
				delete(p.queues, other)
			}
		}
	}
	q := new(queue)
	p.queues[to] = q
	return q
}

// send has the requests that wait for longest sent on c. The caller holds the lock.
func (q *queue) send(to peer, c *conn) {
	b := &batch{to: to, queue: q, conn: c}
	most, size, n := min(batchMost, len(q.waiting)), 0, 0
	if q.limit > 0 {
		most = min(most, max(q.limit-c.served, 1))
	}
	for n < most && size <= batchBytes {
		r := &q.waiting[n].request
		size += len(r.Target) + len(r.Host) + len(r.Fields)
		n++
	}
	b.turns = append(b.turns, q.waiting[:n]...)
	q.shift(n)
	q.active++
	b.turns[0].next <- b
}

// receive receives the response to the request whose turn it is, and gives the next
// one its turn. The first request has all of them sent. Its error is errAlone if the
// request has to be sent alone.
func (p *Pool) receive(ctx context.Context, b *batch) (*Response, error) {
	resp, err := p.response(ctx, b)
	if err == nil {
		return resp, nil
	}
	several, unsent, ended := b.size > 1, errors.Is(err, errUnusable), ctx.Err() != nil
	p.abandon(b, b.at+1, several && !unsent && !ended)
	switch {
	case ended:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrTimeout):
		return nil, err
	case several || unsent || errors.Is(err, errNoResponse):
		return nil, errAlone // nothing is known of this request
	}
	return nil, err
}

// response is receive. After an error b has to be abandoned.
func (p *Pool) response(ctx context.Context, b *batch) (*Response, error) {
	c, r := b.conn, &b.turns[b.at].request
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	start := time.Now()
	if b.buf == nil {
		b.sent, b.size = start, len(b.turns)
		b.buf = batchBuffers.Get().(*bufio.Reader)
		b.buf.Reset(c.in)
		c.out = c.out[:0]
		for _, t := range b.turns {
			c.out = appendRequest(c.out, &t.request)
		}
		if err := c.send(); err != nil {
			return nil, err
		}
	}
	c.mixed = c.mixed || b.size > 1
	resp := &Response{pool: p, conn: c, buf: b.buf, Reused: true, Shared: b.size > 1, Pipelined: b.size > 1, Began: b.sent, Patience: r.Patience}
	if err := p.patiently(b, r.Patience, b.at == 0, resp.readHeader); err != nil {
		return nil, err
	}
	c.served++
	resp.Pipelined = resp.Pipelined || c.mixed && resp.Status == http.StatusOK
	if refused, sized := refuses(resp.Status), resp.Length >= 0 && resp.Length <= MaxPipelined; !sized || !refused && !r.expects(resp) {
		if b.size > 1 && !refused {
			return nil, errAlone // it may belong to another request
		}
		p.detach(b, resp)
		return resp, nil
	}
	resp.body = newBody(resp.Length)
	n, length := 0, int(resp.Length)
	err := p.patiently(b, r.Patience, true, func() (err error) {
		for err == nil && n < length && time.Since(start) < p.stall() {
			var k int
			k, err = b.buf.Read(resp.body.b[n:length])
			n += k
		}
		return resp.cause(err)
	})
	resp.ahead, resp.left = resp.body.b[:n], resp.Length-int64(n)
	switch {
	case n == length:
		resp.buf, resp.conn, resp.err = nil, nil, io.EOF
		if b.at > 0 {
			b.waited += time.Since(start)
		} else {
			b.first = time.Since(start)
		}
		p.proceed(b, resp.Closes)
	case err == nil:
		p.detach(b, resp)
	default:
		resp.buf, resp.conn, resp.err = nil, nil, unexpected(err)
		p.abandon(b, b.at+1, b.size > 1 && ctx.Err() == nil)
	}
	return resp, nil
}

// expects reports whether resp, which has a stated length, is the usual response to r.
func (r *Request) expects(resp *Response) bool {
	return resp.Status == http.StatusOK && (r.Length < 0 || resp.Length == r.Length)
}

// refuses reports whether a status says that the server does not respond to requests now.
// It is of no importance to which of them: the request is not repeated at once, which
// would be a burden.
func refuses(status int) bool {
	return status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
}

func (p *Pool) stall() time.Duration { return cmp.Or(p.Stall, defaultStall) }

// patiently has read wait for a response for that long. If it takes long, no other request
// waits for it: neither those behind it nor those that are not sent yet. This one ends, too,
// unless the server has certainly received its request.
func (p *Pool) patiently(b *batch, patience time.Duration, received bool, read func() error) error {
	start, socket := time.Now(), b.conn.socket
	if patience > p.stall() && !b.left {
		socket.until(start.Add(p.stall()))
		err := read()
		if !errors.Is(err, ErrTimeout) {
			return err
		}
		if !received {
			return errAlone
		}
		p.mu.Lock()
		b.cutAt(b.at+1, true)
		p.again(b, nil)
		p.mu.Unlock()
		socket.expired = false
	}
	socket.until(start.Add(patience))
	return read()
}

// proceed gives the next request of b its turn, or ends b. closes means that the server
// closes the connection.
func (p *Pool) proceed(b *batch, closes bool) {
	q, c := b.queue, b.conn
	q.record.Add(false)
	b.at++
	alive := c.rest() && !closes && !b.cut // whatever the context of this request does from now on
	if b.at < len(b.turns) && !closes {
		p.mu.Lock()
		t := b.turns[b.at]
		passed := alive && !t.gone
		if passed {
			t.next <- b
		}
		p.mu.Unlock()
		if !passed {
			p.abandon(b, b.at, false)
		}
		return
	}
	alive = alive && b.buf.Buffered() == 0
	putBuffer(b.buf)
	if !alive {
		c.close()
		c = nil
	}
	p.mu.Lock()
	if closes {
		q.limit = b.conn.served
	} else if n := len(b.turns); n > 1 {
		q.pace.add(b.waited > max(time.Duration(n-1)*slowly, b.first), slowCost)
	}
	b.cutAt(b.at, false)
	surplus := p.again(b, c)
	p.mu.Unlock()
	if surplus != nil {
		surplus.close()
	}
}

// again follows b, or leaves it, with the next batch: on c, which is idle; nil: on another
// connection. It returns a connection to be closed, or nil. The caller holds the lock.
func (p *Pool) again(b *batch, c *conn) (surplus *conn) {
	q := b.queue
	if !b.left {
		b.left = true
		q.active--
	}
	if c == nil && len(q.waiting) > 0 && q.works() {
		c = p.takeLocked(b.to)
	}
	switch {
	case c == nil:
	case len(q.waiting) > 0 && q.works():
		q.send(b.to, c)
		return nil
	default:
		surplus = p.putLocked(c)
	}
	q.relieve()
	return surplus
}

// abandon closes the connection of b, and has its requests from an index on sent
// alone. failed means that this is due to the server.
func (p *Pool) abandon(b *batch, from int, failed bool) {
	b.conn.close()
	if b.buf != nil {
		putBuffer(b.buf)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b.cutAt(from, failed)
	p.again(b, nil)
}

// detach makes resp, whose turn it is, the last response of the connection of b, unless
// it is the last one of b.
func (p *Pool) detach(b *batch, resp *Response) {
	p.mu.Lock()
	defer p.mu.Unlock()
	b.cutAt(b.at+1, b.at+1 < len(b.turns))
	resp.Closes = resp.Closes || b.cut
	p.again(b, nil)
}

// cutAt has the requests from an index on sent alone. failed means that this is due to
// the server. The caller holds [Pool].mu.
func (b *batch) cutAt(from int, failed bool) {
	if from < len(b.turns) {
		sendAlone(b.turns[from:])
		b.turns, b.cut = b.turns[:from], true
	}
	if failed {
		b.queue.record.Add(true)
	}
}

func sendAlone(turns []*turn) {
	for _, t := range turns {
		if !t.gone {
			t.next <- nil
		}
	}
}

// putBuffer keeps a buffer for other responses.
func putBuffer(buf *bufio.Reader) {
	buf.Reset(nil)
	if buf.Size() == batchBuffer {
		batchBuffers.Put(buf)
	} else {
		buffers.Put(buf)
	}
}

// NoPipelining has requests to a peer sent alone from now on: a response to a pipelined
// one was that to another.
func (p *Pool) NoPipelining(secure bool, host string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queueOf(peer{secure, host, true}).record.add(true, mostCost)
}

package fetch

import (
	"cmp"
	"context"
	"maps"
	"math"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/internal/fetch/concurrency"
	"lockstep/internal/fetch/pace"
	"lockstep/internal/sleep"
)

// maxHosts caps the remembered hosts: what a Source names must not fill memory.
// Beyond it idle ones are forgotten; if that is not enough, those that fail, too, once
// they may be requested again.
const maxHosts = 256

// maxSharedHosts is the same for Limits that Clients share.
const maxSharedHosts = 4096

// hosts hold the limits of each host.
type hosts struct {
	lanes      []int // connections in each, except that for documents
	remembered int   // hosts, at most
	jobs, most int   // initial number of concurrent requests, and the maximum if it adapts
	rate       float64
	patience   time.Duration // for a host that fails all requests
	ungated    bool          // see Options.Ungated
	divisor    divisor

	mu sync.RWMutex // guards m
	m  map[string]*host
}

// newHosts returns the limits that the options of a Client describe.
func newHosts(o *Options) *hosts {
	hs := &hosts{jobs: o.Jobs, rate: o.Rate, remembered: maxHosts, patience: min(GiveUpAfter, GiveUpTimeouts*o.Timeout), ungated: o.Ungated}
	if o.Jobs == 0 {
		hs.jobs, hs.most = DefaultJobs, min(cmp.Or(o.MostJobs, MaxJobs), max(OpenFiles()/filesPerJob, DefaultJobs))
	}
	// If few files may be open, even the connections for a small server are too many.
	few := max((OpenFiles()-OwnFiles)/(2*filesPerJob), 1)
	hs.jobs, hs.most = min(hs.jobs, few), min(hs.most, few)
	hs.lanes = lanesOf(hs.jobs, hs.most)
	return hs
}

// Limits are the limits that apply to each host, however many Clients send requests to
// it: of concurrent requests, of their rate, and of requests to one that fails. The Client
// that uses them first determines them by its Options. The zero value is ready to use. Its
// methods are safe for concurrent use.
type Limits struct {
	mu    sync.Mutex // guards hosts
	hosts *hosts
}

// of returns the limits, which are those of the first call.
func (l *Limits) of(hs *hosts) *hosts {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hosts == nil {
		hs.remembered = maxSharedHosts
		l.hosts = hs
	}
	return l.hosts
}

// A host is the state of one host and port.
type host struct {
	slots  slots
	rate   pace.Pace
	gate   gate
	breaks breaks
	simple simplicity
}

// HostOf returns the key of the limits that apply to uri: its host and port in
// a canonical spelling; "" if there is none.
func HostOf(uri string) string {
	u, err := parse(uri)
	if err != nil {
		return ""
	}
	return hostOf(u)
}

func hostOf(u *url.URL) string {
	host := strings.ToLower(u.Host)
	if port := u.Port(); port != "" && port == defaultPort(u.Scheme) {
		host = strings.TrimSuffix(host, ":"+port)
	}
	return strings.TrimSuffix(host, ".")
}

func (hs *hosts) get(name string) *host {
	hs.mu.RLock()
	h := hs.m[name]
	hs.mu.RUnlock()
	if h != nil {
		return h
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if h = hs.m[name]; h != nil {
		return h
	}
	if hs.m == nil {
		hs.m = make(map[string]*host)
	}
	for _, failing := range []bool{false, true} { // a host that fails would cost time again
		if len(hs.m) < hs.remembered {
			break
		}
		maps.DeleteFunc(hs.m, func(_ string, h *host) bool { return h.slots.idle() && h.rate.Idle() && h.gate.idle(failing) })
	}
	h = &host{slots: slots{lanes: hs.lanes, divisor: &hs.divisor, adapter: concurrency.New(hs.jobs, hs.most)}, rate: pace.Pace{Rate: hs.rate, Shares: hs.divisor.get}, gate: gate{host: name, patience: hs.patience, off: hs.ungated}, breaks: breaks{host: name, patience: hs.patience, off: hs.ungated}}
	hs.m[name] = h
	return h
}

// Limit returns the current maximum number of concurrent requests to a host, as
// [HostOf] names it. Unless it is configured, it changes.
func (c *Client) Limit(host string) int {
	s := &c.hosts.get(host).slots
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.jobs()
}

// spareJobs is the least number of concurrent requests of which some may be needless.
const spareJobs = 8

// Spare reports whether c may send a tentative request to u: the operator has not
// limited the number of requests, and it is not yet to be determined whether u may
// receive credentials.
func Spare(c *Client, u *url.URL) bool {
	return c.hosts.rate == 0 && c.Jobs() >= spareJobs && !c.guarded(u)
}

// A reply describes the answer to a request.
type reply struct {
	concurrency.Reply
	good  bool // usable
	alive bool // not a temporary failure
	major int  // version of HTTP
}

// slots counts the concurrent requests to one host. A document is read while
// the resources it names are fetched, so it never waits for a slot, because the
// holders could be waiting for it; but it counts, and other requests leave room
// for it. One request that is not for a document is always allowed.
type slots struct {
	lanes   []int    // connections in each, except that for documents
	divisor *divisor // of the number of requests

	mu      sync.Mutex // guards the rest
	adapter concurrency.Adapter
	streams bool // the host supports HTTP/2: a lane is one connection
	held    int  // all except documents
	docs    int
	in      [maxLanes]int // under way in each lane
	waiting []chan lane   // in order of arrival
	spare   []chan lane   // that nobody uses

	near atomic.Bool // answers come quickly

	misses int // consecutive failures
	pauses int // requested by the host, with only failures in between
	waits  int // the same, of those that are too long to wait for
}

const (
	patienceFactor = 100
	patienceLeast  = 5 * time.Second
	smallBody      = 1 << 20 // from this size on a body is waited for

)

// A lane selects whose connection a request uses: each lane is a transport of
// its own. An http.Transport that may open more connections does so, needed or
// not; the first lane therefore has a host's initial connections, and every
// further lane is used when those before it are full.
type lane uint8

const (
	maxLanes          = 8
	laneDocument lane = maxLanes - 1 // for documents, if the first lane is full
	laneStreams  lane = 1 << 7       // set if the host supports HTTP/2
	laneSingle   lane = 1 << 6       // for requests on connections of their own; slots do not count it
)

// streamsPerConn is how many requests share an HTTP/2 connection: the number
// that every server should allow (RFC 9113, 6.5.2), minus a few whose end the
// server may not have seen. A server that allows fewer gets more connections
// instead.
const streamsPerConn = 96

// lanesOf returns the number of connections of each lane for a host.
func lanesOf(jobs, most int) []int {
	lanes := []int{jobs}
	for sum := jobs; sum < most && len(lanes) < int(laneDocument); {
		n := min(sum, most-sum)
		lanes = append(lanes, n)
		sum += n
	}
	return lanes
}

// maxSpare is how many channels of requests that waited are kept for others.
const maxSpare = 64

func (s *slots) acquire(ctx context.Context, doc bool) (lane, error) {
	s.mu.Lock()
	if doc {
		defer s.mu.Unlock()
		s.docs++
		if s.in[0] >= s.room(0) {
			return laneDocument, nil
		}
		return s.enterLane(0), nil
	}
	if len(s.waiting) == 0 && s.free() {
		defer s.mu.Unlock()
		return s.take(), nil
	}
	var turn chan lane
	if n := len(s.spare); n > 0 {
		turn, s.spare = s.spare[n-1], s.spare[:n-1]
	} else {
		turn = make(chan lane, 1)
	}
	s.waiting = append(s.waiting, turn)
	s.mu.Unlock()
	select {
	case l := <-turn:
		s.mu.Lock()
		if len(s.spare) < maxSpare {
			s.spare = append(s.spare, turn) // nothing else has it any more
		}
		s.mu.Unlock()
		return l, nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, w := range s.waiting {
		if w == turn {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return 0, context.Cause(ctx)
		}
	}
	s.give(<-turn, false) // the slot was assigned meanwhile
	s.wake()
	return 0, context.Cause(ctx)
}

// take takes a free slot.
func (s *slots) take() lane {
	s.held++
	l := lane(0)
	for int(l) < len(s.lanes)-1 && s.in[l] >= s.room(l) {
		l++
	}
	return s.enterLane(l)
}

func (s *slots) enterLane(l lane) lane {
	s.in[l]++
	if s.streams {
		l |= laneStreams
	}
	return l
}

// room returns the number of requests for a lane.
func (s *slots) room(l lane) int {
	if s.streams {
		return streamsPerConn
	}
	return s.lanes[l]
}

func (s *slots) give(l lane, doc bool) {
	if l != laneDocument {
		s.in[l&^laneStreams]--
	}
	if doc {
		s.docs--
	} else {
		s.held--
	}
}

// enter waits until h may get another request, and takes a slot. The request counts for the
// rate when it has its slot: those that wait for slots, or for the end of a pause, would
// otherwise be sent all at once. A document waits for none of those that wait for slots.
func (h *host) enter(ctx context.Context, doc bool) (lane, error) {
	turn, err := h.rate.Turn(ctx, doc)
	if err != nil {
		return 0, err
	}
	defer turn.End()
	for {
		l, err := h.slots.acquire(ctx, doc)
		if err != nil {
			return 0, err
		}
		wait := turn.Take(1)
		if wait <= 0 {
			return l, nil
		}
		h.slots.release(l, doc, &reply{})
		if err := sleep.For(ctx, wait); err != nil {
			return 0, err
		}
	}
}

// leave returns what enter has taken for a request that is not sent.
func (h *host) leave(l lane, doc bool) {
	h.rate.Return(1)
	h.slots.release(l, doc, &reply{})
}

// release releases a slot. r describes the answer.
func (s *slots) release(l lane, doc bool, r *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := len(s.waiting) > 0 || !s.free()
	s.give(l, doc)
	if r.alive {
		s.misses, s.pauses, s.waits = 0, 0, 0
	}
	if r.good {
		s.streams = r.major >= 2
		s.adapter.Answered(time.Now(), &r.Reply, busy, doc)
		s.near.Store(s.adapter.Near())
	}
	s.wake()
}

// patience returns how long to wait for an answer: a host that answers nearly
// everything has lost a request that takes much longer than others, and will
// answer it when it is repeated.
func (s *slots) patience() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	usual, settled := s.adapter.Usual()
	if !settled || !s.adapter.Well() {
		return math.MaxInt64
	}
	return max(patienceFactor*usual, patienceLeast)
}

// jobs returns how many requests are allowed: the share of this process.
func (s *slots) jobs() int { return max(s.adapter.Jobs()/s.divisor.get(), 1) }

func (s *slots) free() bool { return s.held < max(s.jobs()-s.docs, 1) }

func (s *slots) wake() {
	for len(s.waiting) > 0 && s.free() {
		s.waiting[0] <- s.take()
		s.waiting[0] = nil
		if s.waiting = s.waiting[1:]; len(s.waiting) == 0 {
			s.waiting = nil
		}
	}
}

func (s *slots) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.held == 0 && s.docs == 0 && len(s.waiting) == 0
}

// A Bandwidth limits the bytes per second of all Clients that share it.
type Bandwidth struct{ pace pace.Pace }

// NewBandwidth returns a limit of n bytes a second.
func NewBandwidth(n int64) *Bandwidth { return &Bandwidth{pace.Pace{Rate: float64(n)}} }

// A budget is the bandwidth of a Client.
type budget struct {
	own   pace.Pace
	total *Bandwidth // shared with others; may be nil
}

// limit returns the bytes per second to which bodies are limited; 0 if they are not.
func (b *budget) limit() float64 {
	if b.total == nil || b.own.Rate > 0 && b.own.Rate < b.total.pace.Rate {
		return b.own.Rate
	}
	return b.total.pace.Rate
}

// wait waits until n more bytes may be received.
func (b *budget) wait(ctx context.Context, n int) error {
	if err := b.own.Wait(ctx, n); err != nil || b.total == nil {
		return err
	}
	return b.total.pace.Wait(ctx, n)
}

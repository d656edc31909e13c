package front

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// answerBytes bounds the memory of the answers: a client may request
	// everything.
	answerBytes = 64 << 20

	// maxAnswer is the largest body that is kept. The server sends larger ones
	// from the file to the connection without copying them.
	maxAnswer = 256 << 10

	// answerOverhead is the memory of an answer in addition to its body.
	answerOverhead = 1 << 10

	// ripeness is how long a state must have lasted for its answer to be kept:
	// until then the entity tags and times that the handler sends are valid for
	// one answer only.
	ripeness = 2 * time.Second
)

// answers are the answers that the front can repeat.
type answers struct {
	handler http.Handler
	state   func(path string) string // see Listen

	mu        sync.RWMutex // guards byRequest and size
	byRequest map[request]*answer
	size      int64
}

// An answer is a response of the handler. It does not change.
type answer struct {
	state  string    // of what it was made from
	seen   time.Time // when that state was first seen
	header []byte    // status line and header lines without Date; nil: not ripe, or for the server
	body   []byte
}

var errTooMuch = errors.New("too large to be kept")

func newAnswers(h http.Handler, state func(path string) string) *answers {
	return &answers{handler: h, state: state, byRequest: make(map[request]*answer)}
}

// find returns the answer to r, nil if the server has to answer.
func (s *answers) find(r *request) *answer {
	state := s.state(r.path)
	if state == "" {
		return nil
	}
	s.mu.RLock()
	known := s.byRequest[*r]
	s.mu.RUnlock()
	now := time.Now()
	switch {
	case known == nil || known.state != state:
		s.keep(r, &answer{state: state, seen: now})
		return s.fresh(r)
	case known.header != nil:
		return known
	case known.seen.IsZero(): // for the server
		return nil
	case now.Sub(known.seen) < ripeness:
		return s.fresh(r)
	}
	ripe := s.fresh(r)
	if ripe == nil {
		s.keep(r, &answer{state: state})
		return nil
	}
	if s.state(r.path) == state {
		ripe.state = state
		s.keep(r, ripe)
	}
	return ripe
}

// fresh returns the answer of the handler to q; nil if it is not one that the
// front can send. If the handler panics, the server calls it again and handles
// the panic.
func (s *answers) fresh(q *request) (made *answer) {
	defer func() {
		if recover() != nil {
			made = nil
		}
	}()
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: q.path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, 1), Body: http.NoBody, RequestURI: q.path,
	}
	if q.gzip {
		r.Header["Accept-Encoding"] = []string{"gzip"}
	}
	w := &answerWriter{header: make(http.Header, 12)}
	s.handler.ServeHTTP(w, r)
	if w.status != http.StatusOK || w.over || w.header.Get("Content-Length") != strconv.Itoa(len(w.body)) {
		return nil
	}
	return &answer{header: w.head(), body: w.body}
}

// keep stores an answer. When there are too many, all are dropped: they are soon
// made again.
func (s *answers) keep(r *request, v *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byRequest[*r]; old != nil {
		s.size -= old.cost()
	}
	if s.size+v.cost() > answerBytes {
		clear(s.byRequest)
		s.size = 0
	}
	s.byRequest[*r] = v
	s.size += v.cost()
}

func (v *answer) cost() int64 { return answerOverhead + int64(len(v.header)+len(v.body)) }

// appendHeader appends the header with the current Date.
func (v *answer) appendHeader(b []byte, now time.Time) []byte {
	b = append(b, v.header...)
	b = append(b, "Date: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	return append(b, "\r\n\r\n"...)
}

// An answerWriter records a response of the handler.
type answerWriter struct {
	header http.Header
	status int
	body   []byte
	over   bool // too large to be kept
}

func (w *answerWriter) Header() http.Header { return w.header }

func (w *answerWriter) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		n, err := strconv.ParseInt(w.header.Get("Content-Length"), 10, 64)
		w.over = err != nil || n > maxAnswer
	}
}

func (w *answerWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.over = w.over || len(w.body)+len(p) > maxAnswer; w.over {
		return 0, errTooMuch
	}
	w.body = append(w.body, p...)
	return len(p), nil
}

// head returns the status line and the header lines, as net/http writes them.
func (w *answerWriter) head() []byte {
	b := []byte("HTTP/1.1 200 OK\r\n")
	names := make([]string, 0, len(w.header))
	for name := range w.header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range w.header[name] {
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
			b = append(b, "\r\n"...)
		}
	}
	return b
}

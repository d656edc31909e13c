package source

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"time"
)

const (
	// answerBytes bounds what the front keeps: memory filled by a client that
	// asks for everything.
	answerBytes = 64 << 20

	// maxAnswer is the largest body that is kept. What is larger goes from the
	// file to the connection without passing through us.
	maxAnswer = 256 << 10

	// answerOverhead is what an answer costs beside its body.
	answerOverhead = 1 << 10

	// ripeness is how long what is served must have been as it is for an answer
	// to be kept: until then the handler's tags and times are for one answer
	// only, see entityTag and lastModified.
	ripeness = 2 * time.Second
)

// answers are those the front can give.
type answers struct {
	source  *Source
	handler http.Handler

	mu    sync.RWMutex // guards what follows
	byAsk map[ask]*answer
	size  int64
}

// An answer is one the handler gave. It does not change.
type answer struct {
	mark   string    // the state of what it was made from
	seen   time.Time // when that state was first seen
	header []byte    // status line and header lines but for Date; nil: not ripe, or not for us
	body   []byte
}

var errTooMuch = errors.New("too large to be kept")

func newAnswers(s *Source, h http.Handler) *answers {
	return &answers{source: s, handler: h, byAsk: make(map[ask]*answer)}
}

// find returns the answer to a, nil if it is the server's to give.
func (s *answers) find(a *ask) *answer {
	rel, ok := s.source.base.locate(a.path)
	if !ok || rel == homeName {
		return nil
	}
	mark, err := s.mark(rel)
	if err != nil || mark == "" {
		return nil
	}
	s.mu.RLock()
	known := s.byAsk[*a]
	s.mu.RUnlock()
	now := time.Now()
	switch {
	case known == nil || known.mark != mark:
		s.keep(a, &answer{mark: mark, seen: now})
		return s.fresh(a)
	case known.header != nil:
		return known
	case known.seen.IsZero(): // not for us
		return nil
	case now.Sub(known.seen) < ripeness:
		return s.fresh(a)
	}
	ripe := s.fresh(a)
	if ripe == nil {
		s.keep(a, &answer{mark: mark})
		return nil
	}
	if again, err := s.mark(rel); err == nil && again == mark {
		ripe.mark = mark
		s.keep(a, ripe)
	}
	return ripe
}

// mark tells the state of what is at rel from any other; "" if that cannot be
// told.
func (s *answers) mark(rel string) (string, error) {
	if isTopic(rel) {
		return "", nil
	}
	if served(rel) {
		info, err := s.source.docs.Stat(context.Background(), rel)
		if err != nil {
			return "", err
		}
		return "d" + strconv.FormatInt(info.Size, 36) + "-" + strconv.FormatInt(info.ModTime.UnixNano(), 36), nil
	}
	if Reserved(rel) || s.source.opts.Content == nil || s.source.opts.Mark == nil {
		return "", nil
	}
	mark, err := s.source.opts.Mark(rel)
	return "f" + mark, err
}

// fresh has the handler make an answer to a; nil if it makes none that is for
// us. A handler that panics is the server's to deal with, which does so request
// by request.
func (s *answers) fresh(a *ask) (made *answer) {
	defer func() {
		if recover() != nil {
			made = nil
		}
	}()
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: a.path}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: make(http.Header, 1), Body: http.NoBody, RequestURI: a.path,
	}
	if a.gzip {
		r.Header["Accept-Encoding"] = []string{"gzip"}
	}
	w := &answerWriter{header: make(http.Header, 12)}
	s.handler.ServeHTTP(w, r)
	if w.status != http.StatusOK || w.over || w.header.Get("Content-Length") != strconv.Itoa(len(w.body)) {
		return nil
	}
	return &answer{header: w.head(), body: w.body}
}

// keep remembers an answer. When there are too many, all go: they are soon made
// again.
func (s *answers) keep(a *ask, v *answer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.byAsk[*a]; old != nil {
		s.size -= old.cost()
	}
	if s.size+v.cost() > answerBytes {
		clear(s.byAsk)
		s.size = 0
	}
	s.byAsk[*a] = v
	s.size += v.cost()
}

func (v *answer) cost() int64 { return answerOverhead + int64(len(v.header)+len(v.body)) }

// appendHeader appends the header as it is to be sent now.
func (v *answer) appendHeader(b []byte, now time.Time) []byte {
	b = append(b, v.header...)
	b = append(b, "Date: "...)
	b = now.UTC().AppendFormat(b, http.TimeFormat)
	return append(b, "\r\n\r\n"...)
}

// An answerWriter takes a response of the handler.
type answerWriter struct {
	header http.Header
	status int
	body   []byte
	over   bool // too large for us
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

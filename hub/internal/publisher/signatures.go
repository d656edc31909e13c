package publisher

import (
	"context"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"lockstep/hub/internal/refusal"
	"lockstep/hub/internal/request"
	"lockstep/hub/internal/timing"
	"lockstep/websub"
)

const (
	// signedFor is how old a signed publication may be; signedAhead is how far in
	// the future its date may be, to allow for clocks that differ.
	signedFor   = 5 * time.Minute
	signedAhead = 10 * time.Second
	// maxReplays caps the signed publications that are remembered: holders of a
	// token could fill the memory.
	maxReplays = 100_000
)

// signatureMethods are the methods that authenticate a publication: nothing
// weaker protects a token.
var signatureMethods = []string{"sha256", "sha384", "sha512"}

// Signatures verifies signed publications, and accepts each of them once.
type Signatures struct {
	tokens  func() ([]Token, error)
	started time.Time
	now     func() time.Time
	shared  Recorder // nil: no other hub shares the state
	replays replays  // used if shared is nil
	log     *slog.Logger
}

// A Recorder remembers the signed publications that any of several hubs has
// accepted: see [hubstore.Sharer].
type Recorder interface {
	Remember(ctx context.Context, digest [sha256.Size]byte, until time.Time) (fresh bool, err error)
	Forget(ctx context.Context, digest [sha256.Size]byte) error
}

// NewSignatures returns a Signatures that accepts those made with tokens. The
// hub started at the time started. shared is nil if no other hub shares its
// state.
func NewSignatures(tokens func() ([]Token, error), started time.Time, now func() time.Time, shared Recorder, log *slog.Logger) *Signatures {
	return &Signatures{tokens: tokens, started: started, now: now, shared: shared, log: log}
}

// dateOf returns the date that a signed publication names.
func dateOf(h http.Header) (value string, at time.Time, err error) {
	values := h.Values("Date")
	if len(values) == 1 {
		if at, err := http.ParseTime(values[0]); err == nil {
			return values[0], at, nil
		}
	}
	return "", time.Time{}, refusal.New(http.StatusForbidden, "a signed publication takes one Date header, and a signature over topic, date and body")
}

// CheckDate refuses a signed publication that is too old or too far in the
// future. A hub that shares its state with no other hub also refuses what was
// signed before it started: the previous process may have accepted it, and kept
// no record. Hubs that share their state record there what they have accepted.
func (s *Signatures) CheckDate(header http.Header) error {
	_, at, err := dateOf(header)
	now := s.now()
	started := now.Add(-now.Sub(s.started)) // by the clock as it is now
	switch {
	case err != nil:
		return err
	case at.Before(now.Add(-signedFor)) || at.After(now.Add(signedAhead)):
		return refusal.New(http.StatusForbidden, "the publication is dated %s, but it is %s here: a signature is good for %s", at.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339), signedFor)
	case s.shared == nil && !at.After(started.Add(signedAhead)):
		wait := max(started.Add(signedAhead).Sub(now), 0) + time.Second
		return &refusal.Refusal{Status: http.StatusServiceUnavailable, Text: "the publication may have been signed before this hub started: sign it again later", After: wait}
	}
	return nil
}

// Verify verifies the signature of a publication, made with a token as the key
// over topic, date and body (WS-X-09), and remembers it, so that the same
// publication is not accepted again. undo forgets it.
func (s *Signatures) Verify(r *http.Request, p *request.Publication, body []byte) (undo func(), err error) {
	date, at, err := dateOf(r.Header)
	if err != nil {
		return nil, err
	}
	tokens, err := s.tokens()
	if err != nil {
		return nil, err
	}
	for _, t := range tokens {
		if _, err := websub.VerifyPublication(r.Header.Values(websub.SignatureHeader), []byte(t.Text), p.Self, date, body, signatureMethods...); err != nil {
			continue
		}
		if err := entitle(tokens, t.Text, []*url.URL{p.URL}); err != nil {
			return nil, err
		}
		digest := sha256.New()
		_, _ = digest.Write([]byte(p.Topic + "\n" + at.UTC().Format(time.RFC3339) + "\n")) // never fails
		_, _ = digest.Write(body)
		return s.remember(r.Context(), [sha256.Size]byte(digest.Sum(nil)), at.Add(signedFor+time.Second))
	}
	return nil, refusal.New(http.StatusForbidden, "the signature is not made with one of the tokens that may publish here, by %s, over topic, date and body", strings.Join(signatureMethods, ", "))
}

// remember records a signed publication before it is accepted: in the shared
// state if there is one, otherwise in memory. A publication that was recorded
// and then lost in a crash has to be signed again, with another date.
func (s *Signatures) remember(ctx context.Context, digest [sha256.Size]byte, until time.Time) (undo func(), err error) {
	if s.shared == nil {
		return s.replays.remember(digest, s.now(), until)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.SaveTime)
	defer cancel()
	fresh, err := s.shared.Remember(ctx, digest, until)
	switch {
	case err != nil:
		return nil, fmt.Errorf("note a signed publication: %w", err)
	case !fresh:
		return nil, refusal.New(http.StatusConflict, "this signed publication was accepted before, or its date is too old by the clock of the hub's database")
	}
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timing.SaveTime)
		defer cancel()
		if err := s.shared.Forget(ctx, digest); err != nil {
			s.log.WarnContext(ctx, "a signed publication was not accepted, and has to be signed again", slog.Any("err", err))
		}
	}, nil
}

// replays remembers the signed publications that were accepted and could still
// be replayed.
type replays struct {
	mu    sync.Mutex // guards until
	until map[[sha256.Size]byte]time.Time
}

// remember records a publication until its date is too old to be accepted.
func (r *replays) remember(sum [sha256.Size]byte, now, until time.Time) (undo func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.until == nil {
		r.until = map[[sha256.Size]byte]time.Time{}
	}
	if len(r.until) >= maxReplays {
		for s, at := range r.until {
			if at.Before(now) {
				delete(r.until, s)
			}
		}
	}
	if at, ok := r.until[sum]; ok && !at.Before(now) {
		return nil, refusal.New(http.StatusConflict, "this signed publication was accepted before")
	}
	if len(r.until) >= maxReplays {
		return nil, refusal.TooMany(signedFor, "too many signed publications")
	}
	r.until[sum] = until
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.until, sum)
	}, nil
}

package source_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/atompmh"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// atomRounds is how many publications TestAtomWalkers has of each of its feeds.
var atomRounds = flag.Int("source.atomrounds", 12, "publications that walkers of Atom feeds see, of each feed")

// A watchedStore calls before and after every operation on blobs; what before
// returns is the operation's outcome.
type watchedStore struct {
	blob.Store
	before func() error
	after  func(shows bool)
}

func (s *watchedStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := s.before(); err != nil {
		return nil, err
	}
	w, err := s.Store.Create(ctx, name)
	s.after(false)
	return watchedWriter{w, s}, err
}

type watchedWriter struct {
	blob.Writer
	s *watchedStore
}

func (w watchedWriter) Write(p []byte) (int, error) {
	if err := w.s.before(); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

func (s *watchedStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	for _, w := range ws {
		if err := s.before(); err != nil {
			return err
		}
		if err := s.Store.Commit(ctx, w.(watchedWriter).Writer); err != nil {
			return err
		}
		s.after(true)
	}
	return nil
}

func (s *watchedStore) Remove(ctx context.Context, names ...string) error {
	for _, name := range names {
		if err := s.before(); err != nil {
			return err
		}
		if err := s.Store.Remove(ctx, name); err != nil {
			return err
		}
		s.after(true)
	}
	return nil
}

func (s *watchedStore) Open(ctx context.Context, name string) (blob.Reader, error) {
	if err := s.before(); err != nil {
		return nil, err
	}
	s.after(false)
	r, err := s.Store.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return watchedReader{r, s}, nil
}

// A watchedReader fails in the middle of a document, too.
type watchedReader struct {
	blob.Reader
	s *watchedStore
}

func (r watchedReader) Read(p []byte) (int, error) {
	if err := r.s.before(); err != nil {
		return 0, err
	}
	return r.Reader.Read(p)
}

func (r watchedReader) WriteTo(w io.Writer) (int64, error) {
	return io.Copy(w, struct{ io.Reader }{r})
}

func (s *watchedStore) Stat(ctx context.Context, name string) (blob.Info, error) {
	if err := s.before(); err != nil {
		return blob.Info{}, err
	}
	return s.Store.Stat(ctx, name)
}

func (s *watchedStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	if err := s.before(); err != nil {
		return func(yield func(blob.Info, error) bool) { yield(blob.Info{}, err) }
	}
	s.after(false)
	return s.Store.List(ctx, prefix)
}

// A walkersWorld is a feed that is published, faults included, while walkers walk.
type walkersWorld struct {
	*world
	random  *rand.Rand
	store   *watchedStore
	walkers []*walker
	last    *wholeFeed // of the feed, when something showed last
	newest  time.Time  // of all entries that ever were
	id      string     // of the feed

	races bool // the catalog changes while it is published
	raced bool

	ops, failAt int
	dead, crash bool
	linked      map[string]time.Time // archives, and when they were linked last
}

func newWalkersWorld(t testing.TB, seed uint64, a source.Atom) *walkersWorld {
	w := &walkersWorld{world: atomWorld(t, a), random: rand.New(rand.NewPCG(seed, 23)), linked: make(map[string]time.Time)}
	w.opts.Logger = slog.New(slog.NewTextHandler(warnings{w}, &slog.HandlerOptions{Level: slog.LevelWarn}))
	w.store = &watchedStore{Store: w.docs, before: w.before, after: w.after}
	for range 5 {
		w.walkers = append(w.walkers, new(walker))
	}
	return w
}

// warnings are of catalogs that are not what they are.
type warnings struct{ *walkersWorld }

func (w warnings) Write(line []byte) (int, error) {
	w.Errorf("%s", line)
	return len(line), nil
}

func (w *walkersWorld) before() error {
	w.ops++
	for _, k := range w.walkers { // how much time has passed for them, by a clock that runs back, too
		if at := w.now(); at.Before(k.low) {
			k.low = at
		} else {
			k.passed = max(k.passed, at.Sub(k.low))
		}
	}
	if w.dead || w.ops == w.failAt {
		w.dead = w.crash
		return errFault
	}
	return nil
}

// after looks at what everybody sees, and has some walkers go on.
func (w *walkersWorld) after(shows bool) {
	w.Helper()
	if shows {
		w.look()
	}
	for _, k := range w.walkers {
		if w.random.IntN(4) > 0 {
			continue
		}
		w.walk(k)
	}
}

func (w *walkersWorld) walk(k *walker) {
	w.Helper()
	err := k.step(reader(w.docs), w.now())
	if errors.Is(err, errGone) && k.passed >= w.opts.Grace { // AP-TS-08
		return // it begins again
	}
	if err != nil {
		w.Fatal(err)
	}
}

// look checks the whole feed, and what has become of it.
func (w *walkersWorld) look() {
	w.Helper()
	now, err := snap(reader(w.docs))
	if err != nil {
		w.Fatal(err)
	}
	if now == nil {
		if w.last != nil {
			w.Fatal("the feed is gone")
		}
		return
	}
	if w.id == "" {
		w.id = now.id
	}
	if now.id != w.id { // AP-DOC-04
		w.Fatalf("feed %s has become %s", w.id, now.id)
	}
	newest := w.newest
	for key, e := range now.all {
		if _, old := w.known(key); !old && !e.updated.After(w.newest) { // AP-TS-11
			w.Fatalf("%s is new, but of the newest there was is of %s", key, stamp(w.newest))
		}
		if e.updated.After(newest) {
			newest = e.updated
		}
	}
	w.newest = newest
	w.compare(now)
	w.last = now
}

func (w *walkersWorld) known(key string) (e walkEntry, ok bool) {
	if w.last != nil {
		e, ok = w.last.all[key]
	}
	return e, ok
}

// compare checks what the feed may become: archives are what they were, entries
// stay, unless history is left out.
func (w *walkersWorld) compare(now *wholeFeed) {
	w.Helper()
	at := w.now()
	for _, uri := range now.chain[1:] {
		w.linked[uri] = at
	}
	if w.last == nil {
		return
	}
	for _, uri := range w.last.chain[1:] {
		if old, ok := now.docs[uri]; ok && old != w.last.docs[uri] { // AP-TS-07
			w.Fatalf("archive %s has changed from\n%s\nto\n%s", uri, w.last.docs[uri], old)
		}
	}
	grown := len(w.last.chain) > 1 && len(now.chain) > 1 && now.docs[w.last.chain[len(w.last.chain)-1]] != ""
	for key, e := range w.last.all {
		if _, ok := now.all[key]; ok {
			continue
		}
		newer, told := now.newest[e.id]
		switch {
		case grown: // AP-HIS-01, AP-TS-12
			w.Fatalf("%s is not in the feed any more, whose archives go on", key)
		case told && newer.updated.After(e.updated): // history
		case now.complete: // AP-DEL-03
		default: // AP-DEL-07
			w.Fatalf("the newest entry of a record, %s %s, is not in the feed any more", key, e)
		}
	}
}

// A racingCatalog changes while others look at it.
type racingCatalog struct {
	catalog.Catalog
	look func()
}

func (c racingCatalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	c.look()
	return c.Catalog.Resources(ctx, set, r)
}

func (c racingCatalog) Changes(ctx context.Context, set string, after catalog.Seq) iter.Seq2[catalog.Change, error] {
	c.look()
	return c.Catalog.Changes(ctx, set, after)
}

// race may change a record.
func (w *walkersWorld) race() {
	if !w.races || w.random.IntN(3) > 0 {
		return
	}
	w.raced = true
	word := fmt.Sprintf("r%d", w.random.IntN(12))
	if w.random.IntN(2) > 0 {
		word += fmt.Sprintf("=%d", w.random.IntN(100))
	}
	w.put(word)
}

// change changes some records.
func (w *walkersWorld) change() {
	for range w.random.IntN(6) {
		word := fmt.Sprintf("r%d", w.random.IntN(12))
		if w.random.IntN(3) > 0 {
			word += fmt.Sprintf("=%d", w.random.IntN(100))
		}
		w.put(word)
	}
	switch w.random.IntN(14) {
	case 0:
		w.pass(-time.Hour)
	case 1:
		w.pass(3 * time.Hour)
	case 2:
		w.fill(fmt.Sprintf("s%d-%%03d", w.random.IntN(3)), 15)
	default:
		w.pass(time.Duration(w.random.IntN(100)) * time.Millisecond)
	}
}

// publishFaulty publishes, with a fault at a random operation or none, by this
// process or the next.
func (w *walkersWorld) publishFaulty(s *source.Source) *source.Source {
	w.Helper()
	w.failAt, w.crash = 0, w.random.IntN(3) > 0
	if w.random.IntN(3) == 0 {
		w.failAt = w.ops + 1 + w.random.IntN(60)
	}
	w.races, w.raced = w.random.IntN(3) == 0, false
	_, err := s.Publish(context.Background())
	w.dead, w.failAt, w.races = false, 0, false
	w.look()
	if err == nil && w.raced {
		_, err = s.Publish(context.Background())
	}
	if err == nil {
		w.agree()
		return s
	}
	if !errors.Is(err, errFault) {
		w.Fatal(err)
	}
	if !w.crash && w.random.IntN(2) == 0 {
		return s // the same process tries again
	}
	return w.process()
}

// process is another process that publishes the same.
func (w *walkersWorld) process() *source.Source {
	w.Helper()
	faulty := *w.world
	faulty.docs, faulty.cat = w.store, racingCatalog{w.cat, w.race}
	w.dead, w.failAt = false, 0
	return faulty.source()
}

// agree checks that the feed tells of what there is (AP-ACT-01, AP-ACT-06,
// AP-GEN-04): each record once, by links that lead to it.
func (w *walkersWorld) agree() {
	w.Helper()
	if diff := cmp.Diff(w.records(), w.last.there()); diff != "" {
		w.Fatalf("records told of (-want +got):\n%s", diff)
	}
	for id, e := range w.last.newest {
		if e.alternates != "" && id != atompmh.RecordID(e.alternates) {
			w.Fatalf("%s is told of as %s", e.alternates, id)
		}
	}
}

// walked adds what walks there were.
func (w *walkersWorld) walked(done, moved int) (int, int) {
	for _, k := range w.walkers {
		done, moved = done+k.done, moved+k.moved
	}
	return done, moved
}

// TestAtomWalkers has walkers follow feeds, slowly, while these are published: the
// invariants I1 to I3 hold whenever anything shows, also in the middle of a
// publication and after a fault or a crash at any operation; archives are what they
// were; times rise strictly; and whoever walks, however slowly, comes to what the
// feed says. (AP-TS-01, AP-TS-02, AP-TS-03, AP-TS-11, AP-TS-12, AP-DEL-07)
func TestAtomWalkers(t *testing.T) {
	t.Parallel()
	rounds := *atomRounds
	if underRace {
		rounds = min(rounds, 8)
	}
	// AP-DOC-13: documents have as many entries as they are meant to.
	for name, a := range map[string]source.Atom{"1": {Entries: 1}, "3": {Entries: 3}, "8": {Entries: 8}, "complete": {Complete: true}, "turns": {Entries: 4}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWalkersWorld(t, 1, a)
			s := w.process()
			done, moved := 0, 0
			for i := range rounds {
				if i%200 == 199 { // another feed
					done, moved = w.walked(done, moved)
					w = newWalkersWorld(t, uint64(i), a)
					s = w.process()
				}
				w.change()
				if name == "turns" && w.random.IntN(5) == 0 { // configured anew
					atom := source.Atom{Entries: 1 + w.random.IntN(6), Title: strings.Repeat("x", 1+w.random.IntN(2))}
					if w.random.IntN(3) == 0 {
						atom = source.Atom{Complete: true}
					}
					w.opts.Sets = []source.Set{{Atom: &atom}}
					s = w.process()
				}
				s = w.publishFaulty(s)
			}
			done, moved = w.walked(done, moved)
			t.Logf("%d walks, %d of them while the feed changed", done, moved)
			if rounds >= 30 && done < 5 {
				t.Error("too little has been seen")
			}
		})
	}
}

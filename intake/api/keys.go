package api

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"lockstep/catalog"
)

// A keyLog remembers which requests with an idempotency key were made, and how
// they were answered. It is stored in a keyStore as append-only files, segments:
//
//	keys-00000001.log  records (keyrecord.go), oldest first
//	keys-00000002.log  …
//
// A new segment is begun every hour and at every start. A segment is never written
// to after an error, and is removed when all of its records are older than KeyLife.
// Memory holds only the position of the newest record of each key.
//
// A request is on disk before it is applied; its answer is on disk before anything
// else is applied. So after a crash all requests without an answer belong to the
// last Apply. The catalog knows whether that Apply took effect and what its results
// were; see [Set.settle].
//
// All methods must be called by one goroutine at a time.
type keyLog struct {
	store  keyStore
	now    func() time.Time
	max    int
	logger *slog.Logger

	opened   bool
	next     int           // number of the next segment
	segments []*keySegment // oldest first
	current  *keySegment   // the last segment, if it may be written to
	unsynced []keyRecord   // in memory only
	recent   map[keyID]int // index in unsynced of the newest record of a key
	asked    map[keyID]keyRecord
}

// segmentTime is how long a segment is written to. It determines how precisely old
// records are removed.
const segmentTime = time.Hour

// A keyStore stores the files of a keyLog.
type keyStore interface {
	// list returns the names of the files, in order. The store is ready then.
	list() ([]string, error)

	// open opens a file, and returns its size and when it was begun, or later.
	open(name string) (f keyFile, size int64, begun time.Time, err error)

	// create begins a file, which is durable.
	create(name string, now time.Time) (keyFile, error)

	// remove removes a file; it may be gone.
	remove(name string) error

	// place returns where a file is, for people.
	place(name string) string
}

// A keyFile is an open file of a keyStore.
type keyFile interface {
	io.ReaderAt
	io.Closer

	// write writes text durably at the end of the file, which is at the offset. It is not called
	// after an error.
	write(text []byte, offset int64) error
}

// A keySegment is one file of a keyLog.
type keySegment struct {
	name  string
	file  keyFile
	size  int64
	begun time.Time
	last  time.Time // time of the newest record, or later
	at    map[keyID]int64
	after catalog.Seq // highest change number after which a request was recorded before this process began
}

var (
	errManyKeys = errors.New("more idempotency keys than are remembered; send batches, or fewer keys")
	errKeyFile  = errors.New("is not a file of idempotency keys")
)

func newKeyLog(store keyStore, o Options) *keyLog {
	return &keyLog{store: store, now: o.Now, max: o.MaxKeys, logger: o.Logger, next: 1,
		recent: make(map[keyID]int), asked: make(map[keyID]keyRecord)}
}

// open reads the existing segments. The second call does nothing.
func (l *keyLog) open() error {
	if l.opened {
		return nil
	}
	names, err := l.store.list()
	if err != nil {
		return err
	}
	for _, name := range names {
		var number int
		if _, err := fmt.Sscanf(name, "keys-%08d.log", &number); err != nil {
			continue // not a file of the log
		}
		l.next = max(l.next, number+1)
		s, err := l.load(name)
		if err != nil {
			l.forget()
			return fmt.Errorf("read %s: %w", l.store.place(name), err)
		}
		l.segments = append(l.segments, s)
	}
	l.expire()
	l.opened = true
	return nil
}

// load reads a segment. A half-written record that a crash left at its end belongs
// to a request that was not carried out.
func (l *keyLog) load(name string) (*keySegment, error) {
	f, size, begun, err := l.store.open(name)
	if err != nil {
		return nil, err
	}
	s := &keySegment{name: name, file: f, begun: begun, at: make(map[keyID]int64)}
	s.size, err = readKeyRecords(f, func(offset int64, r keyRecord) {
		l.put(s, r, offset)
		s.after = max(s.after, r.after)
		if r.kind == keyAsked {
			l.asked[r.id] = r
		} else {
			delete(l.asked, r.id)
		}
	})
	if err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	if s.size < size {
		l.logger.Warn("the end of a file of idempotency keys is damaged and left out", slog.String("path", l.store.place(name)), slog.Int64("bytes", size-s.size))
	}
	return s, nil
}

// put records the position in s of the newest record of a key.
func (l *keyLog) put(s *keySegment, r keyRecord, offset int64) {
	for _, old := range l.segments {
		delete(old.at, r.id)
	}
	s.at[r.id] = offset
	at := r.at
	if now := l.now(); at.After(now) {
		at = now // the clock was ahead when it was recorded
	}
	if at.After(s.last) {
		s.last = at
	}
}

// forget closes all files and resets l to the state before open.
func (l *keyLog) forget() {
	for _, s := range l.segments {
		_ = s.file.Close() // all data that must be kept is synced
	}
	l.segments, l.current, l.opened = nil, nil, false
	clear(l.asked)
}

// reset removes all segments: they belong to a different catalog.
func (l *keyLog) reset() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, l.store.remove(s.name))
	}
	l.forget()
	return errors.Join(errs...)
}

// close writes the records that are only in memory.
func (l *keyLog) close() error {
	err := l.sync()
	l.forget()
	return err
}

// find returns the newest record of a key, if it has not expired.
func (l *keyLog) find(id keyID) (keyRecord, bool, error) {
	r, ok, err := l.newest(id)
	if !ok || r.kind == keyDropped || l.now().Sub(r.at) >= KeyLife {
		return keyRecord{}, false, err
	}
	return r, true, err
}

func (l *keyLog) newest(id keyID) (keyRecord, bool, error) {
	if i, ok := l.recent[id]; ok {
		return l.unsynced[i], true, nil
	}
	for _, s := range slices.Backward(l.segments) {
		offset, ok := s.at[id]
		if !ok {
			continue
		}
		r, err := readKeyRecord(s.file, offset)
		if err == nil && r.id != id {
			err = errKeyFile
		}
		if err != nil {
			return keyRecord{}, false, fmt.Errorf("read %s at %d: %w", l.store.place(s.name), offset, err)
		}
		if r.at.After(s.last) {
			r.at = s.last // the clock was ahead when it was recorded
		}
		return r, true, nil
	}
	return keyRecord{}, false, nil
}

// ask records requests durably before they are carried out. After an error they
// must not be carried out; some of the records may be on disk, and must be dropped
// before anything else is carried out.
func (l *keyLog) ask(rs []keyRecord) error {
	if len(rs) == 0 {
		return l.sync()
	}
	if l.count()+len(rs) > l.max {
		l.rotate()
		l.expire()
		if l.count()+len(rs) > l.max {
			return errManyKeys
		}
	}
	for _, r := range rs {
		l.add(r)
		l.asked[r.id] = r
	}
	return l.sync()
}

// count returns the number of keys on disk.
func (l *keyLog) count() (n int) {
	for _, s := range l.segments {
		n += len(s.at)
	}
	return n
}

// rotate begins a new segment if the current one is old.
func (l *keyLog) rotate() {
	if l.current != nil && l.now().Sub(l.current.begun) >= segmentTime {
		l.current = nil
	}
}

// answer records the answer to a request, durably with the next requests.
func (l *keyLog) answer(r keyRecord) {
	delete(l.asked, r.id)
	l.add(r)
}

// settle records durably whether requests were carried out, and their answers. After
// an error that is as unknown as before.
func (l *keyLog) settle(rs []keyRecord) error {
	n := len(l.unsynced)
	for _, r := range rs {
		l.add(r)
	}
	if err := l.sync(); err != nil {
		l.unsynced = l.unsynced[:n]
		clear(l.recent)
		for i, r := range l.unsynced {
			l.recent[r.id] = i
		}
		return err
	}
	for _, r := range rs {
		delete(l.asked, r.id)
	}
	return nil
}

func (l *keyLog) add(r keyRecord) {
	l.recent[r.id] = len(l.unsynced)
	l.unsynced = append(l.unsynced, r)
}

// sync writes the records that are only in memory durably.
func (l *keyLog) sync() error {
	if len(l.unsynced) == 0 {
		return nil
	}
	l.rotate()
	if l.current == nil {
		l.expire()
		if err := l.begin(); err != nil {
			return fmt.Errorf("keep idempotency keys: %w", err)
		}
	}
	s := l.current
	var text []byte
	offsets := make([]int64, len(l.unsynced))
	for i, r := range l.unsynced {
		offsets[i] = s.size + int64(len(text))
		text = r.append(text)
	}
	if err := s.file.write(text, s.size); err != nil {
		l.current = nil // its contents are unknown
		return fmt.Errorf("keep idempotency keys: %w", err)
	}
	for i, r := range l.unsynced {
		l.put(s, r, offsets[i])
	}
	s.size += int64(len(text))
	l.unsynced = l.unsynced[:0]
	clear(l.recent)
	return nil
}

// begin begins a new segment.
func (l *keyLog) begin() error {
	name, now := fmt.Sprintf("keys-%08d.log", l.next), l.now()
	f, err := l.store.create(name, now)
	if err != nil {
		return err
	}
	l.next++
	l.current = &keySegment{name: name, file: f, begun: now, at: make(map[keyID]int64)}
	l.segments = append(l.segments, l.current)
	return nil
}

// expire removes the segments whose records have all expired.
func (l *keyLog) expire() {
	l.segments = slices.DeleteFunc(l.segments, func(s *keySegment) bool {
		if s == l.current || l.now().Sub(s.last) < KeyLife && len(s.at) > 0 {
			return false
		}
		_ = s.file.Close() // it is no longer needed
		if err := l.store.remove(s.name); err != nil {
			l.logger.Warn("cannot remove idempotency keys that are no longer needed", slog.Any("err", err))
		}
		return true
	})
}

// highest returns the highest change number after which a request was recorded before this process began.
func (l *keyLog) highest() catalog.Seq {
	for _, s := range slices.Backward(l.segments) {
		if len(s.at) > 0 {
			return s.after
		}
	}
	return 0
}

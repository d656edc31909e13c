package api

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"lockstep/catalog"
)

// A keyLog remembers which requests with an idempotency key were made, and how
// they were answered. It lies in a directory of append-only files, segments:
//
//	keys-00000001.log  records (apikeyrecord.go), oldest first
//	keys-00000002.log  …
//
// A segment is begun every hour and at every start, never written to after an
// error, and removed when all of it is older than KeyLife. In memory stands only
// where the newest record of each key is.
//
// A request is on disk before it is applied, its answer at the latest before
// anything else is applied. So after a crash what was asked and not answered is
// of one Apply, the last one there was; the catalog knows whether that happened
// and what came of it, see [APISet.settle].
//
// All methods belong to one goroutine at a time.
type keyLog struct {
	dir    string
	now    func() time.Time
	max    int
	logger *slog.Logger

	opened   bool
	next     int           // number of the next segment
	segments []*keySegment // oldest first
	current  *keySegment   // the last one, if it may be written to
	unsynced []keyRecord   // in memory only
	recent   map[keyID]int // where in unsynced the newest record of a key is
	asked    map[keyID]keyRecord
}

// segmentTime is how long a segment is written to: the precision with which
// old ones go.
const segmentTime = time.Hour

// A keySegment is one file of a keyLog.
type keySegment struct {
	path  string
	file  *os.File
	size  int64
	begun time.Time
	last  time.Time // no record is of later
	at    map[keyID]int64
}

var (
	errManyKeys = errors.New("more idempotency keys than are remembered; send batches, or fewer keys")
	errKeyFile  = errors.New("is not a file of idempotency keys")
)

func newKeyLog(dir string, o Options) *keyLog {
	return &keyLog{dir: dir, now: o.Now, max: o.MaxKeys, logger: o.Logger, next: 1,
		recent: make(map[keyID]int), asked: make(map[keyID]keyRecord)}
}

// open reads what there is. It does nothing the second time.
func (l *keyLog) open() error {
	if l.opened {
		return nil
	}
	if err := os.MkdirAll(l.dir, 0o700); err != nil {
		return err
	}
	for _, dir := range []string{filepath.Dir(l.dir), filepath.Dir(filepath.Dir(l.dir))} {
		if err := syncDir(dir); err != nil { // which may have a new name in it
			return err
		}
	}
	files, err := os.ReadDir(l.dir) // by name
	if err != nil {
		return err
	}
	for _, f := range files {
		var number int
		if _, err := fmt.Sscanf(f.Name(), "keys-%08d.log", &number); err != nil {
			continue // not ours
		}
		path := filepath.Join(l.dir, f.Name())
		l.next = max(l.next, number+1)
		s, err := l.load(path)
		if err != nil {
			l.forget()
			return fmt.Errorf("read %s: %w", path, err)
		}
		l.segments = append(l.segments, s)
	}
	l.expire()
	l.opened = true
	return nil
}

// load reads a segment. What a crash left half written at its end is of no
// request that was carried out.
func (l *keyLog) load(path string) (*keySegment, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		_ = f.Close() // read only
		return nil, err
	}
	s := &keySegment{path: path, file: f, begun: info.ModTime(), at: make(map[keyID]int64)}
	s.size, err = readKeyRecords(f, func(offset int64, r keyRecord) {
		l.put(s, r, offset)
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
	if s.size < info.Size() {
		l.logger.Warn("the end of a file of idempotency keys is damaged and left out", slog.String("path", path), slog.Int64("bytes", info.Size()-s.size))
	}
	return s, nil
}

// put notes where in s the newest record of a key is.
func (l *keyLog) put(s *keySegment, r keyRecord, offset int64) {
	for _, old := range l.segments {
		delete(old.at, r.id)
	}
	s.at[r.id] = offset
	at := r.at
	if now := l.now(); at.After(now) {
		at = now // the clock was ahead then
	}
	if at.After(s.last) {
		s.last = at
	}
}

// forget closes everything, as if it had never been opened.
func (l *keyLog) forget() {
	for _, s := range l.segments {
		_ = s.file.Close() // what was to be kept is synced
	}
	l.segments, l.current, l.opened = nil, nil, false
	clear(l.asked)
}

// reset removes all there is: it is of another catalog than the present one.
func (l *keyLog) reset() error {
	var errs []error
	for _, s := range l.segments {
		errs = append(errs, os.Remove(s.path))
	}
	l.forget()
	return errors.Join(errs...)
}

// close writes what is in memory only.
func (l *keyLog) close() error {
	err := l.sync()
	l.forget()
	return err
}

// find returns the newest record of a key, if it is to be remembered still.
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
			return keyRecord{}, false, fmt.Errorf("read %s at %d: %w", s.path, offset, err)
		}
		if r.at.After(s.last) {
			r.at = s.last // the clock was ahead then
		}
		return r, true, nil
	}
	return keyRecord{}, false, nil
}

// ask puts down, durably, what is about to be done. After an error it must not
// be; some of it may be on disk, and is to be dropped before anything else is.
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

// count returns how many keys there are on disk.
func (l *keyLog) count() (n int) {
	for _, s := range l.segments {
		n += len(s.at)
	}
	return n
}

// rotate sees to it that a segment is begun when the present one is old.
func (l *keyLog) rotate() {
	if l.current != nil && l.now().Sub(l.current.begun) >= segmentTime {
		l.current = nil
	}
}

// drop says that what was asked is not done.
func (l *keyLog) drop(r keyRecord) {
	delete(l.asked, r.id)
	l.add(keyRecord{kind: keyDropped, at: r.at, id: r.id})
}

// answer says how what was asked was answered.
func (l *keyLog) answer(asked keyRecord, status int, body []byte) {
	delete(l.asked, asked.id)
	l.add(keyRecord{kind: keyAnswered, at: asked.at, id: asked.id, request: asked.request, after: asked.after, status: status, body: body})
}

func (l *keyLog) add(r keyRecord) {
	l.recent[r.id] = len(l.unsynced)
	l.unsynced = append(l.unsynced, r)
}

// sync makes all durable that is in memory only.
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
	_, err := s.file.WriteAt(text, s.size)
	if err == nil {
		err = s.file.Sync()
	}
	if err != nil {
		l.current = nil // nobody knows what is in it
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

// begin begins a segment.
func (l *keyLog) begin() error {
	path := filepath.Join(l.dir, fmt.Sprintf("keys-%08d.log", l.next))
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := syncDir(l.dir); err != nil {
		_ = f.Close() // nothing is in it
		_ = os.Remove(path)
		return err
	}
	l.next++
	l.current = &keySegment{path: path, file: f, begun: l.now(), at: make(map[keyID]int64)}
	l.segments = append(l.segments, l.current)
	return nil
}

// expire removes the segments of which nothing is to be remembered any more.
func (l *keyLog) expire() {
	l.segments = slices.DeleteFunc(l.segments, func(s *keySegment) bool {
		if s == l.current || l.now().Sub(s.last) < KeyLife && len(s.at) > 0 {
			return false
		}
		_ = s.file.Close() // nobody needs it
		if err := os.Remove(s.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			l.logger.Warn("cannot remove idempotency keys that are no longer needed", slog.Any("err", err))
		}
		return true
	})
}

// highest returns the highest change number that something was asked after.
func (l *keyLog) highest() (seq catalog.Seq, err error) {
	for _, s := range slices.Backward(l.segments) {
		if len(s.at) == 0 {
			continue
		}
		_, err := readKeyRecords(s.file, func(_ int64, r keyRecord) { seq = max(seq, r.after) })
		return seq, err
	}
	return 0, nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }() // read only
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || err != nil && strings.HasSuffix(err.Error(), "Access is denied.") {
		return nil // a system that does not sync directories
	}
	return err
}

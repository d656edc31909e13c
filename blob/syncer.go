package blob

import (
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
)

// A syncer makes files and names of one store durable.
type syncer struct {
	mu     sync.Mutex  // one syncfs at a time, see all
	err    error       // the first error of all; guarded by mu
	failed atomic.Bool // err is set

	trace tracer // in tests
}

// syncEach is the maximum number of files, or directories, that are synced one
// by one. For more, the whole file system is synced at once, if it supports
// that: one flush instead of hundreds.
const syncEach = 8

// bytes makes the temporary files durable.
func (s *syncer) bytes(top *folder, batch []*dirWriter) error {
	sealed := -1
	for i, t := range batch {
		if err := t.publish(); err != nil {
			return &CommitError{Name: t.name, Err: cause(err)}
		}
		if t.state == writerSealed {
			sealed = i
			continue // its time is set
		}
		if t.mod.IsZero() {
			continue
		}
		if err := setModTime(t.file, t.tmp.root, t.base, t.mod); err != nil {
			return &CommitError{Name: t.name, Err: cause(err)}
		}
	}
	if len(batch) > syncEach || sealed >= 0 {
		err := s.all(top)
		if err == nil {
			return nil
		}
		if sealed >= 0 && !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM) {
			// A sealed file has no open handle that could report its write error.
			return &CommitError{Name: batch[sealed].name, Err: cause(err)}
		}
	}
	// Syncing them one after the other would cost one flush of the disk each;
	// concurrent syncs often share one.
	errs := make([]error, len(batch))
	var wg sync.WaitGroup
	for part := range slices.Chunk(indices(len(batch)), (len(batch)+syncEach-1)/syncEach) {
		wg.Go(func() {
			for _, i := range part {
				if errs[i] = batch[i].sync(); errs[i] == nil {
					s.trace.did(traceSync, batch[i].path())
				}
			}
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return &CommitError{Name: batch[i].name, Err: cause(err)}
		}
	}
	return nil
}

// sync makes the bytes durable. A file that was closed in the expectation that the whole file
// system can be synced is opened for it.
func (w *dirWriter) sync() error {
	if w.file != nil {
		return w.file.Sync()
	}
	f, _, err := w.tmp.open(w.base, os.O_RDWR)
	if err != nil {
		return err
	}
	defer f.Close() // nothing was written
	return f.Sync()
}

func indices(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

// all syncs the whole file system; if it returns nil, all data has certainly
// been written. Linux reports a write error only to the first handle that syncs
// after it, so after one error every file is synced by itself from then on: its
// own open handle has not reported the error yet.
func (s *syncer) all(top *folder) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	f, err := top.handle()
	if err == nil {
		err = syncfs(f)
	}
	if err == nil {
		s.trace.did(traceSyncAll)
	}
	if err != nil {
		s.err = err
		s.failed.Store(true)
	}
	return err
}

// mayClose reports whether files can be closed before they are synced.
func (s *syncer) mayClose() bool { return syncfsTells() && !s.failed.Load() }

// names makes the names of a batch durable.
func (s *syncer) names(top *folder, w *walker, batch []*dirWriter) error {
	dirs := make(map[string]struct{})
	for _, t := range batch {
		dir, _ := split(t.name)
		dirs[dir] = struct{}{}
	}
	for _, made := range w.made {
		dir, _ := split(made)
		dirs[dir] = struct{}{}
	}
	if name, err := s.dirs(top, w, dirs); err != nil {
		return &CommitError{Done: len(batch), Name: name, Err: cause(err)}
	}
	return nil
}

// dirs syncs directories and returns the name of the one that failed. A
// directory that was removed meanwhile needs no sync.
func (s *syncer) dirs(top *folder, w *walker, dirs map[string]struct{}) (string, error) {
	if len(dirs) > syncEach && s.all(top) == nil {
		return "", nil
	}
	for dir := range dirs {
		in, err := w.folder(dir, false)
		var f *os.File
		if err == nil {
			f, err = in.handle()
		}
		if err == nil {
			err = syncDir(f)
		}
		if err == nil {
			s.trace.did(traceSyncDir, dir)
		}
		if err != nil && !absent(err) {
			return dir, err
		}
	}
	return "", nil
}

package accesslog

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"lockstep/cmd/lockstep/internal/term"
)

const (
	// maxBuffer is how many bytes of lines wait to be written together.
	maxBuffer = 64 << 10
	// maxWaiting is how many wait at most while the file takes none, as a pipe whose reader has stopped.
	maxWaiting = 4 << 20
	// slowWrite is how long a write may take before lines that were lost meanwhile are reported.
	slowWrite = time.Second
	// closeTime is how long a process that ends waits for a write.
	closeTime = 5 * time.Second
)

// errSlow reports lines that were lost because the ones before could not be written in time.
var errSlow = errors.New("lines cannot be written as fast as requests are answered; check the disk, or what reads the pipe")

// A file is where lines go. What cannot be written is lost: requests are more important than lines about them, and do
// not wait for them. One goroutine writes at a time.
type file struct {
	path string // "-" is stderr
	io   term.IO

	mu      sync.Mutex // guards what follows
	buffer  []byte
	lines   int64         // in the buffer
	missing int64         // lines that were lost
	slow    bool          // there was no room for lines since the last write began
	failing bool          // a warning says so
	asked   bool          // what is in the buffer is to be written, however little it is
	writing chan struct{} // closed when the writer has ended; nil: there is none

	// The rest belongs to the writer.
	out   io.Writer
	open  *os.File // out; nil: it is stderr
	torn  bool     // the last line in the file has no end
	spare []byte   // for the next buffer
}

// fileMode keeps the addresses of clients from other users than those of the group.
const fileMode = 0o640

func openFile(path string, streams term.IO) (*file, error) {
	f := &file{path: path, io: streams}
	if path == "-" {
		f.out = streams.Err
		return f, nil
	}
	return f, f.reopen()
}

// reopen opens the file of that name.
func (f *file) reopen() error {
	opened, err := os.OpenFile(f.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, fileMode)
	if err != nil {
		return err
	}
	if f.open != nil {
		_ = f.open.Close() // what was written is there
	}
	f.open, f.out, f.torn = opened, opened, isTorn(f.path)
	return nil
}

// isTorn reports whether the file has a last line without an end, which a full disk or a
// killed process leaves. Of devices and pipes nothing is read.
func isTorn(path string) bool {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	r, err := os.Open(path)
	if err != nil {
		return false // it may be written only
	}
	defer func() { _ = r.Close() }() // it was read only
	last := make([]byte, 1)
	_, err = r.ReadAt(last, info.Size()-1)
	return err == nil && last[0] != '\n'
}

// write takes the line that build appends. It does not wait for the file.
func (f *file) write(build func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.buffer) >= maxWaiting {
		f.missing++
		f.slow = true
		return
	}
	f.buffer = build(f.buffer)
	if f.lines++; len(f.buffer) >= maxBuffer {
		f.begin()
	}
}

// begin starts the writer, unless it is at work, and returns what is closed when it has ended. f.mu is held.
func (f *file) begin() (ended <-chan struct{}) {
	if f.writing == nil {
		f.writing = make(chan struct{})
		go f.work(f.writing)
	}
	return f.writing
}

// work writes what waits, until that is little.
func (f *file) work(ended chan struct{}) {
	defer close(ended)
	f.mu.Lock()
	defer f.mu.Unlock()
	for f.asked || len(f.buffer) >= maxBuffer {
		b, lines := f.buffer, f.lines
		f.buffer, f.lines, f.asked, f.slow = f.spare[:0], 0, false, false
		f.mu.Unlock()
		written, err := f.flush(b)
		if lerr := f.look(); err == nil {
			err = lerr
		}
		if f.spare = b; cap(b) > 2*maxBuffer {
			f.spare = nil
		}
		if len(b) > 0 || err != nil { // otherwise it was not tried whether the file can be written
			f.report(lines-written, err)
		}
		f.mu.Lock()
	}
	f.writing = nil
}

// flush writes lines, and returns how many.
func (f *file) flush(b []byte) (lines int64, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	if f.torn {
		if _, err := f.out.Write([]byte("\n")); err != nil {
			return 0, err
		}
		f.torn = false
	}
	n, err := f.out.Write(b)
	if n > 0 {
		f.torn = b[n-1] != '\n'
	}
	return int64(bytes.Count(b[:n], []byte("\n"))), err
}

// look opens a new file if the file was moved away.
func (f *file) look() error {
	if f.open == nil {
		return nil
	}
	there, err := os.Stat(f.path)
	if err == nil {
		if here, herr := f.open.Stat(); herr == nil && os.SameFile(here, there) {
			return nil
		}
	}
	return f.reopen()
}

// report counts lost lines, and warns when writing begins to fail.
func (f *file) report(lost int64, err error) {
	f.mu.Lock()
	f.missing += lost
	if err == nil && f.slow {
		err = errSlow
	}
	failing := err != nil
	changed := failing != f.failing
	f.failing = failing
	f.mu.Unlock()
	switch {
	case !changed:
	case failing:
		f.io.Errorf("warning: --access-log: %v; requests are answered without being logged\n", err)
	default:
		f.io.Errorf("note: --access-log: %s is written again\n", f.path)
	}
}

// refresh writes what waits, to a new file if that was moved away. It waits for that until limit has passed, and reports
// whether it was done.
func (f *file) refresh(limit time.Duration) bool {
	f.mu.Lock()
	f.asked = true
	ended := f.begin()
	f.mu.Unlock()
	select {
	case <-ended:
		return true
	case <-time.After(limit):
	}
	f.mu.Lock()
	slow := f.slow
	f.mu.Unlock()
	if slow && f.path != "-" { // where warnings go as well
		f.report(0, errSlow)
	}
	return false
}

// lost returns how many lines could not be written.
func (f *file) lost() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing
}

// close writes what waits, and closes the file.
func (f *file) close() {
	switch done := f.refresh(closeTime); {
	case !done && f.path != "-":
		f.report(0, errSlow) // the writer still has the file
	case done && f.open != nil:
		_ = f.open.Close() // an error of a write was reported
	}
}

package accesslog

import (
	"bytes"
	"io"
	"os"
	"sync"

	"lockstep/cmd/lockstep/internal/term"
)

// maxBuffer is how many bytes of lines wait to be written at most.
const maxBuffer = 64 << 10

// A file is where lines go. What cannot be written is lost: requests are more
// important than lines about them.
type file struct {
	path string // "-" is stderr
	io   term.IO

	mu      sync.Mutex // guards what follows
	out     io.Writer
	open    *os.File // out; nil: it is stderr
	buffer  []byte
	lines   int64 // in the buffer
	missing int64 // lines that were lost
	failing bool
	torn    bool // the last line in the file has no end
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

// reopen opens the file of that name. f.mu is held, or no one else has f.
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

// write takes the line that build appends.
func (f *file) write(build func([]byte) []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.buffer = build(f.buffer)
	if f.lines++; len(f.buffer) >= maxBuffer {
		f.flush()
	}
}

// flush writes what waits. f.mu is held.
func (f *file) flush() {
	if len(f.buffer) == 0 {
		return
	}
	if f.torn {
		if _, err := f.out.Write([]byte("\n")); err != nil {
			f.lose(f.lines, err)
			return
		}
		f.torn = false
	}
	n, err := f.out.Write(f.buffer)
	if n > 0 {
		f.torn = f.buffer[n-1] != '\n'
	}
	f.lose(f.lines-int64(bytes.Count(f.buffer[:n], []byte("\n"))), err)
}

// lose empties the buffer, of which so many lines could not be written. f.mu is held.
func (f *file) lose(lines int64, err error) {
	f.missing += lines
	f.report(err)
	f.buffer, f.lines = f.buffer[:0], 0
}

// report warns when writing begins to fail. f.mu is held.
func (f *file) report(err error) {
	if failing := err != nil; failing != f.failing {
		f.failing = failing
		if failing {
			f.io.Errorf("warning: --access-log: %v; requests are answered without being logged\n", err)
		} else {
			f.io.Errorf("note: --access-log: %s is written again\n", f.path)
		}
	}
}

// refresh writes what waits, to a new file if that was moved away.
func (f *file) refresh() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	if f.open == nil {
		return
	}
	there, err := os.Stat(f.path)
	if err == nil {
		if here, herr := f.open.Stat(); herr == nil && os.SameFile(here, there) {
			return
		}
	}
	if err := f.reopen(); err != nil {
		f.report(err)
	}
}

// lost returns how many lines could not be written.
func (f *file) lost() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.missing
}

// close writes what waits, and closes the file.
func (f *file) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.flush()
	if f.open != nil {
		_ = f.open.Close() // an error of a write was reported
	}
}

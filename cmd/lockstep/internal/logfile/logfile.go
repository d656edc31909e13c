// Package logfile appends to a log file that another program may move away, and whose disk
// may be full: then records are lost, and nothing else is affected.
package logfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// mode lets the group of the process read the file, as programs that collect logs do.
const mode = 0o640

// A File is an open log file. It is safe for concurrent use, also by several processes.
type File struct {
	name     string
	onFailed func(error)

	mu     sync.Mutex // guards the rest
	out    io.WriteCloser
	cut    bool // part of a record was written
	failed bool // onFailed was called
}

// Open opens a file to append to. onFailed is called once, with the first error of a write;
// it may write to the file. If the disk has no room for a new file, that is such an error.
func Open(name string, onFailed func(error)) (*File, error) {
	f := &File{name: name, onFailed: onFailed}
	out, err := open(name)
	switch {
	case err == nil:
		f.out = out
	case errors.Is(err, syscall.ENOSPC):
		f.failed = true
		f.report(err)
	default:
		return nil, err
	}
	return f, nil
}

func open(name string) (io.WriteCloser, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_APPEND, mode)
	if err != nil {
		return nil, err // not a nil *os.File in an interface
	}
	return f, nil
}

// Write appends a whole record. It always succeeds for the caller: a failure is reported
// as Open says.
func (f *File) Write(record []byte) (int, error) {
	f.mu.Lock()
	err := f.write(record)
	if err == nil || f.failed {
		f.mu.Unlock()
		return len(record), nil
	}
	f.failed = true
	f.mu.Unlock()
	f.report(err)
	return len(record), nil
}

// write appends a record. The caller holds the lock.
func (f *File) write(record []byte) (err error) {
	if f.out == nil {
		if f.out, err = open(f.name); err != nil {
			f.out = nil
			return err
		}
	}
	if f.cut {
		record = append([]byte("\n"), record...)
	}
	n, err := f.out.Write(record)
	f.cut = f.cut && n == 0 || n > 0 && n < len(record)
	return err
}

// Reopen opens the file again by its name, under which there may be another one. If that
// fails, records are appended to the one that was open.
func (f *File) Reopen() {
	out, err := open(f.name)
	f.mu.Lock()
	if err != nil {
		known := f.failed
		f.failed = true
		f.mu.Unlock()
		if !known {
			f.report(err)
		}
		return
	}
	old := f.out
	f.out, f.cut, f.failed = out, false, false
	f.mu.Unlock()
	if old != nil {
		_ = old.Close() // each record was written at once
	}
}

// report passes an error on, with the name of the file.
func (f *File) report(err error) {
	if path, ok := errors.AsType[*fs.PathError](err); ok {
		err = path.Err
	}
	f.onFailed(fmt.Errorf("write to the log file %s: %w", f.name, err))
}

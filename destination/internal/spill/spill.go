// Package spill keeps content in memory while there is room for it, else in
// temporary files, until it is delivered.
package spill

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
)

// A Room is shared by several Buffers. It is safe for concurrent use.
type Room struct {
	memory int64  // bytes that all Buffers may have in memory
	dir    string // where files are created; "": the system's directory
	used   atomic.Int64
}

// NewRoom returns a Room for so many bytes in memory, and for files in dir.
func NewRoom(memory int64, dir string) *Room { return &Room{memory: memory, dir: dir} }

// A Buffer contains bytes that are written once and can be read several times.
type Buffer struct {
	room   *Room
	name   string // of the content, for errors
	mem    []byte
	file   *File
	size   int64
	closed bool
}

// New returns an empty Buffer.
func (r *Room) New(name string) *Buffer { return &Buffer{room: r, name: name} }

// IsClosed reports whether Close was called.
func (b *Buffer) IsClosed() bool { return b.closed }

// Write adds p to the content.
func (b *Buffer) Write(p []byte) (int, error) {
	if b.closed {
		return 0, &fs.PathError{Op: "write", Path: b.name, Err: fs.ErrClosed}
	}
	if b.file == nil && !b.grow(len(b.mem)+len(p)) {
		if err := b.toFile(); err != nil {
			return 0, fmt.Errorf("keep what is to be delivered: %w", err)
		}
	}
	if b.file == nil {
		b.mem = append(b.mem, p...)
		b.size += int64(len(p))
		return len(p), nil
	}
	n, err := b.file.Write(p)
	if b.size += int64(n); err != nil {
		return n, fmt.Errorf("keep what is to be delivered: %w", err)
	}
	return n, nil
}

const (
	firstSize = 4 << 10 // of a buffer in memory: enough for a record
	mostGrown = 1 << 20 // the largest growth at a time
)

// grow makes room for size bytes in memory, if there is that much.
func (b *Buffer) grow(size int) bool {
	have := cap(b.mem)
	if size <= have {
		return true
	}
	want := max(size, min(2*have, have+mostGrown), firstSize)
	if b.room.used.Add(int64(want-have)) > b.room.memory {
		b.room.used.Add(int64(have - want))
		return false
	}
	b.mem = append(make([]byte, 0, want), b.mem...)
	return true
}

// toFile moves the content from memory to a file.
func (b *Buffer) toFile() error {
	f, err := Create(b.room.dir, "lockstep-delivery-*")
	if err != nil {
		return err
	}
	b.file = f
	if _, err := f.Write(b.mem); err != nil {
		return err
	}
	b.room.used.Add(-int64(cap(b.mem)))
	b.mem = nil
	return nil
}

// Close returns the memory and removes the file.
func (b *Buffer) Close() error {
	if b.closed {
		return nil
	}
	b.closed = true
	b.room.used.Add(-int64(cap(b.mem)))
	b.mem = nil
	if b.file == nil {
		return nil
	}
	return b.file.Close()
}

// Reader returns a reader of the content from its beginning.
func (b *Buffer) Reader() io.ReadSeeker {
	if b.file != nil {
		return io.NewSectionReader(b.file, 0, b.size)
	}
	return bytes.NewReader(b.mem)
}

// A File is a temporary file. It has no name where the system allows that, so that
// nothing of it remains after a crash.
type File struct {
	*os.File
	named bool // it could not be removed while it was open
}

// Create creates a temporary file in dir; pattern is that of [os.CreateTemp].
func Create(dir, pattern string) (*File, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return nil, err
	}
	return &File{File: f, named: os.Remove(f.Name()) != nil}, nil
}

// Restart makes the file empty.
func (f *File) Restart() error {
	if err := f.Truncate(0); err != nil {
		return err
	}
	_, err := f.Seek(0, io.SeekStart)
	return err
}

// Close closes the file and removes its name, if it has one.
func (f *File) Close() error {
	err := f.File.Close()
	if f.named {
		_ = os.Remove(f.Name()) // its content is not needed
	}
	return err
}

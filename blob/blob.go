// Package blob keeps named bytes that become visible only when committed.
package blob

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"
)

// ErrNotExist reports a name that holds nothing. Use errors.Is.
var ErrNotExist = errors.New("blob does not exist")

// Info describes a committed blob.
type Info struct {
	Name    string
	Size    int64
	ModTime time.Time
}

// A Reader reads one committed blob, which does not change under it.
type Reader interface {
	io.ReadSeekCloser
	io.ReaderAt
	Info() Info
}

// A Writer takes the bytes of a blob to be. Nothing is visible until it is
// handed to [Store.Commit]; Close without Commit drops it, Close after Commit
// does nothing.
type Writer interface {
	io.WriteCloser
	Name() string
	SetModTime(time.Time) // of the blob once committed; stores without times ignore it
}

// A Store keeps blobs under slash-separated names, which obey [fs.ValidPath].
// All methods are safe for concurrent use.
type Store interface {
	// Create begins a blob under name. The name may hold a blob already; it
	// stays until the new one is committed.
	Create(ctx context.Context, name string) (Writer, error)

	// Commit makes every blob visible, in the order given, and returns when all
	// are durable: bytes first, then names, then directories. Each replaces
	// what its name held atomically. After an error some may be visible, each
	// of them whole; those that are not stay open.
	Commit(ctx context.Context, ws ...Writer) error

	// Open opens a committed blob, or fails with ErrNotExist.
	Open(ctx context.Context, name string) (Reader, error)

	// Stat describes a committed blob, or fails with ErrNotExist.
	Stat(ctx context.Context, name string) (Info, error)

	// Remove removes blobs; a name that holds nothing is no error.
	Remove(ctx context.Context, names ...string) error

	// List yields the blobs whose names begin with prefix, in byte order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

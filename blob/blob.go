// Package blob keeps named bytes that become visible only when committed.
//
// A blob is written under no name, or a temporary one, and takes its place in
// one step: whoever opens a name sees all of one version or all of the next.
//
//	w, err := store.Create(ctx, "docs/a.xml")
//	if err != nil { … }
//	defer w.Close() // drops it, unless committed
//	if _, err := io.Copy(w, r); err != nil { … }
//	return store.Commit(ctx, w) // whole, visible and durable, or an error
//
// [Mem] keeps blobs in memory, [Dir] in a directory of plain files. The suite
// every Store passes is blob/blobtest.
package blob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"strings"
	"time"
)

var (
	// ErrNotExist reports a name that holds nothing. Use errors.Is.
	ErrNotExist = errors.New("blob does not exist")

	// ErrDirectory reports a name under which other blobs are kept, in a
	// store where a name cannot be both, or an empty directory.
	ErrDirectory = errors.New("a directory has this name")

	// ErrNotDirectory reports a name that cannot be, because a part of it is
	// itself a blob.
	ErrNotDirectory = errors.New("a file stands where a directory is needed")

	// ErrForeign reports something at a name, or on the way to it, that no
	// store makes: a symbolic link, a device, a pipe. It is never followed,
	// read, replaced or removed.
	ErrForeign = errors.New("neither a regular file nor a directory")

	// ErrName reports a name no blob can have; see [ValidName].
	ErrName = errors.New("not a name for a blob")
)

// ValidName reports whether a blob can be called name: segments joined by
// single slashes, none of them empty, "." or "..", and no NUL. Unlike in
// [fs.ValidPath] any other byte may occur: file names need not be UTF-8.
func ValidName(name string) bool {
	if strings.IndexByte(name, 0) >= 0 {
		return false
	}
	for seg := range strings.SplitSeq(name, "/") {
		if seg == "" || seg == "." || seg == ".." {
			return false
		}
	}
	return true
}

// Info describes a committed blob.
type Info struct {
	Name    string
	Size    int64
	ModTime time.Time
	Version string // another one whenever the bytes are others; "" where a store keeps none
}

// A Reader reads one committed blob, which does not change under it.
type Reader interface {
	io.ReadSeekCloser
	io.ReaderAt
	Info() Info
}

// A Writer takes the bytes of a blob to be. Nothing is visible until it is
// handed to [Store.Commit]; Close without Commit drops it, Close after Commit
// does nothing. It is used by one goroutine at a time.
type Writer interface {
	io.WriteCloser
	Name() string
	SetModTime(time.Time) // of the blob once committed; stores without times ignore it
}

// A Store keeps blobs under slash-separated names, which obey [ValidName].
// All methods are safe for concurrent use. Errors name the blob.
type Store interface {
	// Create begins a blob under name. The name may hold a blob already; it
	// stays until the new one is committed.
	Create(ctx context.Context, name string) (Writer, error)

	// Commit makes every blob visible, in the order given, and returns when all
	// are durable: bytes first, then names, then directories. Each replaces
	// what its name held atomically. The order holds for who reads while it
	// happens; what must also hold across a power cut takes two Commits.
	// After an error, a [CommitError], some may be visible, each of them
	// whole; those that are not stay open.
	Commit(ctx context.Context, ws ...Writer) error

	// Open opens a committed blob, or fails with ErrNotExist.
	Open(ctx context.Context, name string) (Reader, error)

	// Stat describes a committed blob, or fails with ErrNotExist.
	Stat(ctx context.Context, name string) (Info, error)

	// Remove removes blobs; a name that holds nothing is no error. It tries
	// all of them and joins what went wrong.
	Remove(ctx context.Context, names ...string) error

	// List yields the blobs whose names begin with prefix, in byte order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// A BatchStater is a Store that describes many blobs for less than as many calls
// of Stat cost.
type BatchStater interface {
	// StatAll calls each for every name, in order, with what Stat would return.
	// Names of one directory should follow each other. It returns the error of
	// ctx, if that ends.
	StatAll(ctx context.Context, names []string, each func(i int, info Info, err error)) error
}

// A Versioned is a Writer that knows, once it is committed, which
// [Info.Version] its blob has; "" if the store did not say.
type Versioned interface{ Version() string }

// A Mover is a Store that can give a blob another name.
type Mover interface {
	// Move renames the blob from to the name to, which must hold nothing, and
	// removes the directories this leaves empty. It is durable when it returns.
	// A crash leaves the blob under one of the two names.
	Move(ctx context.Context, from, to string) error
}

// A Resumer is a Store that can go on with a blob that was begun and neither
// committed nor dropped, perhaps by an earlier process.
type Resumer interface {
	// Resume opens the unfinished blob of that name for appending, with a view
	// of what is there (its size does not grow), or fails with ErrNotExist.
	// If its process was killed, or the machine lost power, the bytes may be
	// fewer or other than were written: verify them. Closing the Writer drops
	// them, as ever.
	Resume(ctx context.Context, name string) (Writer, *io.SectionReader, error)
}

// A Keeper is a Writer whose bytes can be left for [Resumer.Resume].
type Keeper interface {
	// Keep closes the Writer and leaves its bytes, synced unless it was sealed.
	// They replace what was left under the same name before.
	Keep() error
}

// A Sealer is a Writer that can be told that all of its bytes have come.
type Sealer interface {
	// Seal reports whether the Writer now holds no file open until it is
	// committed, which the store decides. Nothing can be written to it any more,
	// and its modification time must be set before. Of many sealed Writers a
	// Commit costs no more than of others.
	Seal() (closed bool, err error)
}

// A Renamer is a Writer whose blob can be given another name than it was begun
// under, until it is committed: that may follow from its bytes.
type Renamer interface{ Rename(name string) error }

// A Sweeper is a Store that can remove what earlier processes left unfinished.
type Sweeper interface {
	// Sweep removes unfinished blobs whose names keep does not yield, except
	// those being written now, and returns how many.
	Sweep(ctx context.Context, keep iter.Seq[string]) (int, error)
}

// A CommitError tells how far a Commit came. The first Done Writers are
// visible. When Done is less than their number, the Writer at that index is
// what went wrong, it and all after it are still open; otherwise all are
// visible, but may not survive a power cut.
type CommitError struct {
	Done int
	Name string // of the blob, or directory, that failed
	Err  error
}

func (e *CommitError) Error() string { return fmt.Sprintf("commit %q: %v", e.Name, e.Err) }
func (e *CommitError) Unwrap() error { return e.Err }

// nameError says what was done, to which name, and why it failed. The inner
// name a system call was given tells a reader nothing, so it is stripped.
func nameError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: cause(err)}
}

// cause unwraps the errors of package os down to what the system said.
func cause(err error) error {
	if c, ok := errors.AsType[*CommitError](err); ok {
		return c
	}
	for {
		inner := errors.Unwrap(err)
		if inner == nil {
			return err
		}
		err = inner
	}
}

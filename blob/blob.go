// Package blob stores named byte sequences that become visible only when
// committed.
//
// A blob is written to a temporary file or an anonymous buffer and then takes
// its name in one step: a reader that opens a name sees all of one version or
// all of the next.
//
//	w, err := store.Create(ctx, "docs/a.xml")
//	if err != nil { … }
//	defer w.Close() // drops it, unless committed
//	if _, err := io.Copy(w, r); err != nil { … }
//	return store.Commit(ctx, w) // whole, visible and durable, or an error
//
// [Mem] stores blobs in memory, [Dir] in a directory of plain files. The
// conformance suite of Store is blob/blobtest.
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
	// ErrNotExist reports that there is no blob with the name. Use errors.Is.
	ErrNotExist = errors.New("blob does not exist")

	// ErrDirectory reports a name that other blobs have as a prefix, in a store
	// where a name cannot be both, or an empty directory.
	ErrDirectory = errors.New("a directory has this name")

	// ErrNotDirectory reports an impossible name: a part of it is itself a blob.
	ErrNotDirectory = errors.New("a file stands where a directory is needed")

	// ErrForeign reports something at a name, or on the path to it, that no store
	// creates: a symbolic link, a device, a pipe. A store never follows, reads,
	// replaces or removes it.
	ErrForeign = errors.New("neither a regular file nor a directory")

	// ErrConflict reports a blob that is not in the version that its Writer expected; see
	// [Conditional]. Nothing was written.
	ErrConflict = errors.New("another process has changed it")

	// ErrName reports a name that no blob can have; see [ValidName].
	ErrName = errors.New("not a name for a blob")
)

// ValidName reports whether name is a valid name of a blob: segments joined by
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
	Version string // differs between versions with different bytes; "" if the store has no versions
}

// A Reader reads one committed blob. A later commit under the same name does
// not change what it reads.
type Reader interface {
	io.ReadSeekCloser
	io.ReaderAt
	Info() Info
}

// A Writer receives the bytes of a new blob. Nothing is visible until the
// Writer is passed to [Store.Commit]; Close without Commit drops the bytes,
// Close after Commit does nothing. Only one goroutine at a time may use it.
type Writer interface {
	io.WriteCloser
	Name() string
	SetModTime(time.Time) // of the committed blob; stores without times ignore it
}

// A Store stores blobs under slash-separated names, which obey [ValidName]. All
// methods are safe for concurrent use. Errors name the blob.
type Store interface {
	// Create begins a blob under name. An existing blob of that name remains until
	// the new one is committed.
	Create(ctx context.Context, name string) (Writer, error)

	// Commit makes every blob visible, in the order given, and returns when all are
	// durable: it syncs bytes first, then names, then directories. Each blob
	// replaces an existing one atomically. Concurrent readers see the blobs appear
	// in that order; an order that must survive a power cut takes two Commits.
	// After an error, a [CommitError], some blobs may be visible, each of them
	// whole; the Writers of the others stay open.
	Commit(ctx context.Context, ws ...Writer) error

	// Open opens a committed blob, or returns ErrNotExist.
	Open(ctx context.Context, name string) (Reader, error)

	// Stat describes a committed blob, or returns ErrNotExist.
	Stat(ctx context.Context, name string) (Info, error)

	// Remove removes blobs; a missing blob is no error. It tries all of them and
	// joins the errors.
	Remove(ctx context.Context, names ...string) error

	// List yields the blobs whose names begin with prefix, in byte order.
	List(ctx context.Context, prefix string) iter.Seq2[Info, error]
}

// A BatchStater is a Store that describes many blobs faster than the same number
// of calls of Stat.
type BatchStater interface {
	// StatAll calls each for every name, in order, with the result of Stat. Names
	// of one directory should be adjacent. If ctx ends, StatAll returns its error.
	StatAll(ctx context.Context, names []string, each func(i int, info Info, err error)) error
}

// A Versioned is a Writer that knows the [Info.Version] of its blob once it is
// committed; "" if the store did not report it.
type Versioned interface{ Version() string }

// A Conditional is a Writer that takes the place of one version only.
type Conditional interface {
	// Expect has Commit replace the blob if it has that [Info.Version] at this moment, or, with "",
	// if there is none of that name. Otherwise Commit fails with [ErrConflict].
	Expect(version string)
}

// An Exclusive is a Writer whose blob can be kept from replacing another object.
type Exclusive interface {
	// ExpectNone has Commit fail with [fs.ErrExist] if a blob has the name at this moment.
	ExpectNone()
}

// A Mover is a Store that can rename a blob.
type Mover interface {
	// Move renames the blob from to to, which must not exist, and removes the
	// directories that become empty. It is durable when Move returns. A crash
	// leaves the blob under one of the two names.
	Move(ctx context.Context, from, to string) error
}

// A Resumer is a Store that can continue a blob that was begun and neither
// committed nor dropped, perhaps by an earlier process.
type Resumer interface {
	// Resume opens the unfinished blob of that name for appending, with a view of
	// the existing bytes (whose size does not grow), or returns ErrNotExist. If its
	// process was killed, or the machine lost power, some bytes may be missing or
	// differ from what was written: verify them. Closing the Writer drops them, as
	// usual.
	Resume(ctx context.Context, name string) (Writer, *io.SectionReader, error)
}

// A Keeper is a Writer whose bytes can be left for [Resumer.Resume].
type Keeper interface {
	// Keep closes the Writer and leaves its bytes, synced unless it was sealed.
	// They replace what was left under the same name before.
	Keep() error
}

// A WholeCreator is a Store that gains from knowing that a blob will not be
// unfinished for long.
type WholeCreator interface {
	// CreateWhole is [Store.Create] for a blob whose bytes are all at hand. [Dir] gives
	// its file the permissions of the blob when it creates it, not when it is complete.
	CreateWhole(ctx context.Context, name string) (Writer, error)
}

// A Sealer is a Writer that can be informed that it has received all of its
// bytes.
type Sealer interface {
	// Seal ends the writing and reports whether the Writer now holds no file open
	// until it is committed, which the store decides. The modification time must be
	// set before. Sealed Writers do not make a Commit more expensive.
	Seal() (closed bool, err error)
}

// A Renamer is a Writer whose blob can still be renamed before it is committed:
// the name may depend on its bytes.
type Renamer interface{ Rename(name string) error }

// A Sweeper is a Store that can remove unfinished blobs of earlier processes.
type Sweeper interface {
	// Sweep removes unfinished blobs whose names keep does not yield, except those
	// being written now, and returns their number.
	Sweep(ctx context.Context, keep iter.Seq[string]) (int, error)
}

// A CommitError reports a partial Commit. The first Done Writers are visible.
// If Done is less than their number, the Writer at that index failed, and it
// and all after it are still open; otherwise all are visible, but may not
// survive a power cut.
type CommitError struct {
	Done int
	Name string // of the blob, or directory, that failed
	Err  error
}

func (e *CommitError) Error() string { return fmt.Sprintf("commit %q: %v", e.Name, e.Err) }
func (e *CommitError) Unwrap() error { return e.Err }

// nameError describes the failed operation, the name, and the cause. It strips
// the internal file name of the system call, which means nothing to a reader.
func nameError(op, name string, err error) error {
	return &fs.PathError{Op: op, Path: name, Err: cause(err)}
}

// cause unwraps errors of package os to the error of the system.
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

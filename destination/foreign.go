package destination

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"lockstep/destination/filename"
	"lockstep/resourcesync"
)

// An Origin describes the resources of a Source that has no ResourceSync
// documents: a feed, a repository. It has a memory of its own, in which every
// change has an increasing number, and a Destination reads that memory.
//
// Its methods are called by one run at a time; Open by several goroutines, also
// while Entries or Changes are read.
type Origin interface {
	// Update brings the memory into step with the Source, completely or in part:
	// more reports that more is available, and that Update is to be called again
	// once the present state of the memory has been applied. With full it reads
	// everything again; if an Update returned more, the next one continues it.
	//
	// If it returns an error, the memory is still valid and may be applied; an
	// [ErrRefused] says that nothing may be applied, and [ErrEnded] that the
	// Source will not change again.
	Update(ctx context.Context, full bool) (more bool, err error)

	// Status describes the memory.
	Status(ctx context.Context) (OriginStatus, error)

	// Entries yields the present resources, by URI in byte order.
	Entries(ctx context.Context) iter.Seq2[resourcesync.Entry, error]

	// Changes yields the changes numbered above after, one for each number, oldest
	// first. Each has its Change, and a Datetime later than that of any before.
	Changes(ctx context.Context, after int64) iter.Seq2[resourcesync.Entry, error]

	// Open opens the content of a resource, if it is stored here or available
	// by a method that only the Origin knows. fs.ErrNotExist means that the URI
	// has to be requested, [ErrGone] that there is no need to. The hashes are
	// those of the entry; they distinguish one content from another.
	Open(ctx context.Context, uri string, h resourcesync.Hashes) (io.ReadCloser, error)

	// Applied reports what was applied and recorded: changes up to the first
	// number are not requested again, nor are contents of those up to the
	// second.
	Applied(ctx context.Context, changes, contents int64) error

	// Close releases resources. The memory is kept.
	Close() error
}

// Problems are the reasons why an [Origin] could not update all of its memory, each a
// sentence with the address in it.
type Problems []error

// Error returns the text of all of them, a line each.
func (p Problems) Error() string { return errors.Join(p...).Error() }

// Unwrap makes each of them a cause.
func (p Problems) Unwrap() []error { return p }

// BridgeOptions are the settings with which an [Origin] is opened.
type BridgeOptions struct {
	// ReadOnly leaves the memory unchanged.
	ReadOnly bool

	// Accept accepts the Source even if it has become another one (AP-HV-11);
	// otherwise that is an [ErrRefused].
	Accept bool
}

// A PathMapper is an Origin that names the files of its resources otherwise than their
// URIs do.
type PathMapper interface{ Maps() []filename.Map }

// OriginStatus describes the memory of an [Origin].
type OriginStatus struct {
	ID     string    // of the memory: numbers of another memory are not comparable
	Source string    // the Source as it identifies itself: the id of a feed
	Seq    int64     // of the newest change
	Kept   int64     // Changes(after) is complete for after >= Kept
	Until  time.Time // on the Source's clock: all changes before are known; zero: unknown

	// Whole reports that everything was read once, without a gap: the Source does
	// not list a resource that Entries does not yield. Complete reports that such
	// a resource does not exist (AP-CDL-01, AP-CDL-02).
	Whole, Complete bool

	Warnings []string // of the last Update, as sentences with the address in them
}

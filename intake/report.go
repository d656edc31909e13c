package intake

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/intake/internal/entry"
)

// ErrEmpty reports that a directory that had resources has none any more: an
// unmounted disk is more likely than the deletion of everything.
// Errors that match it are of type *EmptyError.
var ErrEmpty = errors.New("directory is empty")

// An EmptyError refuses to delete all resources of a set; or, if the origin is a
// list, most of them.
type EmptyError struct {
	Root      string
	Resources int64 // in the catalog
	Gone      int64 // how many of these would be deleted; 0: all

	Listing bool // Root is a list, not a directory
}

func (e *EmptyError) Error() string {
	switch {
	case e.Gone > 0:
		return fmt.Sprintf("%s no longer lists %d of the %d resources in the catalog", e.Root, e.Gone, e.Resources)
	case e.Listing:
		return fmt.Sprintf("%s lists nothing to publish, but the catalog has %s", e.Root, resources(e.Resources))
	}
	return fmt.Sprintf("%s has no files to publish, but the catalog has %s", e.Root, resources(e.Resources))
}

func resources(n int64) string {
	if n == 1 {
		return "1 resource"
	}
	return fmt.Sprintf("%d resources", n)
}

// Is reports whether target is [ErrEmpty].
func (e *EmptyError) Is(target error) bool { return target == ErrEmpty }

// Hint returns a remedy for the user.
func (e *EmptyError) Hint() string {
	if e.Listing {
		return "check that the list is complete; to delete that many resources, run again with --allow-empty"
	}
	return "check that the directory is mounted and the patterns are right; to delete everything, run again with --allow-empty"
}

// Why files are among those that a [Report] lists as Hidden or Private.
var (
	ErrHidden  = errors.New("its name begins with a dot")
	ErrPrivate = errors.New("other users of this machine may not read it")
)

// ErrChanging reports a file that kept changing while it was read.
var ErrChanging = errors.New("kept changing while it was read")

// A Report is the result of a scan.
type Report struct {
	Created   int64 // resources
	Updated   int64
	Deleted   int64
	Unchanged int64 // same content as before, read again or not

	Files      int64    // files that are resources, whether they could be read or not
	Hashed     int64    // files read
	Bytes      int64    // bytes read
	Unreadable Problems // left in the catalog as they were
	Skipped    Problems // not resources according to the rules; names excluded by patterns do not count
	Hidden     Problems // files and directories that are left out because their names begin with a dot
	Excluded   int64    // files and directories that are left out because of patterns, without what is in such directories
	Private    Problems // files, and directories, that are published although other users of the machine may not read them; the paths of directories end in a slash
	Elapsed    time.Duration
}

// Changed reports whether the catalog has new changes.
func (r *Report) Changed() bool { return r.Created+r.Updated+r.Deleted > 0 }

// maxProblems bounds how many Problems of a kind a Report names.
const maxProblems = 100

// Problems are files or addresses that could not be used. All are counted and each
// causes an [Event], but only the first 100 are named.
type Problems struct {
	Count int64
	First []Problem // the first of them by path and line, at most 100
}

// A Problem is a file and the reason why it could not be used.
type Problem struct {
	Path string // relative to the root, slash-separated
	Err  error
}

func (p Problem) String() string { return fmt.Sprintf("%q: %v", p.Path, p.Err) }

func (ps *Problems) Add(p Problem) {
	ps.Count++
	i, found := slices.BinarySearchFunc(ps.First, p, compareProblems)
	if found || i == maxProblems {
		return
	}
	if len(ps.First) == maxProblems {
		ps.First = ps.First[:maxProblems-1]
	}
	ps.First = slices.Insert(ps.First, i, p)
}

// compareProblems orders problems by path. Those of one file are ordered by text if
// they concern no line, followed by those of lines, by line.
func compareProblems(a, b Problem) int {
	if c := strings.Compare(a.Path, b.Path); c != 0 {
		return c
	}
	x, xok := errors.AsType[*LineError](a.Err)
	y, yok := errors.AsType[*LineError](b.Err)
	switch {
	case !xok && !yok:
		return strings.Compare(a.Err.Error(), b.Err.Error())
	case !xok:
		return -1
	case !yok:
		return 1
	}
	return cmp.Or(cmp.Compare(x.Line, y.Line), strings.Compare(x.Error(), y.Error()))
}

// An EntryError reports why a JSON object does not describe a resource: the
// offset in the text, the field, and the cause.
type EntryError = entry.Error

// EventKind is the kind of an [Event].
type EventKind uint8

// The kinds of Event.
const (
	EventProgress   EventKind = iota + 1 // a scan is in progress: Report
	EventUnreadable                      // Path could not be read: Err
	EventSkipped                         // Path is not a resource: Err
	EventScanned                         // Watch: a scan has ended: Report, and Err if it did not reach its end
	EventDegraded                        // Watch: changes may be seen late from now on: Err
)

// An Event reports something that happened in a scan or while an origin is watched.
type Event struct {
	Kind   EventKind
	Path   string // relative to the root
	Err    error
	Report Report // for EventProgress, the counts so far
}

// Merge adds the problems in other.
func (ps *Problems) Merge(other *Problems) {
	count := ps.Count + other.Count
	for _, p := range other.First {
		ps.Add(p)
	}
	ps.Count = count
}

// A LineError reports an error in a line.
type LineError struct {
	Line int64 // from 1
	Err  error // an [*EntryError] if the line is not a valid entry
}

// Error names the line, the place in it, and the cause.
func (e *LineError) Error() string {
	if _, ok := errors.AsType[*entry.Error](e.Err); ok {
		return fmt.Sprintf("line %d, %v", e.Line, e.Err)
	}
	return fmt.Sprintf("line %d: %v", e.Line, e.Err)
}

// Unwrap returns the cause.
func (e *LineError) Unwrap() error { return e.Err }

// Since returns the difference between r and o, an earlier state of the same Report.
func (r Report) Since(o Report) Report {
	r.Created -= o.Created
	r.Updated -= o.Updated
	r.Deleted -= o.Deleted
	r.Unchanged -= o.Unchanged
	r.Files -= o.Files
	r.Bytes -= o.Bytes
	r.Elapsed -= o.Elapsed
	return r
}

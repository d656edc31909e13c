// Package unpack reads untrusted ZIP packages: their directory first, then
// members, wherever their bytes are.
//
//	d, err := unpack.Read(file, size, unpack.Limits{})
//	m, ok := d.Find("/b/0001.tif")
//	if ok && m.Refused() == "" {
//		r, err := m.Open(io.NewSectionReader(file, m.Offset, m.Extent()))
//		…
//	}
//
// The directory at the end of a package contains the positions of all members,
// so it takes two requests to read one member of a package of any size, and it
// does not matter whether the sizes of members precede or follow them.
//
// No statement of a package is trusted: a member is verified when it is read,
// members that overlap are refused, memory is bounded by [Limits], and names
// are only compared, never used as names of files. The format is that of
// APPNOTE.TXT 6.3.
package unpack

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
)

const (
	// DefaultMembers is how many members a package may have: twice the entries that
	// a manifest may have. Each is held in memory.
	DefaultMembers = 100_000
	// DefaultDirectory is how long the directory may be, in bytes: room for
	// 50,000 names of 250 bytes.
	DefaultDirectory = 16 << 20
)

// Limits limit the cost of reading a directory. Together with the limits of the
// format they keep a Directory below 32 MB. Zero means the default.
type Limits struct {
	Members   int   // most members of a package; default DefaultMembers
	Directory int64 // most bytes of its directory; default DefaultDirectory
}

var (
	// ErrNotZip reports data that is not a ZIP package, or a truncated one.
	ErrNotZip = errors.New("not a ZIP package, or not all of it")
	// ErrLimit reports a package that exceeds the [Limits].
	ErrLimit = errors.New("ZIP package beyond the limit")
)

// A FormatError reports a package whose directory contradicts itself.
type FormatError struct {
	Offset int64 // of the contradiction
	Reason string
}

func (e *FormatError) Error() string {
	return fmt.Sprintf("ZIP directory, byte %d: %s", e.Offset, e.Reason)
}

// A MemberError reports a member whose bytes contradict the directory.
type MemberError struct {
	Name   string // as in the package: print it with care
	Reason string
	Err    error // error of reading it; may be nil
}

func (e *MemberError) Error() string {
	const most = 100 // of a name, which may have 65,535 bytes
	name := e.Name
	if len(name) > most {
		name = name[:most] + "…"
	}
	if e.Err != nil {
		return fmt.Sprintf("ZIP member %q: %s: %v", name, e.Reason, e.Err)
	}
	return fmt.Sprintf("ZIP member %q: %s", name, e.Reason)
}

func (e *MemberError) Unwrap() error { return e.Err }

// A Directory is the content of a package according to its directory. It is
// immutable, and safe for concurrent use.
type Directory struct {
	Members []Member // by Offset, and those of one Offset in the order of the directory
	Start   int64    // of the directory in the package: the members end here

	byName []int32 // indexes of Members by key
	below  string  // "folder/", if the manifest is not at the root
	fold   sync.Once
	folded map[string]int32 // members by folded names; -1: several
}

// A Member is a file in a package.
type Member struct {
	Name   string // as in the package: for comparison and display, not for use as a path
	Offset int64  // of its local header
	Packed int64  // bytes in the package
	Size   int64  // bytes of its content
	CRC    uint32
	Method uint16 // 0 stored, 8 deflated
	flaw   flaw
	raw    string // its name in the local header; Name may be another form of it
	space  int64  // bytes up to the next member
}

// Read reads the directory of the package of size bytes at at. It reads the end
// of the package, then the directory from beginning to end. Errors are those of
// at, or [ErrNotZip], [ErrLimit] and [*FormatError].
func Read(at io.ReaderAt, size int64, l Limits) (*Directory, error) {
	if l.Members <= 0 {
		l.Members = DefaultMembers
	}
	if l.Directory <= 0 {
		l.Directory = DefaultDirectory
	}
	ends, err := findEnds(at, size)
	if err != nil {
		return nil, err
	}
	// The last record that leads to a directory is used; the comment after it may
	// contain something similar. An empty directory is the one most likely found by
	// chance.
	var empty *Directory
	first := error(ErrNotZip)
	for i := range ends {
		d, err := ends[i].read(at, l)
		switch {
		case err == nil && len(d.Members) > 0:
			return d, nil
		case err == nil && empty == nil:
			empty = d
		case err != nil && !isForm(err):
			return nil, err
		case err != nil && errors.Is(first, ErrNotZip):
			first = err
		}
	}
	if empty != nil {
		return empty, nil
	}
	return nil, first
}

// isForm reports whether err concerns the data, not reading it.
func isForm(err error) bool {
	var form *FormatError
	return errors.As(err, &form) || errors.Is(err, ErrLimit) || errors.Is(err, ErrNotZip)
}

// arrange sorts the members, and determines those that contradict each other.
func (d *Directory) arrange() {
	ms := d.Members
	slices.SortStableFunc(ms, func(a, b Member) int {
		switch {
		case a.Offset < b.Offset:
			return -1
		case a.Offset > b.Offset:
			return 1
		}
		return 0
	})
	var reach int64 // of the members so far
	furthest := -1
	for i := range ms {
		m := &ms[i]
		next := d.Start
		if i+1 < len(ms) {
			next = min(ms[i+1].Offset, d.Start)
		}
		m.space = max(next-m.Offset, 0)
		least := m.Offset + localSize + int64(len(m.Name)) + m.Packed
		if m.Offset < reach {
			m.blame(flawOverlap)
			ms[furthest].blame(flawOverlap)
		}
		if least > d.Start {
			m.blame(flawBeyond)
		}
		if least > reach {
			reach, furthest = least, i
		}
	}
	d.byName = make([]int32, len(ms))
	for i := range ms {
		d.byName[i] = int32(i)
	}
	slices.SortFunc(d.byName, func(a, b int32) int { return strings.Compare(ms[a].key(), ms[b].key()) })
	for i := 1; i < len(d.byName); i++ {
		if a, b := &ms[d.byName[i-1]], &ms[d.byName[i]]; a.key() == b.key() {
			a.blame(flawTwice)
			b.blame(flawTwice)
		}
	}
	d.findBelow()
}

// Extent returns how many bytes from Offset on Open needs: the member, and
// perhaps some more.
func (m *Member) Extent() int64 {
	return min(m.space, localSize+int64(len(m.Name))+max16+m.Packed)
}

// IsDir reports whether the member is a directory, which has no content.
func (m *Member) IsDir() bool { return m.flaw == flawDirectory }

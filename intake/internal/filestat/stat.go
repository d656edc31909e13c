// Package filestat describes the state of a file without opening it, and detects
// whether the file may have changed between two looks.
package filestat

import (
	"io/fs"
	"math"
	"os"
	"strconv"
	"time"
)

// A Kind is the kind of a directory entry.
type Kind uint8

const (
	Unknown Kind = iota
	File
	Dir
	Link
	Special    // device, socket, pipe: never opened
	None       // nothing to list: vanished or skipped
	Unreadable // exists but cannot be examined: its resources stay in the catalog
)

// A Stat contains what the system reports of a file without opening it.
type Stat struct {
	Size         int64
	Mtime, Ctime int64 // nanoseconds since 1970, or noTime; ctime 0 where there is none
	Dev, Ino     uint64
	Kind         Kind
	Shared       bool // the file has other names
	Private      bool // a file, or a directory, that other users may not read
}

// SetPrivate sets Private by the permissions in mode.
func (s *Stat) SetPrivate(mode fs.FileMode) {
	switch s.Kind {
	case File:
		s.Private = mode&0o004 == 0
	case Dir:
		s.Private = mode&0o005 != 0o005
	}
}

// noTime represents times that nanoseconds since 1970 cannot express.
const noTime = math.MinInt64

// Nanos returns t in nanoseconds since 1970, or noTime.
func Nanos(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return noTime
	}
	return t.UnixNano()
}

// Unchanged reports whether nothing was written between two looks at one open file.
func (s *Stat) Unchanged(later *Stat) bool {
	return s.Size == later.Size && s.Mtime == later.Mtime && s.Ctime == later.Ctime && s.Ino == later.Ino
}

// Lastmod is the modification time to the microsecond, or zero.
func (s *Stat) Lastmod() time.Time {
	if s.Mtime == noTime {
		return time.Time{}
	}
	return time.Unix(0, s.Mtime).UTC().Truncate(time.Microsecond)
}

// A file written in the clock tick in which it was read cannot be distinguished
// from the file that was read: size and times are equal. Its Token is marked so
// that the next scan reads it again.
const (
	CoarseTick = 2 * time.Second        // file systems that store whole (FAT: even) seconds
	FineTick   = 100 * time.Millisecond // the others; kernels tick at 10 ms or less, exFAT too
	slowTick   = 10 * time.Millisecond  // the slowest clock of a kernel
	RacyMark   = '~'
)

// Tick is how far apart two changes of a file must be for the kernel of this machine to
// give them different times.
var Tick = kernelTick()

// changed returns when the file changed last.
func (s *Stat) changed() int64 {
	if s.Ctime != 0 {
		return s.Ctime // unlike mtime it cannot be set
	}
	return s.Mtime
}

// Fresh reports whether the file, whose reading began at now, may have been
// written since without a change of its times.
func (s *Stat) Fresh(now time.Time) bool {
	return s.changed() > now.Add(-Tick).UnixNano()
}

// Racy reports whether the file, read at now, may still be written without a
// visible change.
func (s *Stat) Racy(now time.Time) bool {
	last := s.changed()
	tick := FineTick
	if last%int64(time.Second) == 0 {
		tick = CoarseTick
	}
	return last > now.Add(-tick).UnixNano()
}

// AppendToken appends the Token of a file with state s: size, inode, time of
// modification, and of change (as the distance to the former), base 36.
func (s *Stat) AppendToken(dst []byte, prefix string) []byte {
	dst = append(dst, prefix...)
	dst = strconv.AppendInt(dst, s.Size, 36)
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, s.Ino, 36)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, s.Mtime, 36)
	if s.Ctime != s.Mtime {
		dst = append(dst, '.')
		dst = strconv.AppendInt(dst, s.Ctime-s.Mtime, 36)
	}
	return dst
}

// Mark returns the Token without prefix.
func (s *Stat) Mark() string { return string(s.AppendToken(nil, "")) }

// Of returns the Stat of a file.
func Of(fi fs.FileInfo) Stat {
	s := Stat{Size: fi.Size(), Mtime: Nanos(fi.ModTime()), Kind: KindOf(fi.Mode().Type())}
	s.SetPrivate(fi.Mode())
	s.addSys(fi)
	return s
}

// MarkAt returns a text that differs between states of the file at path, and the
// error message if there is no such file.
func MarkAt(path string) string {
	fi, err := os.Stat(path)
	if err != nil {
		return err.Error()
	}
	st := Of(fi)
	return st.Mark()
}

// KindOf returns the Kind of a file with mode m.
func KindOf(m fs.FileMode) Kind {
	switch m.Type() {
	case 0:
		return File
	case fs.ModeDir:
		return Dir
	case fs.ModeSymlink:
		return Link
	}
	return Special
}

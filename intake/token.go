package intake

import (
	"math"
	"strconv"
	"time"

	"lockstep/resourcesync"
)

// kind is what stands under a name.
type kind uint8

const (
	kindUnknown kind = iota
	kindFile
	kindDir
	kindLink
	kindSpecial    // device, socket, pipe: never opened
	kindNone       // nothing to list: vanished or skipped
	kindUnreadable // there, but not to be looked at: what the catalog holds stays
)

// fileStat is what the system tells of a file without opening it.
type fileStat struct {
	size         int64
	mtime, ctime int64 // nanoseconds since 1970, or noTime; ctime 0 where there is none
	dev, ino     uint64
	kind         kind
	shared       bool // the file has other names
}

// noTime is a time that nanoseconds since 1970 cannot express.
const noTime = math.MinInt64

// nanos returns t in nanoseconds since 1970, or noTime.
func nanos(t time.Time) int64 {
	if y := t.Year(); y < 1678 || y > 2261 {
		return noTime
	}
	return t.UnixNano()
}

// unchanged reports whether nothing was written between two looks at one open file.
func (s *fileStat) unchanged(later *fileStat) bool {
	return s.size == later.size && s.mtime == later.mtime && s.ctime == later.ctime && s.ino == later.ino
}

// lastmod is the modification time to the microsecond, or zero.
func (s *fileStat) lastmod() time.Time {
	if s.mtime == noTime {
		return time.Time{}
	}
	return time.Unix(0, s.mtime).UTC().Truncate(time.Microsecond)
}

// A file written in the tick of the clock in which it was read cannot be told
// from the file that was read: size and times are the same. Its Token is marked
// so that the next scan reads it again.
const (
	coarseTick = 2 * time.Second        // file systems that keep whole (FAT: even) seconds
	fineTick   = 100 * time.Millisecond // the others; kernels tick at 10 ms or less, exFAT too
	kernelTick = 10 * time.Millisecond  // the slowest clock a kernel stamps files by
	racyMark   = '~'
)

// changed returns when the file changed last.
func (s *fileStat) changed() int64 {
	if s.ctime != 0 {
		return s.ctime // unlike mtime nobody can set it
	}
	return s.mtime
}

// fresh reports whether the file, whose reading began at now, may have been
// written since without a change of its times.
func (s *fileStat) fresh(now time.Time) bool {
	return s.changed() > now.Add(-kernelTick).UnixNano()
}

// racy reports whether the file, read at now, may yet be written without a trace.
func (s *fileStat) racy(now time.Time) bool {
	last := s.changed()
	tick := fineTick
	if last%int64(time.Second) == 0 {
		tick = coarseTick
	}
	return last > now.Add(-tick).UnixNano()
}

// tokenRules changes when a Record derived from the same bytes would differ:
// the next scan then reads every file again.
const tokenRules = "1"

// tokenPrefix begins the Tokens of records made with these algorithms.
func tokenPrefix(algs []resourcesync.Algorithm) string {
	p := []byte(tokenRules)
	for _, a := range algs {
		p = strconv.AppendUint(p, uint64(a), 36)
	}
	return string(append(p, '.'))
}

// appendToken appends the Token of a file that stands as s: size, inode, time
// of modification, and of change (as the distance to the former), base 36.
func (s *fileStat) appendToken(dst []byte, prefix string) []byte {
	dst = append(dst, prefix...)
	dst = strconv.AppendInt(dst, s.size, 36)
	dst = append(dst, '.')
	dst = strconv.AppendUint(dst, s.ino, 36)
	dst = append(dst, '.')
	dst = strconv.AppendInt(dst, s.mtime, 36)
	if s.ctime != s.mtime {
		dst = append(dst, '.')
		dst = strconv.AppendInt(dst, s.ctime-s.mtime, 36)
	}
	return dst
}

// mark is a Token by itself.
func (s *fileStat) mark() string { return string(s.appendToken(nil, "")) }

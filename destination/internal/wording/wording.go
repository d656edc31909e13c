// Package wording formats numbers, sizes, times and hashes for messages and reports.
package wording

import (
	"fmt"
	"strconv"
	"time"

	"lockstep/resourcesync"
)

// Grouped returns n with commas between its thousands.
func Grouped(n int64) string {
	s := strconv.FormatInt(n, 10)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Plural returns n and the noun what, in the plural unless n is 1.
func Plural(n int64, what string) string {
	if n != 1 {
		what += "s"
	}
	return Grouped(n) + " " + what
}

// Size returns a number of bytes in the unit that reads best.
func Size(n int64) string {
	units := []string{"bytes", "kB", "MB", "GB", "TB"}
	f, u := float64(n), 0
	for f >= 1000 && u < len(units)-1 {
		f, u = f/1000, u+1
	}
	if u == 0 || f >= 100 {
		return fmt.Sprintf("%.0f %s", f, units[u])
	}
	return fmt.Sprintf("%.1f %s", f, units[u])
}

// Time returns a time in UTC for a message.
func Time(t time.Time) string {
	if t.IsZero() {
		return "no time"
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// Hashes returns hs as documents write it.
func Hashes(hs resourcesync.Hashes) string {
	var b []byte
	for i, h := range hs {
		if i > 0 {
			b = append(b, ' ')
		}
		b = h.AppendTo(b)
	}
	return string(b)
}

// Capability returns the name of a document that lists resources or changes, or c
// itself if it is the capability of none of them.
func Capability(c string) string {
	switch resourcesync.Capability(c) {
	case resourcesync.ResourceList:
		return "Resource List"
	case resourcesync.ResourceDump:
		return "Resource Dump"
	case resourcesync.ChangeList:
		return "Change List"
	case resourcesync.ChangeDump:
		return "Change Dump"
	}
	return c
}

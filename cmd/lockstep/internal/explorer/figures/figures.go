// Package figures summarizes the entries of a list while they are read: how many, how
// old, which media types and sizes, and how many on each day.
package figures

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
	"sort"
	"time"

	"lockstep/cmd/lockstep/internal/explorer/spool"
)

const (
	// maxNames is how many media types, or kinds, are counted by name: the rest is
	// counted together, so that no list can fill the memory.
	maxNames = 200
	// maxDays is how many different days are counted: more than ten years.
	maxDays = 4000
	// leastDays is how many days are listed at least: a chart of one column shows
	// nothing.
	leastDays = 14

	// Other is the name of all media types beyond maxNames.
	Other = "other"
)

// A Summary counts rows. The zero value is empty.
type Summary struct {
	Rows    int64
	Bytes   int64 // of those whose length is stated
	Unsized int64 // whose length is not stated
	Undated int64 // whose time is not stated
	Oldest  time.Time
	Newest  time.Time
	Types   map[string]int64 // by media type without parameters; "" is not stated
	Kinds   map[string]int64 // by change
	Sizes   [65]int64        // by number of binary digits of the length
	Days    map[int]int64    // by number of the day since 1970 in UTC
}

// Add counts a row.
func (s *Summary) Add(r *spool.Row) {
	s.Rows++
	if s.Types == nil {
		s.Types, s.Kinds, s.Days = map[string]int64{}, map[string]int64{}, map[int]int64{}
	}
	name(s.Types, BaseType(r.Type), 1)
	if r.Kind != "" {
		name(s.Kinds, r.Kind, 1)
	}
	if r.Length < 0 {
		s.Unsized++
	} else {
		s.Bytes += r.Length
		s.Sizes[bits.Len64(uint64(r.Length))]++
	}
	if r.Time.IsZero() {
		s.Undated++
		return
	}
	if s.Oldest.IsZero() || r.Time.Before(s.Oldest) {
		s.Oldest = r.Time
	}
	if r.Time.After(s.Newest) {
		s.Newest = r.Time
	}
	s.day(dayOf(r.Time), 1)
}

func (s *Summary) day(day int, n int64) {
	if _, ok := s.Days[day]; ok || len(s.Days) < maxDays {
		s.Days[day] += n
	}
}

// Merge adds what o has counted.
func (s *Summary) Merge(o *Summary) {
	s.Rows, s.Bytes, s.Unsized, s.Undated = s.Rows+o.Rows, s.Bytes+o.Bytes, s.Unsized+o.Unsized, s.Undated+o.Undated
	if s.Types == nil {
		s.Types, s.Kinds, s.Days = map[string]int64{}, map[string]int64{}, map[int]int64{}
	}
	if !o.Oldest.IsZero() && (s.Oldest.IsZero() || o.Oldest.Before(s.Oldest)) {
		s.Oldest = o.Oldest
	}
	if o.Newest.After(s.Newest) {
		s.Newest = o.Newest
	}
	for t, n := range o.Types {
		name(s.Types, t, n)
	}
	for k, n := range o.Kinds {
		name(s.Kinds, k, n)
	}
	for i, n := range o.Sizes {
		s.Sizes[i] += n
	}
	for d, n := range o.Days {
		s.day(d, n)
	}
}

// Clone returns a copy of s.
func (s *Summary) Clone() Summary {
	c := *s
	c.Types, c.Kinds, c.Days = maps.Clone(s.Types), maps.Clone(s.Kinds), maps.Clone(s.Days)
	return c
}

// BaseType returns a media type without parameters.
func BaseType(t string) string {
	for i := range len(t) {
		if t[i] == ';' || t[i] == ' ' {
			return t[:i]
		}
	}
	return t
}

// name counts n of a name.
func name(counts map[string]int64, name string, n int64) {
	if _, ok := counts[name]; !ok && len(counts) >= maxNames {
		name = Other
	}
	counts[name] += n
}

const day = 24 * time.Hour

func dayOf(t time.Time) int { return int(t.Unix() / int64(day/time.Second)) }

// A Count is a name with a number.
type Count struct {
	Name string `json:"name"`
	N    int64  `json:"count"`
}

// Ordered returns the names with the largest numbers first, at most limit, and the
// number of what is left out.
func Ordered(counts map[string]int64, limit int) (top []Count, rest int64) {
	for name, n := range counts {
		top = append(top, Count{name, n})
	}
	sort.SliceStable(top, func(i, j int) bool {
		return cmp.Or(cmp.Compare(top[j].N, top[i].N), cmp.Compare(top[i].Name, top[j].Name)) < 0
	})
	for _, c := range top[min(limit, len(top)):] {
		rest += c.N
	}
	return top[:min(limit, len(top))], rest
}

// A Span is a time with a number.
type Span struct {
	From time.Time
	Name string
	N    int64
}

// Daily returns the numbers of all days from the first to the last one with a row, and of
// days before if these are few, at most limit days: longer times are counted by month or, if need be, by year. unit
// says which: "day", "month" or "year".
func (s *Summary) Daily(limit int) (spans []Span, unit string) {
	if len(s.Days) == 0 {
		return nil, "day"
	}
	days := slices.Sorted(maps.Keys(s.Days))
	first, last := timeOf(days[0]), timeOf(days[len(days)-1])
	unit, format, next := "day", time.DateOnly, func(t time.Time) time.Time { return t.AddDate(0, 0, 1) }
	if least := min(limit, leastDays); days[len(days)-1]-days[0] < least {
		first = last.AddDate(0, 0, 1-least)
	}
	if days[len(days)-1]-days[0] >= limit {
		unit, format = "month", "2006-01"
		first, next = time.Date(first.Year(), first.Month(), 1, 0, 0, 0, 0, time.UTC), func(t time.Time) time.Time { return t.AddDate(0, 1, 0) }
	}
	if unit == "month" && (last.Year()-first.Year())*12 >= limit {
		unit, format = "year", "2006"
		first, next = time.Date(max(first.Year(), last.Year()-limit+1), 1, 1, 0, 0, 0, 0, time.UTC), func(t time.Time) time.Time { return t.AddDate(1, 0, 0) }
	}
	byName := map[string]int64{}
	for d, n := range s.Days {
		byName[timeOf(d).Format(format)] += n
	}
	for t := first; !t.After(last) && len(spans) <= limit; t = next(t) {
		spans = append(spans, Span{t, t.Format(format), byName[t.Format(format)]})
	}
	return spans, unit
}

func timeOf(d int) time.Time { return time.Unix(int64(d)*int64(day/time.Second), 0).UTC() }

// sizeClasses are the upper bounds of the classes of sizes, in binary digits.
var sizeClasses = []struct {
	digits int
	name   string
}{{0, "empty"}, {10, "below 1 KiB"}, {13, "1 to 8 KiB"}, {17, "8 to 128 KiB"}, {20, "128 KiB to 1 MiB"}, {23, "1 to 8 MiB"}, {27, "8 to 128 MiB"}, {30, "128 MiB to 1 GiB"}, {64, "1 GiB or more"}}

// Classes returns the numbers of rows by classes of sizes, without empty classes.
func (s *Summary) Classes() []Count {
	var out []Count
	from := 0
	for _, c := range sizeClasses {
		var n int64
		for ; from <= c.digits; from++ {
			n += s.Sizes[from]
		}
		if n > 0 {
			out = append(out, Count{c.name, n})
		}
	}
	return out
}

// Package sections divides a Resource List into parts whose boundaries stay where
// they are, so that a new list shares the parts that have not changed with the
// one before.
//
// Each part is a [Section]: it lists the resources whose URIs are in a range. The
// ranges are adjacent and cover all URIs. A boundary moves only where a section
// has grown beyond what one document holds, or has become small. A [Tally] finds
// out, from the changes since the last list, which sections are written again.
package sections

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// A Section is a part of a published Resource List. Its range ends where that of
// the next one begins.
type Section struct {
	Name    string      `json:"-"`               // of the document
	First   Bound       `json:"first,omitempty"` // where the range begins; empty: at the beginning
	At      time.Time   `json:"at"`              // as the document states
	Seq     catalog.Seq `json:"seq"`             // newest change that At is known to cover
	Written time.Time   `json:"written"`         // modification time of the document
	Entries int         `json:"entries"`
	Bytes   int64       `json:"bytes"`
	Refused int64       `json:"refused,omitempty"` // resources in the range that no document can state
}

// A Bound is the first URI of a range. In JSON it is quoted as in Go, because
// catalogs have URIs that are not UTF-8, which JSON cannot hold.
type Bound string

// MarshalText implements [encoding.TextMarshaler].
func (b Bound) MarshalText() ([]byte, error) {
	quoted := strconv.QuoteToASCII(string(b))
	return []byte(quoted[1 : len(quoted)-1]), nil
}

// UnmarshalText implements [encoding.TextUnmarshaler].
func (b *Bound) UnmarshalText(text []byte) error {
	uri, err := strconv.Unquote(`"` + string(text) + `"`)
	if err != nil {
		return fmt.Errorf("bound %q: %w", text, err)
	}
	*b = Bound(uri)
	return nil
}

// Sound reports whether all can be the sections of a list.
func Sound(all []Section) bool {
	for i := range all {
		s := &all[i]
		if s.Name == "" || s.At.IsZero() || s.Seq < 0 || s.Refused < 0 || s.Entries < 1 || s.Bytes < 1 || (i == 0) != (s.First == "") || i > 0 && s.First <= all[i-1].First {
			return false
		}
	}
	return true
}

// Earliest returns the earliest At of sections, and the lowest Seq.
func Earliest(all []Section) catalog.Mark {
	var m catalog.Mark
	for i := range all {
		s := &all[i]
		if i == 0 || s.At.Before(m.At) {
			m.At = s.At
		}
		if i == 0 || s.Seq < m.Seq {
			m.Seq = s.Seq
		}
	}
	return m
}

// Limits is what one document holds.
type Limits struct {
	Entries int
	Bytes   int64
}

// A Run is a range of URIs in a new list: a section that stays as it is, or
// resources that are written as one section or several.
type Run struct {
	Keep   *Section // nil: it is written
	Range  catalog.Range
	Pieces int // how many sections are written, as far as known
	Each   int // resources in each of them except the last
}

// Whole returns the runs of a list that is written as a whole, with sections
// that begin at bounds.
func Whole(bounds []string, lim Limits) []Run {
	var runs []Run
	from := ""
	for _, to := range append(slices.Clip(bounds), "") {
		runs = append(runs, Run{Range: catalog.Range{From: from, To: to}, Pieces: 1, Each: lim.Entries})
		from = to
	}
	return runs
}

// Pieces returns how many sections a list with these runs has, and how many of
// them are written.
func Pieces(runs []Run) (all, written int) {
	for i := range runs {
		if runs[i].Keep == nil {
			written += runs[i].Pieces
		} else {
			all++
		}
	}
	return all + written, written
}

// A Tally counts what has changed in each section since a list was taken.
type Tally struct {
	sections []Section
	again    []bool // written again
	net      []int  // resources created, less those deleted
}

// NewTally returns a Tally of the sections, which it does not change. By itself no
// section is written again.
func NewTally(all []Section) *Tally {
	return &Tally{sections: all, again: make([]bool, len(all)), net: make([]int, len(all))}
}

// Change counts a change of the resource uri, or another reason to state it again: its
// section is written again.
func (t *Tally) Change(uri string, change resourcesync.Change) {
	i, found := slices.BinarySearchFunc(t.sections, uri, func(s Section, uri string) int { return strings.Compare(string(s.First), uri) })
	if !found {
		i-- // the first section begins before all URIs
	}
	t.again[i] = true
	switch change {
	case resourcesync.Created:
		t.net[i]++
	case resourcesync.Deleted:
		t.net[i]--
	}
}

// Again has the sections written again for which due returns true; i is their
// index.
func (t *Tally) Again(due func(i int, s *Section) bool) {
	for i := range t.sections {
		t.again[i] = t.again[i] || due(i, &t.sections[i])
	}
}

// Shares of a limit, in quarters: a section below the first is joined with a
// neighbor, if the result does not exceed the second. A section that has grown
// beyond the limit is halved, so neither soon follows the other.
const (
	smallQuarters  = 1
	joinedQuarters = 3
	quarters       = 4
)

// A unit is one section or several adjacent ones, that become a Run.
type unit struct {
	from, to int // sections
	again    bool
	entries  int   // expected
	bytes    int64 // expected
}

// Runs returns the runs of the next list.
func (t *Tally) Runs(lim Limits) []Run {
	var units []unit
	for i := range t.sections {
		u := t.unit(i, lim)
		if l := len(units) - 1; l >= 0 && units[l].joins(&u, lim) {
			units[l].join(&u)
			continue
		}
		units = append(units, u)
	}
	runs := make([]Run, len(units))
	for i := range units {
		runs[i] = t.run(&units[i], lim)
	}
	return runs
}

func (t *Tally) unit(i int, lim Limits) unit {
	s := &t.sections[i]
	u := unit{from: i, to: i + 1, again: t.again[i] || s.Entries > lim.Entries, entries: max(0, s.Entries+t.net[i])}
	u.bytes = s.Bytes / int64(s.Entries) * int64(u.entries)
	return u
}

func (u *unit) small(lim Limits) bool {
	return u.again && quarters*u.entries < smallQuarters*lim.Entries && quarters*u.bytes < smallQuarters*lim.Bytes
}

// joins reports whether u and the next unit become one, because one of them is
// written again and small.
func (u *unit) joins(next *unit, lim Limits) bool {
	return (u.small(lim) || next.small(lim)) &&
		quarters*(u.entries+next.entries) <= joinedQuarters*lim.Entries && quarters*(u.bytes+next.bytes) <= joinedQuarters*lim.Bytes
}

func (u *unit) join(next *unit) {
	u.to, u.again = next.to, true
	u.entries += next.entries
	u.bytes += next.bytes
}

func (t *Tally) run(u *unit, lim Limits) Run {
	r := Run{Range: catalog.Range{From: string(t.sections[u.from].First)}}
	if u.to < len(t.sections) {
		r.Range.To = string(t.sections[u.to].First)
	}
	if !u.again {
		r.Keep = &t.sections[u.from]
		return r
	}
	r.Pieces = max(1, ceil(int64(u.entries), int64(lim.Entries)), ceil(u.bytes, lim.Bytes))
	r.Each = ceil(int64(u.entries), int64(r.Pieces))
	if r.Pieces == 1 || r.Range.To == "" && u.bytes < lim.Bytes { // at the end, more is likely to be appended to the last one only
		r.Each = lim.Entries
	}
	return r
}

func ceil(n, d int64) int { return int((n + d - 1) / d) }

// Package diff compares the states of a collection at two instants, by what its
// documents state about its resources (RA-DST-06).
package diff

import (
	"context"
	"encoding/binary"
	"fmt"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/stage"
	"lockstep/destination/report"
	"lockstep/internal/extsort"
	"lockstep/resourcesync"
)

// A Side is one of the two instants.
type Side int

const (
	From Side = iota
	To
	sides
)

// A Comparison compares the states of the sets of a collection at two instants.
type Comparison struct {
	Sorter  *extsort.Sorter                // sorts the statements by URI; the caller closes it
	Selects func(w *desired.Resource) bool // whether a resource is compared
	Report  *report.DiffReport             // Each counts in it
}

// Add adds the resources that are staged: the state of a set, which has a number, at
// one of the instants. It was made from a list as of the time list, which may be zero.
func (c *Comparison) Add(ctx context.Context, set int, side Side, list resourcesync.Datetime, st *stage.Stage) error {
	prefix := binary.AppendUvarint([]byte{byte(side)}, uint64(set))
	prefix = desired.AppendDatetime(prefix, list)
	out := c.Sorter.Writer()
	defer c.Sorter.Release(out)
	var value []byte
	for w, err := range st.Resources(ctx) {
		if err != nil {
			return err
		}
		if w.Gone || !c.Selects(&w) {
			continue
		}
		w.Links, w.Patches, w.Member, w.Refused = nil, nil, desired.Member{}, ""
		value = w.Append(append(value[:0], prefix...))
		if err := out.Add([]byte(w.URI), value); err != nil {
			return fmt.Errorf("sort entries: %w", err)
		}
	}
	return nil
}

// Each passes each difference to each, by URI in byte order. It counts all resources,
// and ends if each returns an error.
func (c *Comparison) Each(ctx context.Context, each func(report.Difference) error) error {
	var (
		uri  string
		then [sides][]statement
		n    int
	)
	flush := func() error {
		if n == 0 {
			return nil
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		change := c.count(then[From], then[To])
		then[From], then[To] = then[From][:0], then[To][:0]
		if change == "" {
			return nil
		}
		return each(report.Difference{Change: change, URI: uri})
	}
	for p, err := range c.Sorter.Sorted(ctx) {
		if err != nil {
			return fmt.Errorf("sort entries: %w", err)
		}
		if n == 0 || string(p.Key) != uri {
			if err := flush(); err != nil {
				return err
			}
			uri = string(p.Key)
			n++
		}
		side, s, err := decode(uri, string(p.Value))
		if err != nil {
			return err
		}
		then[side] = append(then[side], s)
	}
	return flush()
}

// count counts a resource by how it changed, and returns the name of the change; "" is
// none. The resource existed if one of the sets listed it.
func (c *Comparison) count(from, to []statement) string {
	switch {
	case len(from) == 0:
		c.Report.Created++
		return resourcesync.Created.String()
	case len(to) == 0:
		c.Report.Deleted++
		return resourcesync.Deleted.String()
	}
	a, b := &from[0], &to[0]
	for i := range from {
		for k := range to {
			if from[i].set == to[k].set {
				a, b = &from[i], &to[k]
			}
		}
	}
	switch compare(a, b) {
	case content.Same:
		c.Report.Unchanged++
		return ""
	case content.Different:
		c.Report.Updated++
		return resourcesync.Updated.String()
	}
	c.Report.Unknown++
	return report.DiffUnknown
}

// A statement is what a set states about a resource.
type statement struct {
	desired.Resource
	set  uint64
	list resourcesync.Datetime // of the list that the state was made from
}

func decode(uri, value string) (side Side, s statement, err error) {
	d := desired.Decoder{B: value}
	side, s.set = Side(d.Byte()), d.Uvarint()
	s.list = d.Datetime()
	if !d.OK() || side >= sides {
		return 0, statement{}, desired.ErrDamaged
	}
	s.Resource, _, err = desired.Decode(uri, d.B)
	return side, s, err
}

// compare compares what was stated about a resource at two instants: by a common hash,
// else by length and lastmod; otherwise the result is unknown (RA-DST-06). An
// identical statement means identical content, whatever it says.
func compare(a, b *statement) content.Likeness {
	common := false
	for _, h := range a.Hashes {
		if digest := b.Hashes.Get(h.Algorithm); digest != "" {
			if digest != h.Digest {
				return content.Different
			}
			common = true
		}
	}
	switch {
	case common, isSameStatement(a, b):
		return content.Same
	case a.Length >= 0 && b.Length >= 0 && a.Length != b.Length:
		return content.Different
	case a.Lastmod.IsZero() || b.Lastmod.IsZero():
		return content.Unknown
	case a.Lastmod.Compare(b.Lastmod) != 0 && !desired.SameLastmod(a.Lastmod.Time(), b.Lastmod) && !desired.SameLastmod(b.Lastmod.Time(), a.Lastmod):
		return content.Different
	case a.Length < 0 || b.Length < 0:
		return content.Unknown
	}
	return content.Same
}

// isSameStatement reports whether a and b are the same event, or the same entry of the
// same list.
func isSameStatement(a, b *statement) bool {
	if a.set != b.set || a.Class != b.Class || a.Change != b.Change {
		return false
	}
	if a.Class == desired.Listed {
		return !a.list.IsZero() && a.list.Compare(b.list) == 0
	}
	event := a.Event
	return !event.IsZero() && event.Compare(b.Event) == 0 && a.Modified.Compare(b.Modified) == 0
}

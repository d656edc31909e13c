package source_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/resourcesync"
	"lockstep/source"
)

// A pastCrawl is what a reader finds in the archives of a set's lists and in
// what is current.
type pastCrawl struct {
	crawl
	listed    []string // documents in the Resource List Archive
	closed    []string // documents in the Change List Archive
	snapshots []snapshot
	intervals [][2]time.Time // of change documents, sorted; the open one ends never
	changes   map[time.Time]resourcesync.Entry
	indexes   int // archives that are an index
	dumps     bool
}

type snapshot struct {
	at    time.Time
	state map[string]string
}

// crawlPast reads all archives of lists, and all they name, as strictly as it
// can. A set that is not published yet is errNothing.
func crawlPast(read func(name string) ([]byte, error)) (*pastCrawl, error) {
	p := &pastCrawl{crawl: crawl{read: read}, changes: make(map[time.Time]resourcesync.Entry)}
	list, err := source.CapabilityListURI(baseURL, source.DefaultSet)
	if err != nil {
		return nil, err
	}
	_, entries, err := p.document(name(list), resourcesync.CapabilityList)
	if errors.Is(err, blob.ErrNotExist) {
		return nil, errNothing
	}
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		switch e.Capability {
		case resourcesync.ResourceList:
			err = p.snapshot(name(e.Loc), time.Time{}, "")
		case resourcesync.ChangeList:
			err = p.current(name(e.Loc))
		case resourcesync.ResourceListArchive:
			err = p.archive(e.Loc, e.Capability, func(a resourcesync.Entry) error {
				p.listed = append(p.listed, name(a.Loc))
				return p.snapshot(name(a.Loc), a.At.Time(), e.Loc)
			})
		case resourcesync.ChangeListArchive:
			err = p.archive(e.Loc, e.Capability, func(a resourcesync.Entry) error {
				p.closed = append(p.closed, name(a.Loc))
				return p.interval(name(a.Loc), a.From.Time(), a.Until.Time(), e.Loc)
			})
		}
		if err != nil {
			return nil, err
		}
	}
	slices.SortFunc(p.intervals, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
	slices.SortStableFunc(p.snapshots, func(a, b snapshot) int { return a.at.Compare(b.at) })
	return p, nil
}

// archive reads an archive, or the index over its parts.
func (p *pastCrawl) archive(uri string, c resourcesync.Capability, each func(resourcesync.Entry) error) error {
	h, entries, err := p.document(name(uri), c) // RA-GEN-01, RA-DOC-01
	if err != nil {
		return err
	}
	up := baseURL + "resourcesync/main/capabilitylist.xml"
	timeless := func(h resourcesync.Header) bool {
		return h.At.IsZero() && h.Completed.IsZero() && h.From.IsZero() && h.Until.IsZero() && h.Link("archives") == ""
	}
	if h.Link("up") != up || h.Link("index") != "" || !timeless(h) { // RA-DOC-02, RA-DOC-03, RA-ADV-06, RA-IDX-03
		return fmt.Errorf("%s: %+v", uri, h)
	}
	if h.Index {
		p.indexes++
		var all []resourcesync.Entry
		for _, part := range entries {
			if !part.At.IsZero() || !part.Completed.IsZero() || !part.From.IsZero() || !part.Until.IsZero() || !part.Lastmod.IsZero() {
				return fmt.Errorf("%s: entry %+v of an index says more than its address", uri, part) // RA-IDX-02
			}
			ph, pe, err := p.document(name(part.Loc), c)
			if err != nil {
				return err
			}
			if ph.Index || ph.Link("index") != uri || ph.Link("up") != up || !timeless(ph) { // RA-DOC-04, RA-IDX-07
				return fmt.Errorf("%s: %+v", part.Loc, ph)
			}
			all = append(all, pe...)
		}
		entries = all
	}
	seen := make(map[string]bool)
	for i, e := range entries {
		if seen[e.Loc] || len(e.Links) > 0 { // RA-DOC-08, RA-DOC-09
			return fmt.Errorf("%s: entry %+v", uri, e)
		}
		seen[e.Loc] = true
		snapshot := c == resourcesync.ResourceListArchive || c == resourcesync.ResourceDumpArchive
		if snapshot == e.At.IsZero() || snapshot != e.From.IsZero() || snapshot != e.Until.IsZero() { // RA-CHG-01, RA-CHG-02, RA-RES-02
			return fmt.Errorf("%s: entry %+v has the wrong times", uri, e)
		}
		if i > 0 && (e.At.Time().Before(entries[i-1].At.Time()) || e.From.Time().Before(entries[i-1].From.Time())) { // RA-RES-03, RA-CHG-03, RA-IDX-05
			return fmt.Errorf("%s: %s is not in order", uri, e.Loc)
		}
		if err := each(e); err != nil {
			return fmt.Errorf("%s names %s: %w", uri, e.Loc, err)
		}
	}
	return nil
}

// snapshot reads a Resource List. In an archive it has the at that the entry
// says, as all its parts, and is named by these (RA-DOC-10, RA-AMB-08). The current
// list may share parts with earlier ones: then it is as of its completed.
func (p *pastCrawl) snapshot(list string, at time.Time, archive string) error {
	c := crawl{read: p.read, state: make(map[string]string)}
	h, entries, err := c.document(list, resourcesync.ResourceList)
	if err != nil {
		return err
	}
	if archive != "" && (!h.At.Time().Equal(at) || h.Link("archives") != archive) { // RA-GEN-08, RA-GEN-12
		return fmt.Errorf("%s: at %s and archives %s, want %s and %s", list, h.At, h.Link("archives"), at, archive)
	}
	asOf := h.At.Time()
	if !h.Index {
		err = c.list(list, h, entries)
	}
	for _, part := range entries {
		if !h.Index {
			break
		}
		ph, pe, perr := c.document(name(part.Loc), resourcesync.ResourceList)
		if perr != nil {
			return perr
		}
		if archive != "" && ph.Link("index") != baseURL+list {
			return fmt.Errorf("%s: index %s, want %s", part.Loc, ph.Link("index"), list)
		}
		if ph.At.Compare(h.At) < 0 || ph.At != part.At || archive != "" && ph.At != h.At {
			return fmt.Errorf("%s: at %s, its index says %s and %s", part.Loc, ph.At, part.At, h.At)
		}
		if ph.At != h.At {
			asOf = h.Completed.Time()
		}
		if err = c.list(part.Loc, ph, pe); err != nil {
			break
		}
	}
	p.snapshots = append(p.snapshots, snapshot{asOf, c.state})
	return err
}

// current reads the current Change List.
func (p *pastCrawl) current(list string) error {
	h, entries, err := p.document(list, resourcesync.ChangeList)
	if err != nil {
		return err
	}
	if !h.Index {
		return p.events(h, entries)
	}
	for _, part := range entries {
		ph, pe, err := p.document(name(part.Loc), resourcesync.ChangeList)
		if err != nil {
			return err
		}
		if err := p.events(ph, pe); err != nil {
			return fmt.Errorf("%s: %w", part.Loc, err)
		}
	}
	return nil
}

// interval reads a Change List in the archive: closed, and of the interval that
// the entry says (RA-GEN-10, RA-DOC-10).
func (p *pastCrawl) interval(list string, from, until time.Time, archive string) error {
	h, entries, err := p.document(list, resourcesync.ChangeList)
	if err != nil {
		return err
	}
	if h.Index || !h.From.Time().Equal(from) || !h.Until.Time().Equal(until) || until.IsZero() || h.Link("archives") != archive {
		return fmt.Errorf("from %s until %s archives %s, want %s, %s, %s", h.From, h.Until, h.Link("archives"), from, until, archive)
	}
	return p.events(h, entries)
}

// events notes the changes of a document. What two documents say of one instant
// is the same.
func (p *pastCrawl) events(h resourcesync.Header, entries []resourcesync.Entry) error {
	until := h.Until.Time()
	if until.IsZero() {
		until = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
	}
	p.intervals = append(p.intervals, [2]time.Time{h.From.Time(), until})
	for _, e := range entries {
		at := e.Datetime.Time()
		if at.Before(h.From.Time()) || !at.Before(until) {
			return fmt.Errorf("event at %s outside [%s, %s)", at, h.From, h.Until)
		}
		if old, twice := p.changes[at]; twice && (old.Loc != e.Loc || old.Change != e.Change) {
			return fmt.Errorf("two events at %s: %+v and %+v", at, old, e)
		}
		p.changes[at] = e
	}
	return nil
}

// covered returns the instant from which on the intervals join up to the
// present (RA-CHG-04, RA-CHG-09).
func (p *pastCrawl) covered() time.Time {
	var from time.Time
	for _, i := range p.intervals {
		if i[1].After(from) {
			from = i[1]
		}
	}
	for _, i := range slices.Backward(p.intervals) {
		reach := slices.ContainsFunc(p.intervals, func(o [2]time.Time) bool {
			return !o[0].After(i[0]) && !o[1].Before(from)
		})
		if reach && i[0].Before(from) {
			from = i[0]
		}
	}
	return from
}

// tells holds that the archives tell of every moment of the past since since,
// up to the newest published change, and returns how many those are.
func (p *pastCrawl) tells(past []moment, since time.Time) (n int, err error) {
	var newest time.Time
	for at := range p.changes {
		if at.After(newest) {
			newest = at
		}
	}
	for _, s := range p.snapshots {
		if !p.dumps && s.at.After(newest) { // dumps are not of one moment
			newest = s.at
		}
	}
	if covered := p.covered(); covered.After(since) {
		return 0, fmt.Errorf("the history begins at %s, want %s: %v", covered, since, p.intervals)
	}
	order := slices.SortedFunc(maps.Keys(p.changes), time.Time.Compare)
	var base *snapshot
	var state map[string]string
	next, snapshots := 0, p.snapshots
	for _, m := range past {
		if m.at.Before(since) || m.at.After(newest) {
			continue
		}
		for len(snapshots) > 0 && !snapshots[0].at.After(m.at) { // each is begun from
			base, snapshots = &snapshots[0], snapshots[1:]
			state = maps.Clone(base.state)
			next, _ = slices.BinarySearchFunc(order, base.at, time.Time.Compare)
		}
		for ; base != nil && next < len(order) && !order[next].After(m.at); next++ {
			if e := p.changes[order[next]]; e.Change == resourcesync.Deleted {
				delete(state, e.Loc)
			} else {
				state[e.Loc] = digest(e.Length, e.Hashes)
			}
		}
		if base == nil || !maps.Equal(state, m.state) {
			return n, fmt.Errorf("the archives say that at %s there were %d resources, want %d: %s", m.at, len(state), len(m.state), strings.Join(p.names, " "))
		}
		n++
	}
	return n, nil
}

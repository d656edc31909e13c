package destination

import (
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/restore"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/scratch"
	"lockstep/destination/internal/wording"
	"lockstep/internal/extsort"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A Difference is one resource that was not the same at two instants.
type Difference struct {
	Change string `json:"change"` // "created", "updated", "deleted"; "unknown": what is stated of it is not enough to decide
	URI    string `json:"uri"`
}

// DiffUnknown is the Change of a resource that existed at both instants, if
// nothing stated about it allows a comparison of its contents (RA-DST-06).
const DiffUnknown = "unknown"

// A DiffReport is the result of comparing two instants.
type DiffReport struct {
	Source    string    `json:"source"`
	From      time.Time `json:"from"`
	To        time.Time `json:"to"`
	Sets      []string  `json:"sets"`
	Created   int64     `json:"created"`
	Updated   int64     `json:"updated"`
	Deleted   int64     `json:"deleted"`
	Unknown   int64     `json:"unknown"`
	Unchanged int64     `json:"unchanged"`
	Requests  int64     `json:"requests"`
	Elapsed   float64   `json:"elapsed_seconds"`
	Warnings  []string  `json:"warnings,omitempty"`
	Failures  []Failure `json:"failures,omitempty"`
}

// Diff compares the state of the collection of the Source at address at two
// instants, using what the Source has kept of its past (RA-DST-06): it reads
// nothing but documents, and uses neither mirror nor Journal. A zero to is now.
// Diff passes each difference to each, by URI in byte order, and ends if each
// returns an error.
//
// The error is an [ErrIncomplete] if the state of the collection at one of the
// instants is unknown, or documents could not be read; a [NoPastError] names
// the earliest instant with a known state. Then each was not called.
func (d *Destination) Diff(ctx context.Context, address string, from, to time.Time, each func(Difference) error) (DiffReport, error) {
	start, requests := time.Now(), d.client.Requests()
	out := DiffReport{Source: fetch.WithoutUser(address), From: from.UTC(), To: to.UTC(), Sets: []string{}}
	look := d.opts
	look.DryRun, look.Baseline = true, true // whatever the Journal knows
	quiet, err := d.with(look)
	if err != nil {
		return out, err // unreachable: d was made with these options
	}
	s := &differ{said: map[string]bool{}, session: &session{d: quiet, counts: saved.Counts{}, mirror: saved.Mirror{Numbers: map[string]int{}}, report: Report{Sets: []string{}}}, report: &out}
	s.out = newOutbox(d.journal, nil)
	err = s.run(ctx, address, each)
	s.countWarnings()
	out.Sets, out.Warnings, out.Failures = s.session.report.Sets, s.session.report.Warnings, s.session.report.Failures
	out.Requests, out.Elapsed = d.client.Requests()-requests, time.Since(start).Seconds()
	return out, err
}

// A differ is one comparison in progress.
type differ struct {
	*session
	report *DiffReport
	states *extsort.Sorter // by URI, what each set had at either instant
	said   map[string]bool
}

// once warns of what both instants have in common once.
func (s *differ) once(uri, text string) {
	if !s.said[text] && len(s.said) < maxListed {
		s.said[text] = true
		s.warn(uri, text)
	}
}

// The two instants, as the sorter records them.
const (
	sideFrom = iota
	sideTo
	sides
)

func (s *differ) run(ctx context.Context, address string, each func(Difference) error) (err error) {
	sets, err := s.locate(ctx, address)
	if err != nil {
		return err
	}
	s.states = scratch.RoomOf(s.d.journal).Sorter()
	defer func() {
		if cerr := s.states.Close(); err == nil {
			err = cerr
		}
	}()
	incomplete := len(s.session.report.Failures) > 0 // sets that cannot be read
	for i, set := range sets {
		s.d.emit(Event{Kind: EventSet, Set: set.Name, Progress: Progress{Set: i + 1, Sets: len(sets)}})
		for side, at := range [sides]time.Time{s.report.From, s.report.To} {
			if err := s.collect(ctx, set, i, side, at); err != nil {
				return err
			}
		}
	}
	if incomplete {
		return fmt.Errorf("%w: %s", ErrIncomplete, s.session.report.shortfall())
	}
	if s.report.To.IsZero() {
		s.report.To = time.Now().UTC().Truncate(time.Microsecond)
	}
	return s.compare(ctx, each)
}

// collect puts what a set had at an instant into the sorter; a zero at is now.
func (s *differ) collect(ctx context.Context, set *setState, number, side int, at time.Time) (err error) {
	r := s.newSetRun(set)
	r.reader.Warn = s.once
	defer r.reader.Packages.Shelf.Clear()
	defer func() {
		if cerr := r.stage.Close(context.WithoutCancel(ctx)); err == nil {
			err = cerr
		}
	}()
	st, err := s.stateThen(ctx, r, at)
	if err != nil {
		return err
	}
	prefix := binary.AppendUvarint([]byte{byte(side)}, uint64(number))
	prefix = desired.AppendDatetime(prefix, st.At)
	out := s.states.Writer()
	defer s.states.Release(out)
	var value []byte
	for w, err := range r.stage.Resources(ctx) {
		if err != nil {
			return err
		}
		if w.Gone || !s.d.selects.Selects(&w, false) {
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

// maxAhead is how far the clock of a Source may be ahead of ours, for what is
// there now.
const maxAhead = time.Minute

// stateThen stages the state of a set at an instant, exactly; zero means now,
// and the current state by the Source's documents.
func (s *differ) stateThen(ctx context.Context, r *setRun, at time.Time) (*restore.State, error) {
	now := at.IsZero()
	if now {
		at = time.Now().Add(maxAhead)
	}
	var unknown restore.Unknown
	st, err := restore.FromSource(ctx, r.reader, at, &unknown)
	none := &NoPastError{Set: r.set.Name, At: at, Earliest: unknown.Earliest, Err: unknown.Err}
	switch {
	case err != nil:
		return nil, err
	case st == nil:
		return nil, none
	case st.Inexact != "" && now:
		s.warn(r.set.URI, fmt.Sprintf("set %s: its present state is known as of %s", r.set.Name, wording.Time(st.AsOf)))
	case st.Inexact != "":
		none.Earliest, none.Err = st.AsOf, fmt.Errorf("%s; it is known for %s", st.Inexact, wording.Time(st.AsOf))
		return nil, none
	}
	return st, nil
}

// A told is what a set states of a resource.
type told struct {
	desired.Resource
	set  uint64
	list resourcesync.Datetime // of the list its state was made from
}

// compare passes on the differences.
func (s *differ) compare(ctx context.Context, each func(Difference) error) error {
	var (
		uri  string
		then [sides][]told
		n    int
	)
	flush := func() error {
		if n == 0 {
			return nil
		}
		if n%1024 == 0 && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		change := s.count(then[sideFrom], then[sideTo])
		then[sideFrom], then[sideTo] = then[sideFrom][:0], then[sideTo][:0]
		if change == "" {
			return nil
		}
		return each(Difference{Change: change, URI: uri})
	}
	for p, err := range s.states.Sorted(ctx) {
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
		side, t, err := decodeTold(uri, string(p.Value))
		if err != nil {
			return err
		}
		then[side] = append(then[side], t)
	}
	return flush()
}

func decodeTold(uri, value string) (side int, t told, err error) {
	d := desired.Decoder{B: value}
	side, t.set = int(d.Byte()), d.Uvarint()
	t.list = d.Datetime()
	if !d.OK() || side >= sides {
		return 0, told{}, desired.ErrDamaged
	}
	t.Resource, _, err = desired.Decode(uri, d.B)
	return side, t, err
}

// count counts a resource by how it changed, and returns the name of the
// change; "" is none. The resource existed if one of the sets had it.
func (s *differ) count(from, to []told) string {
	r := s.report
	switch {
	case len(from) == 0:
		r.Created++
		return resourcesync.Created.String()
	case len(to) == 0:
		r.Deleted++
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
	switch sameThen(a, b) {
	case content.Same:
		r.Unchanged++
		return ""
	case content.Different:
		r.Updated++
		return resourcesync.Updated.String()
	}
	r.Unknown++
	return DiffUnknown
}

// sameThen compares what was stated of a resource at two instants: by a common
// hash, else by length and lastmod; otherwise the result is unknown
// (RA-DST-06). An identical statement means identical content, whatever it
// says.
func sameThen(a, b *told) content.Likeness {
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
	case common, sameWord(a, b):
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

// sameWord reports whether a and b are the same event, or the same entry of the
// same list.
func sameWord(a, b *told) bool {
	if a.set != b.set || a.Class != b.Class || a.Change != b.Change {
		return false
	}
	if a.Class == desired.Listed {
		return !a.list.IsZero() && a.list.Compare(b.list) == 0
	}
	event := a.Event
	return !event.IsZero() && event.Compare(b.Event) == 0 && a.Modified.Compare(b.Modified) == 0
}

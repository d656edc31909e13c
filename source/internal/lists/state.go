package lists

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/newerstate"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/sections"
)

// stateVersion numbers the layout of state. Older ones are read, newer refused.
//
//  1. the first
//  2. with size and digest of the open list, and a tail
const stateVersion = 2

// A state describes a set's published documents. It is stored in one JSON blob beside
// them. A publication that switches several documents writes it twice: before, with
// Switching set, the planned Change List, and everything else as it was; and again
// afterwards. A publication that only appends to the open list writes the tail instead.
// A lost state is rebuilt from the catalog and the index of the Change List: then more
// documents are written than necessary, but never wrong ones.
type state struct {
	Version        int                `json:"version"`
	CapabilityList string             `json:"capability_list"` // of the set; documents of another base URL are not continued
	Switching      bool               `json:"switching,omitempty"`
	Planned        *changeState       `json:"planned,omitempty"`      // while Switching: the planned Changes; readers may have seen any part of it
	PlannedList    *listState         `json:"planned_list,omitempty"` // while Switching: the planned List, if it is another; readers may have seen it
	NewHistory     bool               `json:"anew,omitempty"`         // while Switching: the history begins again
	Stamp          time.Time          `json:"stamp"`                  // modification time of the documents written last; never goes back
	Saved          time.Time          `json:"saved,omitzero"`         // Stamp when this was written, which identifies its tail
	Compressed     bool               `json:"compressed,omitempty"`
	List           *listState         `json:"resource_list,omitempty"`
	Changes        *changeState       `json:"change_list,omitempty"`
	Retired        []document.Retired `json:"retired,omitempty"`
	Replaced       []replacedList     `json:"replaced,omitempty"` // in order; none in states of earlier versions, of which Retired has those in parts
}

// latestList returns the newest Resource List that readers may have seen; nil if there
// is none.
func (st *state) latestList() *listState {
	if st.Switching && st.PlannedList != nil {
		return st.PlannedList
	}
	return st.List
}

// newest returns the latest instant of the history that readers may have seen, by whatever clock; zero
// if there is none.
func (st *state) newest() (at time.Time) {
	later := func(t time.Time) {
		if t.After(at) {
			at = t
		}
	}
	for _, c := range []*changeState{st.Changes, st.Planned} {
		if c != nil {
			later(c.From)
			later(c.ThroughTime)
		}
	}
	for _, l := range []*listState{st.List, st.PlannedList} {
		if l != nil {
			later(l.At)
			later(l.taken().At)
		}
	}
	return at
}

// A listState is a published Resource List.
type listState struct {
	At        time.Time          `json:"at"`             // of the list, and the earliest of its parts (RS-RLI-03)
	Seq       catalog.Seq        `json:"seq"`            // newest change that At is known to cover
	Taken     document.Mark      `json:"taken,omitzero"` // all changes up to here are in it; see taken
	Resources int64              `json:"resources"`
	Rules     string             `json:"rules,omitempty"`    // digest of the rules for its links
	Parts     []string           `json:"parts,omitempty"`    // names; none when the list is one document
	Sections  []sections.Section `json:"sections,omitempty"` // what is known of Parts, in the same order; none in states of earlier versions
	Archived  bool               `json:"past,omitempty"`     // it has a link to its archive
	Copy      string             `json:"copy,omitempty"`     // name of a permanent copy of the entry document; empty: there is none
}

// A replacedList is a Resource List that clients may still be reading, whether it had
// parts or not. Of lists that followed each other closely, which can be one a second, it
// is the first: the changes after that lead to the others.
type replacedList struct {
	At    time.Time     `json:"at"`
	Seq   catalog.Seq   `json:"seq"`
	Taken document.Mark `json:"taken,omitzero"`
	Gone  time.Time     `json:"gone"` // when the last of them was replaced
}

// replacedShare is which share of the grace period lists that are kept as one
// replacedList may span. Two of them, one after the other, span more.
const replacedShare = 8

// replaced returns the lists that were replaced within the grace period; with the
// published one, if that is replaced now.
func (st *state) replaced(now time.Time, grace time.Duration, replace bool) (all []replacedList) {
	for _, r := range st.Replaced {
		if now.Sub(r.Gone) < grace {
			all = append(all, r)
		}
	}
	switch n := len(all); {
	case !replace || st.List == nil:
	case n > 1 && now.Sub(all[n-2].Gone) < grace/replacedShare:
		all[n-1].Gone = now
	default:
		all = append(all, replacedList{At: st.List.At, Seq: st.List.Seq, Taken: st.List.Taken, Gone: now})
	}
	return all
}

// taken returns the point in history that the whole list is as of. It is later than
// At if the list has parts of earlier lists, because none of their resources has
// changed.
func (st *listState) taken() catalog.Mark {
	if st.Taken.At.IsZero() {
		return catalog.Mark{Seq: st.Seq, At: st.At}
	}
	return catalog.Mark(st.Taken)
}

// nameSections gives the sections the names of the parts. What cannot be the
// sections of the list is dropped: the next one is then written as a whole.
func (st *listState) nameSections() {
	if st == nil {
		return
	}
	for i := range st.Sections {
		if i < len(st.Parts) {
			st.Sections[i].Name = st.Parts[i]
		}
	}
	if len(st.Sections) != len(st.Parts) || !sections.Sound(st.Sections) {
		st.Sections = nil
	}
}

// names returns the names of all blobs of the list except its entry document.
func (st *listState) names() []string {
	if st == nil {
		return nil
	}
	if st.Copy == "" {
		return st.Parts
	}
	return append(slices.Clip(st.Parts), st.Copy)
}

// A changeState is a published Change List: all changes numbered above After, through
// Through. The closed parts have the first ones, the open list has the rest.
type changeState struct {
	After       catalog.Seq  `json:"after"`
	From        time.Time    `json:"from"`
	Closed      []closedPart `json:"closed,omitempty"`
	Open        openPart     `json:"open"`
	Ended       *closedPart  `json:"ended,omitempty"` // the formerly open part of an index that is being removed
	Through     catalog.Seq  `json:"through"`
	ThroughTime time.Time    `json:"through_time,omitzero"` // of that change; zero if it is not known
	Archived    bool         `json:"past,omitempty"`        // the documents that change have links to its archive
}

// A closedPart is a Change List that will never be written again (RS-MD-09).
type closedPart struct {
	Name  string      `json:"name"`
	From  time.Time   `json:"from"`
	Until time.Time   `json:"until"`
	Last  catalog.Seq `json:"last"`
}

// An openPart is the Change List to which changes are appended.
type openPart struct {
	Name  string      `json:"name,omitempty"` // empty: the entry document itself
	Used  int         `json:"used,omitempty"` // how many parts with this beginning there have been
	From  time.Time   `json:"from"`
	After catalog.Seq `json:"after"`
	First time.Time   `json:"first,omitzero"` // event time of the first change in it
	Size  int64       `json:"size,omitempty"` // bytes before the closing tag; 0: not known
	Sum   string      `json:"sum,omitempty"`  // sha-256 of them
}

// A tail contains the fields of a state that change when only the open list grows. It
// is small however long the lists are.
type tail struct {
	Saved       time.Time   `json:"saved"` // of the state it belongs to
	Stamp       time.Time   `json:"stamp"`
	Open        openPart    `json:"open"`
	Through     catalog.Seq `json:"through"`
	ThroughTime time.Time   `json:"through_time"`
}

// load returns the state of the set's documents, or a new one if there is none to
// continue from. The caller must not change it.
func (s *Lists) load(ctx context.Context, set, capabilityList string) (*state, error) {
	if st := s.states[set]; st != nil {
		return st, nil
	}
	fresh := &state{Version: stateVersion, CapabilityList: capabilityList}
	st := new(state)
	data, _, err := s.opts.Docs.ReadBlob(ctx, names.Set(set).State())
	if err != nil || data == nil {
		return fresh, err
	}
	if err := json.Unmarshal(data, st); err != nil {
		s.opts.Docs.Log.WarnContext(ctx, "publishing state is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		return fresh, nil
	}
	if st.Version > stateVersion {
		return nil, newerstate.Document(names.Set(set).State(), st.Version, stateVersion)
	}
	if st.CapabilityList != capabilityList {
		return fresh, nil
	}
	st.Version = stateVersion
	st.List.nameSections()
	st.PlannedList.nameSections()
	if err := s.loadTail(ctx, set, st); err != nil {
		return fresh, err
	}
	if !st.sound(set) {
		s.opts.Docs.Log.WarnContext(ctx, "publishing state contradicts itself and will be rebuilt", slog.String("set", set))
		return fresh, nil
	}
	s.states[set] = st
	return st, nil
}

// sound reports whether st can be the state of the set's documents: whatever
// happened to the blob, only parts of ours are ever read or removed for it, and
// changes are looked for in their order.
func (st *state) sound(set string) bool {
	part := func(name string) bool { return names.Set(set).IsPart(name) }
	for _, l := range []*listState{st.List, st.PlannedList} {
		if l != nil && (l.Seq < 0 || l.Taken.Seq < 0 || !all(l.names(), part)) {
			return false
		}
	}
	for _, r := range st.Retired {
		if !part(r.Name) {
			return false
		}
	}
	for _, r := range st.Replaced {
		if r.At.IsZero() || r.Seq < 0 || r.Taken.Seq < 0 {
			return false
		}
	}
	for _, c := range []*changeState{st.Changes, st.Planned} {
		if c != nil && !c.sound(set) {
			return false
		}
	}
	return true
}

func (st *changeState) sound(set string) bool {
	after, from := st.After, st.From
	for _, p := range st.Closed {
		if !names.Set(set).IsChangePart(p.Name) || !p.From.Equal(from) || p.Last < after || p.Until.Before(p.From) {
			return false
		}
		after, from = p.Last, p.Until
	}
	o := &st.Open
	named := o.Name == "" || names.Set(set).IsChangePart(o.Name)
	return st.After >= 0 && named && (len(st.Closed) == 0 || o.Name != "") && o.After == after && o.From.Equal(from) && !from.IsZero() &&
		o.Size >= 0 && o.Used >= 0 && st.Through >= after && (st.Ended == nil || names.Set(set).IsChangePart(st.Ended.Name))
}

func all(docNames []string, ok func(string) bool) bool {
	return !slices.ContainsFunc(docNames, func(name string) bool { return !ok(name) })
}

// loadTail brings st up to the documents, if only the open list has grown since.
func (s *Lists) loadTail(ctx context.Context, set string, st *state) error {
	data, _, err := s.opts.Docs.ReadBlob(ctx, names.Set(set).Tail())
	if err != nil || data == nil || st.Changes == nil || st.Saved.IsZero() {
		return err
	}
	var t tail
	if err := json.Unmarshal(data, &t); err != nil {
		s.opts.Docs.Log.WarnContext(ctx, "end of the publishing state is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		return nil
	}
	if t.Saved.Equal(st.Saved) {
		st.grow(&t)
	}
	return nil
}

// grow makes t true of st.
func (st *state) grow(t *tail) {
	c := *st.Changes
	c.Open, c.Through, c.ThroughTime = t.Open, t.Through, t.ThroughTime
	st.Changes, st.Stamp = &c, t.Stamp
}

// save makes st what is remembered.
func (s *Lists) save(ctx context.Context, set string, st *state) error {
	st.Saved = st.Stamp
	data, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", names.Set(set).State(), err)
	}
	delete(s.states, set) // should the commit fail, what holds is in the blob
	if err := s.opts.Docs.CommitBlob(ctx, names.Set(set).State(), append(data, '\n'), time.Time{}); err != nil {
		return err
	}
	s.states[set] = st
	return nil
}

// saveGrown commits the open list that has grown, and remembers that. Should
// only one of both be there after a crash, that shows in the list's size.
func (s *Lists) saveGrown(ctx context.Context, set string, list blob.Writer, st *state) error {
	t := &tail{Saved: st.Saved, Stamp: st.Stamp, Open: st.Changes.Open, Through: st.Changes.Through, ThroughTime: st.Changes.ThroughTime}
	data, err := json.Marshal(t)
	if err != nil {
		return fmt.Errorf("write %s: %w", names.Set(set).Tail(), err)
	}
	w, err := s.opts.Docs.CreateBlob(ctx, names.Set(set).Tail(), append(data, '\n'), time.Time{})
	if err != nil {
		return err
	}
	defer w.Close()       // does nothing after Commit
	delete(s.states, set) // should the commit fail, what holds is in the blobs
	if err := s.opts.Docs.Commit(ctx, list, w); err != nil {
		return err
	}
	s.states[set] = st
	return nil
}

// Listed returns what the lists of a set cover: every change above floor,
// and the set as it was at each of the snapshots. ok is false if what was
// published is not known, or not settled.
func (s *Lists) Listed(ctx context.Context, set string) (floor catalog.Seq, snapshots []catalog.Mark, ok bool, err error) {
	st, err := s.load(ctx, set, s.opts.Docs.CapabilityList(set))
	if err != nil || st.Changes == nil || st.List == nil || st.Switching {
		return 0, nil, false, err
	}
	snapshots = []catalog.Mark{{Seq: st.List.Seq, At: st.List.At}, st.List.taken()}
	add := func(m document.Mark) {
		if !m.At.IsZero() {
			snapshots = append(snapshots, catalog.Mark(m))
		}
	}
	for _, r := range st.replaced(s.opts.Docs.Now(), s.opts.Grace, false) {
		add(document.Mark{Seq: r.Seq, At: r.At})
		add(r.Taken)
	}
	for _, r := range st.Retired {
		add(document.Mark{Seq: r.Seq, At: r.At})
		add(r.Taken)
	}
	return st.Changes.After, snapshots, true, nil
}

// Refresh reads again what is published of a set: by another process. It must not run at the
// same time as Publish.
func (s *Lists) Refresh(ctx context.Context, set string) error {
	delete(s.states, set)
	_, err := s.load(ctx, set, s.opts.Docs.CapabilityList(set))
	return err
}

// A Summary says what was published of a set.
type Summary struct {
	Resources int64
	At        time.Time // that the Resource List is as of
	Changed   time.Time // of the last change; zero if it is not known
}

// Summaries returns what was published of the sets that are known.
func (s *Lists) Summaries() map[string]Summary {
	all := make(map[string]Summary)
	for name, st := range s.states {
		if st.List != nil && st.Changes != nil {
			all[name] = Summary{Resources: st.List.Resources, At: st.List.taken().At, Changed: st.Changes.ThroughTime}
		}
	}
	return all
}

package source

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/pack"
)

// dumpStateVersion numbers the layout of dumpState. Older ones are read, newer
// refused.
const dumpStateVersion = 1

// A dumpState is what a Source remembers of a set's published dumps, kept in
// one JSON blob. What is about to be published stands in Next and NextChanges
// before an entry document is switched, and takes the place of what it replaces
// after; found there by a later run, it is switched to again. A state that is
// lost is made anew: then packages are built once more, under new names.
//
// A dumpState that is remembered does not change.
type dumpState struct {
	Version        int                `json:"version"`
	CapabilityList string             `json:"capability_list"` // the set; documents of another base URL are not ours to continue
	Stamp          time.Time          `json:"stamp"`           // modification time of the documents written last; rises
	Resources      *resourceDumpState `json:"resource_dump,omitempty"`
	Next           *resourceDumpState `json:"next_resource_dump,omitempty"`
	Changes        *changeDumpState   `json:"change_dump,omitempty"`
	NextChanges    *changeDumpState   `json:"next_change_dump,omitempty"`
	Building       []string           `json:"building,omitempty"` // names begin so which were never published
	Retired        []document.Retired `json:"retired,omitempty"`
}

// A resourceDumpState is a Resource Dump. Its packages stand in the order of
// the URIs in them: each has the resources from its First to the next one's.
type resourceDumpState struct {
	Gen      string        `json:"gen"`
	At       time.Time     `json:"at"`
	Seq      catalog.Seq   `json:"seq"`              // newest change that At is known to cover
	Manner   string        `json:"manner,omitempty"` // of making entries; packages made in another are not reused
	Packages []dumpPackage `json:"packages,omitempty"`
	Lists    []string      `json:"lists,omitempty"` // parts of the index; none when the dump is one document
	Copy     string        `json:"copy,omitempty"`  // name under which the entry document stays as it is; empty: it does not
}

// A dumpPackage is a package of a Resource Dump.
type dumpPackage struct {
	Name      string `json:"name"`
	First     []byte `json:"first"` // its range begins at this URI, which need not be text; that of the first at every URI
	Resources int    `json:"resources"`
	Deviant   int    `json:"deviant,omitempty"` // resources that were not as catalogued: packed as they were, or left out
	pack.Package
}

// A changeDumpState is a Change Dump: all changes numbered above After, through
// Through, in packages of consecutive intervals.
type changeDumpState struct {
	After    catalog.Seq     `json:"after"`
	From     time.Time       `json:"from"`
	Through  catalog.Seq     `json:"through"`
	Until    time.Time       `json:"until"` // of the last package; From if there is none
	Built    time.Time       `json:"built"` // when the last package was added
	Packages []changePackage `json:"packages,omitempty"`
	Lists    []changePart    `json:"lists,omitempty"` // parts of the index; none when the dump is one document
}

// A changePackage is a package of a Change Dump.
type changePackage struct {
	Name    string      `json:"name"`
	From    time.Time   `json:"from"`
	Until   time.Time   `json:"until"`
	Last    catalog.Seq `json:"last"`
	Changes int         `json:"changes"`
	pack.Package
}

// A changePart is a part of the index of a Change Dump: the next Packages ones.
// All but the last are closed.
type changePart struct {
	Name     string `json:"name"`
	Packages int    `json:"packages"`
}

// names returns all blobs the dump consists of, but for its entry document.
func (st *resourceDumpState) names() []string {
	if st == nil {
		return nil
	}
	docNames := append([]string(nil), st.Lists...)
	if st.Copy != "" {
		docNames = append(docNames, st.Copy)
	}
	for _, p := range st.Packages {
		docNames = append(docNames, p.Name, names.Manifest(p.Name))
	}
	return docNames
}

func (st *changeDumpState) names() []string {
	if st == nil {
		return nil
	}
	var docNames []string
	for _, l := range st.Lists {
		docNames = append(docNames, l.Name)
	}
	for _, p := range st.Packages {
		docNames = append(docNames, p.Name, names.Manifest(p.Name))
	}
	return docNames
}

// A dumpMemory is what a Source holds of its dumps' states.
type dumpMemory struct {
	mu       sync.Mutex            // guards what follows
	states   map[string]*dumpState // as saved
	building map[string]time.Time  // at of the Resource Dump that is being built
}

func (m *dumpMemory) get(set string) *dumpState {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[set]
}

func (m *dumpMemory) put(set string, st *dumpState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states == nil {
		m.states = make(map[string]*dumpState)
	}
	if st == nil {
		delete(m.states, set)
		return
	}
	m.states[set] = st
}

// begin says that a dump of the set's state at is being built; the zero time,
// that none is.
func (m *dumpMemory) begin(set string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.building == nil {
		m.building = make(map[string]time.Time)
	}
	m.building[set] = at
}

// loadDumps returns the state of the set's dumps; a new one where there is none
// to continue from.
func (s *Source) loadDumps(ctx context.Context, set string) (*dumpState, error) {
	if st := s.dumps.get(set); st != nil {
		return st, nil
	}
	fresh := &dumpState{Version: dumpStateVersion, CapabilityList: s.docs.CapabilityList(set)}
	data, _, err := s.docs.ReadBlob(ctx, names.DumpState(set))
	if err != nil || data == nil {
		return fresh, err
	}
	st := new(dumpState)
	if err := json.Unmarshal(data, st); err != nil {
		s.docs.Log.WarnContext(ctx, "state of dumps is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		return fresh, nil
	}
	if st.Version > dumpStateVersion {
		return nil, fmt.Errorf("read %s: written by a newer version (layout %d, this one knows %d)", names.DumpState(set), st.Version, dumpStateVersion)
	}
	if st.CapabilityList != fresh.CapabilityList {
		return fresh, nil
	}
	return st, nil
}

// saveDumps makes st what is remembered.
func (s *Source) saveDumps(ctx context.Context, set string, st *dumpState) error {
	data, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", names.DumpState(set), err)
	}
	s.dumps.put(set, nil) // should the commit fail, what holds is in the blob
	if err := s.docs.CommitBlob(ctx, names.DumpState(set), append(data, '\n'), time.Time{}); err != nil {
		return err
	}
	s.dumps.put(set, st)
	return nil
}

// dumpFloor returns the instant since which changes must be kept for the sake
// of the set's dumps: all since the at of every Resource Dump that someone may
// be reading or that is being built, and those that are not in the Change Dump
// yet. ok is false if there is no such instant.
func (s *Source) dumpFloor(ctx context.Context, set string) (floor time.Time, ok bool, err error) {
	s.dumps.mu.Lock()
	building := s.dumps.building[set]
	s.dumps.mu.Unlock()
	st, err := s.loadDumps(ctx, set)
	if err != nil {
		return time.Time{}, false, err
	}
	lower := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(floor)) {
			floor, ok = t, true
		}
	}
	lower(building)
	for _, r := range []*resourceDumpState{st.Resources, st.Next} {
		if r != nil {
			lower(r.At)
		}
	}
	for _, c := range []*changeDumpState{st.Changes, st.NextChanges} {
		if c != nil {
			lower(c.Until)
		}
	}
	for _, r := range st.Retired {
		lower(r.At)
	}
	return floor, ok, nil
}

// unpublished reports whether name belongs to what was begun and never
// published.
func (st *dumpState) unpublished(name string) bool {
	for _, prefix := range st.Building {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

var errNoBitstream = errors.New("a dump needs Bitstream, which opens the resources")

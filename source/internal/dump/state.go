package dump

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/internal/newerstate"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/describe"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/pack"
)

// stateVersion numbers the layout of state. Older ones are read, newer
// refused.
const stateVersion = 1

// A state is what a Source remembers of a set's published dumps, kept in
// one JSON blob. What is about to be published is in Next and NextChanges
// before an entry document is switched, and takes the place of what it replaces
// after; found there by a later run, it is switched to again. A state that is
// lost is rebuilt: then packages are built once more, under new names.
//
// A state that is remembered does not change.
type state struct {
	Version        int                `json:"version"`
	CapabilityList string             `json:"capability_list"` // the set; documents of another base URL are not ours to continue
	Stamp          time.Time          `json:"stamp"`           // modification time of the documents written last; rises
	Resources      *resourceState     `json:"resource_dump,omitempty"`
	Next           *resourceState     `json:"next_resource_dump,omitempty"`
	Changes        *changeState       `json:"change_dump,omitempty"`
	NextChanges    *changeState       `json:"next_change_dump,omitempty"`
	Building       []string           `json:"building,omitempty"` // names begin so which were never published
	Retired        []document.Retired `json:"retired,omitempty"`
}

// A resourceState is a Resource Dump. Its packages are in the order of
// the URIs in them: each has the resources from its First to the next one's.
type resourceState struct {
	Gen      string            `json:"gen"`
	At       time.Time         `json:"at"`
	Built    time.Time         `json:"built,omitzero"`   // when, by the clock of this machine; zero: by a version that kept At only
	Seq      catalog.Seq       `json:"seq"`              // newest change that At is known to cover
	Manner   string            `json:"manner,omitempty"` // of making entries; packages made in another are not reused
	Packages []resourcePackage `json:"packages,omitempty"`
	Lists    []string          `json:"lists,omitempty"` // parts of the index; none when the dump is one document
	Copy     string            `json:"copy,omitempty"`  // name under which the entry document stays as it is; empty: it does not
}

// A resourcePackage is a package of a Resource Dump.
type resourcePackage struct {
	Name      string `json:"name"`
	First     []byte `json:"first"` // its range begins at this URI, which need not be text; that of the first at every URI
	Resources int    `json:"resources"`
	Deviant   int    `json:"deviant,omitempty"` // resources that were not as catalogued: packed as they were, or left out
	pack.Package
}

// A changeState is a Change Dump: all changes numbered above After, through
// Through, in packages of consecutive intervals.
type changeState struct {
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
func (st *resourceState) names() []string {
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

func (st *changeState) names() []string {
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

// Dumps are the dumps of all sets of a Source.
type Dumps struct {
	opts     Options
	consists map[string]map[string][]string // what archived dumps consist of, by set and name; used by Publish only

	mu       sync.Mutex           // guards what follows
	states   map[string]*state    // as saved
	building map[string]time.Time // at of the Resource Dump that is being built
}

// Options are what dumps depend on.
type Options struct {
	Docs         *document.Store
	Catalog      catalog.Catalog
	Archives     *archive.Archives
	Workers      int           // packages built at a time
	Temp         string        // directory for temporary files
	Grace        time.Duration // how long replaced parts are kept
	ManifestType string        // media type of manifests

	// NameDocuments makes the Capability List of a set name the documents that
	// are there, except those in without.
	NameDocuments func(ctx context.Context, set string, without ...string) (written bool, err error)
}

// A Set is a set of resources that has dumps, or had some.
type Set struct {
	Name     string
	Rules    describe.Rules
	Resource *Resource     // nil: the set has no Resource Dump
	Change   *Change       // nil: the set has no Change Dump
	Keep     time.Duration // how long changes are kept
	Rotate   time.Duration // how old documents of changes get in an archive of their own; 0: any age

	// Archive returns which documents that have the capability are archived; nil:
	// none are.
	Archive func(resourcesync.Capability) *archive.Retain

	// Bitstream opens the present representation of a resource, Past the one that
	// a change brought; Past may be nil.
	Bitstream func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error)
	Past      func(ctx context.Context, c *catalog.Change) (io.ReadCloser, error)
}

// grace is how long a replaced dump stays.
func (set *Set) grace(grace time.Duration) time.Duration {
	if r := set.Resource; r != nil {
		grace = max(grace, time.Duration(r.Keep-1)*r.Every)
	}
	return grace
}

// A Resource says when a set's Resource Dump is built, and how it is cut.
type Resource struct {
	Every          time.Duration // build a new one, there being changes, when the last is this old
	Keep           int           // so many stay, the newest included, if each is built when it is due
	PackageBytes   int64         // of content in one package
	PackageEntries int           // resources in one package
}

// A Change says when packages are added to a set's Change Dump.
type Change struct {
	Every          time.Duration // add a package, there being changes, when the last is this old
	PackageBytes   int64         // as of a Resource
	PackageEntries int
}

// New returns dumps. None is read or written yet.
func New(o Options) *Dumps {
	return &Dumps{opts: o, consists: make(map[string]map[string][]string)}
}

func (m *Dumps) get(set string) *state {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.states[set]
}

func (m *Dumps) put(set string, st *state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.states == nil {
		m.states = make(map[string]*state)
	}
	if st == nil {
		delete(m.states, set)
		return
	}
	m.states[set] = st
}

// begin says that a dump of the set's state at is being built; the zero time,
// that none is.
func (m *Dumps) begin(set string, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.building == nil {
		m.building = make(map[string]time.Time)
	}
	m.building[set] = at
}

// load returns the state of the set's dumps; a new one where there is none
// to continue from.
func (s *Dumps) load(ctx context.Context, set string) (*state, error) {
	if st := s.get(set); st != nil {
		return st, nil
	}
	fresh := &state{Version: stateVersion, CapabilityList: s.opts.Docs.CapabilityList(set)}
	data, _, err := s.opts.Docs.ReadBlob(ctx, names.Dumps(set).State())
	if err != nil || data == nil {
		return fresh, err
	}
	st := new(state)
	if err := json.Unmarshal(data, st); err != nil {
		s.opts.Docs.Log.WarnContext(ctx, "state of dumps is unreadable and will be rebuilt", slog.String("set", set), slog.Any("err", err))
		return fresh, nil
	}
	if st.Version > stateVersion {
		return nil, newerstate.Document(names.Dumps(set).State(), st.Version, stateVersion)
	}
	if st.CapabilityList != fresh.CapabilityList {
		return fresh, nil
	}
	return st, nil
}

// save makes st what is remembered.
func (s *Dumps) save(ctx context.Context, set string, st *state) error {
	data, err := json.MarshalIndent(st, "", "\t")
	if err != nil {
		return fmt.Errorf("write %s: %w", names.Dumps(set).State(), err)
	}
	s.put(set, nil) // should the commit fail, what holds is in the blob
	if err := s.opts.Docs.CommitBlob(ctx, names.Dumps(set).State(), append(data, '\n'), time.Time{}); err != nil {
		return err
	}
	s.put(set, st)
	return nil
}

// Floor returns the instant since which changes must be kept for the sake
// of the set's dumps: all since the at of every Resource Dump that someone may
// be reading or that is being built, and those that are not in the Change Dump
// yet. ok is false if there is no such instant.
func (s *Dumps) Floor(ctx context.Context, set string) (floor time.Time, ok bool, err error) {
	s.mu.Lock()
	building := s.building[set]
	s.mu.Unlock()
	st, err := s.load(ctx, set)
	if err != nil {
		return time.Time{}, false, err
	}
	lower := func(t time.Time) {
		if !t.IsZero() && (!ok || t.Before(floor)) {
			floor, ok = t, true
		}
	}
	lower(building)
	for _, r := range []*resourceState{st.Resources, st.Next} {
		if r != nil {
			lower(r.At)
		}
	}
	for _, c := range []*changeState{st.Changes, st.NextChanges} {
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
func (st *state) unpublished(name string) bool {
	for _, prefix := range st.Building {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// Listed returns what the dumps of the set cover: the number of a change after
// which all changes are in the Change Dump, and the set as it was at each of the
// snapshots. There is no Change Dump if changes is false.
func (s *Dumps) Listed(ctx context.Context, set string) (after catalog.Seq, changes bool, snapshots []catalog.Mark, err error) {
	st, err := s.load(ctx, set)
	if err != nil {
		return 0, false, nil, err
	}
	for _, r := range []*resourceState{st.Resources, st.Next} {
		if r != nil {
			snapshots = append(snapshots, catalog.Mark{Seq: r.Seq, At: r.At})
		}
	}
	for _, c := range []*changeState{st.Changes, st.NextChanges} {
		if c != nil && (!changes || c.After < after) {
			after, changes = c.After, true
		}
	}
	for _, r := range st.Retired {
		if !r.At.IsZero() {
			snapshots = append(snapshots, catalog.Mark{Seq: r.Seq, At: r.At})
		}
	}
	return after, changes, snapshots, nil
}

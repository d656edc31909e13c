package destination

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"time"

	"lockstep/destination/filename"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/saved"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// StateFile is the path of the Journal below a mirror's directory.
const StateFile = filename.StateDir + "/state.db"

// The documents in the Journal. They are JSON; fields are only ever added.
const (
	docMirror = "mirror"  // a mirrorState
	docIntent = "intent"  // the batch being committed; absent when none is
	docNews   = "news"    // the changes that batch is made of, for an outbox
	docOutbox = "outbox"  // changes that are to be handed over
	docCounts = "counts"  // how many resources each set has here, by number
	docOpen   = "running" // present while a run is under way, or was killed
	docSet    = "set/"    // and the number of a set: a setState
)

// mirrorState is what is known of the Source as a whole.
type mirrorState struct {
	Origin  string          `json:"origin"`         // whose resources have their files at the root of the mirror
	Found   *discover.Found `json:"found"`          // the way to the documents
	Numbers map[string]int  `json:"numbers"`        // of the sets, by their URIs
	Maps    []filename.Map  `json:"maps,omitempty"` // besides those of the user: where the resources of an Origin go
}

// setState is what is known of one set, and up to where it was read.
type setState struct {
	URI     string `json:"uri"` // of the Capability List, or of the only list known
	Name    string `json:"name"`
	Number  int    `json:"number"`
	Lists   string `json:"lists"`   // URI of what says which resources there are: the Resource List, else the Resource Dump
	Changes string `json:"changes"` // URI of what says how they change: the Change List, else the Change Dump

	Dump       string `json:"dump,omitempty"`        // URI of the Resource Dump beside a Resource List
	ChangeDump string `json:"change_dump,omitempty"` // URI of the Change Dump beside a Change List
	Demand     string `json:"demand,omitempty"`      // URI that makes packages of what it is asked for

	archives map[resourcesync.Capability]string // URIs of the archives the Capability List names, by what they list (RA-ADV-01)

	onlyDump, onlyChangeDump bool // Lists is a Resource Dump, Changes a Change Dump, as far as was said

	foreign *discover.Foreign // it has no documents, but an Origin
	ended   bool              // nothing new will ever come
	partial bool              // not all of it could be read by the harvests so far

	unselected bool // it is not to be followed any more

	theirs int       // its number in the mirror that is the Source
	asOf   time.Time // the instant it was made to be of

	push     *pushState // what notifications brought; nil: not loaded
	doubted  bool       // it may be wrong: all is to be compared
	compared bool       // all was, when it was last brought into step
	pending  int64      // deletions that were notified, and that the Source has not confirmed

	planned bool // all of it was compared in this run

	found *doubts // what this run could not prove; nil: nothing new

	Complete  bool                  `json:"complete"`            // a baseline was finished
	Selection string                `json:"selection"`           // what was selected then
	Listed    int64                 `json:"listed"`              // resources, selected or not, when all was last compared
	Matched   int64                 `json:"matched"`             // those of them that were selected
	Watermark time.Time             `json:"watermark"`           // all changes before are here (RS-DST-23)
	SeenTime  time.Time             `json:"seen_time"`           // of the newest events read
	Seen      []string              `json:"seen"`                // fingerprints of those events
	ListKind  string                `json:"list_kind"`           // of Lists, when all was last compared: listSitemap or listOfStandard; empty in older states
	ListAt    time.Time             `json:"list_at"`             // of the newest Resource List read
	ListTag   validators            `json:"list_tag"`            // its validators
	ListParts map[string]validators `json:"list_parts"`          // of its parts, if it is an index
	ListFrom  string                `json:"list_from,omitempty"` // URI of what was read in place of the Resource List; the validators are of that

	Ahead   bool                  `json:"ahead,omitempty"` // Watermark lay in our future when it was set
	History time.Time             `json:"history"`         // where the Change List, or its index, said to begin
	Appends bool                  `json:"appends"`         // the Change List was seen to grow at its end only
	Cursor  cursor                `json:"cursor"`          // in the newest Change List
	Polled  map[string]validators `json:"polled"`          // change documents that can change, read to their end
	Open    []string              `json:"open"`            // the open lists of an index, to be polled

	Doubts doubts `json:"doubts,omitzero"` // what could not be proven when it was applied

	Harvest *harvestState `json:"harvest,omitempty"` // how far we have come with the memory of its Origin
}

// relDemand is the relation by which a Capability List names the address that
// takes lists of URIs and answers with a package of what is there.
const relDemand = "urn:x-lockstep:dump"

// locate takes over where the documents of the set are.
func (st *setState) locate(f *discover.Set) {
	st.Dump, st.ChangeDump = f.URI(resourcesync.ResourceDump), f.URI(resourcesync.ChangeDump)
	st.Demand = f.Link(relDemand)
	st.Lists = cmp.Or(f.URI(resourcesync.ResourceList), f.URI("")) // the latter is a plain Sitemap
	if st.onlyDump = st.Lists == "" && st.Dump != ""; st.onlyDump {
		st.Lists, st.Dump = st.Dump, "" // RS-DST-01
	}
	st.Changes = f.URI(resourcesync.ChangeList)
	if st.onlyChangeDump = st.Changes == "" && st.ChangeDump != ""; st.onlyChangeDump {
		st.Changes, st.ChangeDump = st.ChangeDump, "" // RS-DST-26
	}
	st.archives = map[resourcesync.Capability]string{}
	for _, c := range f.Capabilities {
		if kind, archive := archivedKind(c.Capability); archive {
			st.archives[kind] = c.URI
		}
	}
}

// syncedUntil is the instant before which all changes are here, by the word of
// the Source's documents or of its notifications.
func (st *setState) syncedUntil() time.Time {
	if st.push == nil || st.Watermark.IsZero() {
		return st.Watermark
	}
	return saved.Latest(st.Watermark, st.push.Until)
}

func (st *setState) viaList() string {
	if st.foreign != nil {
		return st.foreign.Kind
	}
	if st.onlyDump {
		return ViaDump
	}
	return ViaList
}

func (st *setState) viaChanges() string {
	if st.onlyChangeDump {
		return ViaChangeDump
	}
	return ViaChangeList
}

// A validators pair makes a request conditional.
type validators struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// A cursor is a position in a Change List that grows: everything after it is
// new, if what precedes it is the same as when it was set (RS-CHL-14).
type cursor struct {
	URI    string    `json:"uri"`
	From   time.Time `json:"from"`
	Count  int64     `json:"count"`  // entries before it
	Prefix string    `json:"prefix"` // running hash over them
}

// maxSeen caps the events remembered at one instant: a Source that gives all
// its changes one time costs no more than this. What is beyond is looked at
// again, which does no harm.
const maxSeen = 20_000

// fingerprint names the event w at t. Two events that say the same at one
// instant differ in their number within the document.
func fingerprint(w *desired.Resource, t resourcesync.Datetime) string {
	var buf [256]byte
	b := desired.AppendString(buf[:0], w.URI)
	b = desired.AppendDatetime(b, t)
	b = append(b, byte(w.Change))
	b = desired.AppendDatetime(b, w.Lastmod)
	b = binary.AppendVarint(b, w.Length)
	for _, h := range w.Hashes {
		b = append(b, h.Digest...)
	}
	b = binary.AppendUvarint(b, uint64(w.Nth))
	event, resource := sha256.Sum256(b), sha256.Sum256([]byte(w.URI))
	return base64.RawStdEncoding.EncodeToString(append(event[:12:12], resource[:6]...))
}

// resourceMark is the part of a fingerprint that names the resource.
func resourceMark(fingerprint string) string { return fingerprint[len(fingerprint)-8:] }

// markOf is the resourceMark of all fingerprints of events of a resource.
func markOf(uri string) string {
	sum := sha256.Sum256([]byte(uri))
	return base64.RawStdEncoding.EncodeToString(sum[:6])
}

// counts is how many resources of each set are held.
type counts map[int]int64

// with returns the row that set n also contains, and without the one it no
// longer does.
func with(sets []int, n int) []int {
	if i, found := slices.BinarySearch(sets, n); !found {
		return slices.Insert(slices.Clone(sets), i, n)
	}
	return sets
}

func without(sets []int, n int) []int {
	if i, found := slices.BinarySearch(sets, n); found {
		return slices.Delete(slices.Clone(sets), i, i+1)
	}
	return sets
}

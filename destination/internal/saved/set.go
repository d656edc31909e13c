package saved

import (
	"cmp"
	"time"

	"lockstep/destination/report"
	"lockstep/discover"
	"lockstep/resourcesync"
)

// A Set is the saved state of one set: the addresses of its documents and the
// position up to which they were read. Fields that are not saved are set by a run.
type Set struct {
	URI     string `json:"uri"` // of the Capability List, or of the only list known
	Name    string `json:"name"`
	Number  int    `json:"number"`
	Lists   string `json:"lists"`   // URI of the Resource List, or of the Resource Dump if there is no Resource List
	Changes string `json:"changes"` // URI of the Change List, or of the Change Dump if there is no Change List

	Dump       string `json:"dump,omitempty"`        // URI of the Resource Dump beside a Resource List
	ChangeDump string `json:"change_dump,omitempty"` // URI of the Change Dump beside a Change List
	Demand     string `json:"demand,omitempty"`      // URI that accepts a list of URIs and returns a package of their resources

	Complete  bool                  `json:"complete"`            // a baseline was finished
	Selection string                `json:"selection"`           // which resources were selected in the baseline
	Listed    int64                 `json:"listed"`              // resources, selected or not, in the last full comparison
	Matched   int64                 `json:"matched"`             // those of them that were selected
	Watermark time.Time             `json:"watermark"`           // all earlier changes are applied (RS-DST-23)
	SeenTime  time.Time             `json:"seen_time"`           // of the newest events read
	Seen      []string              `json:"seen"`                // fingerprints of those events
	ListKind  string                `json:"list_kind"`           // of Lists in the last full comparison: listSitemap or listOfStandard; empty in older states
	ListAt    time.Time             `json:"list_at"`             // of the newest Resource List read
	ListTag   Validators            `json:"list_tag"`            // its validators
	ListParts map[string]Validators `json:"list_parts"`          // of its parts, if it is an index
	ListFrom  string                `json:"list_from,omitempty"` // URI of the document that replaced the Resource List; the validators are of that

	Ripe time.Time `json:"ripe,omitzero"` // when resources that were too young to be taken are old enough: everything is compared then

	Ahead     bool                  `json:"ahead,omitempty"`     // Watermark was in our future when it was set
	History   time.Time             `json:"history"`             // the start of the Change List or of its index, as stated there
	Appends   bool                  `json:"appends"`             // the Change List has grown only at its end so far
	Rewrites  int                   `json:"rewrites,omitempty"`  // Change Lists that did not begin as the one before, since the last one that had grown at its end
	Rewritten time.Time             `json:"rewritten,omitzero"`  // when everything was last compared because of such a list
	Unchecked bool                  `json:"unchecked,omitempty"` // nothing was compared after the last of them
	Looked    time.Time             `json:"looked,omitzero"`     // when all changes since the list were last looked at, whatever their times
	Older     bool                  `json:"older,omitempty"`     // changes have been left out since then only because they are from before the watermark
	Parts     []byte                `json:"parts,omitempty"`     // prints of the parts of the index of changes
	Cursor    Cursor                `json:"cursor"`              // in the newest Change List
	Polled    map[string]Validators `json:"polled"`              // change documents that can change, read to their end
	Open      []string              `json:"open"`                // the open lists of an index, to be polled

	Kept bool `json:"kept,omitempty"` // resources are here that the Source has deleted, because deletions were not wanted

	Restored bool `json:"restored,omitempty"` // the state was restored from a copy, and not everything was compared since: files that are not recorded may be the mirror's

	Described     bool `json:"described,omitempty"`      // the rows of all resources say what the Source states of them, as far as its documents do
	DescribeTries int  `json:"describe_tries,omitempty"` // runs that tried to complete rows of an earlier version, or left it to the next

	Doubts Doubts `json:"doubts,omitzero"` // what could not be proven when it was applied

	Outdated Backoff `json:"outdated,omitzero"` // when the list may be read again for pending resources that no change describes

	Harvest *Harvest `json:"harvest,omitempty"` // position in the memory of the set's Origin

	Archives map[resourcesync.Capability]string `json:"-"` // URIs of the archives in the Capability List, by the kind of document they list (RA-ADV-01)

	OnlyDump       bool `json:"-"` // Lists is a Resource Dump, as far as the Source states it
	OnlyChangeDump bool `json:"-"` // Changes is a Change Dump, as far as the Source states it

	Foreign *discover.Foreign `json:"-"` // the set has an Origin instead of documents
	Ended   bool              `json:"-"` // the Source will not change any more
	Partial bool              `json:"-"` // the harvests so far did not read all of it

	Unselected bool `json:"-"` // the user no longer selects the set

	SourceNumber int       `json:"-"` // number of the set in the mirror that is the Source
	AsOf         time.Time `json:"-"` // the past instant that the set was restored to

	Doubted  bool  `json:"-"` // the copy may be wrong: compare everything
	Compared bool  `json:"-"` // the last run that succeeded compared everything
	Pending  int64 `json:"-"` // deletions that were notified and that the Source has not confirmed
	Planned  bool  `json:"-"` // this run compared everything

	Found *Doubts `json:"-"` // what this run could not prove; nil: no new result
}

// relDemand is the link relation of an address that accepts a list of URIs and
// returns a package of their resources.
const relDemand = "urn:x-lockstep:dump"

// Locate stores the addresses of the set's documents.
func (st *Set) Locate(f *discover.Set) {
	st.Dump, st.ChangeDump = f.URI(resourcesync.ResourceDump), f.URI(resourcesync.ChangeDump)
	st.Demand = f.Link(relDemand)
	st.Lists = cmp.Or(f.URI(resourcesync.ResourceList), f.URI("")) // the latter is a plain Sitemap
	if st.OnlyDump = st.Lists == "" && st.Dump != ""; st.OnlyDump {
		st.Lists, st.Dump = st.Dump, "" // RS-DST-01
	}
	st.Changes = f.URI(resourcesync.ChangeList)
	if st.OnlyChangeDump = st.Changes == "" && st.ChangeDump != ""; st.OnlyChangeDump {
		st.Changes, st.ChangeDump = st.ChangeDump, "" // RS-DST-26
	}
	st.Archives = map[resourcesync.Capability]string{}
	for _, c := range f.Capabilities {
		if kind, archive := ArchivedKind(c.Capability); archive {
			st.Archives[kind] = c.URI
		}
	}
}

// Ripen records when the resources are old enough that a run found too young to be taken; zero
// is none. A run that compared everything has found them all. An earlier time that has not
// come stays, so that no resource waits longer because others keep changing.
func (st *Set) Ripen(at, now time.Time, compared bool) {
	waits := now.Before(st.Ripe) && (st.Ripe.Before(at) || !compared)
	if !waits && (compared || st.Ripe.IsZero()) {
		st.Ripe = at
	}
}

// rewritesCompared is the number of lists that no longer begin as they did, with none between
// that does, after which a Source is known to write its lists that way. Then everything is
// compared after such a list only once in rewriteInterval, for changes that the Source adds
// before others that were read.
const (
	rewritesCompared = 3
	rewriteInterval  = 24 * time.Hour
)

// DoubtsRewrite reports whether everything is to be compared after a Change List that does not
// begin as the one before.
func (st *Set) DoubtsRewrite(now time.Time) bool {
	return st.Rewrites < rewritesCompared || isDue(st.Rewritten, now, rewriteInterval)
}

// olderLooks is how often a change that stays in a list as long as the others is looked at
// again, at most.
const olderLooks = 4

// DoubtsOlder reports whether the changes from before the watermark are to be looked at, where
// it is not known that the lists begin as they did: the Source may have added some of them
// after others that were read. That is so once in rewriteInterval, and more often if the lists
// reach back, to from, less than a few days.
func (st *Set) DoubtsOlder(from, now time.Time) bool {
	wait := rewriteInterval
	if !from.IsZero() {
		wait = min(wait, max(0, st.Watermark.Sub(from)/olderLooks))
	}
	return isDue(st.Looked, now, wait)
}

// isDue reports whether what was last done at an instant is to be done again.
func isDue(last, now time.Time, wait time.Duration) bool {
	return now.Before(last) || now.Sub(last) >= wait
}

// IsRipe reports whether there are resources that were too young to be taken, and no longer
// are.
func (st *Set) IsRipe(now time.Time) bool { return !st.Ripe.IsZero() && !now.Before(st.Ripe) }

// SetURI returns the URI that names a set: that of its Capability List, or else of the
// only list known.
func SetURI(f *discover.Set) string {
	if f.CapabilityList != "" {
		return f.CapabilityList
	}
	for _, c := range f.Capabilities {
		return c.URI
	}
	return f.Name
}

// ListCapability returns the kind of document that lists the resources.
func (st *Set) ListCapability() resourcesync.Capability {
	if st.OnlyDump {
		return resourcesync.ResourceDump
	}
	return resourcesync.ResourceList
}

// ChangesCapability returns the kind of document that lists the changes.
func (st *Set) ChangesCapability() resourcesync.Capability {
	if st.OnlyChangeDump {
		return resourcesync.ChangeDump
	}
	return resourcesync.ChangeList
}

// ViaList returns how the resources are learned of when all are compared, as the
// Report names it.
func (st *Set) ViaList() string {
	switch {
	case st.Foreign != nil:
		return st.Foreign.Kind
	case st.OnlyDump:
		return report.ViaDump
	}
	return report.ViaList
}

// ViaChanges returns how the changes are learned of, as the Report names it.
func (st *Set) ViaChanges() string {
	if st.OnlyChangeDump {
		return report.ViaChangeDump
	}
	return report.ViaChangeList
}

// CurrentDoubts returns the doubts that apply once this run is recorded.
func (st *Set) CurrentDoubts() *Doubts {
	if st.Found == nil {
		d := st.Doubts
		st.Found = &d
	}
	return st.Found
}

// IsChangesOnly reports whether no Resource List or Dump was ever applied,
// including states that an older version saved.
func (st *Set) IsChangesOnly(d *Doubts) bool {
	return d.ChangesOnly || st.Lists == "" && st.ListKind == "" && st.ListAt.IsZero()
}

// RestoreTo sets the position after the set was restored to a past state, whose list
// is as of listAt: the next run continues from the watermark (RA-DST-07).
func (st *Set) RestoreTo(watermark, listAt time.Time) {
	st.Watermark, st.ListAt = watermark, listAt
	st.ListTag, st.ListParts = Validators{}, nil
	st.SeenTime, st.Seen, st.Cursor, st.History = time.Time{}, nil, Cursor{}, time.Time{}
	st.Polled, st.Open, st.Appends = nil, nil, false
}

// ArchivedKind returns the kind of document that an archive of capability c lists,
// and whether c is an archive. An archive of version 0.5 and older has the
// capability of the documents it lists (RA-VER-03).
func ArchivedKind(c resourcesync.Capability) (kind resourcesync.Capability, archive bool) {
	switch c {
	case resourcesync.ResourceListArchive:
		return resourcesync.ResourceList, true
	case resourcesync.ResourceDumpArchive:
		return resourcesync.ResourceDump, true
	case resourcesync.ChangeListArchive:
		return resourcesync.ChangeList, true
	case resourcesync.ChangeDumpArchive:
		return resourcesync.ChangeDump, true
	}
	return c, false
}

// Validators are the values that make a request conditional.
type Validators struct {
	ETag     string `json:"etag,omitempty"`
	Modified string `json:"modified,omitempty"`
}

// A Cursor is a position in a Change List that grows: everything after it is
// new if everything before it is unchanged (RS-CHL-14).
type Cursor struct {
	URI    string    `json:"uri"`
	From   time.Time `json:"from"`
	Count  int64     `json:"count"`  // entries before it
	Prefix string    `json:"prefix"` // running hash over them
}

// Doubts are the properties that the documents of a set could not prove when they
// were applied. A later run that finds nothing new repeats them; only a full
// comparison removes them.
type Doubts struct {
	Gap         string    `json:"gap,omitempty"`          // why changes may be missing
	ChangesOnly bool      `json:"changes_only,omitempty"` // there was no list to compare with
	Reach       time.Time `json:"reach,omitzero"`         // with ChangesOnly: earlier resources are unknown; zero: not stated
	NoFrom      bool      `json:"no_from,omitempty"`      // the changes do not state the instant from which they are complete
	NoAt        bool      `json:"no_at,omitempty"`        // the list does not state its instant
}

// A Backoff says when something may be done again that was of no use so far.
type Backoff struct {
	Next time.Time     `json:"next"`
	Wait time.Duration `json:"wait"` // before Next, in nanoseconds
}

// A Harvest is the position of a set in the memory of its Origin.
type Harvest struct {
	ID     string `json:"id"` // of the memory
	Source string `json:"source,omitempty"`
	Seq    int64  `json:"seq"`             // changes up to there are applied
	Fresh  int64  `json:"fresh,omitempty"` // changes up to there are applied, except deletions
	Known  bool   `json:"known"`           // everything was compared, as of Seq
	Other  bool   `json:"other,omitempty"` // the memory is now of another Source
}

// Unfinished returns the state of a set whose comparison has not ended; nil for nil.
func (h *Harvest) Unfinished() *Harvest {
	if h == nil {
		return nil
	}
	u := *h
	u.Known = false
	return &u
}

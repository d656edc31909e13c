// Package report describes the result of a run of a Destination: the report that a
// run returns, the events and changes that it passes on while it works, the findings
// of an audit, the differences between two instants, the state of a Follower, and the
// errors that callers branch on. Package destination offers all of these names as its
// own.
package report

import "time"

// Modes of a run.
const (
	ModeBaseline    = "baseline"    // all resources of a set were compared
	ModeIncremental = "incremental" // changes were applied
	ModeNone        = "none"        // there was nothing to do
)

// Documents and channels that a run took its work from. A harvested set has the kind
// of what it was harvested from: [discover.AtomPMH], [discover.OAIPMH].
const (
	ViaList         = "list"
	ViaDump         = "dump"
	ViaChangeList   = "change-list"
	ViaChangeDump   = "change-dump"
	ViaNotification = "notification"
	ViaHistory      = "history" // of a mirror that keeps versions
)

// ViaAuto chooses the cheapest method: see Via of the options of a Destination.
const ViaAuto = "auto"

// MaxListed is the largest number of failures, findings, warnings and the like that a
// report lists. All of them pass through the events.
const MaxListed = 1000

// A Report is the result of a run. Its JSON is what `sync --json` prints.
type Report struct {
	Source       string       `json:"source"`
	Destination  string       `json:"destination"`
	Sets         []string     `json:"sets"`     // URIs of the sets followed
	Complete     bool         `json:"complete"` // nothing failed, and the Source's documents show that nothing is missing
	Mode         string       `json:"mode"`
	Via          string       `json:"via"`
	DryRun       bool         `json:"dry_run,omitempty"`
	Created      int64        `json:"created"`
	Updated      int64        `json:"updated"`
	Deleted      int64        `json:"deleted"`
	Unchanged    int64        `json:"unchanged"` // examined and in step; an incremental run does not examine all
	Failed       int64        `json:"failed"`
	Refused      int64        `json:"refused"`
	Pending      int64        `json:"pending_deletions,omitempty"`          // notified, but not yet confirmed by the Source
	Contradicted int64        `json:"contradicted_notifications,omitempty"` // notified changes that the Source's documents contradict
	Bytes        int64        `json:"bytes"`                                // received over the network
	Moved        int64        `json:"moved,omitempty"`                      // files that were renamed from a marked name to their own
	Requests     int64        `json:"requests"`                             // sent
	Elapsed      float64      `json:"elapsed_seconds"`
	SyncedUntil  time.Time    `json:"synced_until,omitzero"` // on the Source's clock: all earlier changes are applied
	By           By           `json:"by"`                    // contents by the method that brought them
	NotKept      int64        `json:"not_kept,omitempty"`    // versions that could not be kept because their files were damaged or gone
	Local        *LocalReport `json:"local,omitempty"`       // the state of the mirror's own files
	Kept         *Kept        `json:"kept,omitempty"`        // versions that the mirror keeps

	At      time.Time `json:"at,omitzero"`      // the requested instant
	AsOf    time.Time `json:"as_of,omitzero"`   // the instant of the mirror's state; of several sets the earliest
	Missing []Failure `json:"missing,omitzero"` // resources that existed at AsOf and whose content of that time is unavailable

	Expected int64       `json:"expected_bytes,omitempty"` // in a dry run: content to be fetched, as far as the Source states its length
	BySet    []SetReport `json:"by_set,omitempty"`
	Way      []string    `json:"way,omitempty"`      // steps from the address to the documents, when they had to be found
	Plan     []string    `json:"plan,omitempty"`     // for each set, sentences on the chosen transfer methods and the reasons
	Failures []Failure   `json:"failures,omitempty"` // the first failures, also of documents
	Warnings []string    `json:"warnings,omitempty"`

	Shared *SharedReport `json:"shared,omitempty"` // how several processes divided the work

	NotBefore time.Time      `json:"not_before,omitzero"` // earliest time at which a document that could not be read may be requested again, as its server asked
	Unproven  []Unproven     `json:"unproven,omitempty"`  // why the mirror is not known to be complete
	Withdrawn []WithdrawnSet `json:"withdrawn,omitempty"` // sets that the Source no longer lists, and whose files stay
	Fallbacks []Fallback     `json:"fallbacks,omitempty"` // documents and methods used in place of what could not be read
}

// A SharedReport says how the processes that share a mirror divided the work of a run.
type SharedReport struct {
	Processes   int   `json:"processes"`              // that took part
	Fetched     int64 `json:"fetched"`                // contents, by all of them
	Coordinator int64 `json:"fetched_by_coordinator"` // by the process that read the documents of the Source
	Own         int64 `json:"fetched_by_this"`        // by this process
}

// Kept describes the versions that a mirror keeps.
type Kept struct {
	Versions int64     `json:"versions"`
	Bytes    int64     `json:"bytes"` // of all of them; parts that they share are stored once
	Since    time.Time `json:"since"` // on the mirror's clock: the earliest state that can be restored
}

// A SetReport is the result of a run for one set.
type SetReport struct {
	URI         string    `json:"uri"`
	Name        string    `json:"name"`
	Mode        string    `json:"mode"`
	Via         string    `json:"via"`
	Created     int64     `json:"created"`
	Updated     int64     `json:"updated"`
	Deleted     int64     `json:"deleted"`
	Unchanged   int64     `json:"unchanged"`
	Failed      int64     `json:"failed"`
	Refused     int64     `json:"refused"`
	Bytes       int64     `json:"bytes"`
	Elapsed     float64   `json:"elapsed_seconds"`
	SyncedUntil time.Time `json:"synced_until,omitzero"`
	AsOf        time.Time `json:"as_of,omitzero"`  // the instant of the set's state, if a past one was requested
	Error       string    `json:"error,omitempty"` // why the set is not in step
	Complete    bool      `json:"complete"`        // nothing failed, and its documents show that nothing is missing

	open bool // its documents do not show that nothing is missing
}

// LeaveOpen notes that the documents of the set do not show that nothing is missing.
func (s *SetReport) LeaveOpen() { s.open = true }

// IsComplete reports whether nothing failed in the set, and its documents show that
// nothing is missing.
func (s *SetReport) IsComplete() bool { return s.Error == "" && s.Failed+s.Refused == 0 && !s.open }

// By counts contents by the method that brought them.
type By struct {
	Request   int64 `json:"request"`   // with a single request
	Package   int64 `json:"package"`   // out of a package of a Dump
	OnDemand  int64 `json:"on-demand"` // from a package that the Source made for one request
	Patch     int64 `json:"patch"`     // made from the content held before
	Mirror    int64 `json:"mirror"`    // from another address that the Source names
	Unchanged int64 `json:"unchanged"` // requested, and found to be the content that is held
	Adopted   int64 `json:"adopted"`   // from a file that existed already

	// AdoptedByTime counts adopted files that no hash has verified: the Source states
	// none, and their lengths and times are as stated.
	AdoptedByTime int64 `json:"adopted_by_time,omitempty"`
	Memento       int64 `json:"memento"` // from a memento or a TimeGate: of the past, or of the listed version where the resource has another one
	Kept          int64 `json:"kept"`    // of the past: from versions that the mirror has kept
	Harvest       int64 `json:"harvest"` // sent with its description, by an Origin
}

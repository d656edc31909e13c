// Package report describes the result of a run of a Destination: the report that a
// run returns, the events and changes that it passes on while it works, the findings
// of an audit, and the errors that callers branch on. Package destination offers all
// of these names as its own.
package report

import "time"

// Modes of a run.
const (
	ModeBaseline    = "baseline"    // all of a set was compared
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
	Unchanged    int64        `json:"unchanged"` // looked at and found in step; an incremental run does not look at all
	Failed       int64        `json:"failed"`
	Refused      int64        `json:"refused"`
	Pending      int64        `json:"pending_deletions,omitempty"`          // that were notified, and that the Source has not confirmed
	Contradicted int64        `json:"contradicted_notifications,omitempty"` // changes that were notified, and that the Source's documents contradict
	Bytes        int64        `json:"bytes"`                                // that came over the network
	Moved        int64        `json:"moved,omitempty"`                      // files that moved from a marked name to their own
	Requests     int64        `json:"requests"`                             // that were sent
	Elapsed      float64      `json:"elapsed_seconds"`
	SyncedUntil  time.Time    `json:"synced_until,omitzero"` // on the Source's clock: all changes before are here
	By           By           `json:"by"`                    // by which ways contents came
	NotKept      int64        `json:"not_kept,omitempty"`    // versions that were to be kept and could not: their files were damaged or gone
	Local        *LocalReport `json:"local,omitempty"`       // of the files of the mirror themselves
	Kept         *Kept        `json:"kept,omitempty"`        // of a mirror that keeps versions: which ones it has

	At      time.Time `json:"at,omitzero"`      // the instant asked for
	AsOf    time.Time `json:"as_of,omitzero"`   // the one the mirror is of; of several sets the earliest
	Missing []Failure `json:"missing,omitzero"` // resources that were there at AsOf and are not here as they were then

	Expected int64       `json:"expected_bytes,omitempty"` // of a dry run: content to be fetched, as far as the Source states its length
	BySet    []SetReport `json:"by_set,omitempty"`
	Way      []string    `json:"way,omitempty"`      // from the address to the documents, when it had to be found
	Plan     []string    `json:"plan,omitempty"`     // sentences that say, set by set, which ways were chosen and why
	Failures []Failure   `json:"failures,omitempty"` // the first of them, documents included
	Warnings []string    `json:"warnings,omitempty"`

	NotBefore time.Time      `json:"not_before,omitzero"` // when a document that could not be read may be asked for again, as its server wished; the earliest
	Unproven  []Unproven     `json:"unproven,omitempty"`  // why it is not complete
	Withdrawn []WithdrawnSet `json:"withdrawn,omitempty"` // sets that the Source lists no more, and whose files stay
	Fallbacks []Fallback     `json:"fallbacks,omitempty"` // what was used in place of what could not be read
}

// Kept is what a mirror that keeps versions has of them.
type Kept struct {
	Versions int64     `json:"versions"`
	Bytes    int64     `json:"bytes"` // of all of them; what they have in common is kept once
	Since    time.Time `json:"since"` // on the mirror's clock: what it was then, and at any time since, it can be again
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
	AsOf        time.Time `json:"as_of,omitzero"`  // the instant the set is of, where one was asked for
	Error       string    `json:"error,omitempty"` // why the set is not in step
	Complete    bool      `json:"complete"`        // nothing failed, and its documents show that nothing is missing

	open bool // its documents do not show that nothing is missing
}

// AddUnproven adds reasons why the set may lack something to those of the report, and
// notes in the result of the set that there are some.
func (s *SetReport) AddUnproven(r *Report, reasons []Unproven) {
	s.open = len(reasons) > 0
	r.Unproven = append(r.Unproven, reasons[:min(len(reasons), max(MaxListed-len(r.Unproven), 0))]...)
}

// IsComplete reports whether nothing failed in the set, and its documents show that
// nothing is missing.
func (s *SetReport) IsComplete() bool { return s.Error == "" && s.Failed+s.Refused == 0 && !s.open }

// By counts contents by the ways they came.
type By struct {
	Request   int64 `json:"request"`   // with a request for the resource alone
	Package   int64 `json:"package"`   // out of a package of a Dump
	OnDemand  int64 `json:"on-demand"` // many with one request, of the Source's on-demand dump
	Patch     int64 `json:"patch"`     // made from what was held
	Mirror    int64 `json:"mirror"`    // from another address the Source names
	Unchanged int64 `json:"unchanged"` // asked for, and found to be what is held
	Adopted   int64 `json:"adopted"`   // from a file that was there already

	// AdoptedByTime is how many of those that were adopted no hash has verified: the
	// Source states none, and their lengths and times are as stated.
	AdoptedByTime int64 `json:"adopted_by_time,omitempty"`
	Memento       int64 `json:"memento"` // from a memento or a TimeGate: of the past, or of the listed version where the resource has another one
	Kept          int64 `json:"kept"`    // of the past: from what the mirror has kept
	Harvest       int64 `json:"harvest"` // sent with its description, by an Origin
}

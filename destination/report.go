package destination

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/repeats"
	"lockstep/destination/internal/transfer"
	"lockstep/internal/fetch"
)

// Modes of a run.
const (
	ModeBaseline    = "baseline"    // all of a set was compared
	ModeIncremental = "incremental" // changes were applied
	ModeNone        = "none"        // there was nothing to do
)

// Ways a run learned of what to do. A set that was harvested has the kind of what
// it was harvested from: [discover.AtomPMH], [discover.OAIPMH].
const (
	ViaList         = "list"
	ViaDump         = "dump"
	ViaChangeList   = "change-list"
	ViaChangeDump   = "change-dump"
	ViaNotification = "notification"
	ViaHistory      = "history" // of a mirror that keeps versions
)

// ViaAuto is to choose the cheapest way: see Options.Via.
const ViaAuto = "auto"

// maxListed caps the failures and findings a report lists by name; all of them
// pass through the events.
const maxListed = 1000

// maxMissing caps what a report lists of unavailable past contents, in bytes.
// It is high because users who request a past state need to know everything it
// lacks.
const maxMissing = 24 << 20

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

	missing int // bytes of Missing
	unread  int // sets whose Capability List could not be read

	repeated *repeats.Counts // until the report is complete
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

	open bool // they do not show it
}

// since is what was booked in r for one set after before was.
func (r *Report) since(before *Report) SetReport {
	return SetReport{
		Mode: r.Mode, Via: r.Via,
		Created: r.Created - before.Created, Updated: r.Updated - before.Updated, Deleted: r.Deleted - before.Deleted,
		Unchanged: r.Unchanged - before.Unchanged, Failed: r.Failed - before.Failed, Refused: r.Refused - before.Refused,
	}
}

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

// add counts the content of an outcome that was booked.
func (b *By) add(o *transfer.Outcome) {
	switch {
	case o.Action.Verb != plan.Fetch:
	case o.Unchanged:
		b.Unchanged++
	case o.Adopted:
		b.Adopted++
	case o.By == transfer.ByPackage:
		b.Package++
	case o.By == transfer.ByOnDemand:
		b.OnDemand++
	case o.By == transfer.ByPatch:
		b.Patch++
	case o.By == transfer.ByMirror:
		b.Mirror++
	case o.By == transfer.ByMemento:
		b.Memento++
	case o.By == transfer.ByKept:
		b.Kept++
	case o.By == transfer.ByHarvest:
		b.Harvest++
	default:
		b.Request++
	}
}

// plan notes a sentence about the way chosen for a set, once.
func (r *Report) plan(sentence string) {
	if s := fetch.Printable(sentence); len(r.Plan) < maxListed && !slices.Contains(r.Plan, s) {
		r.Plan = append(r.Plan, s)
	}
}

// A Failure is one resource or document that could not be dealt with.
type Failure struct {
	URI   string `json:"uri"`
	Cause string `json:"cause"` // a sentence with the address in it

	NotBefore time.Time `json:"not_before,omitzero"` // when it is asked for again, as its server wished

	resource bool // it is pending; else it is a document, or a place in the mirror
	later    bool // it is tried again at the end of the run
}

// IsResource reports whether the failure is of a resource, which stays pending, and
// not of a document.
func (f *Failure) IsResource() bool { return f.resource }

// failResource notes a failure of a resource.
func (r *Report) failResource(uri string, err error, later bool) {
	if len(r.Failures) < maxListed {
		f := Failure{URI: fetch.Printable(uri), Cause: fetch.Printable(err.Error()), resource: true, later: later}
		if t := notBeforeOf(err); !t.IsZero() {
			f.NotBefore = t.UTC().Truncate(time.Second)
		}
		r.Failures = append(r.Failures, f)
	}
}

// retry takes back n failures that are tried again.
func (r *Report) retry(n int64) {
	r.Failed -= n
	r.Failures = slices.DeleteFunc(slices.Clone(r.Failures), func(f Failure) bool { return f.later })
}

// fail notes a failure, with a cause that names the address.
func (r *Report) fail(uri, cause string) {
	if len(r.Failures) < maxListed {
		r.Failures = append(r.Failures, Failure{URI: fetch.Printable(uri), Cause: fetch.Printable(cause)})
	}
}

// failDocument notes a document that could not be read.
func (r *Report) failDocument(uri string, err error) {
	n := len(r.Failures)
	r.fail(uri, err.Error())
	t := fetch.NotBefore(err)
	if t.IsZero() {
		return
	}
	r.deferUntil(t)
	if len(r.Failures) > n {
		r.Failures[n].NotBefore = t.UTC().Truncate(time.Second)
	}
}

// deferUntil notes that a document may be asked for again at t.
func (r *Report) deferUntil(t time.Time) {
	if t = t.UTC().Truncate(time.Second); r.NotBefore.IsZero() || t.Before(r.NotBefore) {
		r.NotBefore = t
	}
}

// miss records a resource whose past content is unavailable.
func (r *Report) miss(uri, cause string) {
	f := Failure{URI: fetch.Printable(uri), Cause: fetch.Printable(cause)}
	if r.missing > maxMissing {
		return
	}
	if r.missing += len(f.URI) + len(f.Cause) + 64; r.missing > maxMissing {
		r.warn("more is missing than can be listed here: each was reported when it was requested")
	}
	r.Missing = append(r.Missing, f)
}

// unmiss withdraws that the past content of a resource is unavailable.
func (r *Report) unmiss(uri string) {
	uri = fetch.Printable(uri)
	r.Missing = slices.DeleteFunc(r.Missing, func(f Failure) bool { return f.URI == uri })
}

// shortfall describes how much could not be done.
func (r *Report) shortfall() string {
	var parts []string
	add := func(n int64, what string) {
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, what))
		}
	}
	add(r.Failed, "failed")
	add(r.Refused, "refused")
	// What failed besides resources are documents, or places in the mirror.
	if other := int64(len(r.Failures)) - r.Failed - r.Refused; other > 0 || len(parts) == 0 {
		add(max(other, 1), "could not be read or written")
	}
	return strings.Join(parts, ", ")
}

// unfail withdraws a failure: it was resolved within the run.
func (r *Report) unfail(uri, cause string) {
	uri, cause = fetch.Printable(uri), fetch.Printable(cause)
	if i := slices.IndexFunc(r.Failures, func(f Failure) bool { return f.URI == uri && f.Cause == cause }); i >= 0 {
		r.Failures = slices.Delete(r.Failures, i, i+1)
	}
}

// effort records how a set was brought into step: the Report states the
// greatest effort made.
func (r *Report) effort(mode, via string) {
	rank := map[string]int{"": 0, ModeNone: 1, ModeIncremental: 2, ModeBaseline: 3}
	if rank[mode] > rank[r.Mode] {
		r.Mode, r.Via = mode, via
	}
}

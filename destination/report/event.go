package report

import (
	"encoding/json"
	"time"

	"lockstep/destination/journal"
	"lockstep/internal/fetch/shown"
	"lockstep/resourcesync"
)

// An EventKind says what an [Event] reports.
type EventKind string

// The kinds of events.
const (
	EventDocument EventKind = "document" // a document is being read: URI
	EventSet      EventKind = "set"      // a set's run begins: Progress.Set, Sets
	EventPlan     EventKind = "plan"     // the work that a set's run has to do: Progress.Total, Bytes
	EventProgress EventKind = "progress" // progress of the run of a set: Progress
	EventPlanned  EventKind = "planned"  // a dry run would apply a change: URI, Change, or refuse it: Err
	EventApplied  EventKind = "applied"  // a change is durable: --events shows these
	EventFailed   EventKind = "failed"   // a resource could not be brought into step: Err
	EventRefused  EventKind = "refused"  // a resource must not be fetched: Err
	EventRetry    EventKind = "retry"    // the failures with Later set are tried once more: Progress.Total
	EventWarning  EventKind = "warning"  // something users should know: URI, Err
	EventFinding  EventKind = "finding"  // an audit found a difference: Finding
	EventDone     EventKind = "done"     // a set's run is over: Result
)

// An Event is one step of a run.
type Event struct {
	Kind     EventKind
	Set      string // name of the set
	URI      string // of the resource or document
	Change   resourcesync.Change
	Path     string // of the file
	Length   int64
	Type     string // media type, as the Source states it
	Hashes   resourcesync.Hashes
	Datetime time.Time // of the change, as the Source states it; zero if it does not
	Lastmod  time.Time
	Links    []resourcesync.Link // that the Source states
	Stated   *journal.Stated     // what the Source states of the content; nil: unknown
	Content  Content             // whether the content changed
	Err      error
	Adopted  bool // the planned change makes an existing file part of the mirror
	Later    bool // the failed resource is tried again at the end of the run, and reported again if it fails again
	Finding  Finding
	Progress Progress
	Result   SetReport
}

// Progress is the progress of a set's run.
type Progress struct {
	Done, Total       int64 // resources examined or changed, and their expected number
	Bytes, TotalBytes int64 // of content fetched, and expected as far as its length is known
	Applied, Failed   int64
	Set, Sets         int // with EventSet: the number of the set, and of all sets
}

// MarshalJSON returns the line that --events writes for an applied change, and a
// similar one for other kinds.
func (e Event) MarshalJSON() ([]byte, error) {
	c := Change{Set: e.Set, URI: e.URI, Kind: e.Change, Path: e.Path, Length: e.Length, Type: e.Type, Hashes: e.Hashes, Lastmod: e.Lastmod,
		Datetime: e.Datetime, Links: e.Links, Stated: e.Stated, Content: e.Content}
	line := c.line()
	line.Event = e.Kind
	if e.Kind != EventApplied {
		line.Length = nil
	}
	if e.Err != nil {
		line.Cause = shown.RedactedIn(e.Err.Error(), e.URI)
	}
	if e.Kind == EventFinding {
		line.Finding = &e.Finding
	}
	return json.Marshal(line)
}

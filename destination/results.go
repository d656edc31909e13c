package destination

import "lockstep/destination/report"

// The results of runs and audits. Package report declares them.
type (
	Report       = report.Report
	SetReport    = report.SetReport
	By           = report.By
	Kept         = report.Kept
	Failure      = report.Failure
	Unproven     = report.Unproven
	WithdrawnSet = report.WithdrawnSet
	Fallback     = report.Fallback
	LocalReport  = report.LocalReport
	SharedReport = report.SharedReport

	AuditReport = report.AuditReport
	Finding     = report.Finding
	FindingKind = report.FindingKind
	Facts       = report.Facts
	Mended      = report.Mended
)

// What a run passes on while it works.
type (
	Event     = report.Event
	EventKind = report.EventKind
	Progress  = report.Progress
	Change    = report.Change
	Content   = report.Content
)

// Errors of runs. Package report declares them.
type (
	RefusedError   = report.RefusedError
	SetError       = report.SetError
	SelectionError = report.SelectionError
	NoPastError    = report.NoPastError
	PastError      = report.PastError
	SinkError      = report.SinkError
	DeliveryError  = report.DeliveryError
)

// Causes that callers branch on.
var (
	// ErrRefused reports that a run stopped for safety: it would delete too
	// much, or the Source went back in time. Nothing was deleted or replaced.
	ErrRefused = report.ErrRefused

	// ErrIncomplete reports a run after which the mirror is not in step:
	// resources failed, were refused, or a document could not be read.
	// Everything else was done. The Report has the details.
	ErrIncomplete = report.ErrIncomplete

	// ErrGone is what an [Origin] returns for a resource that no longer exists.
	ErrGone = report.ErrGone

	// ErrEnded is what an [Origin] returns for a Source that will never change again.
	ErrEnded = report.ErrEnded
)

// Modes of a run.
const (
	ModeBaseline    = report.ModeBaseline
	ModeIncremental = report.ModeIncremental
	ModeNone        = report.ModeNone
)

// Documents and channels that a run took its work from.
const (
	ViaList         = report.ViaList
	ViaDump         = report.ViaDump
	ViaChangeList   = report.ViaChangeList
	ViaChangeDump   = report.ViaChangeDump
	ViaNotification = report.ViaNotification
	ViaHistory      = report.ViaHistory
	ViaAuto         = report.ViaAuto // Options.Via: choose the cheapest method
)

// What a [Fallback] may have besides capabilities.
const (
	FallbackLoc      = report.FallbackLoc
	FallbackRequests = report.FallbackRequests
	FallbackMemento  = report.FallbackMemento
)

// The kinds of events.
const (
	EventDocument = report.EventDocument
	EventSet      = report.EventSet
	EventPlan     = report.EventPlan
	EventProgress = report.EventProgress
	EventPlanned  = report.EventPlanned
	EventApplied  = report.EventApplied
	EventFailed   = report.EventFailed
	EventRefused  = report.EventRefused
	EventRetry    = report.EventRetry
	EventWarning  = report.EventWarning
	EventFinding  = report.EventFinding
	EventDone     = report.EventDone
)

// What a change did to the content of a resource.
const (
	ContentReplaced = report.ContentReplaced
	ContentSame     = report.ContentSame
)

// The kinds of findings.
const (
	Missing      = report.Missing
	Stale        = report.Stale
	Corrupt      = report.Corrupt
	Extra        = report.Extra
	Foreign      = report.Foreign
	Unverifiable = report.Unverifiable
)

// maxListed caps the failures and findings a report lists by name; all of them
// pass through the events.
const maxListed = report.MaxListed

package follow

import (
	"context"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/discover"
)

// A Mirror is the mirror that a Follower keeps in step with a Source. Its methods
// are called by one goroutine.
type Mirror interface {
	// Look finds the Source's sets.
	Look(ctx context.Context) Look

	// Dissolve removes the sets that the last Look has found to be no longer
	// followed.
	Dissolve(ctx context.Context) Pass

	// Pull brings a set into step by the Source's documents.
	Pull(ctx context.Context, uri string, r PullRequest) Pass

	// Push applies the messages that load returns to a set.
	Push(ctx context.Context, uri string, load func(context.Context) ([]*inbox.Message, error)) Pushed

	// InStep is called when all sets are in step.
	InStep()

	// Close saves the state of the mirror.
	Close(ctx context.Context) error
}

// A Look is the result of looking up the sets of a Source.
type Look struct {
	Pass       Pass
	Usable     bool // some or all sets were found
	Impossible bool // the user's request is impossible
	Passing    bool // the failure is the Source's, or another one that may be temporary
	Sets       []FoundSet
	Left       bool // there are sets to be dissolved

	// Unreadable reports whether the Source offers a set that could not be read.
	Unreadable func(uri string) bool
}

// A FoundSet is a set that a Look has found.
type FoundSet struct {
	URI, Name string
	Offered   *discover.Set // must not be changed
	State     SetState
}

// A SetState is the state of a set after a pass.
type SetState struct {
	Watermark time.Time   // all earlier changes are applied
	Push      *push.State // nil: unknown after a failure
	Ended     bool        // the Source will not change any more
	Deferred  bool        // its documents must not be requested yet
}

// A PullRequest contains the parameters of a Pull besides the set.
type PullRequest struct {
	Name string
	All  []string // all sets that are followed, if each of the others was pulled; otherwise nil

	// Overload returns an overload of the set that was not reported yet, or nil.
	Overload func() *Overload

	// Ask requests an early pull of a set.
	Ask func(uri string)
}

// Pushed is the result of applying messages.
type Pushed struct {
	Pass       Pass
	Applied    int64 // changes
	Gaps       int64
	Duplicates int64             // messages without a new change
	Aside      []inbox.Aside     // messages in quarantine
	Pending    int64             // deletions that the Source has not confirmed
	LookAgain  string            // why the set has to be pulled; "": it need not be
	Announced  []push.Announced  // events of the messages
	Stale      map[string]error  // resources among these that had changed again
	Newest     time.Time         // time of the newest event
	Docs       map[string][]byte // documents to be saved together with the rows
	Refusal    error             // why no message was applied; the set has to be pulled
}

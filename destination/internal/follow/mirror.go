package follow

import (
	"context"
	"time"

	"lockstep/destination/internal/inbox"
	"lockstep/destination/internal/push"
	"lockstep/discover"
)

// A Mirror is what a Follower keeps in step with a Source. Its methods are called
// by one goroutine.
type Mirror interface {
	// Look finds the Source's sets.
	Look(ctx context.Context) Look

	// Dissolve empties the sets that the last Look has found to be no longer
	// followed.
	Dissolve(ctx context.Context) Pass

	// Pull brings a set into step by the Source's documents.
	Pull(ctx context.Context, uri string, r PullRequest) Pass

	// Push applies the messages that load returns to a set.
	Push(ctx context.Context, uri string, load func(context.Context) ([]*inbox.Message, error)) Pushed

	// InStep is called when all sets are in step.
	InStep()

	// Close saves what can be saved.
	Close(ctx context.Context) error
}

// A Look is the result of looking for the sets of a Source.
type Look struct {
	Pass       Pass
	Usable     bool // the sets were found, if not all of them
	Impossible bool // what the user asked for is not possible
	Passing    bool // the failure is the Source's, or another that may pass
	Sets       []FoundSet
	Left       bool // there are sets to be dissolved

	// Unreadable reports whether the Source offers a set that could not be read.
	Unreadable func(uri string) bool
}

// A FoundSet is a set that a Look has found.
type FoundSet struct {
	URI, Name string
	Offered   *discover.Set // never changed
	State     SetState
}

// A SetState is what is known of a set after a pass.
type SetState struct {
	Watermark time.Time   // all changes before are applied
	Push      *push.State // nil: the state is unknown after a failure
	Ended     bool        // there will be no more changes
	Deferred  bool        // its documents must not be requested yet
}

// A Pass is the result of one pass over a set, or of a Look.
type Pass struct {
	Err         error
	Incomplete  bool // Err says that everything else was done
	Refused     bool // Err says that nothing was done, for safety
	Undelivered bool // Err says that the consumer of changes did not take some

	Synced   bool  // the documents were read because they had changed, or all was compared
	Applied  int64 // changes
	Pending  int64 // deletions that the Source has not confirmed
	Complete bool
	Unproven []Unproven
	State    SetState

	Patience func(now time.Time) time.Duration // how long repeating what failed is of no use
	Report   func(error)                       // reports the pass to the caller
}

// Unproven is a reason why a mirror is not known to be complete.
type Unproven struct {
	Set, Reason, Command, Needs string
	Text                        string // the reason and what closes it
	Failed                      bool   // it is a failure, which an error states
}

// A PullRequest is what a Pull needs besides the set.
type PullRequest struct {
	Name string
	All  []string // all sets that are followed, if each of the others was pulled; else nil

	// Overload returns an overload of the set that was not reported yet, or nil.
	Overload func() *Overload

	// Ask requests that a set is looked at soon.
	Ask func(uri string)
}

// Pushed is the result of applying messages.
type Pushed struct {
	Pass       Pass
	Applied    int64 // changes
	Gaps       int64
	Duplicates int64             // messages that brought nothing
	Aside      int64             // messages that were put aside
	Pending    int64             // deletions that the Source has not confirmed
	LookAgain  string            // why the set has to be pulled; empty: it need not
	Announced  []push.Announced  // the events
	Stale      map[string]error  // resources of these that had changed again
	Newest     time.Time         // event
	Docs       map[string][]byte // to be saved when the rows are
	Refusal    error             // why nothing of it was applied; the set has to be pulled
}

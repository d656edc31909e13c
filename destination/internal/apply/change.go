package apply

import (
	"context"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// A Change is one that is, or is about to be, applied. Its fields are those of a
// change of the public API, so that one can be converted to the other.
type Change struct {
	Set      string              // name of the set
	URI      string              // of the resource
	Kind     resourcesync.Change // Created, Updated or Deleted
	Path     string              // of the file
	Length   int64               // of the file; of a deletion zero, like all that follows but Datetime
	Type     string              // media type, as the Source states it; may be empty
	Hashes   resourcesync.Hashes // of the file
	Lastmod  time.Time           // as the Source states it; zero if it does not
	Datetime time.Time           // of the change at the Source; zero if it is not stated
}

// An Outbox delivers changes to their consumer.
type Outbox interface {
	Delivers() bool // there is a consumer
	Waiting() bool  // there are changes to be saved
	Add(Change)
	Take() Taken                                // what is to be saved with the next transaction
	Note(docs map[string][]byte, next []Change) // the changes of a batch that is about to be committed
}

// Taken is the changes that one transaction saves.
type Taken interface {
	Save(docs map[string][]byte)     // adds them to the documents of the transaction
	Saved(ctx context.Context) error // is called after it, and delivers them
}

// changeOf returns the change that an outcome is, once it is applied.
func changeOf(set string, a *plan.Action, h *journal.Held) Change {
	c := Change{Set: set, URI: a.URI, Kind: plan.KindOf(a), Path: h.Path}
	if a.Class == desired.Changed || !a.Event.IsZero() {
		c.Datetime = a.Event.Time()
	}
	if a.Verb != plan.Remove {
		c.Lastmod = a.Lastmod.Time()
		c.Length, c.Hashes, c.Type = h.Length, h.Hashes, a.Type
	}
	return c
}

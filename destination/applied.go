package destination

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"lockstep/destination/internal/wording"
	"lockstep/resourcesync"
)

// A Change is one that was applied: its result is durable here. Its JSON is a
// line of `sync --events`.
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

// A changeLine is a Change or another event as JSON.
type changeLine struct {
	Event    EventKind `json:"event"`
	Set      string    `json:"set,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Change   string    `json:"change,omitempty"`
	Path     string    `json:"path,omitempty"`
	Length   *int64    `json:"length,omitempty"`
	Type     string    `json:"type,omitempty"`
	Hash     string    `json:"hash,omitempty"`
	Datetime string    `json:"datetime,omitempty"`
	Lastmod  string    `json:"lastmod,omitempty"`
	Cause    string    `json:"cause,omitempty"`
	Finding  *Finding  `json:"finding,omitempty"`
}

func (c *Change) line() changeLine {
	l := changeLine{Event: EventApplied, Set: c.Set, URI: c.URI, Change: changeName(c.Kind), Path: c.Path, Type: c.Type,
		Hash: wording.Hashes(c.Hashes), Datetime: timeText(c.Datetime), Lastmod: timeText(c.Lastmod)}
	if c.Kind != resourcesync.Deleted {
		l.Length = &c.Length
	}
	return l
}

// MarshalJSON returns c as one object.
func (c Change) MarshalJSON() ([]byte, error) { return json.Marshal(c.line()) }

// UnmarshalJSON reads what MarshalJSON writes.
func (c *Change) UnmarshalJSON(b []byte) error {
	var l changeLine
	if err := json.Unmarshal(b, &l); err != nil {
		return err
	}
	*c = Change{Set: l.Set, URI: l.URI, Path: l.Path, Type: l.Type, Datetime: parseTime(l.Datetime), Lastmod: parseTime(l.Lastmod)}
	for _, k := range []resourcesync.Change{resourcesync.Created, resourcesync.Updated, resourcesync.Deleted} {
		if changeName(k) == l.Change {
			c.Kind = k
		}
	}
	if l.Length != nil {
		c.Length = *l.Length
	}
	c.Hashes, _ = resourcesync.ParseHashes(l.Hash) // liberties: we wrote it
	return nil
}

// parseTime reverses timeText. It returns the zero time for an invalid text.
func parseTime(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// event returns what OnEvent receives for a change.
func (c *Change) event() Event {
	return Event{Kind: EventApplied, Set: c.Set, URI: c.URI, Change: c.Kind, Path: c.Path, Length: c.Length, Type: c.Type,
		Hashes: c.Hashes, Datetime: c.Datetime, Lastmod: c.Lastmod}
}

// errStopped ends a run whose caller has stopped reading the changes.
var errStopped = errors.New("stopped")

// Changes runs [Destination.Sync] as a loop over the changes it applies. It
// yields each change when it is durable, in the order in which they were
// applied. Once the loop has ended, report, if not nil, has the result of the
// run. An error is yielded last, with a zero Change; it is Sync's.
//
//	var report destination.Report
//	for c, err := range d.Changes(ctx, "https://example.org/", &report) {
//		if err != nil {
//			return err
//		}
//		fmt.Println(c.Kind, c.URI)
//	}
//
// A change counts as processed when the loop asks for the next. If the loop is
// left, or the process killed, the last change yielded and those not yet yielded
// come first in the next run of Changes, or go to [Options.Deliver] of the next
// Sync: each at least once, perhaps twice, in order. Leaving the loop ends the
// run cleanly; what was fetched is kept. Options.Deliver is not called.
func (d *Destination) Changes(ctx context.Context, address string, report *Report) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		left := make(chan struct{}) // the loop was left
		offers, taken := make(chan Change), make(chan struct{})
		var r Report
		var err error
		done := make(chan struct{})
		defer func() { // also when the loop panics
			close(left)
			cancel()
			<-done
			if report != nil {
				*report = r
			}
		}()
		go func() {
			defer close(done)
			r, err = d.sync(ctx, address, func(ctx context.Context, batch []Change) (int, error) {
				for i, c := range batch {
					select {
					case offers <- c:
					case <-left:
						return i, errStopped
					case <-ctx.Done():
						return i, context.Cause(ctx)
					}
					select {
					case <-taken:
					case <-left:
						return i, errStopped
					}
				}
				return len(batch), nil
			})
		}()
		for {
			select {
			case c := <-offers:
				if !yield(c, nil) {
					return
				}
				taken <- struct{}{}
			case <-done:
				if err != nil {
					yield(Change{}, err)
				}
				return
			}
		}
	}
}

// Package share lets several processes fetch the resources of one mirror. One of them,
// the coordinator, owns the state of the mirror and does everything that a single process
// does; the others fetch and verify contents for it, and put them into the store when it
// asks them to. They communicate through tables of the database that has the state.
package share

import (
	"context"
	"time"
)

// A Process is one of those that share a mirror, as the others see it.
type Process struct {
	ID   string // of this process, and of no other at any time
	Name string // for people

	// Run is the token of the coordinator for which the process works: everything that it
	// was to do for earlier ones has ended.
	Run int64

	Divisor int                      // by which the process divides the limits on requests
	Open    int                      // contents that it has, or is to have, in hand
	Pauses  map[string]time.Duration // how long hosts have asked for no more requests
}

// A View is what a process sees of the others.
type View struct {
	Run     int64     // token of the latest coordinator
	Present bool      // it has not ended
	Alive   []Process // whose lease has not ended, also the process itself
}

// A Message is what one process says to another.
type Message struct {
	To, From string // IDs
	Number   int64  // rises with each message of the sender
	Run      int64  // of which it is part
	Kind     Kind
	Body     []byte
}

// A Kind says what a Message is about.
type Kind int

// What a coordinator says, and what it is answered.
const (
	ToFetch   Kind = iota + 1 // to fetch resources
	Fetched                   // what came of that
	ToCommit                  // to make contents visible
	Committed                 // what came of that
	ToDrop                    // to forget contents
)

// A Table is what the processes have in common. All methods may be called concurrently, and
// repeated: what was done already is not done again.
type Table interface {
	// Renew records what a process says of itself, and that it is there for the time of a
	// lease from now on, or for longer if it was to be before, and returns what it sees. Only
	// the clock of the table counts.
	Renew(ctx context.Context, p Process, lease time.Duration) (View, error)

	// Leave records that a process is not there any more.
	Leave(ctx context.Context, id string) error

	// Send records messages. One that it has recorded before an error is received again when it
	// is sent again, also if the recipient had removed it.
	Send(ctx context.Context, ms []Message) error

	// Receive removes messages that were received, and returns the others to a process,
	// those of each sender in the order of their numbers.
	Receive(ctx context.Context, to string, received []Message) ([]Message, error)

	// Clear removes the messages of all runs before one.
	Clear(ctx context.Context, run int64) error
}

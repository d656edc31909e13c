package statedir

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/destination"
)

// Documents belong to the state from which they are published: if two states took
// turns in one place, each would continue the other's history with changes that it
// does not know. A mark beside the documents names the state, and publication from
// another state is refused.
const (
	ownerMark = ".lockstep/owner/publisher.json" // beside the documents
	stateID   = "publisher-id"                   // note of the state
	idBytes   = 16
	maxOwner  = 4 << 10 // bytes of a mark that are read
)

// An owner is the mark in a place for documents. The place of the state is a
// digest, so that readers of a public directory do not learn it.
type owner struct {
	ID         string    `json:"id"`                   // of the state
	Place      string    `json:"place"`                // digest of host and path of the state directory
	Since      time.Time `json:"since"`                // when it was first published from there
	Restarting bool      `json:"restarting,omitempty"` // the documents of another state have not been replaced yet
}

// A State is that of a Source, whose documents it publishes.
type State struct {
	Notes Notes
	Name  string // of the directory, or of the database, for people
	place func() (string, error)
}

// In returns the state in a directory.
func In(dir string) State {
	return State{Notes: Files(dir), Name: dir, place: func() (string, error) { return placeOf(dir) }}
}

// InDatabase returns the state in a database, whose name says where it is.
func InDatabase(notes Notes, name string) State {
	return State{Notes: notes, Name: name, place: func() (string, error) { return digest(name), nil }}
}

// A Claim is the right of a state to publish to one place.
type Claim struct {
	docs  blob.Store // nil: the documents are in the state itself, which is locked
	place string     // where they are, for people
	owner owner
	due   bool // the mark has to be written

	notes    Notes
	restarts []string // notes that say that the history restarts
}

// Restarts reports whether the published documents are those of another state, or of a later
// one from which this one was restored, or are lost, so that their history begins again.
func (c *Claim) Restarts() bool { return c != nil && (c.owner.Restarting || len(c.restarts) > 0) }

// OwnClaim returns the claim of a state, which is locked, to the documents in its directory.
func OwnClaim(state State) (*Claim, error) {
	restarts, err := marks(state.Notes, restoredName, lostName)
	return &Claim{notes: state.Notes, restarts: restarts}, err
}

// NewClaim returns the claim of a state, which is locked, to documents at a place. A
// place that belongs to another state is refused, unless that state is gone or
// takeOver is set. Nothing is written before Take.
func NewClaim(ctx context.Context, docs blob.Store, place string, state State, takeOver bool) (*Claim, error) {
	return newClaim(ctx, docs, place, state, takeOver, subject{"documents", "%s is published from another state directory since %s, not from %s", "clients then compare everything"})
}

// ClaimContents is NewClaim for a place of the contents that a Source keeps.
func ClaimContents(ctx context.Context, contents blob.Store, place string, state State, takeOver bool) (*Claim, error) {
	return newClaim(ctx, contents, place, state, takeOver, subject{"contents", "%s has the contents of another state since %s, not those of %s", "what it has kept there is then removed"})
}

// A subject is what is claimed, for messages.
type subject struct {
	name      string
	belongs   string // format of what is wrong: the place, since when, the state
	takenOver string // what follows from taking it over
}

func newClaim(ctx context.Context, docs blob.Store, place string, state State, takeOver bool, what subject) (*Claim, error) {
	id, err := loadID(state.Notes)
	if err != nil {
		return nil, err
	}
	own, err := state.place()
	if err != nil {
		return nil, err
	}
	restarts, err := marks(state.Notes, restoredName)
	if err != nil {
		return nil, err
	}
	c := &Claim{docs: docs, place: place, notes: state.Notes, restarts: restarts, owner: owner{ID: id, Place: own, Since: time.Now().UTC().Truncate(time.Second)}}
	known, found, err := readOwner(ctx, docs)
	switch {
	case err != nil:
		return nil, hinted{fmt.Errorf("open %s for the %s: %w", place, what.name, err), "see that it can be reached and written; nothing was published"}
	case !found:
		c.due = true
		return c, nil
	case known.ID == id:
		c.owner = known
		return c, nil
	case known.Place != own && !takeOver:
		return nil, &destination.RefusedError{
			Reason: fmt.Sprintf(what.belongs, place, known.Since.Format(time.RFC3339), state.Name),
			Hint: "use that one's --state (and the same user, whose default it may be), or give this one a place of its own; " +
				"if the other is gone for good, run once with --take-over: " + what.takenOver,
		}
	}
	c.owner.Restarting, c.due = true, true // the state that was here was removed, or is to be replaced
	return c, nil
}

// Take marks the place as that of the state.
func (c *Claim) Take(ctx context.Context) error {
	if !c.due {
		return nil
	}
	c.due = false
	return c.write(ctx)
}

// Published records that the documents of the state have replaced all others.
func (c *Claim) Published(ctx context.Context) error {
	if !c.Restarts() {
		return nil
	}
	if c.owner.Restarting {
		c.owner.Restarting = false
		if err := c.write(ctx); err != nil {
			c.owner.Restarting = true // so that it is written with the next publication
			return err
		}
	}
	for _, name := range c.restarts {
		if err := c.notes.Save(name, nil); err != nil {
			return fmt.Errorf("record that the history of changes has restarted: %w", err)
		}
	}
	c.restarts = nil
	return nil
}

func (c *Claim) write(ctx context.Context) error {
	text, err := json.Marshal(c.owner)
	if err != nil {
		return err
	}
	w, err := c.docs.Create(ctx, ownerMark)
	if err != nil {
		return c.explain(err)
	}
	if _, err = w.Write(append(text, '\n')); err == nil {
		err = c.docs.Commit(ctx, w)
	}
	if err != nil {
		_ = w.Close() // err says more
		return c.explain(err)
	}
	return nil
}

// explain says of which place err is that the mark could not be written there.
func (c *Claim) explain(err error) error {
	at := fmt.Errorf("write to %s: %w", c.place, err)
	if errors.Is(err, fs.ErrPermission) {
		return hinted{at, "give the user who runs this write access there, or choose another place"}
	}
	return at
}

func readOwner(ctx context.Context, docs blob.Store) (o owner, found bool, err error) {
	r, err := docs.Open(ctx, ownerMark)
	if errors.Is(err, blob.ErrNotExist) {
		return o, false, nil
	}
	if err != nil {
		return o, false, err
	}
	defer r.Close() // opened for reading only
	text, err := io.ReadAll(io.LimitReader(r, maxOwner))
	if err != nil {
		return o, false, err
	}
	if json.Unmarshal(text, &o) != nil || o.ID == "" {
		return owner{}, false, nil // damaged: it names no state
	}
	return o, true, nil
}

// placeOf returns a digest of where a state directory is.
func placeOf(state string) (string, error) {
	path, err := RealPath(state)
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w", err)
	}
	host, _ := os.Hostname() // without it the path has to do
	return digest(host + "\x00" + path), nil
}

func digest(place string) string {
	sum := sha256.Sum256([]byte(place))
	return hex.EncodeToString(sum[:16])
}

// loadID returns the identity of a state, which is created at its first use and moves with
// it. The state is locked.
func loadID(notes Notes) (string, error) {
	text, err := notes.Load(stateID)
	if err != nil {
		return "", fmt.Errorf("read the identity of the state: %w", err)
	}
	if id := strings.TrimSpace(string(text)); len(id) == 2*idBytes {
		return id, nil
	}
	id := newID()
	if err := notes.Save(stateID, []byte(id+"\n")); err != nil { // before the documents name it
		return "", fmt.Errorf("write the identity of the state: %w", err)
	}
	return id, nil
}

func newID() string {
	b := make([]byte, idBytes)
	_, _ = rand.Read(b) // never fails
	return hex.EncodeToString(b)
}

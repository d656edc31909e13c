package main

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
	"path/filepath"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
)

// Documents belong to the state they are published from: two states that take
// turns in one place would each continue the other's history with changes it does
// not know. A mark beside the documents names the state; another one is refused.
const (
	ownerMark = ".lockstep/owner/publisher.json" // beside the documents
	stateID   = "publisher-id"                   // in the state directory
	idBytes   = 16
	maxOwner  = 4 << 10 // bytes of a mark that are read
)

// An owner is the mark in a place for documents. It must not tell the readers of
// a public directory where the publisher keeps its files: the place is a digest.
type owner struct {
	ID         string    `json:"id"`                   // of the state
	Place      string    `json:"place"`                // digest of host and path of the state directory
	Since      time.Time `json:"since"`                // when it was first published from there
	Restarting bool      `json:"restarting,omitempty"` // the documents of another state have not been replaced yet
}

// An outClaim is the right of a state to publish to one place.
type outClaim struct {
	docs  blob.Store // nil: the documents are in the state itself, which is locked
	owner owner
	due   bool // the mark is to be written
}

// restarts reports whether what is published there is another state's: the
// history begins again.
func (c *outClaim) restarts() bool { return c != nil && c.owner.Restarting }

// checkOwner finds out whether the place of the documents is that of the state of
// o, or free. The place of another state is refused, unless that one is gone or is
// to be replaced. Nothing is written there until take.
func checkOwner(ctx context.Context, docs blob.Store, o siteOptions) (*outClaim, error) {
	if _, ours := inside(o.state, o.documents); ours && !mirror.IsBucket(o.documents) {
		return &outClaim{}, nil
	}
	id, err := loadStateID(o.state)
	if err != nil {
		return nil, err
	}
	place, err := placeOf(o.state)
	if err != nil {
		return nil, err
	}
	c := &outClaim{docs: docs, owner: owner{ID: id, Place: place, Since: time.Now().UTC().Truncate(time.Second)}}
	known, found, err := readOwner(ctx, docs)
	switch {
	case err != nil:
		return nil, term.WithHint(fmt.Errorf("open %s for the documents: %w", o.documents, err), "see that it can be reached and written; nothing was published")
	case !found:
		c.due = true
		return c, nil
	case known.ID == id:
		c.owner = known
		return c, nil
	case known.Place != place && !o.takeOver:
		return nil, &destination.RefusedError{
			Reason: fmt.Sprintf("%s is published from another state directory since %s, not from %s", o.documents, known.Since.Format(time.RFC3339), o.state),
			Hint: "use that one's --state (and the same user, whose default it may be), or give this one a place of its own; " +
				"if the other is gone for good, run once with --take-over: readers then compare everything",
		}
	}
	c.owner.Restarting, c.due = true, true // the state that was here was removed, or is to be replaced
	return c, nil
}

// take marks the place as that of the state.
func (c *outClaim) take(ctx context.Context) error {
	if !c.due {
		return nil
	}
	c.due = false
	return c.write(ctx)
}

// published notes that the documents are this state's.
func (c *outClaim) published(ctx context.Context) error {
	if !c.restarts() {
		return nil
	}
	c.owner.Restarting = false
	return c.write(ctx)
}

func (c *outClaim) write(ctx context.Context) error {
	text, err := json.Marshal(c.owner)
	if err != nil {
		return err
	}
	w, err := c.docs.Create(ctx, ownerMark)
	if err != nil {
		return fmt.Errorf("mark the documents as ours: %w", err)
	}
	if _, err = w.Write(append(text, '\n')); err == nil {
		err = c.docs.Commit(ctx, w)
	}
	if err != nil {
		_ = w.Close() // err says more
		return fmt.Errorf("mark the documents as ours: %w", err)
	}
	return nil
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
	path, err := realPath(state)
	if err != nil {
		return "", fmt.Errorf("find the state directory: %w", err)
	}
	host, _ := os.Hostname() // "" tells less, and no more is needed
	sum := sha256.Sum256([]byte(host + "\x00" + path))
	return hex.EncodeToString(sum[:16]), nil
}

// loadStateID returns the identity of a state directory, which is made at its
// first use and moves with it. The directory is locked.
func loadStateID(state string) (string, error) {
	path := filepath.Join(state, stateID)
	text, err := os.ReadFile(path)
	if id := strings.TrimSpace(string(text)); err == nil && len(id) == 2*idBytes {
		return id, nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the identity of the state: %w", err)
	}
	b := make([]byte, idBytes)
	_, _ = rand.Read(b) // never fails
	id := hex.EncodeToString(b)
	if err := os.WriteFile(path+".new", []byte(id+"\n"), 0o600); err != nil {
		return "", fmt.Errorf("write the identity of the state: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return "", fmt.Errorf("write the identity of the state: %w", err)
	}
	return id, nil
}

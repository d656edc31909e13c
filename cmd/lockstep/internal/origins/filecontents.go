package origins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"strings"

	"lockstep/blob"
	"lockstep/intake"
)

// fileContents stores the contents of resources where web servers find them: as
// files below the base URL. There is one version of each.
type fileContents struct {
	store blob.Store
	base  string // URL of the store
}

var _ intake.Contents = (*fileContents)(nil)

// name returns the name of the file at a URI.
func (c *fileContents) name(uri string) (string, error) {
	path, below := strings.CutPrefix(uri, c.base)
	name, err := url.PathUnescape(path)
	if err != nil || !below || !blob.ValidName(name) {
		return "", fmt.Errorf("%s: %w", uri, blob.ErrName)
	}
	return name, nil
}

// fileBatch is how many files are written at once.
const fileBatch = 200

// Put implements [intake.Contents].
func (c *fileContents) Put(ctx context.Context, _ string, cs []intake.Content) error {
	for len(cs) > 0 {
		n := min(len(cs), fileBatch)
		if err := c.put(ctx, cs[:n]); err != nil {
			return err
		}
		cs = cs[n:]
	}
	return nil
}

func (c *fileContents) put(ctx context.Context, cs []intake.Content) error {
	begun := make(map[string]blob.Writer, len(cs))
	defer func() {
		for _, w := range begun {
			_ = w.Close() // discards it, unless it was committed
		}
	}()
	ws := make([]blob.Writer, 0, len(cs))
	for i := len(cs) - 1; i >= 0; i-- { // the last of several versions remains
		name, err := c.name(cs[i].URI)
		if err != nil {
			return err
		}
		if begun[name] != nil {
			continue
		}
		w, err := c.store.Create(ctx, name)
		if err != nil {
			return err
		}
		begun[name] = w
		if _, err := w.Write(cs[i].Bytes); err != nil {
			return err
		}
		ws = append(ws, w)
	}
	return c.store.Commit(ctx, ws...)
}

// Get implements [intake.Contents].
func (c *fileContents) Get(ctx context.Context, _, uri, hash string) ([]byte, error) {
	name, err := c.name(uri)
	if err != nil {
		return nil, err
	}
	r, err := c.store.Open(ctx, name)
	if err != nil {
		return nil, missing(err)
	}
	defer r.Close() // only read from
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("%s is another version: %w", name, fs.ErrNotExist)
	}
	return b, nil
}

// Settle implements [intake.Contents]. There is nothing to remove: Put replaced the
// other version.
func (c *fileContents) Settle(context.Context, string, []intake.Content) error { return nil }

// Drop implements [intake.Contents].
func (c *fileContents) Drop(ctx context.Context, _ string, uris []string) error {
	names := make([]string, 0, len(uris))
	for _, uri := range uris {
		name, err := c.name(uri)
		if err != nil {
			continue // no such file was ever written
		}
		names = append(names, name)
	}
	return c.store.Remove(ctx, names...)
}

// Clear implements [intake.Contents]. It removes nothing: the files of the set
// are stored among files that belong to others.
func (c *fileContents) Clear(context.Context, string) error { return nil }

// missing makes the error of a blob that does not exist match fs.ErrNotExist.
func missing(err error) error {
	if errors.Is(err, blob.ErrNotExist) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

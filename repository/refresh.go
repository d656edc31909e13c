package repository

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"lockstep/catalog"
)

// ErrNotPublished reports a set that has not been published yet.
var ErrNotPublished = errors.New("nothing was published yet")

// A state is a summary of an index.
type state struct {
	At    time.Time // all changes up to this time are included
	Seq   catalog.Seq
	Items int64
	Gone  int // increases with each change that is not one of a resource
}

// known returns the state as of the last refresh.
func (x *index) known() state {
	if s := x.state.Load(); s != nil {
		return *s
	}
	return state{}
}

// refresh updates the index from the catalog.
func (x *index) refresh(ctx context.Context) error {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	err := x.bringUp(ctx)
	if err == nil {
		err = x.settle(ctx)
	}
	if err != nil {
		x.cur, x.fmts = nil, nil // the state in memory may differ from what was written
		return fmt.Errorf("index set %s: %w", x.Name, err)
	}
	x.state.Store(&state{At: x.mark.At, Seq: x.cur.Seq, Items: x.cur.Items, Gone: x.cur.Gone})
	return nil
}

func (x *index) bringUp(ctx context.Context) error {
	if err := x.load(ctx); err != nil {
		return err
	}
	status, err := x.catalog.Status(ctx, x.Catalog)
	if err != nil {
		return err
	}
	if status.Kept.At.IsZero() {
		return ErrNotPublished
	}
	c := x.cur
	// Never built, from another history, by an earlier version, or with other rules for formats.
	reformat := c.Contents != (x.Open != nil) || c.Grouped != x.Collections
	renew := c.Late || c.Seq > status.Last || c.Name != "" && c.Name != x.Name || c.Private && !x.Private
	rebuild := renew || c.Seq < status.Kept.Seq || c.Version < indexVersion || reformat
	// Changes after a Mark have a later time, so that a harvest from the
	// responseDate on includes them (OAI-PMH 2.0, 2.7.1).
	if now := x.opts.Now(); rebuild || x.marked.IsZero() || now.Sub(x.marked) >= x.opts.markAge() {
		if x.mark, err = x.catalog.Mark(ctx, x.Catalog); err != nil {
			return err
		}
		x.marked = now
	}
	if rebuild {
		*c = cursor{
			Seq: x.mark.Seq, Items: c.Items, Gone: c.Gone, Building: true, Since: x.mark.At.UnixMicro(),
			Renew: renew || c.Building && c.Renew, Name: x.Name, Private: x.Private,
			Contents: x.Open != nil, Grouped: x.Collections, Version: indexVersion,
			Reformat: reformat || c.Building && c.Reformat, Mend: c.Since != 0 && c.Version < indexVersion || c.Building && c.Mend,
		}
	}
	if c.Private != x.Private {
		c.Private = x.Private
		if err := x.save(ctx); err != nil { // the set may become public before there is a change
			return err
		}
	}
	if c.Building {
		if err := x.build(ctx); err != nil {
			return err
		}
	}
	if c.Seq >= max(status.Last, x.mark.Seq) { // the Mark may have waited for changes that the status does not have
		return nil
	}
	return x.follow(ctx)
}

// load reads the cursor.
func (x *index) load(ctx context.Context) (err error) {
	if x.cur != nil {
		return nil
	}
	text, ok, err := x.get(ctx, keyCursor)
	if err != nil {
		return err
	}
	c := new(cursor)
	if ok {
		if err := json.Unmarshal([]byte(text), c); err != nil {
			return fmt.Errorf("how far it is: %w", err)
		}
	}
	if x.fmts, err = x.formats(ctx); err != nil {
		return err
	}
	x.cur = c
	return nil
}

// markAge is the maximum age of a Mark that dates a response: each new one is a
// transaction.
func (o *Options) markAge() time.Duration {
	return time.Second + time.Duration(len(o.Sets))*20*time.Millisecond
}

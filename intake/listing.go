package intake

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"lockstep/catalog"
	"lockstep/intake/internal/listed"
)

// A lister keeps a set in step with an origin that lists its resources in any
// order: what is common to JSON Lines and Sitemaps.
type lister struct {
	name       string // of the origin, for people
	cat        catalog.Catalog
	set        string
	dir        string // for temporary files
	allowEmpty bool
	told       teller
}

// A listing is one reading of an origin: what it lists, and what came of it.
//
// Order of writes: what is new and what has changed as it is met, in the order
// of URIs; then, if the origin was read to its end without a problem, what it no
// longer lists is deleted. A listing killed at any point leaves a catalog from
// which the next one goes on.
type listing struct {
	*lister
	sorter listed.Sorter
	gone   listed.URIs
	batch  []catalog.Update

	tally
	incomplete atomic.Bool // not all of the list could be read
}

func (l *lister) newListing() *listing {
	return &listing{lister: l, sorter: listed.Sorter{Dir: l.dir}, gone: listed.URIs{Dir: l.dir}, tally: tally{teller: &l.told, start: time.Now()}}
}

func (l *listing) close() {
	l.sorter.Close()
	l.gone.Close()
}

// illegible tells of a piece of the list that could not be read: nobody knows
// what it names.
func (l *listing) illegible(path string, err error) {
	l.incomplete.Store(true)
	l.unreadable(path, err)
}

// compare walks what is listed beside the set. met is called for everything
// listed, with the Token of its row if there is one; left for every row that is
// not listed.
func (l *listing) compare(ctx context.Context, met func(it *listed.Entry, token string, known bool) error, left func(r *row) error) error {
	rows := readRows(ctx, l.cat, l.set, []catalog.Range{{}})
	defer rows.stop()
	err := l.sorter.All(ctx, func(it *listed.Entry) error {
		for rows.more() && rows.row().uri < string(it.URI) {
			if err := left(rows.row()); err != nil {
				return err
			}
			rows.next()
		}
		if rows.err != nil {
			return rows.err
		}
		token, known := "", rows.more() && rows.row().uri == string(it.URI)
		if known {
			token = rows.row().token
			rows.next()
		}
		return met(it, token, known)
	})
	for err == nil && rows.more() {
		err = left(rows.row())
		rows.next()
	}
	if err == nil {
		err = rows.err
	}
	return err
}

// put adds an update to the batch, which is applied when it is full.
func (l *listing) put(ctx context.Context, u catalog.Update) error {
	l.batch = append(l.batch, u)
	if len(l.batch) < batchRows {
		return nil
	}
	return l.flush(ctx)
}

// flush applies what is in the batch.
func (l *listing) flush(ctx context.Context) error {
	if len(l.batch) == 0 {
		return nil
	}
	a, err := l.cat.Apply(ctx, l.set, l.batch)
	l.batch = nil // the catalog may keep it
	if err != nil {
		return err
	}
	l.applied(a)
	return nil
}

// minShrink is how many resources may be gone at once without a question,
// however many there were.
const minShrink = 100

// mayDelete refuses to delete all of a set, or most of it, unless that was
// agreed to: more likely an export broke off than that somebody deleted so much.
func (l *listing) mayDelete(ctx context.Context) error {
	if l.gone.Count == 0 || l.allowEmpty {
		return nil
	}
	st, err := l.cat.Status(ctx, l.set)
	if err != nil {
		return err
	}
	empty := l.files.Load() == 0 && st.Resources > 0
	if !empty && (l.gone.Count <= minShrink || l.gone.Count <= st.Resources/2) {
		return nil
	}
	e := &EmptyError{Root: l.name, Resources: st.Resources, listing: true}
	if !empty {
		e.Gone = l.gone.Count
	}
	return e
}

// finish deletes what was put aside as gone, if all of the list could be read.
func (l *listing) finish(ctx context.Context) error {
	if l.gone.Count == 0 {
		return nil
	}
	if l.incomplete.Load() {
		l.skipped(l.name, fmt.Errorf("%d resources that are not listed stay, for not all of the list could be read", l.gone.Count))
		return nil
	}
	return l.deleteGone(ctx)
}

// deleteGone deletes what has been put aside as gone.
func (l *listing) deleteGone(ctx context.Context) error {
	if err := l.mayDelete(ctx); err != nil {
		return err
	}
	for uri, err := range l.gone.All() {
		if err == nil {
			err = l.put(ctx, catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true})
		}
		if err != nil {
			return err
		}
	}
	return l.flush(ctx)
}

// watch scans at once and then whenever due says so, which waits, until ctx
// ends; then it returns the cause.
func (l *lister) watch(ctx context.Context, scan func(context.Context) (Report, error), due func(context.Context) error, onChange func(Report)) error {
	said, retry := "", time.Duration(0)
	last, every := time.Time{}, repeatFirst // of a trouble that stays
	for {
		r, err := scan(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A trouble that stays is reported again and again, ever less often.
		switch text := errorText(err); {
		case text == "" || said == "":
			last, every = time.Now(), repeatFirst
			l.told.emit(Event{Kind: EventScanned, Err: err, Report: r})
			said = text
		case text != said || time.Since(last) >= every:
			last, every = time.Now(), min(2*every, repeatMost)
			l.told.emit(Event{Kind: EventScanned, Err: err, Report: r})
			said = text
		}
		if r.Changed() && onChange != nil {
			onChange(r)
		}
		retry = min(max(2*retry, retryFirst), retryMost)
		if err == nil || errors.Is(err, ErrEmpty) { // trying again does not help
			retry = 0
		}
		if sleep(ctx, retry) != nil || due(ctx) != nil {
			return context.Cause(ctx)
		}
	}
}

// How long after the first report of a trouble that stays it is reported again,
// and how often at least from then on.
const (
	repeatFirst = 5 * time.Minute
	repeatMost  = 6 * time.Hour
)

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// takeListed takes in what is listed, and puts aside what is not.
func (l *listing) takeListed(ctx context.Context) error {
	var token []byte
	err := l.compare(ctx, func(it *listed.Entry, old string, known bool) error {
		if it.Gone {
			if known {
				return l.gone.Add(string(it.URI))
			}
			return nil
		}
		l.files.Add(1)
		token = listed.AppendFingerprint(token[:0], it.Packed)
		if known && string(token) == old {
			l.unchanged.Add(1)
			return nil
		}
		u, err := it.Update()
		if err != nil {
			return err
		}
		return l.put(ctx, u)
	}, func(r *row) error { return l.gone.Add(r.uri) })
	if err != nil {
		return err
	}
	return l.flush(ctx)
}

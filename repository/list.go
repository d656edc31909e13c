package repository

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/oaipmh"
)

const (
	// farAway is later than any datestamp that can be written, in microseconds.
	farAway = 1 << 58

	// afterwards is how long a list goes on into what changes while it is read:
	// a harvester that comes once only misses nothing, and yet comes to an end.
	afterwards = time.Hour

	// maxUnreadable is how many records a response leaves out, because they cannot
	// be read, before it is given up.
	maxUnreadable = 100

	lastNumber = 0xffffffff // of a spot
)

// A listing is a list of records that is being given out, in parts.
type listing struct {
	Verb   oaipmh.Verb `json:"v"`
	Prefix string      `json:"p"`
	Set    string      `json:"s,omitempty"` // only of this; "" all
	Until  int64       `json:"u"`           // microseconds
	In     string      `json:"i,omitempty"` // the set it has come to
	At     spot        `json:"a"`           // and how far there; at first, from where on
	From   spot        `json:"f"`           // where it begins in the sets that follow
	Cursor int64       `json:"c"`           // records given out
	Whole  bool        `json:"w,omitempty"` // it is of everything
	Issued int64       `json:"t"`           // seconds since 1970
}

// list answers ListRecords and ListIdentifiers.
func (a *answer) list() error {
	l, err := a.listing()
	if err != nil {
		return err
	}
	sets := a.setsOf(l)
	if err := a.inStep(sets); err != nil {
		return err
	}
	if a.q.Token == "" {
		l.Until = min(l.Until, a.date.Add(afterwards).UnixMicro())
		if err := a.checkFormat(l); err != nil {
			return err
		}
	}
	if a.unchanged(sets) {
		return nil
	}
	a.begin()
	first := l.Cursor
	more, err := a.part(l, sets)
	if err != nil {
		return err
	}
	if !a.out.Begun() && first == 0 {
		return &oaipmh.Error{Code: oaipmh.CodeNoRecordsMatch, Message: "there are no such records"}
	}
	if !a.out.Begun() {
		if err := a.again(l, sets); err != nil {
			return err
		}
	}
	if more || first > 0 {
		if err := a.putToken(l, sets, first, more); err != nil {
			return err
		}
	}
	return a.end()
}

// listing returns the list that is asked for, from its beginning or from where
// the resumption token says.
func (a *answer) listing() (*listing, error) {
	if a.q.Token != "" {
		return a.resume(a.q.Token)
	}
	l := &listing{Verb: a.q.Verb, Prefix: a.q.MetadataPrefix, Set: a.q.Set, Until: farAway}
	l.Whole = a.q.From == "" && a.q.Until == "" && l.Prefix == dublinCore
	var from, until time.Time
	var gran oaipmh.Granularity
	if a.q.From != "" {
		var err error
		if from, gran, err = parseDatestamp(a.q.From); err != nil {
			return nil, badArgument("from: %s", err)
		}
		l.From = spot{At: from.UnixMicro() - 1, Number: lastNumber}
	}
	if a.q.Until != "" {
		t, g, err := parseDatestamp(a.q.Until)
		switch {
		case err != nil:
			return nil, badArgument("until: %s", err)
		case a.q.From != "" && g != gran: // OAI-PMH 2.0, 2.7.1
			return nil, badArgument("from and until differ in their granularity")
		}
		until = oaipmh.EndOfDatestamp(t, g)
		if a.q.From != "" && until.Before(from) {
			return nil, badArgument("from is later than until")
		}
		l.Until = until.UnixMicro()
	}
	l.At = l.From
	return l, nil
}

// parseDatestamp reads one that schemas take for one, too: there is no year 0.
func parseDatestamp(s string) (time.Time, oaipmh.Granularity, error) {
	t, g, err := oaipmh.ParseDatestamp(s)
	if err == nil && t.Year() == 0 {
		err = errors.New("there is no year 0000")
	}
	return t, g, err
}

// setsOf returns the sets that a list is of.
func (a *answer) setsOf(l *listing) []*index {
	if l.Set == "" {
		return a.sets
	}
	for i, x := range a.sets {
		if x.Name == l.Set {
			return a.sets[i : i+1]
		}
	}
	return nil
}

// checkFormat refuses a format in which there is nothing.
func (a *answer) checkFormat(l *listing) error {
	if l.Prefix == dublinCore {
		return nil
	}
	all, err := a.prefixes()
	if err != nil {
		return err
	}
	if _, ok := all[l.Prefix]; !ok {
		return &oaipmh.Error{Code: oaipmh.CodeCannotDisseminateFormat, Message: "there are no records in this format"}
	}
	return nil
}

// A place is an item and the set it is in.
type place struct {
	*index
	listed
}

// part writes the next records of the list, and moves it on behind them; more
// are to come if it says so.
func (a *answer) part(l *listing, sets []*index) (more bool, err error) {
	most := a.opts.Records
	if l.Verb == oaipmh.VerbListIdentifiers {
		most = a.opts.Headers
	}
	unreadable := 0
	for more = true; more && !a.out.Begun(); {
		var items []place
		if items, err = a.next(l, sets, most+1); err != nil {
			return false, err
		}
		if more = len(items) > most; more {
			items = items[:most]
		}
		there, err := a.look(l, items)
		if err != nil {
			return false, err
		}
		for i := range items {
			if i > 0 && a.out.Bytes() > pageBytes {
				return true, nil
			}
			ok, err := a.put(l, &items[i], there[items[i].index][items[i].uri])
			if errors.Is(err, errBusy) && a.out.Begun() {
				return true, nil
			}
			if err != nil {
				return false, err
			}
			if !ok {
				unreadable++
			}
			if unreadable > maxUnreadable { // as when a disk is gone
				if a.out.Begun() {
					return true, nil
				}
				return false, fmt.Errorf("%w: %s and more", errUnreadable, items[i].uri)
			}
			l.In, l.At = items[i].Name, items[i].spot
		}
	}
	return more, nil
}

// again repeats a record of a list whose last part would have none, since those
// that were left have changed, and come later: schemas take no empty list.
func (a *answer) again(l *listing, sets []*index) error {
	anew := *l
	anew.In, anew.At = "", l.From
	items, err := a.next(&anew, sets, 1)
	if err != nil || len(items) == 0 {
		return err
	}
	there, err := a.look(&anew, items)
	if err != nil {
		return err
	}
	_, err = a.put(&anew, &items[0], there[items[0].index][items[0].uri])
	return err
}

// put writes a record. One that cannot be read just now is left out, to be told
// of once it can; then ok is false. r is the resource, nil if it is gone.
func (a *answer) put(l *listing, p *place, r *catalog.Record) (ok bool, err error) {
	rec := p.header(&p.listed)
	if l.Verb == oaipmh.VerbListRecords {
		release, err := a.room(&p.listed, l.Prefix, r)
		if err != nil {
			return false, err
		}
		defer release() // once it is written
		rec, err = p.record(a.ctx, &p.listed, l.Prefix, r)
		switch {
		case errors.Is(err, errUnreadable):
			a.opts.Logger.WarnContext(a.ctx, "left out of a harvest", slog.String("set", p.Name), slog.String("uri", p.uri), slog.Any("err", err))
			return false, p.owe(a.ctx, p.uri)
		case err != nil:
			return false, err
		}
	}
	l.Cursor++
	return true, a.out.Record(&rec)
}

// room waits until there may be one more large document in memory, if the record
// has one; release gives the place back.
func (a *answer) room(item *listed, prefix string, r *catalog.Record) (release func(), err error) {
	if r == nil || item.gone || prefix == dublinCore && !item.dublinCore || r.Length >= 0 && r.Length <= largeDocument {
		return func() {}, nil
	}
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case a.large <- struct{}{}:
		return func() { <-a.large }, nil
	case <-late.C:
		return nil, errBusy
	case <-a.ctx.Done():
		return nil, a.ctx.Err()
	}
}

// next returns the next up to n items of the list.
func (a *answer) next(l *listing, sets []*index, n int) ([]place, error) {
	family := l.Prefix
	if family == dublinCore {
		family = ""
	}
	i := 0
	if l.In != "" {
		if i = slices.IndexFunc(sets, func(x *index) bool { return x.Name == l.In }); i < 0 {
			return nil, badToken("the set it was in is gone")
		}
	}
	var items []place
	for at := l.At; i < len(sets) && len(items) < n; i++ {
		some, err := sets[i].list(a.ctx, family, at, l.Until, n-len(items))
		if err != nil {
			return nil, err
		}
		for _, s := range some {
			items = append(items, place{sets[i], s})
		}
		at = l.From
	}
	return items, nil
}

// header returns what a record of an item begins with.
func (x *index) header(item *listed) oaipmh.Record {
	return oaipmh.Record{
		Identifier: identifierOf(item.uri, item.identifier), Datestamp: item.time(), Sets: []string{x.Name}, Deleted: item.gone,
	}
}

// errUnreadable reports content that is not what it was when it was indexed, and
// may be again.
var errUnreadable = errors.New("the content cannot be read as it was")

// look reads the resources of items whose records are wanted, by set and URI.
func (a *answer) look(l *listing, items []place) (map[*index]map[string]*catalog.Record, error) {
	if l.Verb != oaipmh.VerbListRecords {
		return nil, nil
	}
	uris := make(map[*index][]string)
	for i := range items {
		if p := &items[i]; !p.gone {
			uris[p.index] = append(uris[p.index], p.uri)
		}
	}
	there := make(map[*index]map[string]*catalog.Record)
	for x, wanted := range uris {
		slices.Sort(wanted)
		var err error
		if there[x], err = x.among(a.ctx, wanted); err != nil {
			return nil, err
		}
	}
	return there, nil
}

// amongSkip is how many resources nobody asked for are read over before it is
// cheaper to look for the next.
const amongSkip = 32

// among returns the resources that have one of the URIs, which are in order.
// Those of a list are mostly neighbours: a reading for each takes longer than all
// the rest.
func (x *index) among(ctx context.Context, uris []string) (map[string]*catalog.Record, error) {
	there := make(map[string]*catalog.Record, len(uris))
	for len(uris) > 0 {
		skipped := 0
		// No URI has a NUL byte, so none lies between the last and the bound.
		for r, err := range x.catalog.Resources(ctx, x.Catalog, catalog.Range{From: uris[0], To: uris[len(uris)-1] + "\x01"}) {
			if err != nil {
				return nil, err
			}
			for len(uris) > 0 && uris[0] < r.URI {
				uris = uris[1:] // there is none
			}
			if len(uris) > 0 && uris[0] == r.URI {
				there[r.URI] = &r
				uris, skipped = uris[1:], 0
			} else {
				skipped++
			}
			if len(uris) == 0 || skipped > amongSkip {
				break
			}
		}
		if skipped <= amongSkip {
			break // it came to the end
		}
	}
	return there, nil
}

// record returns the record of an item in a format; r is its resource, nil if it
// is gone.
func (x *index) record(ctx context.Context, item *listed, prefix string, r *catalog.Record) (oaipmh.Record, error) {
	rec := x.header(item)
	if rec.Deleted = rec.Deleted || r == nil; rec.Deleted {
		return rec, nil
	}
	if prefix != dublinCore || item.dublinCore {
		m, err := x.document(ctx, r)
		switch {
		case ctx.Err() != nil:
			return rec, ctx.Err()
		case err == nil && x.prefixOf(m.Namespace) == prefix:
			rec.Metadata, rec.Namespace = m.Document, m.Namespace
			return rec, nil
		case prefix == dublinCore: // can always be made
		case err == nil:
			return rec, fmt.Errorf("%w: its root is now in the namespace %s", errUnreadable, m.Namespace)
		case errors.Is(err, fs.ErrNotExist):
			return rec, fmt.Errorf("%w: it is gone", errUnreadable)
		default:
			return rec, fmt.Errorf("%w: %w", errUnreadable, err)
		}
	}
	rec.Metadata, rec.Namespace = describe(r, rec.Identifier), oaipmh.DublinCoreNamespace
	return rec, nil
}

// in returns the item as a list of the format has it, if it is in one.
func (is *row) in(uri, prefix string) (listed, bool) {
	item := listed{spot: is.Spot, uri: uri, identifier: is.Identifier, gone: is.Deleted, dublinCore: is.DublinCore}
	if prefix == dublinCore || slices.Contains(is.Formats, prefix) {
		return item, true
	}
	item.gone = true
	return item, slices.Contains(is.Former, prefix)
}

package repository

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"lockstep/oaipmh"
)

const (
	// farAway is later than any datestamp that can be written, in microseconds.
	farAway = 1 << 58

	// afterwards is how long a list includes items that change while it is read: a
	// harvester that reads only once misses nothing, and still reaches the end.
	afterwards = time.Hour

	lastNumber = 0xffffffff // of a spot
)

// A listing is the state of a list of records that is returned in parts.
type listing struct {
	Verb   oaipmh.Verb `json:"v"`
	Prefix string      `json:"p"`
	Set    string      `json:"s,omitempty"` // only this set, or collection of a set; "" means all
	Until  int64       `json:"u"`           // microseconds
	In     string      `json:"i,omitempty"` // the set it has reached
	At     spot        `json:"a"`           // position in that set; initially the beginning
	From   spot        `json:"f"`           // beginning in the sets that follow
	Began  int64       `json:"b,omitempty"` // changes up to this time were visible at the first part
	Cursor int64       `json:"c"`           // records returned so far
	Whole  bool        `json:"w,omitempty"` // it is of everything
	Issued int64       `json:"t"`           // seconds since 1970
}

// list answers ListRecords and ListIdentifiers.
func (a *answer) list(ctx context.Context) error {
	l, err := a.listing(ctx)
	if err != nil {
		return err
	}
	sets, err := a.inStep(ctx, a.setsOf(l))
	if err != nil {
		return err
	}
	if a.q.Token == "" {
		l.Began = a.date.UnixMicro()
		l.Until = min(l.Until, a.date.Add(afterwards).UnixMicro())
		if err := a.checkFormat(ctx, l); err != nil {
			return err
		}
	}
	if a.unchanged(a.sets) {
		return nil
	}
	a.resp.begin(a.head())
	first := l.Cursor
	more, err := a.part(ctx, l, sets)
	if err != nil {
		return err
	}
	if !a.resp.out.Begun() && first == 0 {
		return &oaipmh.Error{Code: oaipmh.CodeNoRecordsMatch, Message: "there are no such records"}
	}
	if !a.resp.out.Begun() {
		if err := a.again(ctx, l, sets); err != nil {
			return err
		}
	}
	if more || first > 0 {
		if err := a.putToken(ctx, l, sets, first, more); err != nil {
			return err
		}
	}
	return a.resp.end()
}

// listing returns the requested list, from its beginning or from the position
// of the resumption token.
func (a *answer) listing(ctx context.Context) (*listing, error) {
	if a.q.Token != "" {
		return a.resume(ctx, a.q.Token)
	}
	l := &listing{Verb: a.q.Verb, Prefix: a.q.MetadataPrefix, Set: a.q.Set, Until: farAway}
	l.Whole = a.q.From == "" && a.q.Until == "" && l.Prefix == dublinCore && !strings.Contains(l.Set, ":")
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

// parseDatestamp parses a datestamp that also conforms to XML Schema: there is
// no year 0.
func parseDatestamp(s string) (time.Time, oaipmh.Granularity, error) {
	t, g, err := oaipmh.ParseDatestamp(s)
	if err == nil && t.Year() == 0 {
		err = errors.New("there is no year 0000")
	}
	return t, g, err
}

// setsOf returns the sets of a list.
func (a *answer) setsOf(l *listing) []*index {
	if l.Set == "" {
		return a.sets
	}
	name, _, grouped := strings.Cut(l.Set, ":")
	for i, x := range a.sets {
		if x.Name == name && (x.Collections || !grouped) {
			return a.sets[i : i+1]
		}
	}
	return nil
}

// checkFormat refuses a format without items.
func (a *answer) checkFormat(ctx context.Context, l *listing) error {
	if l.Prefix == dublinCore {
		return nil
	}
	all, err := a.prefixes(ctx)
	if err != nil {
		return err
	}
	if _, ok := all[l.Prefix]; !ok {
		return &oaipmh.Error{Code: oaipmh.CodeCannotDisseminateFormat, Message: "there are no records in this format"}
	}
	return nil
}

// next returns the next up to n items of the list.
func (a *answer) next(ctx context.Context, l *listing, sets []*index, n int) ([]place, error) {
	_, collection, _ := strings.Cut(l.Set, ":")
	lists := family(collection, l.Prefix)
	i := 0
	if l.In != "" {
		if i = slices.IndexFunc(sets, func(x *index) bool { return x.Name == l.In }); i < 0 {
			return nil, badToken("the set it was in is gone")
		}
	}
	var items []place
	for at := l.At; i < len(sets) && len(items) < n; i++ {
		some, err := sets[i].list(ctx, lists, at, l.Until, n-len(items))
		if err != nil {
			return nil, err
		}
		for _, s := range some {
			items = append(items, newPlace(sets[i], s))
		}
		at = l.From
	}
	return items, a.merge(ctx, l, sets, items)
}

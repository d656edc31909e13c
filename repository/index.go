package repository

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"lockstep/catalog"
)

// The index of a set is another set of the catalog, used only by this package: a
// catalog stores names in order with data, and changes many of them in one
// transaction. The URI of a record in that set is a key, and its token the value:
//
//	c			position of the index, a cursor; one key
//	d SPEC			the URI of a collection, whose set is Name:SPEC
//	f NAMESPACE		a format: prefix and schema
//	i IDENTIFIER		the URI of an item whose identifier is different
//	j IDENTIFIER 01 URI	an item whose record has an identifier that another item
//				has, see owner.go
//	l FAMILY 01 SPOT	an item of a list, see listed: FAMILY is empty for the
//				list of all items, and a prefix for the list of those
//				that are or were available in a format; SPEC 02 in front
//				of it for those that are or were in a collection
//	o URI			an item that could not be read, see unread.go
//	u URI			an item: its datestamp and formats, a row
//
// A SPOT is a datestamp in microseconds and a number that distinguishes items with
// the same one: keys are ordered by them. An item has one spot, at which it is in one
// list of all items and one of each format; an item that changes moves to the end.
// The cursor is written together with the changes it covers, so that a crash costs
// the work of one batch.
const (
	keyCursor     = "c"
	keyCollection = "d"
	keyFormat     = "f"
	keyIdentifier = "i"
	keyClaim      = "j"
	keyList       = "l"
	keyUnread     = "o"
	keyURI        = "u"

	keyEnd = "v"

	familyEnd = "\x01"
	claimEnd  = "\x01"
)

const (
	notesSet    = "urn:x-lockstep:oai-pmh"  // has keys of the Repository: keySecret, keyOffered
	indexPrefix = "urn:x-lockstep:oai-pmh:" // followed by the set's name in the catalog
	batchItems  = 500                       // changed in one transaction: other writers need their turn
	maxFormats  = 100                       // of a set: limits contents that each have a namespace of their own
	itemFormats = 8                         // of an item, including former ones

	// indexVersion increases when indexes of earlier versions need a full comparison.
	// 1: claims of identifiers.
	indexVersion = 1
)

// An index is the state of a Repository for a set.
type index struct {
	Set
	catalog catalog.Catalog
	name    string // name of the index in the catalog
	opts    *Options

	turn chan struct{} // its holder updates the index; guards what follows
	cur  *cursor       // nil: not loaded yet
	fmts map[string]format
	full bool // there were more formats than maxFormats, and that was logged

	mark   catalog.Mark
	marked time.Time // when the Mark was taken

	settled time.Time // when unread resources were last tried, ...
	unread  string    // ... and up to which URI

	state atomic.Pointer[state] // as of the last refresh
}

func newIndex(c catalog.Catalog, set Set, o *Options) *index {
	return &index{Set: set, catalog: c, name: indexPrefix + set.Catalog, opts: o, turn: make(chan struct{}, 1)}
}

// A cursor is the position of the index.
type cursor struct {
	Seq      catalog.Seq `json:"seq"`                // it covers the changes up to this one
	Items    int64       `json:"items"`              // number, including deleted ones
	Building bool        `json:"building,omitempty"` // a full comparison is under way, ...
	Past     string      `json:"past,omitempty"`     // ... up to the URI with these hexadecimal digits, ...
	Since    int64       `json:"since,omitempty"`    // ... missing resources were deleted before this time, in microseconds, ...
	Gone     int         `json:"gone,omitempty"`     // ... and the number of the last spot that is not the time of a change
	Reformat bool        `json:"anew,omitempty"`     // ... and formats of unchanged resources are determined again
	Version  int         `json:"version,omitempty"`  // indexVersion of the last full comparison
	Mend     bool        `json:"mend,omitempty"`     // ... and it repairs an index of an earlier version
	Late     bool        `json:"late,omitempty"`     // all items must get a new datestamp, ...
	Renew    bool        `json:"renew,omitempty"`    // ... and get it in the full comparison under way
	Name     string      `json:"name,omitempty"`     // of the set
	Private  bool        `json:"private,omitempty"`  // the set was private
	Contents bool        `json:"contents,omitempty"` // contents are read
	Grouped  bool        `json:"grouped,omitempty"`  // collections are sets
}

// A row is the index entry of an item.
type row struct {
	Spot       spot        `json:"at"`
	Seq        catalog.Seq `json:"seq,omitempty"`
	Changed    int64       `json:"ev,omitempty"` // when the resource changed, in microseconds, if that is not the time of its Spot
	Deleted    bool        `json:"deleted,omitempty"`
	DublinCore bool        `json:"dc,omitempty"`    // its content is oai_dc
	Identifier string      `json:"id,omitempty"`    // if it differs from the URI
	Claim      string      `json:"claim,omitempty"` // the identifier of its record, if another item has it
	Formats    []string    `json:"fmt,omitempty"`   // prefixes of available formats, other than oai_dc
	Former     []string    `json:"was,omitempty"`   // prefixes of former formats

	Collections []string `json:"in,omitempty"`   // specs of its collections; of a deleted item the last
	Left        []string `json:"left,omitempty"` // specs of former collections
}

// clone returns a row that can be changed without changing is.
func (is *row) clone() *row {
	c := *is
	c.Former, c.Left = slices.Clone(is.Former), slices.Clone(is.Left)
	return &c
}

// isLike reports whether two rows are the same for harvesters, apart from the datestamp.
func (is *row) isLike(old *row) bool {
	return is.Identifier == old.Identifier && is.DublinCore == old.DublinCore && slices.Equal(is.Formats, old.Formats) && slices.Equal(is.Collections, old.Collections)
}

// inherit adds the formats and collections that an item had before to those it has left.
func (is *row) inherit(old *row) {
	for _, c := range slices.Concat(old.Collections, old.Left) {
		if !slices.Contains(is.Collections, c) && !slices.Contains(is.Left, c) && len(is.Left) < itemCollections {
			is.Left = append(is.Left, c)
		}
	}
	for _, f := range slices.Concat(old.Formats, old.Former) {
		if !slices.Contains(is.Formats, f) && !slices.Contains(is.Former, f) && len(is.Former) < itemFormats {
			is.Former = append(is.Former, f)
		}
	}
}

// isOf reports whether the row is of the resource in this state.
func (is *row) isOf(r *catalog.Record) bool {
	if is.Deleted || is.Seq != r.Seq {
		return false
	}
	return is.changed() == r.EventTime.UnixMicro() || is.Changed == 0 && is.Spot.Number > 0 // from a version that did not record it
}

// changed returns when the resource changed, in microseconds.
func (is *row) changed() int64 {
	if is.Changed != 0 {
		return is.Changed
	}
	return is.Spot.At
}

// date gives the item a datestamp other than the time of the resource's change.
func (is *row) date(at spot) {
	changed := is.changed()
	if is.Spot, is.Changed = at, 0; changed != at.At {
		is.Changed = changed
	}
}

// A spot is a position in the lists.
type spot struct {
	At     int64 `json:"t"` // microseconds
	Number int   `json:"n,omitempty"`
}

func (s spot) String() string { return fmt.Sprintf("%016x%08x", max(s.At, 0), s.Number) }

func (s spot) time() time.Time { return time.UnixMicro(s.At).UTC() }

// after reports whether s is after o.
func (s spot) after(o spot) bool { return s.At > o.At || s.At == o.At && s.Number > o.Number }

func parseSpot(key string) (spot, bool) {
	if len(key) != 24 {
		return spot{}, false
	}
	at, err1 := strconv.ParseInt(key[:16], 16, 64)
	number, err2 := strconv.ParseInt(key[16:], 16, 64)
	return spot{at, int(number)}, err1 == nil && err2 == nil
}

// A format is a format that contents of the set have, or had.
type format struct {
	Prefix string `json:"prefix"`
	Schema string `json:"schema"`
}

// A listed is an item in a list.
type listed struct {
	spot            spot
	uri, identifier string
	gone            bool // deleted, or no longer available in the format
	dublinCore      bool // its content is oai_dc
	collections     []string
}

// value returns the stored form: d, o or r, the length of the identifier, the specs
// of collections, each after a semicolon, and a colon and the two, because URIs can be
// any bytes.
func (l *listed) value() string {
	kind := "r"
	switch {
	case l.gone:
		kind = "d"
	case l.dublinCore:
		kind = "o"
	}
	kind += strconv.Itoa(len(l.identifier))
	for _, spec := range l.collections {
		kind += ";" + spec
	}
	return kind + ":" + l.identifier + l.uri
}

func parseListed(key, value string) (l listed, err error) {
	spot, ok := parseSpot(key)
	head, rest, found := strings.Cut(value, ":")
	count, specs, in := strings.Cut(head, ";")
	if !ok || !found || len(count) < 2 {
		return l, fmt.Errorf("index entry %q is none", key)
	}
	n, err := strconv.Atoi(count[1:])
	if err != nil || n < 0 || n > len(rest) {
		return l, fmt.Errorf("index entry %q is none", key)
	}
	l = listed{spot: spot, uri: rest[n:], identifier: rest[:n], gone: count[0] == 'd', dublinCore: count[0] == 'o'}
	if in {
		l.collections = strings.Split(specs, ";")
	}
	return l, nil
}

// get returns the value of a key.
func (x *index) get(ctx context.Context, key string) (value string, ok bool, err error) {
	r, ok, err := catalog.Find(ctx, x.catalog, x.name, key)
	return r.Token, ok, err
}

func (x *index) row(ctx context.Context, uri string) (*row, error) {
	text, ok, err := x.get(ctx, keyURI+uri)
	if err != nil || !ok {
		return nil, err
	}
	return parseRow(uri, text)
}

func parseRow(uri, text string) (*row, error) {
	r := new(row)
	if err := json.Unmarshal([]byte(text), r); err != nil {
		return nil, fmt.Errorf("index entry of %q: %w", uri, err)
	}
	return r, nil
}

// list returns up to n items of a list that are after after and not after
// until.
func (x *index) list(ctx context.Context, family string, after spot, until int64, n int) ([]listed, error) {
	base := keyList + family + familyEnd
	within := catalog.Range{From: base + after.String() + "\x01", To: base + spot{At: until + 1}.String()}
	if until < after.At {
		return nil, nil
	}
	var items []listed
	for r, err := range x.catalog.Resources(ctx, x.name, within) {
		if err != nil {
			return nil, err
		}
		l, err := parseListed(strings.TrimPrefix(r.URI, base), r.Token)
		if err != nil {
			return nil, err
		}
		if items = append(items, l); len(items) == n {
			break
		}
	}
	return items, nil
}

// find returns the item with an identifier; uri is empty if there is none.
func (x *index) find(ctx context.Context, identifier string) (uri string, r *row, err error) {
	if identifier == "" || strings.IndexByte(identifier, 0) >= 0 {
		return "", nil, nil
	}
	uri, other, err := x.get(ctx, keyIdentifier+identifier)
	if err != nil {
		return "", nil, err
	}
	if !other {
		uri = identifier
	}
	r, err = x.row(ctx, uri)
	if err != nil || r == nil || identifierOf(uri, r.Identifier) != identifier {
		return "", nil, err
	}
	return uri, r, nil
}

// formats returns all formats, by namespace.
func (x *index) formats(ctx context.Context) (map[string]format, error) {
	all := make(map[string]format)
	for r, err := range x.catalog.Resources(ctx, x.name, catalog.Range{From: keyFormat, To: keyIdentifier}) {
		if err != nil {
			return nil, err
		}
		var f format
		if err := json.Unmarshal([]byte(r.Token), &f); err != nil {
			return nil, fmt.Errorf("index entry %q: %w", r.URI, err)
		}
		all[strings.TrimPrefix(r.URI, keyFormat)] = f
	}
	return all, nil
}

package repository

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"lockstep/catalog"
)

// The index of a set is a set of the catalog itself, which nobody else reads: a
// catalog keeps names in order, and what is said of them, and changes many of
// them in one transaction. What stands for a URI there is a key, what stands for
// the intake's token its value:
//
//	c			how far the index is, a cursor; one key
//	f NAMESPACE		a format there is: prefix and schema
//	i IDENTIFIER		the URI of an item whose identifier that is not
//	l FAMILY 01 SPOT	an item of a list, see listed: of all items, FAMILY
//				is empty, of those that are or were to be had in a
//				format, its prefix
//	o URI			an item that could not be read, see owed.go
//	u URI			an item: its datestamp and formats, a row
//
// A SPOT is a datestamp in microseconds, and a number that tells apart items
// which have the same: keys are ordered by them. An item has one spot, at which it is
// in one list of all and one of each format; one that changes moves to the end.
// Cursor and what it covers are written together, so that a crash costs the work
// of one batch.
const (
	keyCursor     = "c"
	keyFormat     = "f"
	keyIdentifier = "i"
	keyList       = "l"
	keyOwed       = "o"
	keyURI        = "u"

	keyEnd = "v"

	familyEnd = "\x01"
)

const (
	indexPrefix = "urn:x-lockstep:oai-pmh:" // and the set's name in the catalog
	batchItems  = 500                       // that change in one transaction: others wait for it
	maxFormats  = 100                       // of a set: contents that have a namespace of their own each
	itemFormats = 8                         // of an item, those it had before among them
)

// An index is what a Repository keeps of a set.
type index struct {
	Set
	catalog catalog.Catalog
	name    string // of it in the catalog
	opts    *Options

	turn chan struct{} // held by who brings it in step; guards what follows
	cur  *cursor       // nil: not read yet
	fmts map[string]format
	full bool // there were more formats than maxFormats, and that was said

	mark   catalog.Mark
	marked time.Time // when it was taken

	settled time.Time // when what is owed was last looked at, ...
	owed    string    // and how far

	state atomic.Pointer[state] // as of the last refresh
}

func newIndex(c catalog.Catalog, set Set, o *Options) *index {
	return &index{Set: set, catalog: c, name: indexPrefix + set.Catalog, opts: o, turn: make(chan struct{}, 1)}
}

// A cursor is how far the index is.
type cursor struct {
	Seq      catalog.Seq `json:"seq"`                // it covers the changes up to here
	Items    int64       `json:"items"`              // there are, deleted ones included
	Building bool        `json:"building,omitempty"` // everything is compared, ...
	Past     string      `json:"past,omitempty"`     // ... up to the URI of this, in hexadecimal digits, ...
	Since    int64       `json:"since,omitempty"`    // ... and what is missing went before this, in microseconds
	Gone     int         `json:"gone,omitempty"`     // how many of those there ever were
	Anew     bool        `json:"anew,omitempty"`     // ... and formats of what is as it was are found out again
	Contents bool        `json:"contents,omitempty"` // contents are looked at
}

// A row is what the index knows of an item.
type row struct {
	Spot       spot        `json:"at"`
	Seq        catalog.Seq `json:"seq,omitempty"`
	Deleted    bool        `json:"deleted,omitempty"`
	DublinCore bool        `json:"dc,omitempty"`  // its content is oai_dc
	Identifier string      `json:"id,omitempty"`  // if that is not the URI
	Formats    []string    `json:"fmt,omitempty"` // prefixes of those it can be had in, beside oai_dc
	Former     []string    `json:"was,omitempty"` // and of those it could
}

// A spot is a place in the lists.
type spot struct {
	At     int64 `json:"t"` // microseconds
	Number int   `json:"n,omitempty"`
}

func (s spot) String() string { return fmt.Sprintf("%016x%08x", max(s.At, 0), s.Number) }

func (s spot) time() time.Time { return time.UnixMicro(s.At).UTC() }

// after reports whether s comes behind o.
func (s spot) after(o spot) bool { return s.At > o.At || s.At == o.At && s.Number > o.Number }

func parseSpot(key string) (spot, bool) {
	if len(key) != 24 {
		return spot{}, false
	}
	at, err1 := strconv.ParseInt(key[:16], 16, 64)
	number, err2 := strconv.ParseInt(key[16:], 16, 64)
	return spot{at, int(number)}, err1 == nil && err2 == nil
}

// A format is one that contents of the set have, or had.
type format struct {
	Prefix string `json:"prefix"`
	Schema string `json:"schema"`
}

// A listed is an item as lists have it.
type listed struct {
	spot
	uri, identifier string
	gone            bool // deleted, or not to be had in the format any more
	dublinCore      bool // its content is oai_dc
}

// value is what stands in the catalog: d, o or r, how long the identifier is,
// and the two, for URIs can be any bytes.
func (l *listed) value() string {
	kind := "r"
	switch {
	case l.gone:
		kind = "d"
	case l.dublinCore:
		kind = "o"
	}
	return kind + strconv.Itoa(len(l.identifier)) + ":" + l.identifier + l.uri
}

func parseListed(key, value string) (l listed, err error) {
	spot, ok := parseSpot(key)
	count, rest, found := strings.Cut(value, ":")
	if !ok || !found || len(count) < 2 {
		return l, fmt.Errorf("index entry %q is none", key)
	}
	n, err := strconv.Atoi(count[1:])
	if err != nil || n < 0 || n > len(rest) {
		return l, fmt.Errorf("index entry %q is none", key)
	}
	return listed{spot: spot, uri: rest[n:], identifier: rest[:n], gone: count[0] == 'd', dublinCore: count[0] == 'o'}, nil
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

// list returns up to n items of a list that stand behind after and not behind
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

// find returns the item of an identifier; uri is empty if there is none.
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

// formats returns the formats there are, by namespace.
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

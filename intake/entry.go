package intake

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
)

// An entry is what a JSON object says of a resource, in JSON Lines and through
// the API:
//
//	uri       absolute URI
//	lastmod   W3C datetime, with a time zone where it has a time
//	length    bytes
//	hash      "sha-256:… md5:…", or {"sha-256": "…", "md5": "…"}; hex or base64
//	type      media type
//	encoding  content coding
//	change    created, updated or deleted
//	links     [{rel, href, type, encoding, modified, length, hash, pri}, …]
//
// All but the URI may be missing or null, which says that it is not known. An
// unknown field is an error, lest one that is misspelt be lost; in JSON Lines,
// which often have more columns, it is passed over and told of.
type entry struct {
	update catalog.Update
	change resourcesync.Change // as stated; 0 if nothing is
}

// An EntryError says what keeps a JSON object from being taken for an entry.
type EntryError struct {
	Offset int    // of the place in the text, in bytes from 0
	Field  string // such as links[2].href; "" for the object as a whole
	Err    error
}

// Error names the place and the cause.
func (e *EntryError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d: %s: %v", e.Offset, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// What an entry is bounded by; each says what it prevents.
const (
	maxURIBytes   = 16 << 10 // what no reader follows
	maxEntryLinks = 1000     // entries Destinations would cut
)

// decodeEntry reads the JSON object that text is. Whether it must name its
// resource is for the caller: update.URI is empty if it does not. What it
// returns without error can be published as it is, but for the missing URI.
// All its errors are of type *EntryError.
func decodeEntry(text []byte) (entry, error) {
	t := jsonText{text: text}
	e, err := t.entry()
	if err == nil {
		err = t.end()
	}
	return e, err
}

// entry reads an entry.
func (t *jsonText) entry() (entry, error) {
	t.peek()
	start := t.at
	e := entry{update: catalog.Update{Record: catalog.Record{Length: -1}}}
	seen := make(fieldSet, 0, 8)
	err := t.object(func(name string, at int) error {
		return seen.field(name, at, entryFields, func() error { return t.entryField(&e, name) })
	})
	if err != nil {
		return entry{}, err
	}
	if e.update.Deleted {
		e.update.Record = catalog.Record{URI: e.update.URI}
	}
	return e, e.check(start)
}

// entryFields and linkFields are what an object can say, for messages.
const (
	entryFields = "uri, lastmod, length, hash, type, encoding, change, links"
	linkFields  = "rel, href, type, encoding, modified, length, hash, pri"
)

// errField reports a field nobody knows.
var errField = errors.New("unknown field")

// A fieldSet holds the names of the fields an object had so far.
type fieldSet []string

// field has read read the field name, which stands at byte at; its errors then
// name the field.
func (s *fieldSet) field(name string, at int, known string, read func() error) error {
	for _, n := range *s {
		if n == name {
			return &EntryError{Offset: at, Field: name, Err: errors.New("is there twice")}
		}
	}
	*s = append(*s, name)
	err := read()
	if err == nil {
		return nil
	}
	place, placed := errors.AsType[*EntryError](err)
	switch {
	case !placed && errors.Is(err, errField):
		return &EntryError{Offset: at, Err: fmt.Errorf("%w %.40q; known are %s", errField, name, known)}
	case !placed:
		return &EntryError{Offset: at, Field: name, Err: err}
	case errors.Is(err, errJSON):
		return err
	case place.Field == "":
		place.Field = name
	case place.Field[0] == '[':
		place.Field = name + place.Field
	default:
		place.Field = name + "." + place.Field
	}
	return err
}

// entryField reads the value of a field of e.
func (t *jsonText) entryField(e *entry, name string) (err error) {
	r := &e.update.Record
	switch name {
	case "uri":
		r.URI, err = t.uri()
	case "lastmod":
		var d resourcesync.Datetime
		d, err = t.datetime()
		r.Lastmod = d.Time().Truncate(time.Microsecond) // what a catalog keeps
	case "length":
		r.Length, err = t.integer()
	case "hash":
		r.Hashes, err = t.hashes()
	case "type":
		r.Type, err = t.mediaType()
	case "encoding":
		r.Encoding, err = t.string()
	case "change":
		var s string
		if s, err = t.string(); err == nil {
			if e.change, err = resourcesync.ParseChange(s); err != nil {
				err = fmt.Errorf("%.40q is none of created, updated, deleted", s)
			}
		}
		e.update.Deleted = e.change == resourcesync.Deleted
	case "links":
		r.Links, err = t.links()
	default:
		return t.unknown(name, entryFields)
	}
	return err
}

// unknown deals with a field that is none of the known.
func (t *jsonText) unknown(name, known string) error {
	if t.extra == nil {
		return errField
	}
	t.extra(name, known)
	return t.skip(0)
}

// links reads the links of an entry.
func (t *jsonText) links() (links []resourcesync.Link, err error) {
	err = t.array(func(i int) error {
		if i == maxEntryLinks {
			return fmt.Errorf("are more than %d", maxEntryLinks)
		}
		l, err := t.link()
		if place, ok := errors.AsType[*EntryError](err); ok && !errors.Is(err, errJSON) {
			if place.Field != "" && place.Field[0] != '[' {
				place.Field = "." + place.Field
			}
			place.Field = fmt.Sprintf("[%d]%s", i, place.Field)
		}
		links = append(links, l)
		return err
	})
	return links, err
}

// link reads one link.
func (t *jsonText) link() (l resourcesync.Link, err error) {
	start := t.at
	seen := make(fieldSet, 0, 8)
	err = t.object(func(name string, at int) error {
		return seen.field(name, at, linkFields, func() error { return t.linkField(&l, name) })
	})
	switch {
	case err != nil:
	case l.Rel == "":
		err = &EntryError{Offset: start, Field: "rel", Err: errMissing}
	case l.Href == "":
		err = &EntryError{Offset: start, Field: "href", Err: errMissing}
	}
	return l, err
}

var errMissing = errors.New("is missing")

// linkField reads the value of a field of l.
func (t *jsonText) linkField(l *resourcesync.Link, name string) (err error) {
	switch name {
	case "rel":
		l.Rel, err = t.string()
		if !strings.Contains(l.Rel, ":") {
			l.Rel = strings.ToLower(l.Rel) // registered names are the same in any case (RS-LN-03)
		}
	case "href":
		l.Href, err = t.uri()
	case "type":
		l.Type, err = t.mediaType()
	case "encoding":
		l.Encoding, err = t.string()
	case "modified":
		l.Modified, err = t.datetime()
	case "length":
		l.Length, err = t.integer()
		l.HasLength = true
	case "hash":
		l.Hashes, err = t.hashes()
	case "pri":
		var n int64
		if n, err = t.integer(); err == nil && (n < 1 || n > 999_999) {
			err = fmt.Errorf("%d is not between 1 and 999999 (RS-PRI-01)", n)
		}
		l.Pri = int(n)
	default:
		return t.unknown(name, linkFields)
	}
	return err
}

// uri reads an absolute URI.
func (t *jsonText) uri() (string, error) {
	s, err := t.string()
	if err != nil {
		return "", err
	}
	return s, checkURI(s)
}

// checkURI reports what keeps s from being a URI, of whatever scheme: that of a
// resource is to be fetchable, too, see checkFetchable.
func checkURI(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	if len(s) > maxURIBytes {
		return fmt.Errorf("has %d bytes, more than %d", len(s), maxURIBytes)
	}
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) {
			return fmt.Errorf("%.200q has the character %q, which must be percent-encoded in a URI", s, r)
		}
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(s), ":"); scheme == "http" || scheme == "https" { // of others it is not for us to judge
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return fmt.Errorf("%.200q is no absolute URI: %w", s, errors.Unwrap(err))
		case u.Hostname() == "":
			return fmt.Errorf("%.200q names no host", s)
		}
	}
	if err := checkLocation(s); err != nil {
		return fmt.Errorf("%.200q is no absolute URI", s)
	}
	return nil
}

// checkLocation asks those who write the documents.
func checkLocation(uri string) error {
	return resourcesync.CheckEntry(resourcesync.ResourceList, &resourcesync.Entry{Loc: uri})
}

// datetime reads a datetime.
func (t *jsonText) datetime() (resourcesync.Datetime, error) {
	s, err := t.string()
	if err != nil {
		return resourcesync.Datetime{}, err
	}
	d, err := resourcesync.ParseDatetime(s)
	if err != nil {
		err = fmt.Errorf("%.60q is no W3C datetime, such as 2024-05-17T09:30:00Z", s)
	}
	return d, err
}

// mediaType reads a media type.
func (t *jsonText) mediaType() (string, error) {
	s, err := t.string()
	if err == nil && s != "" && !resourcesync.ValidMediaType(s) {
		err = fmt.Errorf("%.100q is no media type, such as text/html", s)
	}
	return s, err
}

// hashes reads hashes in either form.
func (t *jsonText) hashes() (hs resourcesync.Hashes, err error) {
	add := func(value string) error {
		token, _, colon := strings.Cut(value, ":")
		if _, err := resourcesync.ParseAlgorithm(token); err != nil || !colon {
			return fmt.Errorf("%.100q is no hash of a known algorithm, such as sha-256:…, md5:…", value)
		}
		h, err := resourcesync.ParseHash(value)
		if err != nil {
			return fmt.Errorf("%.200q: the digest is neither hex nor base64 of the right length", value)
		}
		if hs.Get(h.Algorithm) != "" {
			return fmt.Errorf("two %s digests", h.Algorithm)
		}
		hs = append(hs, h)
		return nil
	}
	switch t.peek() {
	case '"':
		s, err := t.string()
		for value := range strings.FieldsSeq(s) {
			if err == nil {
				err = add(value)
			}
		}
		return hs, err
	case '{':
		err := t.object(func(name string, _ int) error {
			s, err := t.string()
			if err == nil {
				err = add(name + ":" + s)
			}
			return err
		})
		return hs, err
	}
	return nil, t.mistaken("a string or an object")
}

// check asks those who write the documents whether they can state e; the text
// of e begins at byte start.
func (e *entry) check(start int) error {
	r := &e.update.Record
	if e.update.Deleted { // however it was listed, it can be taken off the list
		return nil
	}
	if r.URI != "" {
		if err := checkFetchable(r.URI); err != nil {
			return &EntryError{Offset: start, Field: "uri", Err: err}
		}
	}
	if err := checkRelations(r.Links); err != nil {
		return &EntryError{Offset: start, Err: err}
	}
	if r.Encoding == "" && len(r.Links) == 0 && !endsBlank(r.Type) {
		return nil // all there is has been looked at
	}
	err := resourcesync.CheckEntry(resourcesync.ChangeList, &resourcesync.Entry{
		Loc: "urn:x",
		Metadata: resourcesync.Metadata{
			Change: resourcesync.Updated, Datetime: resourcesync.NewDatetime(time.Unix(0, 0)), // both as good as any
			Type: r.Type, Encoding: r.Encoding,
		},
		Links: r.Links,
	})
	if err != nil {
		return &EntryError{Offset: start, Err: err}
	}
	return nil
}

// endsBlank reports whether s ends with white space.
func endsBlank(s string) bool { return strings.TrimRight(s, " \t") != s }

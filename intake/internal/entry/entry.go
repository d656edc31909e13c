// Package entry decodes JSON objects that describe resources, as JSON Lines, the
// API and sidecars contain them, and checks that a Source can publish the result.
package entry

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"lockstep/catalog"
	"lockstep/internal/iri"
	"lockstep/resourcesync"
)

// An Entry is the description of one resource by a JSON object, in JSON Lines and
// through the API:
//
//	uri       absolute URI
//	lastmod   W3C datetime, with a time zone where it has a time
//	length    bytes
//	hash      "sha-256:… md5:…", or {"sha-256": "…", "md5": "…"}; hex or base64
//	type      media type
//	encoding  content coding
//	change    created, updated or deleted
//	links     [{rel, href, type, encoding, modified, length, hash, pri, foreign}, …]
//	foreign   attributes and elements of other namespaces, as resourcesync.ParseForeign reads them
//
// All but the URI may be missing or null, which means unknown. An unknown field is
// an error, so that a misspelt one is noticed; in JSON Lines, which often have
// more columns, it is skipped and reported.
type Entry struct {
	Update catalog.Update
	Change resourcesync.Change // as stated; 0 if nothing is
}

// An Error reports why a JSON object is not a valid entry.
type Error struct {
	Offset int    // in the text, in bytes from 0
	Field  string // such as links[2].href; "" for the object as a whole
	Err    error
}

// Error returns the offset, the field and the cause.
func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("byte %d: %v", e.Offset, e.Err)
	}
	return fmt.Sprintf("byte %d: %s: %v", e.Offset, e.Field, e.Err)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Limits of an entry.
const (
	maxURIBytes = 16 << 10 // no reader follows longer URIs
	MaxLinks    = 1000     // Destinations would truncate entries with more
)

// Decode decodes the JSON object in text. Update.URI is empty if the object names
// no resource; the caller decides whether it must. Apart from a missing URI, an
// entry returned without error can be published as it is. All errors are of type
// [*Error].
func Decode(text []byte) (Entry, error) {
	t := Text{Bytes: text}
	e, err := t.Entry()
	if err == nil {
		err = t.End()
	}
	return e, err
}

// Entry reads an entry.
func (t *Text) Entry() (Entry, error) {
	t.Peek()
	start := t.At
	e := Entry{Update: catalog.Update{Record: catalog.Record{Length: -1}}}
	seen := make(FieldSet, 0, 8)
	err := t.Object(func(name string, at int) error {
		return seen.Read(name, at, Fields, func() error { return t.entryField(&e, name) })
	})
	if err != nil {
		return Entry{}, err
	}
	if e.Update.Deleted {
		e.Update.Record = catalog.Record{URI: e.Update.URI}
	}
	return e, e.Check(start)
}

// Fields and LinkFields list the known fields of an object, for messages.
const (
	Fields     = "uri, lastmod, length, hash, type, encoding, change, links, foreign"
	LinkFields = "rel, href, type, encoding, modified, length, hash, pri, foreign"
)

// ErrUnknownField reports an unknown field.
var ErrUnknownField = errors.New("unknown field")

// A FieldSet contains the names of the fields that were read from an object.
type FieldSet []string

// Read calls read for the field name, which begins at byte at, and adds the
// field's name to its errors. A second field of that name is an error.
func (s *FieldSet) Read(name string, at int, known string, read func() error) error {
	for _, n := range *s {
		if n == name {
			return &Error{Offset: at, Field: name, Err: errors.New("is there twice")}
		}
	}
	*s = append(*s, name)
	err := read()
	if err == nil {
		return nil
	}
	place, placed := errors.AsType[*Error](err)
	switch {
	case !placed && errors.Is(err, ErrUnknownField):
		return &Error{Offset: at, Err: fmt.Errorf("%w %.40q; known are %s", ErrUnknownField, name, known)}
	case !placed:
		return &Error{Offset: at, Field: name, Err: err}
	case errors.Is(err, ErrMalformed):
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
func (t *Text) entryField(e *Entry, name string) (err error) {
	r := &e.Update.Record
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
			if e.Change, err = resourcesync.ParseChange(s); err != nil {
				err = fmt.Errorf("%.40q is none of created, updated, deleted", s)
			}
		}
		e.Update.Deleted = e.Change == resourcesync.Deleted
	case "links":
		r.Links, err = t.Links()
	case "foreign":
		r.Foreign, err = t.Foreign()
	default:
		return t.unknown(name, Fields)
	}
	return err
}

// unknown skips or rejects an unknown field.
func (t *Text) unknown(name, known string) error {
	if t.Unknown == nil {
		return ErrUnknownField
	}
	t.Unknown(name, known)
	return t.Skip(0)
}

// Links reads the links of an entry.
func (t *Text) Links() (links []resourcesync.Link, err error) {
	err = t.Array(func(i int) error {
		if i == MaxLinks {
			return fmt.Errorf("are more than %d", MaxLinks)
		}
		l, err := t.link()
		if place, ok := errors.AsType[*Error](err); ok && !errors.Is(err, ErrMalformed) {
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
func (t *Text) link() (l resourcesync.Link, err error) {
	start := t.At
	seen := make(FieldSet, 0, 8)
	err = t.Object(func(name string, at int) error {
		return seen.Read(name, at, LinkFields, func() error { return t.linkField(&l, name) })
	})
	switch {
	case err != nil:
	case l.Rel == "":
		err = &Error{Offset: start, Field: "rel", Err: ErrMissing}
	case l.Href == "":
		err = &Error{Offset: start, Field: "href", Err: ErrMissing}
	}
	return l, err
}

var ErrMissing = errors.New("is missing")

// linkField reads the value of a field of l.
func (t *Text) linkField(l *resourcesync.Link, name string) (err error) {
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
	case "foreign":
		l.Foreign, err = t.Foreign()
	default:
		return t.unknown(name, LinkFields)
	}
	return err
}

// foreign reads attributes and elements of foreign namespaces.
// Foreign reads the text of foreign attributes and elements.
func (t *Text) Foreign() (resourcesync.Foreign, error) {
	s, err := t.string()
	if err != nil {
		return resourcesync.Foreign{}, err
	}
	return resourcesync.ParseForeign(s)
}

// uri reads an absolute URI.
func (t *Text) uri() (string, error) {
	s, err := t.string()
	if err != nil {
		return "", err
	}
	return s, CheckURI(s)
}

// CheckURI reports why s is no URI. It accepts any scheme; the URI of a resource
// must pass [CheckFetchable] too.
func CheckURI(s string) error {
	if s == "" {
		return errors.New("is empty")
	}
	if len(s) > maxURIBytes {
		return fmt.Errorf("has %d bytes, more than %d", len(s), maxURIBytes)
	}
	shown, _ := iri.WithoutUser(s) // messages show no passwords
	for _, r := range s {
		if r <= ' ' || r >= 0x7f || strings.ContainsRune("\"<>\\^`{|}", r) {
			return fmt.Errorf("%.200q has the character %q, which must be percent-encoded in a URI", shown, r)
		}
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(s), ":"); scheme == "http" || scheme == "https" { // of others it is not for us to judge
		u, err := url.Parse(s)
		switch {
		case err != nil:
			return fmt.Errorf("%.200q is no absolute URI: %w", shown, errors.Unwrap(err))
		case u.Hostname() == "":
			return fmt.Errorf("%.200q names no host", shown)
		}
	}
	if err := checkLocation(shown); err != nil {
		return fmt.Errorf("%.200q is no absolute URI", shown)
	}
	return nil
}

// checkLocation reports why a Resource List cannot contain uri.
func checkLocation(uri string) error {
	return resourcesync.CheckEntry(resourcesync.ResourceList, &resourcesync.Entry{Loc: uri})
}

// datetime reads a datetime.
func (t *Text) datetime() (resourcesync.Datetime, error) {
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
func (t *Text) mediaType() (string, error) {
	s, err := t.string()
	if err == nil && s != "" && !resourcesync.ValidMediaType(s) {
		err = fmt.Errorf("%.100q is no media type, such as text/html", s)
	}
	return s, err
}

// hashes reads hashes in either form.
func (t *Text) hashes() (hs resourcesync.Hashes, err error) {
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
	switch t.Peek() {
	case '"':
		s, err := t.string()
		for value := range strings.FieldsSeq(s) {
			if err == nil {
				err = add(value)
			}
		}
		return hs, err
	case '{':
		err := t.Object(func(name string, _ int) error {
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

// Check reports why the documents of a Source cannot contain e, whose text begins
// at byte start.
func (e *Entry) Check(start int) error {
	r := &e.Update.Record
	if e.Update.Deleted { // however it was listed, it can be taken off the list
		return nil
	}
	if r.URI != "" {
		if err := CheckFetchable(r.URI); err != nil {
			return &Error{Offset: start, Field: "uri", Err: err}
		}
	}
	if err := checkRelations(r.Links); err != nil {
		return &Error{Offset: start, Err: err}
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
		return &Error{Offset: start, Err: err}
	}
	return nil
}

// endsBlank reports whether s ends with white space.
func endsBlank(s string) bool { return strings.TrimRight(s, " \t") != s }

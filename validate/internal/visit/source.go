package visit

import (
	"context"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"lockstep/validate/opener"
)

// A Source is a document about to be read.
type Source struct {
	io.Reader
	URI    string // its identity
	Final  string // base of its relative URIs
	Header http.Header
}

// SourceOf returns the document in a, which was requested as uri.
func SourceOf(uri string, a *opener.Answer) *Source {
	return &Source{Reader: a.Body, URI: uri, Final: a.URI, Header: a.Header}
}

// Reasons why a document cannot be read as XML.
var (
	ErrPage  = errors.New("this is an HTML page")
	ErrNoXML = errors.New("this is no XML")
)

// A Hashed passes bytes on, hashes them, and records the error of reading.
type Hashed struct {
	r   io.Reader
	sum hash.Hash
	err error
}

// NewHashed returns a Hashed that reads r.
func NewHashed(r io.Reader) *Hashed { return &Hashed{r: r, sum: sha256.New()} }

func (f *Hashed) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	_, _ = f.sum.Write(p[:n]) // never fails
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// Err returns the error of reading, or nil.
func (f *Hashed) Err() error { return f.err }

// Until returns a reader of r whose Read fails with the cause once ctx has ended:
// copying a large file ends with the run.
func Until(ctx context.Context, r io.Reader) io.Reader {
	return readerFunc(func(p []byte) (int, error) {
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		return r.Read(p)
	})
}

type readerFunc func(p []byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// drain caps what is read of a document that broke a rule early.
const drain = 1 << 20

// Rest reads the data after the end of the document, which must be white space,
// and returns the SHA-256 of all bytes.
func (f *Hashed) Rest() (sum [sha256.Size]byte) {
	_, _ = io.Copy(io.Discard, io.LimitReader(f, drain))
	copy(sum[:], f.sum.Sum(nil))
	return sum
}

// BaseType returns a media type without parameters, in lower case.
func BaseType(t string) string {
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// SameType reports whether two media types are equivalent, regardless of
// parameters: text/xml is another name of application/xml (RFC 7303, 9.2).
func SameType(a, b string) bool {
	plain := func(t string) string {
		if t = BaseType(t); t == "text/xml" {
			return "application/xml"
		}
		return t
	}
	return plain(a) == plain(b)
}

// Resolve returns ref as an absolute URI, or "".
func Resolve(base, ref string) string {
	b, err := url.Parse(base)
	if err != nil {
		return ""
	}
	u, err := b.Parse(strings.TrimSpace(ref))
	if err != nil || !u.IsAbs() {
		return ""
	}
	u.User = nil // messages must not contain it
	return u.String()
}

// iriForm is as strict as harvesters need: it excludes what RFC 3987 excludes
// from IRIs, including bidirectional formatting characters.
var iriForm = regexp.MustCompile("^[A-Za-z][A-Za-z0-9+.-]*:[^\\s\\pZ<>\"{}|\\\\^`\\x{200e}\\x{200f}\\x{202a}-\\x{202e}]+$")

// IsIRI reports whether s is an absolute IRI.
func IsIRI(s string) bool { return iriForm.MatchString(s) }

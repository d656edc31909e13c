package validate

import (
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
type source struct {
	io.Reader
	uri    string // by which it goes
	final  string // against which what it says is resolved
	header http.Header
}

// SourceOf returns the document in a, which was asked for by uri.
func sourceOf(uri string, a *opener.Answer) *source {
	return &source{Reader: a.Body, uri: uri, final: a.URI, header: a.Header}
}

// Why a document cannot be read as XML.
var (
	errPage  = errors.New("this is an HTML page")
	errNoXML = errors.New("this is no XML")
)

// A Hashed passes bytes on, hashes them, and remembers why reading failed.
type faithful struct {
	r   io.Reader
	sum hash.Hash
	err error
}

// NewHashed returns a Hashed that reads r.
func newFaithful(r io.Reader) *faithful { return &faithful{r: r, sum: sha256.New()} }

func (f *faithful) Read(p []byte) (int, error) {
	n, err := f.r.Read(p)
	_, _ = f.sum.Write(p[:n]) // never fails
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// Err returns why reading failed, or nil.
func (f *faithful) readError() error { return f.err }

// drain caps what is read of a document that broke a rule early.
const drain = 1 << 20

// Rest reads what is behind the end of the document, which is white space, and
// returns the SHA-256 of all bytes.
func (f *faithful) rest() (sum [sha256.Size]byte) {
	_, _ = io.Copy(io.Discard, io.LimitReader(f, drain))
	copy(sum[:], f.sum.Sum(nil))
	return sum
}

// baseType returns a media type without parameters, in lower case.
func baseType(t string) string {
	t, _, _ = strings.Cut(t, ";")
	return strings.ToLower(strings.TrimSpace(t))
}

// sameType reports whether two media types mean the same, whatever their
// parameters: text/xml is another name of application/xml (RFC 7303, 9.2).
func sameType(a, b string) bool {
	plain := func(t string) string {
		if t = baseType(t); t == "text/xml" {
			return "application/xml"
		}
		return t
	}
	return plain(a) == plain(b)
}

// resolve returns ref as an absolute URI, or "".
func resolve(base, ref string) string {
	b, err := url.Parse(base)
	if err != nil {
		return ""
	}
	u, err := b.Parse(strings.TrimSpace(ref))
	if err != nil || !u.IsAbs() {
		return ""
	}
	u.User = nil // a message must not show it
	return u.String()
}

// iriForm is as strict as harvesters need: it excludes what RFC 3987 excludes
// from IRIs, among that the marks of the direction of writing.
var iriForm = regexp.MustCompile("^[A-Za-z][A-Za-z0-9+.-]*:[^\\s\\pZ<>\"{}|\\\\^`\\x{200e}\\x{200f}\\x{202a}-\\x{202e}]+$")

// IsIRI reports whether s is an absolute IRI.
func isIRI(s string) bool { return iriForm.MatchString(s) }

package xmlscan

import "io"

// The caps every document is held to; each says what it prevents.
const (
	maxAttributes = 128 // attributes of one tag: time spent on comparing their names
	maxBindings   = 256 // namespace declarations in force: time spent on looking prefixes up

	// DefaultToken is how many bytes one tag, text or comment has at most:
	// memory filled by one endless token.
	DefaultToken = 1 << 20

	// DefaultDepth is how many elements are open at most: memory filled by
	// nesting.
	DefaultDepth = 64

	// DefaultBytes is how many bytes a document has at most, uncompressed: a
	// document without end, or a bomb.
	DefaultBytes = 1 << 30

	// DefaultCapture is how many bytes Capture takes at most: memory filled by
	// one record.
	DefaultCapture = 16 << 20
)

// Options configures a [Scanner]. The zero value is ready to use.
type Options struct {
	// Namespaces are those the user tells apart: a name in the n-th has Space
	// n, counted from 1. There are at most 200.
	Namespaces []string

	// Assumed stand for prefixes that the document uses and does not declare;
	// what is captured declares those it needs. Other undeclared prefixes are
	// errors.
	Assumed []Declaration

	MaxBytes int64 // of the document, uncompressed; default DefaultBytes
	MaxToken int   // bytes of one tag, text or comment; default DefaultToken
	MaxDepth int   // open elements; default DefaultDepth

	HTML        error // stands for a page for people; default ErrHTML
	Pages       bool  // pages for people are documents like others
	NotDocument error // stands for what is no XML; default ErrNotDocument
}

// New returns a Scanner for the document in r. Nothing is read before the first
// Next.
func New(r io.Reader, o Options) Scanner {
	if o.MaxBytes <= 0 {
		o.MaxBytes = DefaultBytes
	}
	if o.MaxToken <= 0 {
		o.MaxToken = DefaultToken
	}
	if o.MaxDepth <= 0 {
		o.MaxDepth = DefaultDepth
	}
	switch {
	case o.Pages:
		o.HTML = nil
	case o.HTML == nil:
		o.HTML = ErrHTML
	}
	if o.NotDocument == nil {
		o.NotDocument = ErrNotDocument
	}
	s := Scanner{
		src: r, namespaces: o.Namespaces, maxBytes: o.MaxBytes, maxToken: o.MaxToken, maxDepth: o.MaxDepth,
		html: o.HTML, notDocument: o.NotDocument,
	}
	for _, d := range o.Assumed {
		s.assumed = append(s.assumed, assumption{Declaration: d, space: s.known([]byte(d.URI))})
	}
	return s
}

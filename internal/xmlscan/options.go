package xmlscan

import "io"

// The limits of every document; each comment says what the limit prevents.
const (
	maxAttributes = 128 // attributes of one tag: time for comparing their names
	maxBindings   = 256 // active namespace declarations: time for looking up prefixes

	// maxNames is the maximum size of the names of the open elements and of the
	// active namespace declarations in bytes, together: memory filled by nested
	// tags of almost the size of a token.
	maxNames = 1 << 20

	// DefaultToken is the maximum size of one tag, text or comment in bytes: memory
	// filled by one endless token.
	DefaultToken = 1 << 20

	// DefaultDepth is the maximum number of open elements: memory filled by
	// nesting.
	DefaultDepth = 64

	// DefaultBytes is the maximum size of a document, uncompressed: an endless
	// document, or a decompression bomb.
	DefaultBytes = 1 << 30

	// DefaultCapture is the default limit of Capture in bytes: memory filled by one
	// record.
	DefaultCapture = 16 << 20
)

// Options configures a [Scanner]. The zero value is ready to use.
type Options struct {
	// Namespaces are those that the caller distinguishes: a name in the n-th has
	// Space n, counted from 1. There are at most 200.
	Namespaces []string

	// Assumed are declarations for prefixes that the document uses without
	// declaring them; captured elements get those they need. Other undeclared
	// prefixes are errors.
	Assumed []Declaration

	MaxBytes int64 // of the document, uncompressed; default DefaultBytes
	MaxToken int   // bytes of one tag, text or comment; default DefaultToken
	MaxDepth int   // open elements; default DefaultDepth
	Expected int   // bytes of a document known to be small: for it less memory is used

	HTML        error // error for an HTML page; default ErrHTML
	Pages       bool  // HTML pages are accepted
	NotDocument error // error for data that is not XML; default ErrNotDocument
}

// New returns a Scanner for the document in r. It reads nothing before the
// first Next.
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
		src: r, window: bufferBytes, namespaces: o.Namespaces, maxBytes: o.MaxBytes, maxToken: o.MaxToken, maxDepth: o.MaxDepth,
		html: o.HTML, notDocument: o.NotDocument,
	}
	if o.Expected > 0 {
		s.window = min(o.Expected+2*minRead, bufferBytes)
	}
	for _, d := range o.Assumed {
		s.assumed = append(s.assumed, assumption{Declaration: d, space: s.known([]byte(d.URI))})
	}
	return s
}

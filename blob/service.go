package blob

import "errors"

// ErrUnavailable reports a store that lies elsewhere and does not do what it
// is for: it cannot be reached, refuses, or fails, and has been asked more than
// once. What it says of one blob it probably says of all.
var ErrUnavailable = errors.New("the store is not available")

// A Typed is a Writer that keeps the media type of its blob. It is set before
// the first Write.
type Typed interface {
	SetType(mediaType string)
}

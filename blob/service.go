package blob

import "errors"

// ErrUnavailable reports a remote store that does not work: it cannot be
// reached, refuses requests, or fails, after several attempts. The same error
// is likely for all blobs.
var ErrUnavailable = errors.New("the store is not available")

// A Typed is a Writer that stores the media type of its blob. It is set before
// the first Write.
type Typed interface {
	SetType(mediaType string)
}

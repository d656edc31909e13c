package memento

import "io"

// A Content is the bytes of a version. Read returns only verified bytes: if the
// stored data is damaged, it fails with the position of the damage.
type Content interface {
	io.ReadSeeker
	io.Closer
}

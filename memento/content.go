package memento

import "io"

// A Content is the bytes of a version. Read gives no byte that it has not
// checked: where what is kept is damaged, it fails, and says where.
type Content interface {
	io.ReadSeeker
	io.Closer
}

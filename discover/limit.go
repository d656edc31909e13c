package discover

import (
	"fmt"
	"io"
)

// A limitError reports that a page exceeds a limit: its rest was not used, and may
// announce a document.
type limitError struct{ excess string }

func (e *limitError) Error() string {
	return e.excess + "; give the address of a document of the Source"
}

// A limitedReader reads up to limit bytes. If more follow, it fails with a
// [*limitError].
type limitedReader struct {
	r           io.Reader
	left, limit int64
}

// Read implements [io.Reader].
func (l *limitedReader) Read(p []byte) (int, error) {
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1] // one more shows whether there is a rest
	}
	n, err := l.r.Read(p)
	if int64(n) > l.left {
		n, err = int(l.left), &limitError{fmt.Sprintf("longer than %d bytes", l.limit)}
	}
	l.left -= int64(n)
	return n, err
}

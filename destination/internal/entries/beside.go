package entries

import (
	"context"
	"sync/atomic"
)

// A Beside reads, while the Resource List of a set is being read, where packages have
// the contents of the resources. It begins when enough of them have been listed. A nil
// Beside reads nothing.
type Beside struct {
	Least int64                                        // number of listed resources with which it begins
	Read  func(context.Context) (used bool, err error) // stages the hints, if they are of use

	// Used reports whether hints were staged. It is valid when ReadList has returned.
	Used bool

	count  atomic.Int64  // resources listed
	enough chan struct{} // closed when these are enough
}

// start is called when the list is going to be read. The function that it returns is
// called when the list has been read, with the error: it waits until the hints were read,
// or stops that if there is an error, and returns the first error.
func (b *Beside) start(ctx context.Context) (end func(error) error) {
	if b == nil {
		return func(err error) error { return err }
	}
	ctx, cancel := context.WithCancel(ctx)
	b.Used, b.enough = false, make(chan struct{})
	b.count.Store(0)
	listed, done := make(chan struct{}), make(chan error, 1)
	go func() {
		select {
		case <-b.enough:
		case <-listed:
			select {
			case <-b.enough:
			default:
				done <- nil
				return
			}
		}
		var err error
		b.Used, err = b.Read(ctx)
		done <- err
	}()
	return func(err error) error {
		defer cancel()
		if err != nil {
			cancel()
		}
		close(listed)
		if berr := <-done; err == nil {
			err = berr
		}
		return err
	}
}

// listed records that the list names one more resource. It is safe for concurrent use.
func (b *Beside) listed() {
	if b != nil && b.count.Add(1) == b.Least {
		close(b.enough)
	}
}

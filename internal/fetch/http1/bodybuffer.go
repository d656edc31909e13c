package http1

import "sync"

// A bodyBuffer has a body that was read because another response follows. There are two
// sizes, as hundreds of small ones may wait.
type bodyBuffer struct{ b []byte }

const smallBody = 4 << 10

var (
	smallBodies = sync.Pool{New: func() any { return &bodyBuffer{make([]byte, smallBody)} }}
	largeBodies = sync.Pool{New: func() any { return &bodyBuffer{make([]byte, MaxPipelined)} }}
)

func newBody(length int64) *bodyBuffer {
	if length <= smallBody {
		return smallBodies.Get().(*bodyBuffer)
	}
	return largeBodies.Get().(*bodyBuffer)
}

func (b *bodyBuffer) release() {
	if len(b.b) == smallBody {
		smallBodies.Put(b)
	} else {
		largeBodies.Put(b)
	}
}

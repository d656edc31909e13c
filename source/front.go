package source

import (
	"net"
	"net/http"

	"lockstep/source/internal/front"
	"lockstep/source/internal/server"
)

// Front returns a listener for an HTTP server of h, a [Source.Handler]. It
// answers plain requests for what h serves by itself, several times as fast.
// Closing it closes l.
func (s *Source) Front(l net.Listener, h http.Handler) net.Listener {
	return NewFront(l, h, func() *Source { return s })
}

// NewFront is [Source.Front] where h serves one Source after another: current returns the
// one that it serves now. Answers of another one are not repeated. Of their options, OnFront
// is that of the first.
func NewFront(l net.Listener, h http.Handler, current func() *Source) net.Listener {
	state := func(path string) string { return current().states.At(path) }
	return front.Listen(l, h, state, front.Limits{
		Header: server.HeaderTimeout, Idle: server.IdleTimeout, Write: server.WriteTimeout, Chunk: server.WriteChunk,
	}, current().opts.OnFront)
}

// A FrontResponse is a response that a [Source.Front] has sent by itself: 200, with
// a body.
type FrontResponse = front.Response

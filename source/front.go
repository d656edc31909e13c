package source

import (
	"net"
	"net/http"

	"lockstep/source/internal/front"
	"lockstep/source/internal/serve"
	"lockstep/source/internal/server"
)

// Front returns a listener for an HTTP server of h, a [Source.Handler]. It
// answers plain requests for what h serves by itself, several times as fast.
// Closing it closes l.
func (s *Source) Front(l net.Listener, h http.Handler) net.Listener {
	return NewFront(l, h, func() (*Source, string) { return s, "" })
}

// NewFront is [Source.Front] where h serves one Source after another. current returns the
// one that it serves now, and a string that no other of them has: their answers may differ.
// Of their options, OnFront is that of the first.
func NewFront(l net.Listener, h http.Handler, current func() (s *Source, id string)) net.Listener {
	first, _ := current()
	state := func(path string) string {
		s, id := current()
		served := &serve.States{Docs: s.docs}
		if s.opts.Content != nil {
			served.Mark = s.opts.Mark
		}
		at := served.At(path)
		if at == "" {
			return ""
		}
		return id + at
	}
	return front.Listen(l, h, state, front.Limits{
		Header: server.HeaderTimeout, Idle: server.IdleTimeout, Write: server.WriteTimeout, Chunk: server.WriteChunk,
	}, first.opts.OnFront)
}

// A FrontResponse is a response that a [Source.Front] has sent by itself: 200, with
// a body.
type FrontResponse = front.Response

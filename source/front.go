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
	served := &serve.States{Docs: s.docs}
	if s.opts.Content != nil {
		served.Mark = s.opts.Mark
	}
	return front.Listen(l, h, served.At, front.Limits{
		Header: server.HeaderTimeout, Idle: server.IdleTimeout, Write: server.WriteTimeout, Chunk: server.WriteChunk,
	}, s.opts.OnFront)
}

// A FrontResponse is a response that a [Source.Front] has sent by itself: 200, with
// a body.
type FrontResponse = front.Response

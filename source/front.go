package source

import (
	"context"
	"net"
	"net/http"
	"strconv"

	"lockstep/source/internal/document"
	"lockstep/source/internal/front"
	"lockstep/source/internal/names"
	"lockstep/source/internal/server"
)

// Front returns a listener for an HTTP server of h, a [Source.Handler]. It
// answers plain requests for what h serves by itself, several times as fast.
// Closing it closes l.
func (s *Source) Front(l net.Listener, h http.Handler) net.Listener {
	served := &servedStates{docs: s.docs}
	if s.opts.Content != nil {
		served.mark = s.opts.Mark
	}
	return front.Listen(l, h, served.at, front.Limits{
		Header: server.HeaderTimeout, Idle: server.IdleTimeout, Write: server.WriteTimeout, Chunk: server.WriteChunk,
	})
}

// servedStates identifies the states of documents and resources.
type servedStates struct {
	docs *document.Store
	mark func(rel string) (string, error) // of a resource, see Options.Mark; may be nil
}

// at returns the state of the document or resource at an escaped path. It
// returns "" for what the server has to answer: pages, topics, and whatever has
// no known state.
func (s *servedStates) at(path string) string {
	rel, ok := s.docs.Base.Locate(path)
	if !ok || rel == names.Home || names.IsTopic(rel) {
		return ""
	}
	if names.Served(rel) {
		info, err := s.docs.Stat(context.Background(), rel)
		if err != nil {
			return "" // the server answers with the error
		}
		return "d" + strconv.FormatInt(info.Size, 36) + "-" + strconv.FormatInt(info.ModTime.UnixNano(), 36)
	}
	if names.Reserved(rel) || s.mark == nil {
		return ""
	}
	mark, err := s.mark(rel)
	if err != nil {
		return "" // the server answers with the error
	}
	return "f" + mark
}

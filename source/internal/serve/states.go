package serve

import (
	"context"
	"strconv"

	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// States identifies the states of documents and resources.
type States struct {
	Docs *document.Store
	Mark func(rel string) (string, error) // of a resource, without opening it; may be nil
	ID   string                           // of the Source: answers of another one may differ
}

// At returns the state of the document or resource at an escaped path. It
// returns "" for what the server has to answer: pages, topics, and whatever has
// no known state.
func (s *States) At(path string) string {
	rel, ok := s.Docs.Base.Locate(path)
	if !ok || rel == names.Home || names.IsTopic(rel) {
		return ""
	}
	if names.Served(rel) {
		info, err := s.Docs.Stat(context.Background(), rel)
		if err != nil {
			return "" // the server answers with the error
		}
		return s.ID + "d" + strconv.FormatInt(info.Size, 36) + "-" + strconv.FormatInt(info.ModTime.UnixNano(), 36)
	}
	if names.Reserved(rel) || s.Mark == nil {
		return ""
	}
	mark, err := s.Mark(rel)
	if err != nil {
		return "" // the server answers with the error
	}
	return s.ID + "f" + mark
}

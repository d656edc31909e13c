package validate

import (
	"bytes"
	"context"
	"io"
	"regexp"

	"lockstep/atompmh"
	"lockstep/internal/xmlscan"
	"lockstep/oaipmh"
	"lockstep/validate/opener"
)

// maxHead caps what is read to determine the kind of a document.
const maxHead = 64 << 10

// feedRoot and repositoryRoot are the kinds that rootOf distinguishes from all
// others.
const (
	feedRoot       = "feed"
	repositoryRoot = "OAI-PMH"
)

var feedTag = regexp.MustCompile(`<([\w.-]+:)?feed[\s>]`)

// rootOf returns the kind of the document that begins with head: feedRoot,
// repositoryRoot, or "".
func rootOf(head []byte) string {
	s := xmlscan.New(bytes.NewReader(head), xmlscan.Options{Namespaces: []string{atompmh.Namespace, oaipmh.Namespace}})
	m, err := s.Next()
	switch {
	case err != nil && bytes.Contains(head, []byte(atompmh.Namespace)) && feedTag.Match(head):
		return feedRoot // too broken to be read this far
	case err != nil || m != xmlscan.Start:
		return ""
	case string(s.Local) == feedRoot, s.Space == 1, string(s.Local) == "rss":
		return feedRoot // or intended as one
	case (s.Space == 2 || s.Space == xmlscan.None) && string(s.Local) == repositoryRoot:
		return repositoryRoot
	}
	return ""
}

// rootAt is rootOf for the document at uri; "" if that is unavailable.
func (w *walk) rootAt(ctx context.Context, uri string) string {
	a, err := w.visitor.Ask(ctx, opener.Request{URI: uri, Document: true})
	if err != nil {
		return ""
	}
	defer a.Body.Close() // only its beginning is needed
	head, _ := io.ReadAll(io.LimitReader(a.Body, maxHead))
	return rootOf(head)
}

package transfer

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"lockstep/destination/internal/coding"
	"lockstep/destination/internal/content"
	"lockstep/internal/fetch"
)

// Content codings. Hashes and lengths describe the bytes as they are served,
// including the coding that the entry names (RS-HASH-07). The request accepts that
// coding or none, and the received bytes are stored unchanged if they match the
// description. Some servers apply a coding without being asked; then the bytes are
// also compared after it is undone.

// unasked returns the codings of the response beyond those described.
func (t *transfer) unasked() []string {
	served, described := coding.Split(t.header.Get("Content-Encoding")), coding.Split(t.a.Coding)
	if len(served) >= len(described) && slices.Equal(served[:len(described)], described) {
		return served[len(described):]
	}
	return served
}

// isCoded reports whether content, for which check returned err, should be compared
// again with its coding undone.
func (t *transfer) isCoded(err error) bool {
	if t.undo || t.header == nil || len(coding.Split(t.header.Get("Content-Encoding"))) == 0 {
		return false
	}
	return err != nil
}

// decoded fetches the content again and undoes its codings. wrong describes the
// mismatch of the content as it is served.
func (t *transfer) decoded(ctx context.Context, r fetch.Request, wrong error) error {
	if served := coding.Split(t.header.Get("Content-Encoding")); !coding.CanUndo(served) {
		return fmt.Errorf("%w; %w", wrong, coding.Error(t.a.URI, served))
	}
	t.drop()
	t.undo = true
	defer func() { t.undo = false }()
	accept := strings.Join(coding.Split(t.header.Get("Content-Encoding")), ", ")
	again := fetch.Request{URI: r.URI, NoCache: r.NoCache, Once: r.Once, Header: http.Header{"Accept-Encoding": {coding.Accept(accept)}}}
	err := t.get(ctx, &again)
	if err == nil && !t.kept {
		err = t.check()
	}
	return err
}

// plain returns the body of a response, decoded if that was requested, or if
// nothing can show that the coded bytes are the ones described.
func (t *transfer) plain(resp *fetch.Response) (io.Reader, error) {
	undo := t.unasked()
	switch {
	case t.undo && len(undo) == 0:
		undo = coding.Split(resp.Header.Get("Content-Encoding"))
	case t.undo:
	case len(undo) == 0, len(t.a.Hashes) > 0, resp.Status == http.StatusPartialContent:
		return resp.Body, nil
	case t.a.Length >= 0 && (resp.Length == t.a.Length || resp.Length < 0):
		return resp.Body, nil // the length may show it
	}
	return coding.Body{URI: t.a.URI, MediaType: content.TypeOnly(t.a.Type), All: t.undo}.Undo(resp.Body, undo)
}

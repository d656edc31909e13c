package destination

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"lockstep/internal/fetch"
)

// Content codings. Hash and length are of the bytes as they are served, the
// coding that the entry names included (RS-HASH-07); that coding, or none, is
// asked for, and what comes is kept as it is if it is what is described. Some
// servers code without being asked. Then the bytes with the coding undone are
// looked at, too.

// maxCodings caps the codings that are undone one after the other.
const maxCodings = 3

// codings splits the value of a Content-Encoding header, or of encoding, and
// leaves out what says nothing.
func codings(header string) []string {
	var cs []string
	for c := range strings.SplitSeq(header, ",") {
		switch c = strings.ToLower(strings.TrimSpace(c)); c {
		case "", "identity":
		case "x-gzip":
			cs = append(cs, "gzip")
		default:
			cs = append(cs, c)
		}
	}
	return cs
}

// acceptable returns what to ask for, given the coding an entry names; "" asks
// for none.
func acceptable(coding string) string {
	cs := codings(coding)
	for _, c := range cs {
		if strings.Trim(c, "abcdefghijklmnopqrstuvwxyz0123456789-_.*") != "" {
			return "" // no name of a coding
		}
	}
	return strings.Join(cs, ", ")
}

// unasked returns the codings of the answer beyond those described.
func (t *transfer) unasked() []string {
	served, described := codings(t.header.Get("Content-Encoding")), codings(t.a.Coding)
	if len(served) >= len(described) && slices.Equal(served[:len(described)], described) {
		return served[len(described):]
	}
	return served
}

// isCoded reports whether content, for which check returned err, should be
// looked at with its coding undone.
func (t *transfer) isCoded(err error) bool {
	if t.undo || t.header == nil || len(codings(t.header.Get("Content-Encoding"))) == 0 {
		return false
	}
	return err != nil
}

// decoded gets the content again, with its codings undone. wrong says what is
// wrong with it as it is served.
func (t *transfer) decoded(ctx context.Context, r fetch.Request, wrong error) error {
	if served := codings(t.header.Get("Content-Encoding")); !undoable(served) {
		return fmt.Errorf("%w; %w", wrong, t.codingError(strings.Join(served, ", ")))
	}
	t.drop()
	t.undo = true
	defer func() { t.undo = false }()
	accept := strings.Join(codings(t.header.Get("Content-Encoding")), ", ")
	again := fetch.Request{URI: r.URI, NoCache: r.NoCache, Once: r.Once, Header: http.Header{"Accept-Encoding": {acceptable(accept)}}}
	err := t.get(ctx, &again)
	if err == nil && !t.kept {
		err = t.check()
	}
	return err
}

// undoable reports whether all of the codings can be undone.
func undoable(cs []string) bool {
	return len(cs) <= maxCodings && !slices.ContainsFunc(cs, func(c string) bool { return c != "gzip" && c != "deflate" })
}

// plain returns the body of an answer, with its codings undone if they are to be
// or nothing could tell that the coded bytes are meant.
func (t *transfer) plain(resp *fetch.Response) (io.Reader, error) {
	undo := t.unasked()
	switch {
	case t.undo && len(undo) == 0:
		undo = codings(resp.Header.Get("Content-Encoding"))
	case t.undo:
	case len(undo) == 0, len(t.a.Hashes) > 0, resp.Status == http.StatusPartialContent:
		return resp.Body, nil
	case t.a.Length >= 0 && (resp.Length == t.a.Length || resp.Length < 0):
		return resp.Body, nil // the length may tell
	}
	if !undoable(undo) {
		return nil, t.codingError(strings.Join(undo, ", "))
	}
	wire := &counter{r: resp.Body}
	body := io.Reader(wire)
	for _, c := range slices.Backward(undo) {
		var err error
		if body, err = t.undoOne(body, c, wire); err != nil {
			return nil, err
		}
	}
	return body, nil
}

func (t *transfer) codingError(coding string) error {
	return fmt.Errorf("get %s: content coding %s: %w", fetch.Printable(t.a.URI), fetch.Printable(coding), fetch.ErrEncoding)
}

// undoOne undoes one coding. A resource that is itself compressed is said to be
// coded by some servers, which only want to tell what kind of file it is.
func (t *transfer) undoOne(body io.Reader, coding string, wire *counter) (io.Reader, error) {
	peek := bufio.NewReaderSize(body, 4<<10)
	begin, err := peek.Peek(4 << 10)
	if len(begin) == 0 {
		if err == io.EOF {
			return peek, nil // nothing, which some send as nothing
		}
		return nil, err
	}
	var plain io.Reader
	switch coding {
	case "gzip":
		if !t.undo && t.isCompressed() && !holdsGzip(begin) {
			return peek, nil
		}
		plain, err = gzip.NewReader(peek)
	case "deflate": // see undoable
		plain, err = zlib.NewReader(peek)
	}
	if err != nil {
		return nil, t.corrupt(coding, err)
	}
	return &inflating{t: t, coding: coding, plain: plain, wire: wire}, nil
}

// isCompressed reports whether the resource is a file in gzip's format, by its
// type or name.
func (t *transfer) isCompressed() bool {
	switch typeOnly(t.a.Type) {
	case "application/gzip", "application/x-gzip", "application/x-tgz":
		return true
	case "":
		uri, _, _ := strings.Cut(t.a.URI, "?")
		switch strings.ToLower(path.Ext(uri)) {
		case ".gz", ".tgz":
			return true
		}
	}
	return false
}

// holdsGzip reports whether what begin is the compressed beginning of is again in
// gzip's format.
func holdsGzip(begin []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(begin))
	if err != nil {
		return false
	}
	var magic [2]byte
	n, _ := io.ReadFull(z, magic[:]) // as much as there is
	return n == 2 && magic == [2]byte{0x1f, 0x8b}
}

func (t *transfer) corrupt(coding string, err error) error {
	return fmt.Errorf("get %s: read %s: %w", fetch.Printable(t.a.URI), coding, err)
}

// Nobody says how much a coding without a stated length may make of little; more
// than this nothing honest does.
const (
	bombRatio = 200
	bombBytes = 64 << 20
)

// A counter counts what is read.
type counter struct {
	r io.Reader
	n int64
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}

// An inflating undoes a coding, and says which one if that fails.
type inflating struct {
	t      *transfer
	coding string
	plain  io.Reader
	wire   *counter
	n      int64
}

func (r *inflating) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if r.n += int64(n); r.n > bombBytes && r.n > bombRatio*r.wire.n {
		return 0, r.t.corrupt(r.coding, errors.New("it grows without measure"))
	}
	if err != nil && err != io.EOF {
		var body *fetch.BodyError
		if !errors.As(err, &body) {
			err = r.t.corrupt(r.coding, err)
		}
	}
	return n, err
}

// Package coding undoes the content codings of answers (RFC 9110, section 8.4),
// up to a number of them and a growth that no honest server needs.
package coding

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"lockstep/internal/fetch"
)

// maxCodings caps the codings that are undone one after the other.
const maxCodings = 3

// Split splits the value of a Content-Encoding header, or of encoding, and
// leaves out what says nothing.
func Split(header string) []string {
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

// Accept returns what to ask for, given the coding an entry names; "" asks
// for none.
func Accept(coding string) string {
	cs := Split(coding)
	for _, c := range cs {
		if strings.Trim(c, "abcdefghijklmnopqrstuvwxyz0123456789-_.*") != "" {
			return "" // no name of a coding
		}
	}
	return strings.Join(cs, ", ")
}

// CanUndo reports whether all of the codings can be undone.
func CanUndo(cs []string) bool {
	return len(cs) <= maxCodings && !slices.ContainsFunc(cs, func(c string) bool { return c != "gzip" && c != "deflate" })
}

// A Body describes the body of an answer whose codings are to be undone.
type Body struct {
	URI       string // of the resource
	MediaType string // of the resource, without parameters and in lower case; may be empty
	All       bool   // Undo what looks like the coding of a compressed file, too
}

// Undo returns body without the codings, which were applied in this order.
func (d Body) Undo(body io.Reader, cs []string) (io.Reader, error) {
	if !CanUndo(cs) {
		return nil, Error(d.URI, cs)
	}
	wire := &counter{r: body}
	body = wire
	for _, c := range slices.Backward(cs) {
		var err error
		if body, err = d.undoOne(body, c, wire); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// Error reports that codings of the content of uri cannot be undone.
func Error(uri string, cs []string) error {
	return fmt.Errorf("get %s: content coding %s: %w", fetch.Printable(uri), fetch.Printable(strings.Join(cs, ", ")), fetch.ErrEncoding)
}

// undoOne undoes one coding. Some servers name a coding for a resource that is
// itself compressed, only to say what kind of file it is.
func (d Body) undoOne(body io.Reader, coding string, wire *counter) (io.Reader, error) {
	in := &counter{r: body}
	peek := bufio.NewReaderSize(in, 4<<10)
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
		if !d.All && isCompressed(d.URI, d.MediaType) && !holdsGzip(begin) {
			return peek, nil
		}
		plain, err = gzip.NewReader(peek)
	case "deflate": // see undoable
		plain, err = zlib.NewReader(peek)
	}
	if err != nil {
		return nil, corrupt(d.URI, coding, err)
	}
	in.most = fetch.MaxVoid
	return &inflating{uri: d.URI, coding: coding, plain: plain, in: in, wire: wire}, nil
}

// isCompressed reports whether the resource is a file in gzip's format, by its
// type or name.
func isCompressed(uri, mediaType string) bool {
	switch mediaType {
	case "application/gzip", "application/x-gzip", "application/x-tgz":
		return true
	case "":
		uri, _, _ = strings.Cut(uri, "?")
		switch strings.ToLower(path.Ext(uri)) {
		case ".gz", ".tgz":
			return true
		}
	}
	return false
}

// holdsGzip reports whether begin, once decompressed, is in gzip's format again.
func holdsGzip(begin []byte) bool {
	z, err := gzip.NewReader(bytes.NewReader(begin))
	if err != nil {
		return false
	}
	var magic [2]byte
	n, _ := io.ReadFull(z, magic[:]) // as much as there is
	return n == 2 && magic == [2]byte{0x1f, 0x8b}
}

func corrupt(uri, coding string, err error) error {
	return fmt.Errorf("get %s: read %s: %w", fetch.Printable(uri), coding, err)
}

// Where no length is stated, content that grows by more than this when its
// coding is undone is taken for an attack.
const (
	bombRatio = 200
	bombBytes = 64 << 20
)

// A counter counts what is read, up to a number of bytes.
type counter struct {
	r    io.Reader
	n    int64
	most int64 // 0: any number
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.n += int64(n); c.most > 0 && c.n > c.most {
		return n, errVoid
	}
	return n, err
}

// errVoid reports that no content results from [fetch.MaxVoid] bytes.
var errVoid = fmt.Errorf("%w of %d bytes that contain nothing", fetch.ErrTooLarge, fetch.MaxVoid)

// An inflating reads content while it undoes a coding, and names the coding in
// its errors.
type inflating struct {
	uri    string
	coding string
	plain  io.Reader
	in     *counter // since plain last returned a byte
	wire   *counter
	n      int64
}

func (r *inflating) Read(p []byte) (int, error) {
	n, err := r.plain.Read(p)
	if n > 0 {
		r.in.n = 0
	}
	if r.n += int64(n); r.n > bombBytes && r.n > bombRatio*r.wire.n {
		return 0, corrupt(r.uri, r.coding, errors.New("it grows without measure"))
	}
	if err != nil && err != io.EOF {
		var body *fetch.BodyError
		if !errors.As(err, &body) {
			err = corrupt(r.uri, r.coding, err)
		}
	}
	return n, err
}

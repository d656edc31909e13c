package discover

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"time"

	"lockstep/internal/fetch"
	"lockstep/resourcesync"
	"lockstep/websub"
)

const (
	// maxDocument caps a document: it limits the time that an endless one takes,
	// and the space in which a caller stores its entries.
	maxDocument = resourcesync.DefaultReadBytes
	// maxWarned caps the warnings recorded per document.
	maxWarned = 100

	documentBuffer = 32 << 10
)

// ErrNotModified reports that a document has not changed since the validators
// were returned.
var ErrNotModified = errors.New("not modified")

// ErrLocal reports a Source on the network that names a file of this machine.
var ErrLocal = errors.New("a Source on the network has no say about files here")

// Validators identify one version of a document.
type Validators struct {
	ETag         string // of the answer
	LastModified string // likewise, verbatim
}

// A Document is a document being read. The caller must close it.
type Document struct {
	URI   string // as requested: its identity (RS-HTTP-02)
	Final string // after redirects: the base of relative URIs
	Validators
	Modified time.Time           // of the answer or file; zero if unknown
	Header   resourcesync.Header // the properties of the document that precede its first entry; all of them once it is read to its end

	links    []websub.Link // of the answer's Link headers
	reader   *resourcesync.Reader
	warnings []resourcesync.Warning
	close    func() error
}

// Open opens the document at uri: an http or https URI, a file: URI, or the
// path of a file. With validators of an http document it may return
// [ErrNotModified]. It decompresses documents with a content encoding and gzip
// files (RS-IDX-08). A file needs no client; if c belongs to a Source on the
// network, a file is refused with [ErrLocal].
//
// Errors name the address and the cause: an [*fetch.Error] if the document was
// unavailable; [resourcesync.ErrHTML], [resourcesync.ErrNotDocument] or a
// [*resourcesync.SyntaxError] if it is not a valid document.
func Open(ctx context.Context, c *fetch.Client, uri string, v Validators) (*Document, error) {
	p, err := openPage(ctx, c, fetch.Request{URI: uri, IfNoneMatch: v.ETag, IfModifiedSince: v.LastModified})
	if err != nil {
		return nil, err
	}
	d, err := p.document()
	if err != nil {
		_ = p.close() // the error of reading is more important
		return nil, err
	}
	return d, nil
}

// Read reads the next entry into e; at the end it returns io.EOF.
func (d *Document) Read(e *resourcesync.Entry) error {
	err := d.reader.Read(e)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, io.EOF):
		return d.readError(err)
	}
	if h, err := d.reader.Header(); err == nil {
		d.Header = h // RS-XML-03: some properties may follow the entries
	}
	return io.EOF
}

// Entries yields the document's entries in order. It stops after the first
// error, which it yields with a zero Entry.
func (d *Document) Entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		for {
			var e resourcesync.Entry
			switch err := d.Read(&e); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(resourcesync.Entry{}, err)
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Stats returns the counts so far.
func (d *Document) Stats() resourcesync.Stats { return d.reader.Stats() }

// Unlocated returns an error that names the document and wraps a
// [*resourcesync.UnlocatedError] if entries read so far have no readable loc,
// otherwise nil. A resource that the document does not name may exist in that
// case.
func (d *Document) Unlocated() error {
	if err := d.reader.Unlocated(); err != nil {
		return fmt.Errorf("%w: the reading is incomplete", d.readError(err))
	}
	return nil
}

// Warnings returns the deviations from the standard that the reader has
// accepted so far, the first hundred.
func (d *Document) Warnings() []resourcesync.Warning { return d.warnings }

// Close closes the document.
func (d *Document) Close() error { return d.close() }

func (d *Document) readError(err error) error {
	return readError(d.URI, err)
}

// readError adds the address to err, unless fetch has already added it.
func readError(uri string, err error) error {
	var body *fetch.BodyError
	if errors.As(err, &body) {
		return err
	}
	return fmt.Errorf("read %s: %w", fetch.Printable(uri), printable{err})
}

// printable is an error whose text may quote untrusted data.
type printable struct{ err error }

func (p printable) Error() string { return fetch.Printable(p.err.Error()) }
func (p printable) Unwrap() error { return p.err }

// A page is an open resource whose type is not known yet.
type page struct {
	uri, final string
	header     http.Header // of the answer; nil for a file
	modified   time.Time
	body       io.ReadCloser
	text       *bufio.Reader // of body
}

// openPage opens r.URI, which may be a file.
func openPage(ctx context.Context, c *fetch.Client, r fetch.Request) (*page, error) {
	p := &page{uri: r.URI, final: r.URI}
	var err error
	if p.body, err = p.open(ctx, c, r); err != nil {
		return nil, err
	}
	p.text = bufio.NewReaderSize(p.body, documentBuffer)
	return p, nil
}

func (p *page) open(ctx context.Context, c *fetch.Client, r fetch.Request) (io.ReadCloser, error) {
	path, isFile := filePath(r.URI)
	if !isFile && !strings.Contains(r.URI, "://") {
		path, isFile = r.URI, true
	}
	switch {
	case isFile && c != nil && c.HasHome(): // the Source names it, not the user
		return nil, fmt.Errorf("refuse %s: %w", fetch.Printable(r.URI), ErrLocal)
	case isFile:
		return p.openFile(path)
	}
	r.AcceptGzip, r.Document, r.MaxBytes = true, true, maxDocument
	resp, err := c.GetWhole(ctx, r)
	if err != nil {
		return nil, err
	}
	p.final, p.header = resp.URI, resp.Header
	if t, err := http.ParseTime(resp.Header.Get("Last-Modified")); err == nil {
		p.modified = t
	}
	if resp.Status == http.StatusNotModified {
		_ = resp.Body.Close() // empty
		return nil, fmt.Errorf("%s: %w", fetch.Printable(r.URI), ErrNotModified)
	}
	return resp.Body, nil
}

func (p *page) openFile(path string) (io.ReadCloser, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("read %s: not a regular file", path)
	}
	if err != nil {
		_ = f.Close() // nothing was read
		return nil, err
	}
	p.final, p.modified = fileURI(path), info.ModTime()
	return f, nil
}

func (p *page) close() error { return p.body.Close() }

// document reads p as a document, up to its first entry.
func (p *page) document() (*Document, error) {
	d := &Document{URI: p.uri, Final: p.final, Modified: p.modified, close: p.close}
	if p.header != nil {
		d.ETag, d.LastModified = fetch.Validators(p.header)
		d.links = p.links()
	}
	d.reader = resourcesync.NewReader(p.text, resourcesync.ReaderOptions{
		Base:     p.final,
		MaxBytes: maxDocument,
		OnWarning: func(w resourcesync.Warning) {
			if len(d.warnings) < maxWarned {
				d.warnings = append(d.warnings, w)
			}
		},
	})
	var err error
	if d.Header, err = d.reader.Header(); err != nil {
		return nil, d.readError(err)
	}
	return d, nil
}

// looksLikeHTML reports whether p begins like an HTML page.
func (p *page) looksLikeHTML() bool {
	head, _ := p.text.Peek(1024)
	head = bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xef\xbb\xbf")), " \t\r\n"))
	for bytes.HasPrefix(head, []byte("<!--")) || bytes.HasPrefix(head, []byte("<?xml")) {
		_, rest, ok := bytes.Cut(head, []byte(">"))
		if !ok {
			return false
		}
		head = bytes.TrimLeft(rest, " \t\r\n")
	}
	return bytes.HasPrefix(head, []byte("<!doctype html")) || bytes.HasPrefix(head, []byte("<html"))
}

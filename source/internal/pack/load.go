package pack

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"strings"
	"sync"

	"github.com/klauspost/compress/flate"
	"golang.org/x/sync/errgroup"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/zipfile"
)

const (
	smallItem  = 256 << 10 // up to this size a bitstream is loaded whole, by one of several goroutines
	batchBytes = 512 << 10 // of bitstreams loaded at a time by one of them
	batchItems = 128
	inFlight   = 2 // batches loaded ahead, for each of them
	streamSize = 256 << 10
)

// An Item is a file of a package to be, or a change that has none. In a
// settled packing its Hashes and Length become those of what is packed.
type Item struct {
	Change  catalog.Change // of a resource: its Record
	Name    string         // in the package
	Blob    string         // a patch: where it is kept; it has no entry of its own in the manifest
	Deviant bool           // settled: it is not as catalogued
	gone    bool           // settled: there is nothing to pack
}

func (it *Item) empty() bool { return it.Change.Change == resourcesync.Deleted }

// known reports whether a manifest can say all of it before it is read.
func (it *Item) known() bool { return it.empty() || len(it.Change.Hashes) > 0 && it.Change.Length >= 0 }

// A deviation is a bitstream that is gone or not as catalogued.
type deviation struct {
	uri string
	how string
}

func (d *deviation) Error() string { return fmt.Sprintf("%s is not as catalogued: %s", d.uri, d.how) }

// A packer reads bitstreams, verifies and packs them.
type packer struct {
	open    func(ctx context.Context, it *Item) (io.ReadCloser, error)
	workers int
	settled bool // take what is there, and note it in the items, instead of failing with a deviation
	lenient bool // settled: what cannot be read is not there
	log     *slog.Logger
}

// A batch is consecutive items on their way into a package.
type batch struct {
	items   []Item
	buf     []byte          // headers and data of those that are loaded
	entries []zipfile.Entry // of those; offsets are in buf
	later   []*Item         // to be streamed
	ready   chan struct{}
	err     error
}

var batchBuffers = sync.Pool{New: func() any { return new(make([]byte, 0, batchBytes+batchBytes/4)) }}

// pack appends the items to z: small ones loaded by several goroutines, in
// their order; the others each as it comes.
func (p *packer) pack(ctx context.Context, items []Item, z *zipfile.Writer) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := make(chan *batch, inFlight*p.workers) // in order
	work := make(chan *batch)
	g.Go(func() error {
		defer close(queue)
		defer close(work)
		for rest := items; len(rest) > 0; {
			b := &batch{ready: make(chan struct{})}
			b.items, rest = cutBatch(rest)
			for _, to := range []chan *batch{queue, work} {
				select {
				case to <- b:
				case <-ctx.Done():
					return ctx.Err()
				}
			}
		}
		return nil
	})
	for range p.workers {
		g.Go(func() error {
			l := &loader{packer: p}
			defer l.close()
			for b := range work {
				b.buf = (*batchBuffers.Get().(*[]byte))[:0]
				b.err = l.load(ctx, b)
				close(b.ready)
			}
			return nil
		})
	}
	g.Go(func() error {
		l := &loader{packer: p}
		defer l.close()
		for b := range queue {
			select {
			case <-b.ready:
			case <-ctx.Done():
				return ctx.Err()
			}
			if err := l.place(ctx, b, z); err != nil {
				return err
			}
		}
		return nil
	})
	return g.Wait()
}

// cutBatch returns the items of the next batch, and the others.
func cutBatch(items []Item) (head, rest []Item) {
	var size int64
	for i := range items {
		n := items[i].Change.Length
		if n < 0 {
			n = batchBytes / 8 // a guess
		}
		if size += min(n, batchBytes); i > 0 && size > batchBytes || i == batchItems {
			return items[:i], items[i:]
		}
	}
	return items, nil
}

// place writes what a batch has come to.
func (l *loader) place(ctx context.Context, b *batch, z *zipfile.Writer) error {
	if b.err != nil {
		return b.err
	}
	if err := z.Append(b.buf, b.entries); err != nil {
		return err
	}
	if cap(b.buf) <= 2*batchBytes {
		batchBuffers.Put(&b.buf)
	}
	for _, it := range b.later {
		if err := l.stream(ctx, it, z); err != nil {
			return err
		}
	}
	return nil
}

// A loader is what one goroutine needs to read bitstreams.
type loader struct {
	*packer
	hasher  *resourcesync.Hasher
	algs    []resourcesync.Algorithm
	deflate *flate.Writer
	out     bytes.Buffer
	buf     []byte
}

// load reads the small items of a batch.
func (l *loader) load(ctx context.Context, b *batch) error {
	for i := range b.items {
		it := &b.items[i]
		if it.empty() {
			continue
		}
		if it.Change.Length > smallItem {
			b.later = append(b.later, it)
			continue
		}
		if err := l.small(ctx, it, b); err != nil {
			return err
		}
	}
	return nil
}

// small loads an item that is expected to be small.
func (l *loader) small(ctx context.Context, it *Item, b *batch) error {
	r, err := l.open(ctx, it)
	if err != nil {
		return l.unopened(ctx, it, err)
	}
	defer r.Close() // opened for reading only
	e := zipfile.Entry{Name: it.Name, Modified: it.Change.Lastmod}
	start := len(b.buf)
	data := start + e.HeaderSize()
	b.buf = append(b.buf, make([]byte, data-start)...)
	most := int64(smallItem)
	if !l.settled && it.Change.Length >= 0 {
		most = it.Change.Length
	}
	if b.buf, err = appendRead(b.buf, r, most+1); err != nil {
		b.buf = b.buf[:start]
		return l.unread(ctx, it, fmt.Errorf("read %s: %w", it.Change.URI, err))
	}
	n := int64(len(b.buf) - data)
	if n > most && (l.settled || it.Change.Length < 0) {
		b.buf = b.buf[:start]
		b.later = append(b.later, it)
		return nil
	}
	h := l.hash(it)
	_, _ = h.Write(b.buf[data:]) // never fails
	if err := l.verify(it, h); err != nil {
		return err
	}
	e.Size, e.Packed, e.CRC32, e.Offset = n, n, crc32.ChecksumIEEE(b.buf[data:]), int64(start)
	if n > 0 && compressible(it) {
		if packed := l.compress(b.buf[data:]); len(packed) < int(n) {
			e.Method, e.Packed = zipfile.Deflate, int64(len(packed))
			b.buf = append(b.buf[:data], packed...)
		}
	}
	e.AppendLocal(b.buf[start:start]) // into the room left for it
	b.entries = append(b.entries, e)
	return nil
}

// appendRead appends what r has, but at most that many bytes.
func appendRead(b []byte, r io.Reader, most int64) ([]byte, error) {
	for end := len(b) + int(most); len(b) < end; {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):min(cap(b), end)])
		b = b[:len(b)+n]
		if err == io.EOF {
			break
		}
		if err != nil {
			return b, err
		}
	}
	return b, nil
}

// close hands back what others can use.
func (l *loader) close() {
	if l.deflate != nil {
		zipfile.PutDeflater(l.deflate)
	}
}

func (l *loader) compress(data []byte) []byte {
	l.out.Reset()
	w := l.deflater(&l.out)
	_, _ = w.Write(data) // a buffer never fails
	_ = w.Close()
	return l.out.Bytes()
}

func (l *loader) deflater(w io.Writer) *flate.Writer {
	if l.deflate == nil {
		l.deflate = zipfile.GetDeflater()
	}
	l.deflate.Reset(w)
	return l.deflate
}

// stream packs an item of any size.
func (l *loader) stream(ctx context.Context, it *Item, z *zipfile.Writer) error {
	r, err := l.open(ctx, it)
	if err != nil {
		return l.unopened(ctx, it, err)
	}
	defer r.Close() // opened for reading only
	if l.buf == nil {
		l.buf = make([]byte, streamSize)
	}
	e := zipfile.Entry{Name: it.Name, Modified: it.Change.Lastmod, Streamed: true, Long: l.settled || it.Change.Length < 0 || it.Change.Length >= zipfile.LongEntry}
	if compressible(it) {
		e.Method = zipfile.Deflate
	}
	if err := z.Begin(&e); err != nil {
		return err
	}
	to, finish := io.Writer(z), func() error { return nil }
	if e.Method == zipfile.Deflate {
		w := l.deflater(z)
		to, finish = w, w.Close
	}
	h := l.hash(it)
	for {
		n, err := r.Read(l.buf)
		if n > 0 {
			_, _ = h.Write(l.buf[:n]) // never fails
			e.CRC32 = crc32.Update(e.CRC32, crc32.IEEETable, l.buf[:n])
			e.Size += int64(n)
			if !l.settled && it.Change.Length >= 0 && e.Size > it.Change.Length {
				break // it will not verify
			}
			if _, err := to.Write(l.buf[:n]); err != nil {
				return err
			}
		}
		if err == io.EOF {
			break
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", it.Change.URI, err)
		}
	}
	if err := l.verify(it, h); err != nil {
		return err
	}
	if err := finish(); err != nil {
		return err
	}
	return z.End(&e)
}

// hash returns a hasher for what is to be known of it.
func (l *loader) hash(it *Item) *resourcesync.Hasher {
	algs := make([]resourcesync.Algorithm, 0, 5)
	for _, h := range it.Change.Hashes {
		algs = append(algs, h.Algorithm)
	}
	if l.settled && it.Change.Hashes.Get(resourcesync.SHA256) == "" {
		algs = append(algs, resourcesync.SHA256)
	}
	if l.hasher == nil || string(algsKey(algs)) != string(algsKey(l.algs)) {
		l.hasher, l.algs = resourcesync.NewHasher(algs...), algs
	} else {
		l.hasher.Reset()
	}
	return l.hasher
}

func algsKey(algs []resourcesync.Algorithm) []byte {
	b := make([]byte, len(algs))
	for i, a := range algs {
		b[i] = byte(a)
	}
	return b
}

// verify compares what was read with what is catalogued.
func (l *loader) verify(it *Item, h *resourcesync.Hasher) error {
	how := ""
	sum := h.Sum()
	switch _, differs := it.Change.Hashes.Compare(sum); {
	case it.Change.Length >= 0 && h.Size() != it.Change.Length:
		how = fmt.Sprintf("it has %d bytes, not %d", h.Size(), it.Change.Length)
		if h.Size() > it.Change.Length {
			how = fmt.Sprintf("it has more than %d bytes", it.Change.Length)
		}
	case differs != 0:
		how = "it has another " + differs.String()
	}
	if how != "" && !l.settled {
		return &deviation{it.Change.URI, how}
	}
	if l.settled {
		it.Change.Hashes, it.Change.Length = sum, h.Size()
	}
	if how != "" {
		it.Deviant = true
	}
	return nil
}

// unopened deals with a bitstream that could not be opened.
func (l *loader) unopened(ctx context.Context, it *Item, err error) error {
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrNotExist) {
		return l.unread(ctx, it, fmt.Errorf("open %s: %w", it.Change.URI, err))
	}
	if !l.settled {
		return &deviation{it.Change.URI, "it is gone"}
	}
	it.gone, it.Deviant = true, true
	return nil
}

// unread deals with a bitstream that is there, but cannot be read. A dump
// without it would say that the resource is gone.
func (l *loader) unread(ctx context.Context, it *Item, err error) error {
	if !l.lenient || ctx.Err() != nil {
		return err
	}
	l.log.WarnContext(ctx, "resource cannot be read: left out of a package that was asked for", slog.String("uri", it.Change.URI), slog.Any("err", err))
	it.gone, it.Deviant = true, true
	return nil
}

// compressible reports whether deflate pays, by media type: what is not known
// to be text is most likely compressed.
func compressible(it *Item) bool {
	if it.Change.Encoding != "" {
		return false
	}
	typ, _, _ := strings.Cut(it.Change.Type, ";")
	typ = strings.ToLower(strings.TrimSpace(typ))
	if strings.HasPrefix(typ, "text/") || strings.HasSuffix(typ, "+xml") || strings.HasSuffix(typ, "+json") {
		return true
	}
	switch typ {
	case "application/json", "application/xml", "application/javascript", "application/x-ndjson", "application/yaml",
		"application/sql", "application/rtf", "application/postscript", "application/x-tex", "application/n-triples",
		"application/n-quads", "application/sparql-query", "application/wasm", "image/bmp", "image/x-portable-pixmap", "application/x-tar":
		return true
	}
	return false
}

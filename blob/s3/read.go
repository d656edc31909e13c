package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"strconv"
	"strings"
	"sync"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// Open opens a committed blob. ctx applies to everything that is read from it. A
// blob of up to [Options.Memory] bytes is read at once, and later changes to the
// object do not affect it.
func (b *Bucket) Open(ctx context.Context, name string) (blob.Reader, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key, err := b.key(name)
	if err != nil {
		return nil, b.fail("open", b.prefix+name, err)
	}
	r := &reader{b: b, key: key}
	err = again(ctx, b.opts.Attempts, func() (err error) {
		r.info, r.block, err = b.first(ctx, name, key)
		return err
	})
	if err != nil {
		return nil, b.fail("open", key, missing(err))
	}
	r.load = func(off int64, n int) (block []byte, err error) {
		err = again(ctx, b.opts.Attempts, func() (err error) {
			block, err = b.get(ctx, key, r.info, off, n)
			return err
		})
		return block, err
	}
	return r, nil
}

// Stat describes a committed blob.
func (b *Bucket) Stat(ctx context.Context, name string) (blob.Info, error) {
	if err := ctx.Err(); err != nil {
		return blob.Info{}, err
	}
	key, err := b.key(name)
	if err != nil {
		return blob.Info{}, b.fail("stat", b.prefix+name, err)
	}
	o, err := b.stat(ctx, key, minio.StatObjectOptions{})
	if err != nil {
		return blob.Info{}, b.fail("stat", key, missing(err))
	}
	info := describe(name, o)
	if o.Size < 0 { // the answer does not state its length
		if info, _, err = b.first(ctx, name, key); err != nil {
			return blob.Info{}, b.fail("stat", key, missing(err))
		}
	}
	return info, nil
}

// stat requests the header of an object. The answer has no body that could
// explain an error: a missing bucket, or unknown credentials, may look like a
// plain 404. After an error it therefore repeats the request in a form whose
// answer has a body.
func (b *Bucket) stat(ctx context.Context, key string, o minio.StatObjectOptions) (minio.ObjectInfo, error) {
	info, err := b.core.StatObject(ctx, b.opts.Bucket, key, o)
	if _, answered := errors.AsType[minio.ErrorResponse](err); !answered {
		return info, err
	}
	if rerr := o.SetRange(0, 0); rerr != nil {
		return info, err
	}
	body, _, _, gerr := b.core.GetObject(ctx, b.opts.Bucket, key, o)
	if gerr != nil && !coded(gerr, minio.InvalidRange) {
		return info, gerr
	}
	if gerr == nil {
		_ = body.Close() // only read from
	}
	return b.core.StatObject(ctx, b.opts.Bucket, key, minio.StatObjectOptions{Checksum: o.Checksum}) // it was created meanwhile
}

func describe(name string, o minio.ObjectInfo) blob.Info {
	return blob.Info{Name: name, Size: o.Size, ModTime: modTime(o.Headers), Version: o.ETag}
}

// again repeats a read whose answer was truncated, up to the given number of
// attempts. Requests without an answer have been retried already.
func again(ctx context.Context, attempts int, read func() error) (err error) {
	for range attempts {
		err = read()
		broken, ok := errors.AsType[*brokenError](err)
		if !ok || ctx.Err() != nil {
			return err
		}
		err = broken.err
	}
	return err
}

// A brokenError reports an answer that ended before its end.
type brokenError struct{ err error }

func (e *brokenError) Error() string { return e.err.Error() }
func (e *brokenError) Unwrap() error { return e.err }

// A reader reads one version of an object, a block at a time. The blocks are as
// large as Options.Memory allows; sequential reading, by Read or ReadAt, sends
// one request for each.
type reader struct {
	b    *Bucket
	key  string
	info blob.Info
	load func(off int64, n int) ([]byte, error) // requests bytes of this version

	mu     sync.Mutex // guards what follows; held while a block is fetched, so that concurrent readers of the same block share the request
	pos    int64
	at     int64 // of block
	block  []byte
	closed bool
}

func (r *reader) Info() blob.Info { return r.info }

// first describes a blob, and reads all of it if it is small enough.
func (b *Bucket) first(ctx context.Context, name, key string) (info blob.Info, data []byte, err error) {
	body, o, _, err := b.core.GetObject(ctx, b.opts.Bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return blob.Info{}, nil, err
	}
	defer body.Close() // only read from
	switch {
	case o.Size < 0:
		if data, err = readRest(body, b.opts.Memory); err == nil {
			o.Size = int64(len(data))
		}
	case o.Size <= int64(b.opts.Memory):
		data, err = readBody(body, o.Size)
	}
	if err != nil {
		return blob.Info{}, nil, err
	}
	return describe(name, o), data, nil
}

// errNoLength reports an answer without the length of an object that is too large to be read
// at once: nothing says where it ends.
var errNoLength = errors.New("the service does not state the length of the object")

// readRest reads a body whose length is not stated, of at most most bytes.
func readRest(body io.Reader, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(body, int64(most)+1))
	switch {
	case err != nil:
		return nil, &brokenError{fmt.Errorf("the answer broke off after %d bytes: %w", len(data), err)}
	case len(data) > most:
		return nil, errNoLength
	}
	return data, nil
}

// readBody reads exactly size bytes.
func readBody(body io.Reader, size int64) ([]byte, error) {
	data := make([]byte, size)
	n, err := io.ReadFull(body, data)
	if err != nil {
		return nil, &brokenError{fmt.Errorf("the answer broke off after %d of %d bytes: %w", n, size, err)}
	}
	return data, nil
}

func (r *reader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	n, err := r.readAt(p, r.pos)
	r.pos += int64(n)
	return n, err
}

func (r *reader) ReadAt(p []byte, off int64) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if off < 0 {
		return 0, r.b.fail("read", r.key, errors.New("negative offset"))
	}
	n := 0
	for n < len(p) {
		m, err := r.readAt(p[n:], off+int64(n))
		n += m
		if err != nil {
			return n, err
		}
	}
	return n, nil
}

func (r *reader) Seek(offset int64, whence int) (int64, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch whence {
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		offset += r.info.Size
	}
	if offset < 0 || whence < io.SeekStart || whence > io.SeekEnd {
		return 0, r.b.fail("seek", r.key, errors.New("negative position"))
	}
	r.pos = offset
	return offset, nil
}

func (r *reader) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed, r.block = true, nil
	return nil
}

// readAt reads from the block at off, fetching it if necessary.
func (r *reader) readAt(p []byte, off int64) (int, error) {
	switch {
	case r.closed:
		return 0, r.b.fail("read", r.key, fs.ErrClosed)
	case len(p) == 0:
		return 0, nil
	case off >= r.info.Size:
		return 0, io.EOF
	}
	if off < r.at || off >= r.at+int64(len(r.block)) {
		if err := r.fetch(off, len(p)); err != nil {
			return 0, r.b.fail("read", r.key, err)
		}
	}
	return copy(p, r.block[off-r.at:]), nil
}

// randomBlock is how much is fetched for a read that does not continue where
// the last one ended, such as that of a directory at the end of a package.
const randomBlock = 256 << 10

// fetch makes block the bytes at off, of this version.
func (r *reader) fetch(off int64, want int) error {
	size := max(want, randomBlock)
	if off == r.at+int64(len(r.block)) {
		size = r.b.opts.Memory
	}
	size = int(min(int64(min(size, r.b.opts.Memory)), r.info.Size-off))
	block, err := r.load(off, size)
	if err == nil {
		r.at, r.block = off, block
	}
	return err
}

// get reads n bytes at off of the version that info describes.
func (b *Bucket) get(ctx context.Context, key string, info blob.Info, off int64, n int) ([]byte, error) {
	var o minio.GetObjectOptions
	last := off + int64(n) - 1
	if err := errors.Join(o.SetRange(off, last), setMatch(&o, info.Version)); err != nil {
		return nil, err
	}
	body, got, header, err := b.core.GetObject(ctx, b.opts.Bucket, key, o)
	if coded(err, minio.NoSuchKey) {
		return nil, fmt.Errorf("removed while it was read: %w", blob.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	defer body.Close() // only read from
	if got.ETag != info.Version || info.Version == "" && !modTime(header).Equal(info.ModTime) {
		return nil, ErrChanged // a service that does not support If-Match
	}
	if want := fmt.Sprintf("bytes %d-%d/%d", off, last, info.Size); header.Get("Content-Range") != want {
		return nil, fmt.Errorf("the service was asked for %s and gave %q", want, contentRange(header))
	}
	return readBody(body, int64(n))
}

func setMatch(o *minio.GetObjectOptions, etag string) error {
	if etag == "" {
		return nil
	}
	return o.SetMatchETag(etag)
}

// contentRange describes the range of an answer for a message.
func contentRange(h http.Header) string {
	if r := h.Get("Content-Range"); r != "" {
		return r
	}
	n, _ := strconv.ParseInt(h.Get("Content-Length"), 10, 64) // 0 if absent
	return strings.TrimSpace(fmt.Sprintf("all %d bytes", n))
}

package s3

import (
	"context"
	"io/fs"
	"time"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// Create begins a blob under name. ctx applies to everything that is written to
// it, but not to its Commit.
func (b *Bucket) Create(ctx context.Context, name string) (blob.Writer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	key, err := b.key(name)
	if err != nil {
		return nil, b.fail("create", b.prefix+name, err)
	}
	w := &writer{b: b, name: name, key: key, buf: buffer{b: b}, part: buffer{b: b}}
	w.begin = func() (*upload, error) { return b.begin(ctx, w) }
	w.send = func(u *upload, n int, data content) error { return b.send(ctx, u, n, data) }
	w.abort = func(u *upload) error {
		// The blob may be dropped because ctx has ended.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		return b.abort(ctx, u)
	}
	return w, nil
}

// A writer buffers bytes until they fill a part, then sends the part while the
// next one is written.
type writer struct {
	b         *Bucket
	name, key string
	mod       time.Time
	mediaType string
	mark      string // in the metadata of an object that was written under a condition: identifies this attempt
	closed    bool
	tag       string  // the entity tag of the object, once it is visible
	expected  *string // entity tag of the object that it replaces, "" for none; nil: whatever is there
	replaces  string  // entity tag of the object that is replaced, with [Options.MayWrite]; "": none is known
	refused   error   // the service refuses each condition; it is not asked again

	visible bool  // a failed Commit has stored this blob
	broken  error // a Write failed: bytes are missing

	buf     buffer     // written after part
	upload  *upload    // nil while everything is in buf
	part    buffer     // the part being sent, or that could not be sent; empty otherwise
	sent    int        // parts
	sending chan error // of part; nil when nothing is being sent

	// Requests of Write and Close, which have no context.
	begin func() (*upload, error)
	send  func(u *upload, n int, data content) error
	abort func(u *upload) error
}

func (w *writer) Name() string           { return w.name }
func (w *writer) SetModTime(t time.Time) { w.mod = t }

// Expect implements [blob.Conditional]. The service compares and replaces in one step, if it
// honors conditions; see [CheckConditions].
func (w *writer) Expect(version string) { w.expected = &version }

// Version implements [blob.Versioned].
func (w *writer) Version() string { return w.tag }

// Replaces notes which version of the blob is replaced, so that it need not be looked for where
// several processes write; see [Options.MayWrite].
func (w *writer) Replaces(version string) { w.replaces = version }

func (w *writer) SetType(t string) { w.mediaType = t }

func (w *writer) Write(p []byte) (int, error) {
	if w.closed {
		return 0, w.b.fail("write", w.key, fs.ErrClosed)
	}
	n := 0
	for w.broken == nil {
		room := w.partSize() - w.buf.size
		fits := p[:min(int64(len(p)), room)]
		if err := w.buf.write(fits); err != nil {
			w.broken = w.b.fail("write", w.key, err)
			break
		}
		n, p = n+len(fits), p[len(fits):]
		if len(p) == 0 {
			return n, nil
		}
		w.broken = w.flush()
	}
	return n, w.broken
}

// partSize returns the size of the next part. It doubles with every thousand
// parts, of which there may be ten thousand: they suffice for a blob of any
// size.
func (w *writer) partSize() int64 { return int64(w.b.opts.Memory) << (w.sent / 1000) }

// flush sends buf as the next part, when the previous one has been sent.
func (w *writer) flush() (err error) {
	if err = w.wait(); err != nil {
		return err
	}
	if w.upload == nil {
		if w.upload, err = w.begin(); err != nil {
			return err
		}
	}
	w.buf, w.part = w.part, w.buf
	done := make(chan error, 1)
	w.sending = done
	go func(u *upload, n int, data content) { done <- w.send(u, n, data) }(w.upload, w.sent+1, w.part.content())
	return nil
}

// wait waits until the current part has been sent.
func (w *writer) wait() error {
	if w.sending == nil {
		return nil
	}
	err := <-w.sending
	w.sending = nil
	if err == nil {
		w.sent++
		w.part.reset()
	}
	return err
}

// finish sends the remaining bytes of a multipart upload. It may be repeated.
func (w *writer) finish(ctx context.Context) error {
	if w.broken != nil || w.upload == nil {
		return w.broken
	}
	_ = w.wait() // if the part was not sent, it is sent now
	for _, data := range []*buffer{&w.part, &w.buf} {
		if data.size == 0 {
			continue
		}
		if err := w.b.send(ctx, w.upload, w.sent+1, data.content()); err != nil {
			return err
		}
		w.sent++
		data.reset()
	}
	return nil
}

// Close drops the blob unless it was committed.
func (w *writer) Close() error {
	if w.closed {
		return nil
	}
	_ = w.wait() // the result does not matter
	w.close()
	if w.upload == nil || w.visible {
		return nil
	}
	return w.abort(w.upload)
}

func (w *writer) close() {
	w.closed = true
	w.buf.reset()
	w.part.reset()
}

// abortTimeout bounds the cleanup after a dropped Writer.
const abortTimeout = 10 * time.Second

// attributes returns the headers of the object that a writer creates.
func (w *writer) attributes() minio.PutObjectOptions {
	o := minio.PutObjectOptions{UserMetadata: make(map[string]string)}
	if w.b.opts.Attributes != nil {
		o.ContentType, o.CacheControl = w.b.opts.Attributes(w.name)
	}
	if w.mediaType != "" {
		o.ContentType = w.mediaType
	}
	if !w.mod.IsZero() {
		o.UserMetadata["Mtime"] = formatModTime(w.mod)
	}
	return o
}

// putTries and putPause are the number of attempts, and the first pause between
// them, to store an object for which a file-based service has no directory:
// another process may just have removed the last object there, and the
// directory with it.
const (
	putTries = 5
	putPause = 5 * time.Millisecond
)

// put stores the whole object with one request, and returns its entity tag.
func (b *Bucket) put(ctx context.Context, key string, body content, o minio.PutObjectOptions) (tag string, err error) {
	md5Base64, sha256Hex, err := body.sums(b.service.signed)
	if err != nil {
		return "", b.fail("put", key, err)
	}
	o.DisableContentSha256 = true // of chunks: sha256Hex covers the whole body
	for try := range putTries {
		var info minio.UploadInfo
		info, err = b.core.PutObject(ctx, b.opts.Bucket, key, body.ReadSeeker, body.size, md5Base64, sha256Hex, o)
		tag = info.ETag
		if !coded(err, codeDirectory, codeBelowFile) {
			break
		}
		select {
		case <-time.After(putPause << try):
		case <-ctx.Done():
			return "", b.fail("put", key, context.Cause(ctx))
		}
	}
	return tag, b.fail("put", key, err)
}

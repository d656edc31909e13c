package s3

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"lockstep/blob"
)

// An upload is a running multipart upload.
//
// A note in the bucket identifies Lockstep's own unfinished uploads. It is
// written when the upload begins and removed when it has ended. A kill between
// the two requests leaves an upload without parts, which costs nothing and is
// not found again; after a kill at any other point Sweep removes the upload.
type upload struct {
	key   string
	id    string // of the service
	note  string // key of the note
	mark  string // in the object's metadata: identifies this upload
	parts []minio.CompletePart
}

// A note is the content of the object that identifies an upload.
type note struct {
	Name   string `json:"name"`   // of the blob
	Key    string `json:"key"`    // of the future object
	Upload string `json:"upload"` // the service's upload ID
}

// notesDir contains the notes, below the prefix. List omits it.
const notesDir = ".lockstep/uploads/"

// markKey is the metadata that identifies the object of an upload.
const markKey = "Lockstep-Upload"

// begin begins the upload of w.
func (b *Bucket) begin(ctx context.Context, w *writer) (*upload, error) {
	u := &upload{key: w.key, mark: rand.Text()}
	u.note = b.prefix + notesDir + u.mark
	o := w.attributes()
	o.UserMetadata[markKey] = u.mark
	var err error
	if u.id, err = b.core.NewMultipartUpload(ctx, b.opts.Bucket, u.key, o); err != nil {
		return nil, b.fail("begin upload of", u.key, err)
	}
	b.writing.add(u.note)
	data, err := json.Marshal(note{Name: w.name, Key: u.key, Upload: u.id})
	if err == nil {
		_, err = b.put(ctx, u.note, content{bytes.NewReader(data), int64(len(data))}, minio.PutObjectOptions{ContentType: "application/json"})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortTimeout)
		defer cancel()
		return nil, errors.Join(err, b.abort(ctx, u))
	}
	return u, nil
}

// send sends part number n; parts are sent one at a time.
func (b *Bucket) send(ctx context.Context, u *upload, n int, body content) error {
	md5Base64, sha256Hex, err := body.sums(b.service.signed)
	if err != nil {
		return b.fail("upload part of", u.key, err)
	}
	part, err := b.core.PutObjectPart(ctx, b.opts.Bucket, u.key, u.id, n, body.ReadSeeker, body.size,
		minio.PutObjectPartOptions{Md5Base64: md5Base64, Sha256Hex: sha256Hex, DisableContentSha256: true})
	if err != nil {
		return b.fail("upload part of", u.key, err)
	}
	u.parts = append(u.parts[:n-1], minio.CompletePart{PartNumber: n, ETag: part.ETag})
	return nil
}

// complete makes the object appear, and returns its entity tag.
func (b *Bucket) complete(ctx context.Context, u *upload, only condition) (tag string, err error) {
	var o minio.PutObjectOptions
	only.add(&o)
	info, err := b.core.CompleteMultipartUpload(ctx, b.opts.Bucket, u.key, u.id, u.parts, o)
	tag = info.ETag
	if err != nil && coded(err, minio.NoSuchUpload) {
		if there, ok := b.completed(ctx, u); ok {
			tag, err = there, nil // an earlier attempt succeeded, and its answer was lost
		}
	}
	return tag, b.fail("complete upload of", u.key, err)
}

// completed reports whether the object is the result of u.
func (b *Bucket) completed(ctx context.Context, u *upload) (tag string, ok bool) {
	info, err := b.core.StatObject(ctx, b.opts.Bucket, u.key, minio.StatObjectOptions{})
	return info.ETag, err == nil && info.Headers.Get("X-Amz-Meta-"+markKey) == u.mark
}

// abort drops the upload and its note.
func (b *Bucket) abort(ctx context.Context, u *upload) error {
	err := b.core.AbortMultipartUpload(ctx, b.opts.Bucket, u.key, u.id)
	if err != nil && !coded(err, minio.NoSuchUpload) {
		b.writing.remove(u.note)
		return b.fail("abort upload of", u.key, err) // the note remains, for Sweep
	}
	return b.ended(ctx, u)
}

// ended removes the notes of uploads that have ended.
func (b *Bucket) ended(ctx context.Context, us ...*upload) error {
	var notes []string
	for _, u := range us {
		notes = append(notes, u.note)
		defer b.writing.remove(u.note)
	}
	return b.remove(ctx, notes)
}

// noteKeys are the keys of the notes of running uploads. The zero value is ready
// to use.
type noteKeys struct {
	mu   sync.Mutex // guards keys
	keys map[string]struct{}
}

func (n *noteKeys) add(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.keys == nil {
		n.keys = make(map[string]struct{})
	}
	n.keys[key] = struct{}{}
}

func (n *noteKeys) remove(key string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.keys, key)
}

func (n *noteKeys) has(key string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, ok := n.keys[key]
	return ok
}

// Sweep aborts unfinished uploads of Lockstep processes, except those of the
// names keep yields, those this Bucket is writing, and those begun less than
// [Options.Abandoned] ago, which another process may be writing. It returns
// their number. Uploads of other programs are left alone.
func (b *Bucket) Sweep(ctx context.Context, keep iter.Seq[string]) (int, error) {
	kept := make(map[string]struct{})
	for name := range keep {
		kept[name] = struct{}{}
	}
	n := 0
	var errs []error
	var notes []string
	for info, err := range b.objects(ctx, b.prefix+notesDir) {
		if err != nil {
			return n, err
		}
		if b.writing.has(info.Name) || time.Since(info.ModTime) < b.opts.Abandoned {
			continue
		}
		notes = append(notes, info.Name)
	}
	for _, key := range notes {
		swept, err := b.sweep(ctx, key, kept)
		if swept {
			n++
		}
		errs = append(errs, err)
	}
	return n, errors.Join(errs...)
}

// maxNote bounds a note: Lockstep writes no longer ones.
const maxNote = 16 << 10

// sweep aborts the upload of one note.
func (b *Bucket) sweep(ctx context.Context, key string, kept map[string]struct{}) (bool, error) {
	body, _, _, err := b.core.GetObject(ctx, b.opts.Bucket, key, minio.GetObjectOptions{})
	if coded(err, minio.NoSuchKey) {
		return false, nil // another process was faster
	}
	if err != nil {
		return false, b.fail("get", key, err)
	}
	data, err := io.ReadAll(io.LimitReader(body, maxNote))
	_ = body.Close() // only read from
	if err != nil {
		return false, b.fail("get", key, err)
	}
	var n note
	if err := json.Unmarshal(data, &n); err != nil || n.Upload == "" || !strings.HasPrefix(n.Key, b.prefix) {
		return false, b.fail("sweep", key, errors.New("not a note of an upload"))
	}
	if _, ok := kept[n.Name]; ok {
		return false, nil
	}
	return true, b.abort(ctx, &upload{key: n.Key, id: n.Upload, note: key})
}

var errStranger = errors.New("writer belongs to another store")

// writers returns the Writers as those of b, after checking that all are open
// and none is given twice.
func (b *Bucket) writers(ws []blob.Writer) ([]*writer, error) {
	ours := make([]*writer, len(ws))
	for i, bw := range ws {
		w, ok := bw.(*writer)
		if !ok || w.b != b {
			return nil, &blob.CommitError{Name: bw.Name(), Err: errStranger}
		}
		if w.closed || slices.Contains(ours[:i], w) {
			return nil, &blob.CommitError{Name: w.name, Err: fs.ErrClosed}
		}
		ours[i] = w
	}
	return ours, nil
}

package bucket_test

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"lockstep/blob"
)

// A fakeBucket is a bucket in memory that can be made to lie.
type fakeBucket struct {
	mu      sync.Mutex // guards what follows
	objects map[string]fakeObject
	heads   int
	gets    int

	listing func([]blob.Info) ([]blob.Info, error) // bends the listing
	head    func(key string, h http.Header) error  // bends a header
}

type fakeObject struct {
	data   []byte
	mod    time.Time
	header http.Header // beside what all have
}

func newFakeBucket() *fakeBucket { return &fakeBucket{objects: make(map[string]fakeObject)} }

// put makes an object, with headers given as "Name: value".
func (b *fakeBucket) put(key, data string, headers ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	o := fakeObject{data: []byte(data), mod: time.Now().Add(-time.Hour), header: make(http.Header)}
	if old, ok := b.objects[key]; ok {
		o.mod = old.mod.Add(time.Minute)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		o.header.Set(name, value)
	}
	b.objects[key] = o
}

func (b *fakeBucket) remove(keys ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, key := range keys {
		delete(b.objects, key)
	}
}

func (o fakeObject) etag() string {
	if tag := o.header.Get("ETag"); tag != "" {
		return strings.Trim(tag, `"`)
	}
	sum := md5.Sum(o.data)
	return hex.EncodeToString(sum[:])
}

func (b *fakeBucket) String() string { return "s3://fake/" }

func (b *fakeBucket) Objects(ctx context.Context) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		b.mu.Lock()
		var infos []blob.Info
		for _, key := range slices.Sorted(maps.Keys(b.objects)) {
			o := b.objects[key]
			infos = append(infos, blob.Info{Name: key, Size: int64(len(o.data)), ModTime: o.mod, Version: o.etag()})
		}
		listing := b.listing
		b.mu.Unlock()
		var err error
		if listing != nil {
			infos, err = listing(infos)
		}
		for _, info := range infos {
			if !yield(info, nil) {
				return
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			yield(blob.Info{}, err)
		}
	}
}

func (b *fakeBucket) header(key string) (fakeObject, http.Header, error) {
	o, ok := b.objects[key]
	if !ok {
		return o, nil, fmt.Errorf("get s3://fake/%s: %w", key, blob.ErrNotExist)
	}
	h := o.header.Clone()
	h.Set("ETag", `"`+o.etag()+`"`)
	h.Set("Content-Length", strconv.Itoa(len(o.data)))
	h.Set("Last-Modified", o.mod.UTC().Format(http.TimeFormat))
	if b.head != nil {
		if err := b.head(key, h); err != nil {
			return o, nil, err
		}
	}
	return o, h, nil
}

func (b *fakeBucket) Head(_ context.Context, key string) (http.Header, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.heads++
	_, h, err := b.header(key)
	return h, err
}

func (b *fakeBucket) Get(_ context.Context, key string) (io.ReadCloser, http.Header, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.gets++
	o, h, err := b.header(key)
	if err != nil {
		return nil, nil, err
	}
	return io.NopCloser(bytes.NewReader(o.data)), h, nil
}

// asked returns how many requests there were for headers and contents, and resets the
// counts.
func (b *fakeBucket) asked() (heads, gets int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	heads, gets = b.heads, b.gets
	b.heads, b.gets = 0, 0
	return heads, gets
}

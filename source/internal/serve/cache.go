package serve

import (
	"bytes"
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
	"golang.org/x/sync/singleflight"

	"lockstep/blob"
	"lockstep/source/internal/names"
)

const (
	// cacheBytes bounds what is kept of documents to serve them: memory filled
	// by a client that asks for everything.
	cacheBytes = 64 << 20

	// cacheOverhead is what an entry costs beside its compressed form.
	cacheOverhead = 512

	// maxCompressing bounds how many documents are compressed at a time: the
	// same, and other requests need the processors too.
	maxCompressing = 2
)

// A cache keeps entity tags and compressed forms of documents, so that each is
// read through and compressed once. The least recently used go first.
type cache struct {
	flight singleflight.Group
	slots  chan struct{} // held while compressing

	mu     sync.Mutex // guards what follows
	byName map[string]*list.Element
	used   *list.List // of *cached, newest first
	size   int64
}

// cached is what is known of one version of a document. It does not change.
type cached struct {
	name string
	size int64
	mod  time.Time
	etag string // strong, without quotes: changes when, and only when, the bytes do
	gzip []byte // nil if no client has asked for it
}

func newCache() *cache {
	return &cache{
		slots:  make(chan struct{}, maxCompressing),
		byName: make(map[string]*list.Element),
		used:   list.New(),
	}
}

// get returns what is known of the document r reads, with the compressed form
// if zip is set. Modification times of documents rise, so that size and time
// distinguish versions.
func (c *cache) get(r blob.Reader, zip bool) (*cached, error) {
	info := r.Info()
	known := c.lookup(info)
	if known != nil && (!zip || known.gzip != nil) {
		return known, nil
	}
	key := info.Name + "|" + strconv.FormatInt(info.Size, 10) + "|" + strconv.FormatInt(info.ModTime.UnixNano(), 10) + "|" + strconv.FormatBool(zip)
	for {
		ours := false // this request reads the document, for others as well
		v, err, _ := c.flight.Do(key, func() (any, error) {
			ours = true
			fresh := &cached{name: info.Name, size: info.Size, mod: info.ModTime}
			if err := c.digest(fresh, r, zip); err != nil {
				return nil, fmt.Errorf("read %s: %w", info.Name, err)
			}
			c.keep(fresh)
			return fresh, nil
		})
		switch {
		case err == nil:
			return v.(*cached), nil
		case ours || !errors.Is(err, context.Canceled): // else the client of the request that read it has disconnected
			return nil, err
		}
	}
}

// Writers that compress documents are used again: each has about a megabyte of memory.
var (
	thorough = sync.Pool{New: func() any { return newGzip(gzip.DefaultCompression) }}
	quick    = sync.Pool{New: func() any { return newGzip(gzip.BestSpeed) }}
)

func newGzip(level int) *gzip.Writer {
	zw, err := gzip.NewWriterLevel(nil, level)
	if err != nil {
		panic(err) // the levels are right
	}
	return zw
}

// digest reads r through.
func (c *cache) digest(d *cached, r io.ReaderAt, zip bool) error {
	src := io.NewSectionReader(r, 0, d.size)
	sum := sha256.New()
	if !zip {
		if _, err := io.Copy(sum, src); err != nil {
			return err
		}
		d.etag = hex.EncodeToString(sum.Sum(nil)[:16])
		return nil
	}
	c.slots <- struct{}{}
	defer func() { <-c.slots }()
	var buf bytes.Buffer
	writers := &thorough
	if !names.Immutable(d.name) {
		writers = &quick // the next version may come in a moment
	}
	zw := writers.Get().(*gzip.Writer)
	defer writers.Put(zw)
	zw.Reset(&buf)
	if _, err := io.Copy(io.MultiWriter(sum, zw), src); err != nil {
		return err
	}
	if err := zw.Close(); err != nil {
		return err
	}
	d.etag = hex.EncodeToString(sum.Sum(nil)[:16])
	d.gzip = bytes.Clone(buf.Bytes())
	return nil
}

func (c *cache) lookup(info blob.Info) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byName[info.Name]
	if e == nil {
		return nil
	}
	d := e.Value.(*cached)
	if d.size != info.Size || !d.mod.Equal(info.ModTime) {
		return nil
	}
	c.used.MoveToFront(e)
	return d
}

func (c *cache) keep(d *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.byName[d.name]; e != nil {
		old := e.Value.(*cached)
		if d.gzip == nil && old.gzip != nil && old.etag == d.etag {
			return // it knows more
		}
		c.drop(e)
	}
	c.byName[d.name] = c.used.PushFront(d)
	c.size += d.cost()
	for c.size > cacheBytes {
		c.drop(c.used.Back())
	}
}

func (c *cache) drop(e *list.Element) {
	d := c.used.Remove(e).(*cached)
	delete(c.byName, d.name)
	c.size -= d.cost()
}

func (d *cached) cost() int64 { return cacheOverhead + int64(len(d.gzip)) }

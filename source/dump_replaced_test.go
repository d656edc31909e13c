package source_test

import (
	"context"
	"crypto/sha256"
	"io"
	"maps"
	"sync"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source"
)

// Resources are replaced while a package is built, and one of whose past nothing was kept: the
// others are packed all the same.
func TestDumpOfReplacedResources(t *testing.T) {
	t.Parallel()
	d := newDumpWorld(t, source.Options{}, bothDumps)
	open := d.opts.Sets[0].Bitstream
	d.opts.Sets[0].Bitstream = func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
		f, err := open(ctx, r)
		d.mu.Lock()
		defer d.mu.Unlock()
		if sum := sha256.Sum256([]byte(d.now[r.URI])); err == nil && r.Hashes.Get(resourcesync.SHA256) != string(sum[:]) {
			return nil, source.ErrReplaced
		}
		return f, err
	}
	d.put("a=1", "b=2", "c=3")
	s := d.source()
	d.publish(s)
	var once sync.Once
	d.onOpen = func(string) { once.Do(func() { d.put("a=new", "b=new") }) }
	if r := d.dump(s); !r.Dump {
		t.Errorf("PublishDumps = %+v, want a dump", r)
	}
	d.publish(s)
	d.pass(2 * time.Hour)
	d.put("a=lost")
	d.mu.Lock()
	sum := sha256.Sum256([]byte("lost"))
	delete(d.past, d.opts.BaseURL+"a "+string(sum[:]))
	d.mu.Unlock()
	d.put("a=newest", "c=4")
	d.publish(s)
	for range 3 {
		d.dump(s)
		d.pass(25 * time.Hour)
	}
	if c := d.dumps(); !maps.Equal(c.state, d.now) {
		t.Errorf("the dump has %q, want %q", c.state, d.now)
	}
}

package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"lockstep/bitstream"
	"lockstep/blob"
	"lockstep/catalog"
	intakedir "lockstep/intake/dir"
	"lockstep/patch"
	"lockstep/source"
	"lockstep/storage/sqlite"
)

const bitstreamSet = "https://example.org/resourcesync/main/capabilitylist.xml"

// BenchmarkBitstreamCapture sets a scan that finds 10,000 files of 4 KB changed
// beside the same with their bytes kept, and with patches made too, all on
// disk. It reports what one change costs.
func BenchmarkBitstreamCapture(b *testing.B) {
	const files = 10_000
	for b.Loop() {
		var plain float64
		for _, mode := range []string{"plain", "past", "patches"} {
			c := newCapture(b, mode, files)
			first := c.scan(b)
			if _, err := c.cat.Mark(context.Background(), bitstreamSet); err != nil {
				b.Fatal(err)
			}
			c.write(b, files, 1)
			took := c.scan(b)
			if mode == "plain" {
				plain = took
			}
			b.ReportMetric(first, mode+"-first-s")
			b.ReportMetric(took, mode+"-s")
			b.ReportMetric((took-plain)/files*1e6, mode+"-extra-µs/change")
			start := time.Now()
			swept, err := c.keeper.Sweep(context.Background())
			if err != nil {
				b.Fatal(err)
			}
			if mode != "plain" && swept.Kept != files {
				b.Fatalf("%s: a sweep kept %d representations, want %d", mode, swept.Kept, files)
			}
			b.ReportMetric(time.Since(start).Seconds(), mode+"-sweep-s")
		}
	}
}

// A capture is a directory with a catalog before which a Keeper stands.
type capture struct {
	root   string
	cat    catalog.Catalog
	keeper *bitstream.Keeper
	dir    *intakedir.Dir
}

func newCapture(b *testing.B, mode string, files int) *capture {
	b.Helper()
	c := &capture{root: b.TempDir()}
	state := b.TempDir()
	db, err := sqlite.Open(filepath.Join(state, "catalog.db"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	store, docs := openDir(b, filepath.Join(state, "bitstreams")), openDir(b, filepath.Join(state, "documents"))
	src, err := source.New(db.Catalog(), docs, source.Options{BaseURL: "https://example.org/"})
	if err != nil {
		b.Fatal(err)
	}
	c.keeper = bitstream.New(store, bitstream.Options{})
	o := bitstream.SetOptions{Open: c.open, Past: mode == "past"}
	if mode == "patches" {
		o.Patches = &bitstream.PatchOptions{Put: func(ctx context.Context, mediaType string, p []byte) (string, error) {
			return src.PutPatch(ctx, source.DefaultSet, mediaType, p)
		}}
	}
	c.cat = c.keeper.Catalog(db.Catalog(), bitstreamSet, o)
	if c.dir, err = intakedir.New(c.root, c.cat, bitstreamSet, intakedir.Options{BaseURI: "https://example.org/"}); err != nil {
		b.Fatal(err)
	}
	c.write(b, files, 0)
	return c
}

func openDir(b *testing.B, path string) *blob.Dir {
	b.Helper()
	d, err := blob.NewDir(path, blob.DirOptions{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = d.Close() })
	return d
}

func (c *capture) open(_ context.Context, r *catalog.Record) (io.ReadCloser, error) {
	rel, ok := c.dir.RelPath(r.URI)
	if !ok {
		return nil, fs.ErrNotExist
	}
	f, _, err := c.dir.Open(rel)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// write writes the files of a version, which differ in a few bytes from those of
// the one before, and waits until they are old enough to be believed.
func (c *capture) write(b *testing.B, files, version int) {
	b.Helper()
	for i := range files {
		dir := filepath.Join(c.root, strconv.Itoa(i/100))
		if i%100 == 0 {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				b.Fatal(err)
			}
		}
		text := []byte(bitstreamText(uint64(i), 4<<10))
		copy(text[1000:], fmt.Sprintf("<version %d>", version))
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".txt"), text, 0o644); err != nil {
			b.Fatal(err)
		}
	}
	time.Sleep(time.Second)
}

func (c *capture) scan(b *testing.B) float64 {
	b.Helper()
	start := time.Now()
	if _, err := c.dir.Scan(context.Background()); err != nil {
		b.Fatal(err)
	}
	return time.Since(start).Seconds()
}

// bitstreamText returns text that hardly repeats itself.
func bitstreamText(seed uint64, n int) string {
	r := rand.New(rand.NewPCG(seed, 0))
	var s strings.Builder
	for s.Len() < n {
		s.WriteString(strconv.FormatUint(r.Uint64(), 36))
		s.WriteByte(' ')
	}
	return s.String()[:n]
}

// BenchmarkBitstreamDelta makes and applies the delta of 6.3 MB with three edits.
func BenchmarkBitstreamDelta(b *testing.B) {
	before := []byte(bitstreamText(1, 6_300_000))
	after := bytes.Clone(before)
	for _, at := range []int{1_000_000, 3_000_000, 6_000_000} {
		after = append(after[:at:at], append([]byte("<edited>"), after[at:]...)...)
	}
	now := before
	var delta []byte
	k := bitstream.New(new(blob.Mem), bitstream.Options{})
	cat := k.Catalog(catalog.NewMem(nil), "set", bitstream.SetOptions{
		Open: func(context.Context, *catalog.Record) (io.ReadCloser, error) {
			return io.NopCloser(bytes.NewReader(now)), nil
		},
		Patches: &bitstream.PatchOptions{Put: func(_ context.Context, _ string, p []byte) (string, error) {
			delta = p
			return "https://example.org/p", nil
		}},
	})
	put := func() {
		u := catalog.Update{Record: catalog.Record{URI: "a", Length: int64(len(now)), Type: "text/plain"}}
		if _, err := cat.Apply(context.Background(), "set", []catalog.Update{u}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		now = before
		put()
		if _, err := cat.Mark(context.Background(), "set"); err != nil {
			b.Fatal(err)
		}
		now = after
		start := time.Now()
		put()
		b.ReportMetric(time.Since(start).Seconds(), "make-s")
		b.ReportMetric(float64(len(delta)), "delta-bytes")
		start = time.Now()
		if got, err := patch.ApplyDelta(before, delta, int64(len(after))); err != nil || !bytes.Equal(got, after) {
			b.Fatal("the delta does not apply: ", err)
		}
		b.ReportMetric(time.Since(start).Seconds(), "apply-s")
	}
}

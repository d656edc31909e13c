//go:build linux

package bench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/internal/faultclock"
	"lockstep/resourcesync"
	"lockstep/source"
)

var billionResources = flag.Int("billion.resources", 1_000_000, "resources of the computed catalog, e.g. 1000000000")

// keptParts is how many parts of a list are written for each one whose bytes are kept and read again.
const keptParts = 1000

// BenchmarkBillion publishes a collection that no machine here can hold: the rows of its catalog are computed
// when they are read. All documents are built, with their boundaries, names and index, and of a thousand
// parts one is kept. Then 100 resources change, and twice a thousandth of all, beside each other and anywhere, after which
// there is a new Resource List. Memory is that of the test: it has the resources that change.
func BenchmarkBillion(b *testing.B) {
	for b.Loop() {
		p := startGrown(b, "billion", strconv.Itoa(*billionResources))
		for _, step := range []string{"first", "changes", "clustered", "random"} {
			r := p.do(b, step)
			b.ReportMetric(r.Seconds, step+"-s")
		}
		p.end(b)
		b.ReportMetric(0, "ns/op")
	}
}

// billionSource is the process of the Source. It reports the documents of each step on standard error.
func billionSource(args []string) error {
	n, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	ctx, clock := context.Background(), faultclock.New(grownTime)
	const base = "https://data.example.org/"
	set, err := source.CapabilityListURI(base, "main")
	if err != nil {
		return err
	}
	cat := &computedCatalog{Mem: catalog.NewMem(clock.Now), n: n, base: base, set: set}
	docs := &thinStore{sizes: map[string]int64{}}
	src, err := source.New(cat, docs, source.Options{BaseURL: base, Now: clock.Now, SmallSet: 1, Temp: os.TempDir()})
	if err != nil {
		return err
	}
	beside, anywhere := make([]int, n/1000), make([]int, n/1000)
	for i := range beside {
		beside[i], anywhere[i] = n/3+i, i*733_103%n
	}
	slices.Sort(anywhere)
	anywhere = slices.Compact(anywhere)
	if err := cat.know(ctx, beside, anywhere); err != nil {
		return err
	}
	return grownSteps(func(step string, _ []int) error {
		clock.Step(25 * time.Hour)
		switch step {
		case "changes":
			err = cat.change(ctx, 1, beside[:growthChanges])
		case "clustered":
			err = cat.change(ctx, 2, beside)
		case "random":
			err = cat.change(ctx, 3, anywhere)
		}
		clock.Step(time.Second)
		if step == "changes" { // before a new list is due
			clock.Step(-25 * time.Hour)
		}
		docs.begin()
		var r source.Report
		if err == nil {
			r, err = src.Publish(ctx)
		}
		if err == nil && r.Sets[0].List != (step != "changes") {
			err = fmt.Errorf("new Resource List: %t", r.Sets[0].List)
		}
		if err == nil {
			err = docs.check(n)
		}
		fmt.Fprintf(os.Stderr, "%d resources, %s: %d documents, %.1f MB\n", n, step, docs.written, float64(docs.bytes)/1e6)
		return err
	})
}

// A computedCatalog has n resources that are computed, but for those that change.
type computedCatalog struct {
	*catalog.Mem
	n         int
	base, set string
	stored    []int // in order
}

// know stores the resources that change later, as they are computed.
func (c *computedCatalog) know(ctx context.Context, all ...[]int) error {
	c.stored = slices.Concat(all...)
	slices.Sort(c.stored)
	c.stored = slices.Compact(c.stored)
	return c.change(ctx, 0, c.stored)
}

func (c *computedCatalog) change(ctx context.Context, version int, all []int) error {
	for part := range slices.Chunk(all, grownBatch) {
		updates := make([]catalog.Update, len(part))
		for k, i := range part {
			updates[k] = catalog.Update{Record: c.record(i, version)}
		}
		if _, err := c.Apply(ctx, c.set, updates); err != nil {
			return err
		}
	}
	return nil
}

func (c *computedCatalog) uri(i int) string {
	b := append(make([]byte, 0, 64), c.base...)
	b = append(b, "articles/"...)
	b = appendPadded(b, i/1000, 7)
	b = append(b, "/item-"...)
	b = appendPadded(b, i, 10)
	return string(append(b, ".xml"...))
}

func appendPadded(b []byte, n, digits int) []byte {
	at := len(b)
	b = append(b, "0000000000"[:digits]...)
	for k := at + digits - 1; n > 0; k-- {
		b[k] = byte('0' + n%10)
		n /= 10
	}
	return b
}

func (c *computedCatalog) record(i, version int) catalog.Record {
	var d [48]byte
	for k := range 6 {
		binary.LittleEndian.PutUint64(d[8*k:], (uint64(i)+1)*0x9e3779b97f4a7c15>>k^uint64(version))
	}
	digests := string(d[:])
	return catalog.Record{
		URI: c.uri(i), Lastmod: grownTime.Add(time.Duration(version-i%1_000_000) * time.Second), Length: 4096, Type: "application/xml", Token: "inode",
		Hashes: resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: digests[:16]}, {Algorithm: resourcesync.SHA256, Digest: digests[16:]}},
	}
}

// index returns the number of the first resource that is not before a URI.
func (c *computedCatalog) index(uri string) int {
	return sort.Search(c.n, func(i int) bool { return c.uri(i) >= uri })
}

func (c *computedCatalog) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	return func(yield func(catalog.Record, error) bool) {
		from, to := c.index(r.From), c.n
		if r.To != "" {
			to = c.index(r.To)
		}
		next, _ := slices.BinarySearch(c.stored, from)
		for i := from; i < to; i++ {
			if next == len(c.stored) || c.stored[next] != i {
				if !yield(c.record(i, 0), nil) {
					return
				}
				continue
			}
			next++
			rec, _, err := catalog.Find(ctx, c.Mem, set, c.uri(i))
			if !yield(rec, err) {
				return
			}
		}
	}
}

func (c *computedCatalog) Split(_ context.Context, _ string, n int) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for i := n; i < c.n; i += n {
			if !yield(c.uri(i), nil) {
				return
			}
		}
	}
}

func (c *computedCatalog) Status(ctx context.Context, set string) (catalog.Status, error) {
	s, err := c.Mem.Status(ctx, set)
	s.Resources = int64(c.n)
	return s, err
}

// A thinStore keeps in memory one of a thousand parts of Resource Lists, and everything else; of the others
// it knows the sizes.
type thinStore struct {
	blob.Mem

	mu      sync.Mutex // guards what follows
	sizes   map[string]int64
	written int // since begin
	bytes   int64
	kept    []string
}

func (s *thinStore) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.written, s.bytes, s.kept = 0, 0, nil
}

type thinWriter struct {
	blob.Writer
	drop bool
	size int64
}

func (w *thinWriter) Write(p []byte) (int, error) {
	w.size += int64(len(p))
	if w.drop {
		return len(p), nil
	}
	return w.Writer.Write(p)
}

// ReadFrom keeps others from passing the bytes by.
func (w *thinWriter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{w}, r)
}

func partNumber(name string) int {
	stem, ok := strings.CutSuffix(path.Base(name), ".xml")
	if !ok || !strings.HasPrefix(stem, "resourcelist-") {
		return 0
	}
	n, _ := strconv.Atoi(stem[strings.LastIndexByte(stem, '-')+1:]) // 0: it is no part
	return n
}

func (s *thinStore) Create(ctx context.Context, name string) (blob.Writer, error) {
	w, err := s.Mem.Create(ctx, name)
	if err != nil {
		return nil, err
	}
	n := partNumber(name)
	return &thinWriter{Writer: w, drop: n > 0 && n%keptParts != 1}, nil
}

func (s *thinStore) Commit(ctx context.Context, ws ...blob.Writer) error {
	inner := make([]blob.Writer, len(ws))
	for i, w := range ws {
		inner[i] = w.(*thinWriter).Writer
	}
	if err := s.Mem.Commit(ctx, inner...); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range ws {
		t := w.(*thinWriter)
		s.sizes[t.Name()] = t.size
		s.written++
		s.bytes += t.size
		if !t.drop && partNumber(t.Name()) > 0 {
			s.kept = append(s.kept, t.Name())
		}
	}
	return nil
}

func (s *thinStore) size(i blob.Info) blob.Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	i.Size = s.sizes[i.Name]
	return i
}

func (s *thinStore) Stat(ctx context.Context, name string) (blob.Info, error) {
	i, err := s.Mem.Stat(ctx, name)
	return s.size(i), err
}

func (s *thinStore) List(ctx context.Context, prefix string) iter.Seq2[blob.Info, error] {
	return func(yield func(blob.Info, error) bool) {
		for i, err := range s.Mem.List(ctx, prefix) {
			if !yield(s.size(i), err) {
				return
			}
		}
	}
}

// check reads the index, and the parts that were kept: the index names every part, and each has the entries after the one
// before, and not more than a document may have.
func (s *thinStore) check(n int) error {
	if s.kept == nil {
		return nil
	}
	parts := 0
	last, err := s.read("resourcesync/main/resourcelist.xml", func(*resourcesync.Entry) { parts++ })
	if err != nil || parts < n/resourcesync.MaxEntries {
		return errors.Join(err, fmt.Errorf("the index has %d parts, the last is %s", parts, last))
	}
	for _, name := range s.kept {
		before, entries := "", 0
		last, err := s.read(name, func(e *resourcesync.Entry) {
			if e.Loc <= before {
				entries = math.MinInt
			}
			before = e.Loc
			entries++
		})
		if err != nil || entries <= 0 || entries > resourcesync.MaxEntries {
			return errors.Join(err, fmt.Errorf("%s has %d entries in order, the last is %s", name, entries, last))
		}
	}
	return nil
}

func (s *thinStore) read(name string, entry func(*resourcesync.Entry)) (last string, err error) {
	f, err := s.Open(context.Background(), name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return "", err
	}
	for e, err := range resourcesync.NewReader(bytes.NewReader(text), resourcesync.ReaderOptions{}).Entries() {
		if err != nil {
			return last, err
		}
		entry(&e)
		last = e.Loc
	}
	return last, nil
}

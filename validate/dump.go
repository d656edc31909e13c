package validate

import (
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"math"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// wholeBytes is up to what size a package is read as a whole, to compare its
// hash, when only a sample is asked for.
const wholeBytes = 16 << 20

// dumps looks into the packages of a dump. It reports whether all manifests
// could be read.
func (s *set) dumps(docs []*document) (whole bool, err error) {
	packages := 0
	for _, d := range docs {
		packages += len(d.entries)
	}
	share := s.Settings.Sample // of bitstreams, in each package
	if share > 0 {
		share = (share + packages - 1) / max(packages, 1)
	}
	whole = true
	done := make(map[string]bool)
	for _, d := range docs {
		for i := range d.entries {
			if !first(done, d.entries[i].Loc) {
				whole = false
				continue
			}
			ok, err := s.dumped(d, i, share)
			if err != nil {
				return false, err
			}
			whole = whole && ok
		}
	}
	return whole, nil
}

// dumped looks into the package entry i of a dump names. It reports whether its
// manifest could be read.
func (s *set) dumped(dump *document, i, share int) (ok bool, err error) {
	e, at, p := &dump.entries[i], dump.places[i], s.Collector.In(dump.uri)
	missing, copied, want := "RS-RD-02", "RS-RD-04", finding.KindResourceDumpManifest
	if dump.kind == finding.KindChangeDump {
		missing, copied, want = "RS-CD-02", "RS-CD-04", finding.KindChangeDumpManifest
	}
	r := &remote{walk: s.walk, uri: e.Loc}
	defer r.Close()
	err = r.open()
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.Collector.Report.Unseen++
		return false, nil
	case visit.IsMissing(err):
		p.Errorf(missing, at, "%s: %v", e.Loc, err)
		return false, nil
	case err != nil:
		return false, err
	}
	if e.HasLength && e.Length != r.size {
		p.Errorf("RS-LEN-01", at, "length %d, but %s has %d bytes", e.Length, e.Loc, r.size)
	}
	if err := s.digest(p, at, e, r); err != nil {
		return false, err
	}
	f := &packageFile{walk: s.walk, Place: s.Collector.In(e.Loc), uri: e.Loc, want: want, bitstreams: share}
	if err := f.check(r, r.size); err != nil {
		if !visit.IsMissing(err) {
			return false, err
		}
		p.Errorf(missing, at, "%s: %v", e.Loc, err)
		return false, nil
	}
	if f.manifest == nil || !f.manifest.whole || f.manifest.kind != want {
		return false, nil
	}
	if s.upElsewhere(f.manifest) {
		s.Collector.In(f.manifest.uri).Errorf(lacksUp[want], "", "the link up leads to %s, not to the Capability List", f.manifest.header.Link(resourcesync.RelUp))
	}
	if contents := e.Link(resourcesync.RelContents); contents != "" {
		return true, s.contents(p, copied, at, contents, f.manifest)
	}
	return true, nil
}

// digest compares the hash of a package, if it is small or all is to be looked at.
func (s *set) digest(p finding.Place, at string, e *resourcesync.Entry, r *remote) error {
	if len(e.Hashes) == 0 || s.Settings.Sample == 0 || s.Settings.Sample > 0 && r.size > wholeBytes || r.size > s.Settings.ResourceBytes {
		return nil
	}
	h := e.Hashes.NewHasher()
	if _, err := io.Copy(h, io.NewSectionReader(r, 0, r.size)); err != nil {
		if visit.IsMissing(err) {
			return nil // told when the package is opened
		}
		return err
	}
	if _, differs := e.Hashes.Compare(h.Sum()); differs != 0 {
		p.Errorf("RS-HASH-05", at, "the %s digest of %s is another one", differs, e.Loc)
	}
	return nil
}

// contents compares the copy of a manifest with the manifest.
func (s *set) contents(p finding.Place, rule, at, uri string, manifest *document) error {
	a, err := s.Ask(opener.Request{URI: uri, Document: true})
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.Collector.Report.Unseen++
		return nil
	case visit.IsMissing(err):
		p.Errorf(rule, at, "contents %s: %v", uri, err)
		return nil
	case err != nil:
		return err
	}
	defer a.Body.Close() // read whole, or of no use
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(a.Body, s.Settings.DocumentBytes))
	if err != nil {
		if err = s.Broken(uri, err); visit.IsMissing(err) {
			p.Errorf(rule, at, "contents %s: %v", uri, err)
			return nil
		}
		return err
	}
	s.Count(uri)
	if [sha256.Size]byte(h.Sum(nil)) != manifest.sum {
		p.Errorf(rule, at, "contents %s (%d bytes) is not equal to the manifest in the package", uri, n)
	}
	return nil
}

// A remote is a package that is read by blocks, without holding it.
type remote struct {
	*walk
	uri    string
	size   int64
	blocks [maxBlocks]block // the last used ones
	uses   int
	local  *localFile // the whole, where parts cannot be had
}

// A block is a piece of a package.
type block struct {
	number int64
	used   int // when, 0 if it holds nothing
	data   []byte
}

const (
	blockBytes = 1 << 20
	maxBlocks  = 6
)

// maxTries is how often a block is asked for whose bytes break off: an Opener
// can only try again what fails before it answers.
const maxTries = 4

// open learns the size of the package, and whether it can be read by parts.
func (r *remote) open() (err error) {
	for range maxTries {
		if err = r.begin(); !visit.IsMissing(err) || errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return err
}

func (r *remote) begin() error {
	a, err := r.Ask(opener.Request{URI: r.uri, Last: blockBytes - 1})
	if err != nil {
		return err
	}
	defer a.Body.Close() // read as far as it is of use
	if !a.Partial {
		r.local, err = download(r.walk, r.uri, a.Body)
		if err == nil {
			r.size = r.local.size
		}
		return err
	}
	if r.size = a.Size; r.size < 0 || r.size > math.MaxInt64/2 {
		return visit.Missing(r.uri, errors.New("the answer does not say how long it is as a whole"))
	}
	data, err := io.ReadAll(io.LimitReader(a.Body, min(blockBytes, r.size)))
	if err == nil && int64(len(data)) < min(blockBytes, r.size) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return r.Broken(r.uri, err)
	}
	r.uses = 1
	r.blocks[0] = block{0, r.uses, data}
	return nil
}

// ReadAt implements [io.ReaderAt], by one goroutine at a time.
func (r *remote) ReadAt(p []byte, off int64) (n int, err error) {
	if r.local != nil {
		return r.local.ReadAt(p, off)
	}
	for n < len(p) {
		if off >= r.size {
			return n, io.EOF
		}
		b, err := r.block(off / blockBytes)
		if err != nil {
			return n, err
		}
		m := copy(p[n:], b[off%blockBytes:])
		n, off = n+m, off+int64(m)
	}
	return n, nil
}

// block returns a block, from memory or by asking for it.
func (r *remote) block(number int64) ([]byte, error) {
	r.uses++
	oldest := 0
	for i := range r.blocks {
		b := &r.blocks[i]
		if b.used > 0 && b.number == number {
			b.used = r.uses
			return b.data, nil
		}
		if b.used < r.blocks[oldest].used {
			oldest = i
		}
	}
	b, err := &r.blocks[oldest], error(nil)
	for range maxTries {
		if err = r.fill(b, number); !visit.IsMissing(err) || errors.Is(err, errWhole) {
			break
		}
	}
	if err != nil {
		return nil, err
	}
	b.used = r.uses
	return b.data, nil
}

var errWhole = errors.New("it was changed, or is no longer given by parts")

// fill reads a block into b.
func (r *remote) fill(b *block, number int64) error {
	first := number * blockBytes
	want := min(blockBytes, r.size-first)
	a, err := r.Ask(opener.Request{URI: r.uri, First: first, Last: first + want - 1})
	if err != nil {
		return err
	}
	defer a.Body.Close() // read whole, or of no use
	if !a.Partial || a.Size >= 0 && a.Size != r.size {
		return visit.Missing(r.uri, errWhole)
	}
	if int64(cap(b.data)) < want {
		b.data = make([]byte, want)
	}
	b.number, b.used, b.data = number, 0, b.data[:want]
	if _, err := io.ReadFull(a.Body, b.data); err != nil {
		return r.Broken(r.uri, err)
	}
	return nil
}

func (r *remote) Close() {
	if r.local != nil {
		r.local.Close()
	}
}

// Package dump checks a package of a dump: the ZIP file, its names, its manifest
// and a sample of the bitstreams in it. It reads packages from the network by
// blocks, without storing them, where the server allows it.
package dump

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/tally"
	"lockstep/validate/internal/visit"
)

const (
	manifestName = "manifest.xml"

	// maxDirectory caps the directory of a package, which is held in memory: a
	// package may have 50,000 files, with names of some length.
	maxDirectory = 32 << 20
)

// An EntryFunc is called for each entry of a manifest; at returns its location.
type EntryFunc func(at func() string, e *resourcesync.Entry)

// A ReadManifest checks the manifest in src and calls entry for each entry. It
// returns what kind of document it is, and whether it could be read to its end.
type ReadManifest func(src *visit.Source, entry EntryFunc) (kind finding.Kinds, whole bool, err error)

// A Package describes what [Check] checks.
type Package struct {
	URI        string
	Want       finding.Kinds // kind of the manifest; 0 allows either
	Bitstreams int           // how many are compared with the manifest
	Read       ReadManifest
}

// A packageFile is a ZIP file that is checked.
type packageFile struct {
	opts    Package
	visitor *visit.Visitor
	found   finding.Place
	whole   bool // the manifest could be read to its end

	files map[string]*packed
	rnd   *rand.Rand
	seen  int // bitstreams that could have been chosen
	drawn []drawn
}

// A packed is a file in a package.
type packed struct {
	*zip.File
	named bool // by the manifest
}

// A drawn bitstream is one whose bytes are to be compared.
type drawn struct {
	entry    resourcesync.Entry
	location string
	file     *zip.File
}

// A bounded limits how much is read for the directory of a package, and counts
// the blocks read.
type bounded struct {
	r     io.ReaderAt
	size  int64
	left  int64 // negative: without bound
	err   error // of reading
	known map[int64]bool
	count *int64 // bytes of the blocks in known
}

var (
	errDirectory = errors.New("the directory of the package is larger than any should be")
	errOffset    = errors.New("a file in it begins before the package")
)

func (b *bounded) ReadAt(p []byte, off int64) (int, error) {
	if off < 0 {
		return 0, errOffset // a directory that lies
	}
	if b.left >= 0 {
		if b.left -= int64(len(p)); b.left < 0 {
			b.left = 0
			return 0, errDirectory
		}
	}
	n, err := b.r.ReadAt(p, off)
	if err != nil && err != io.EOF {
		b.err = err
	}
	for i := off / blockBytes; n > 0 && i <= (off+int64(n)-1)/blockBytes; i++ {
		if !b.known[i] {
			b.known[i] = true
			*b.count += min(blockBytes, b.size-i*blockBytes)
		}
	}
	return n, err
}

// Check checks the package in r. The error is that of reading it.
func Check(ctx context.Context, v *visit.Visitor, r io.ReaderAt, size int64, o Package) error {
	v.Collector.Report.Packages++
	f := &packageFile{opts: o, visitor: v, found: v.Collector.In(o.URI), rnd: rand.New(rand.NewPCG(v.Settings.Seed, uint64(len(o.URI))))}
	b := &bounded{r: r, size: size, left: maxDirectory, known: make(map[int64]bool), count: &v.Unpacking.Read}
	z, err := zip.NewReader(b, size)
	if b.err != nil {
		return b.err
	}
	if err != nil && !errors.Is(err, zip.ErrInsecurePath) {
		f.found.Errorf("RS-ZIP-03", "", "cannot be read as a ZIP file: %v", err)
		return nil
	}
	b.left = -1
	manifest := f.directory(z)
	if manifest == nil {
		return nil
	}
	if err := f.readManifest(ctx, manifest, b); err != nil {
		return err
	}
	if f.whole {
		for _, file := range z.File {
			if p := f.files[file.Name]; p != nil && !p.named && file.Name != manifestName {
				f.found.Advisef("RS-ZIP-04", file.Name, "the manifest does not name this file")
			}
		}
	}
	return f.compareBitstreams(ctx, b)
}

// directory looks at the names and returns the manifest.
func (f *packageFile) directory(z *zip.Reader) (manifest *zip.File) {
	f.files = make(map[string]*packed, len(z.File))
	position, like := 0, ""
	for _, file := range z.File {
		if strings.HasSuffix(file.Name, "/") && file.UncompressedSize64 == 0 {
			continue // a directory holds nothing
		}
		position++
		f.name(file)
		if f.files[file.Name] != nil {
			f.found.Advisef("RS-ZIP-03", file.Name, "a second file of this name")
			continue
		}
		f.files[file.Name] = &packed{File: file}
		switch {
		case file.Name == manifestName:
			manifest = file
			if position > 1 {
				f.found.Advisef("RS-ZIP-01", manifestName, "the manifest is file %d of the package, not the first", position)
			}
		case strings.EqualFold(file.Name[strings.LastIndexByte(file.Name, '/')+1:], manifestName) && like == "":
			like = file.Name
		}
	}
	if manifest == nil {
		hint := ""
		if like != "" {
			hint = fmt.Sprintf(" (there is %s)", like)
		}
		f.found.Errorf("RS-ZIP-01", "", "no manifest.xml at the root of the package%s", hint)
	}
	return manifest
}

// name checks how a file is named and kept.
func (f *packageFile) name(file *zip.File) {
	name := file.Name
	wrong := ""
	switch {
	case strings.HasPrefix(name, "/"):
		f.found.Advisef("RS-ZIP-02", name, "a name in a package begins with no slash")
		return
	case !utf8.ValidString(name):
		wrong = "the name is not UTF-8"
	case file.NonUTF8 && !ascii(name):
		wrong = "the name is not marked as UTF-8"
	case strings.Contains(name, `\`):
		wrong = `the name has a \, where / separates`
	case len(name) > 1 && name[1] == ':':
		wrong = "the name begins with a drive"
	case !closed(name):
		wrong = "the name has an empty segment, . or .."
	case file.Method != zip.Store && file.Method != zip.Deflate:
		wrong = fmt.Sprintf("the file is compressed by method %d; 0 and 8 are understood everywhere", file.Method)
	case file.Flags&1 != 0:
		wrong = "the file is encrypted"
	case file.Mode()&fs.ModeType != 0:
		wrong = "it is no regular file"
	}
	if wrong != "" {
		f.found.Advisef("RS-ZIP-03", name, "%s", wrong)
	}
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// closed reports whether no segment of a name is empty or leads elsewhere.
func closed(name string) bool {
	for segment := range strings.SplitSeq(name, "/") {
		if segment == "" || segment == "." || segment == ".." {
			return false
		}
	}
	return true
}

// manifestURI returns the name of the manifest in findings.
func (f *packageFile) manifestURI() string { return ManifestURI(f.opts.URI) }

// ManifestURI returns the name of the manifest in the package at uri.
func ManifestURI(uri string) string { return uri + "!/" + manifestName }

// readManifest reads the manifest and compares it with the directory.
func (f *packageFile) readManifest(ctx context.Context, file *zip.File, b *bounded) error {
	name, kind := f.manifestURI(), finding.Kinds(0)
	body, err := file.Open()
	if err == nil {
		defer body.Close() // read whole, or of no use
		kind, f.whole, err = f.opts.Read(&visit.Source{Reader: body, URI: name, Final: f.opts.URI}, f.entry)
	}
	if b.err != nil {
		return b.err
	}
	if _, ours := errors.AsType[*tally.KeepError](err); ours || ctx.Err() != nil {
		return err
	}
	if err != nil {
		f.found.Errorf("RS-ZIP-03", manifestName, "cannot be unpacked: %v", err)
		return nil
	}
	if want := f.opts.Want; f.whole && (kind&finding.Manifests == 0 || want != 0 && kind != want) {
		f.visitor.Collector.In(name).Errorf("RS-GEN-04", "", "a %s, where the manifest of the package belongs", kind)
	}
	return nil
}

// entry compares an entry of the manifest with the file it names.
func (f *packageFile) entry(at func() string, e *resourcesync.Entry) {
	p := f.visitor.Collector.In(f.manifestURI())
	for i := range e.Links {
		if l := &e.Links[i]; l.Path != "" {
			f.pathOf(p, at, l.Path, l.Length, l.HasLength)
		}
	}
	if e.Path == "" || e.Change == resourcesync.Deleted {
		return
	}
	file := f.pathOf(p, at, e.Path, e.Length, e.HasLength)
	if file == nil || f.opts.Bitstreams == 0 || len(e.Hashes) == 0 && !e.HasLength {
		return
	}
	f.seen++
	switch {
	case f.opts.Bitstreams == visit.SampleAll && len(f.drawn) < 2*resourcesync.MaxEntries, len(f.drawn) < f.opts.Bitstreams:
		f.drawn = append(f.drawn, drawn{*e, at(), file})
	case f.opts.Bitstreams > 0:
		if i := f.rnd.IntN(f.seen); i < len(f.drawn) {
			f.drawn[i] = drawn{*e, at(), file}
		}
	}
}

// pathOf returns the file at a path, having checked what can be seen of it.
func (f *packageFile) pathOf(p finding.Place, at func() string, path string, length int64, hasLength bool) *zip.File {
	name := strings.TrimLeft(path, "/")
	file := f.files[name]
	if file == nil {
		if file = f.nearly(name); file == nil {
			p.Errorf("RS-ZIP-04", at(), "path %s: no such file in the package", path)
			return nil
		}
		p.Errorf("RS-ZIP-02", at(), "path %s is not a slash and the name of the file, %s", path, file.Name)
	}
	if name == manifestName {
		p.Advisef("RS-ZIP-04", at(), "path %s is that of the manifest itself", path)
		return nil
	}
	file.named = true
	if hasLength && uint64(length) != file.UncompressedSize64 {
		p.Errorf("RS-LEN-01", at(), "length %d, but %s has %d bytes", length, path, file.UncompressedSize64)
		return nil
	}
	return file.File
}

// nearly finds the file a careless writer may have meant (RS-ZIP-05).
func (f *packageFile) nearly(name string) *packed {
	if decoded, err := url.PathUnescape(name); err == nil && f.files[decoded] != nil {
		return f.files[decoded]
	}
	for _, other := range []string{"/" + name, strings.ReplaceAll(name, `\`, "/"), strings.ReplaceAll(name, "/", `\`)} {
		if f.files[other] != nil {
			return f.files[other]
		}
	}
	return nil
}

// An unpacked is the result of unpacking a file.
type unpacked struct {
	sums resourcesync.Hashes // by all algorithms of the entries that name it
	err  error               // errTooLarge: it was not unpacked, or not to its end
}

var errTooLarge = errors.New("too large to be unpacked")

// compareBitstreams compares the bytes of the files drawn with the manifest. A
// file that several entries name is unpacked once.
func (f *packageFile) compareBitstreams(ctx context.Context, b *bounded) error {
	p := f.visitor.Collector.In(f.manifestURI())
	algorithms, done := f.algorithms(), make(map[*zip.File]unpacked)
	large, example := 0, ""
	for i := range f.drawn {
		d := &f.drawn[i]
		u, known := done[d.file]
		if !known {
			u.sums, u.err = f.unpack(ctx, d.file, algorithms[d.file])
			done[d.file] = u
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case b.err != nil:
			return b.err
		case errors.Is(u.err, errTooLarge):
			if large++; example == "" {
				example = d.entry.Path
			}
			continue
		}
		f.visitor.Collector.Report.Resources++
		if u.err != nil {
			p.Errorf("RS-ZIP-03", d.location, "%s cannot be unpacked: %v", d.entry.Path, u.err)
			continue
		}
		if _, differs := d.entry.Hashes.Compare(u.sums); differs != 0 {
			p.Errorf("RS-HASH-05", d.location, "the %s digest of %s is another one", differs, d.entry.Path)
		}
	}
	if large > 0 {
		f.found.Advisef("RS-ZIP-06", "", "%d of %d bitstreams were not compared with the manifest, for example %s: one run unpacks at most %d times the bytes that it reads of packages, plus %d MiB, and no file above %d bytes",
			large, len(f.drawn), example, visit.MaxGrowth, visit.FreeBytes>>20, f.visitor.Settings.ResourceBytes)
	}
	return nil
}

// algorithms returns the algorithms of the hashes that the files drawn are to be compared with.
func (f *packageFile) algorithms() map[*zip.File][]resourcesync.Algorithm {
	all := make(map[*zip.File][]resourcesync.Algorithm)
	for i := range f.drawn {
		for _, h := range f.drawn[i].entry.Hashes {
			if file := f.drawn[i].file; !slices.Contains(all[file], h.Algorithm) {
				all[file] = append(all[file], h.Algorithm)
			}
		}
	}
	return all
}

// unpack returns the hashes of a file, as far as the limits of the run allow.
func (f *packageFile) unpack(ctx context.Context, file *zip.File, algorithms []resourcesync.Algorithm) (resourcesync.Hashes, error) {
	count := f.visitor.Unpacking
	most := min(f.visitor.Settings.ResourceBytes, max(count.Left(int64(min(file.CompressedSize64, math.MaxInt64))), 0))
	if ctx.Err() != nil || file.UncompressedSize64 > uint64(most) {
		return nil, errTooLarge
	}
	body, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer body.Close() // read as far as it is of use
	h := resourcesync.NewHasher(algorithms...)
	_, err = io.Copy(&growing{h, count}, io.LimitReader(visit.Until(ctx, body), int64(file.UncompressedSize64)+1))
	return h.Sum(), err
}

// A growing hashes what is unpacked, and fails at the limit of the run: the
// compressed length in the directory, by which a file was admitted, may be wrong.
type growing struct {
	h     *resourcesync.Hasher
	count *visit.Unpacking
}

func (g *growing) Write(p []byte) (int, error) {
	if g.count.Unpacked += int64(len(p)); g.count.Left(0) < 0 {
		return 0, errTooLarge
	}
	return g.h.Write(p)
}

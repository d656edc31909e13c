package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"
	"maps"
	"net/url"
	"slices"

	"lockstep/destination/internal/content"
	"lockstep/internal/fetch"
	"lockstep/internal/unpack"
	"lockstep/resourcesync"
)

const (
	relContents = "contents"

	// maxManifests limits the manifests that an index in a package leads to.
	maxManifests = 1000
	// maxManifestWarnings limits the warnings about one manifest.
	maxManifestWarnings = 100
)

// A Copy identifies the document that a manifest was read from, if that was the
// copy outside the package. The zero value means none.
type Copy struct {
	Size int64 // bytes of the document
	CRC  uint32
}

// A Manifest is the manifest of a package being read. The caller must close it.
type Manifest struct {
	URI    string              // address of the copy, or of the package
	Header resourcesync.Header // header as read before the first entry

	section  func(from, to int64) io.ReadCloser // of file
	reader   *resourcesync.Reader
	body     io.ReadCloser
	sum      hash.Hash32
	size     int64
	copied   bool // it is the copy outside the package
	gzipped  bool
	file     File
	dir      *unpack.Directory
	warnings []string
	rules    map[string]int // number of violations by rule; one warning covers all violations of a rule
	ended    bool
	skipped  error // the first error about entries without a readable loc
}

// newManifest returns the manifest of a package, not opened yet.
func newManifest(ctx context.Context, uri string, file File) *Manifest {
	m := &Manifest{URI: uri, file: file}
	m.section = func(from, to int64) io.ReadCloser { return m.file.Section(ctx, from, to) }
	return m
}

// OpenManifest opens the manifest of the package that an entry of a dump describes:
// the copy outside the package if there is one, otherwise the one in the package
// (RS-RD-04, RS-CD-04).
//
// With believe, the manifest determines which resources exist and what their hashes
// are, and not only where content is stored. Then a manifest in the package is read
// only after the whole package was verified, if the dump states its hash.
//
// refuse returns why a document that the host of uri sent in place of the copy must
// not be trusted, or "".
func (k *Opener) OpenManifest(ctx context.Context, entry *resourcesync.Entry, shelf *Shelf, believe bool, refuse func(uri string) string) (*Manifest, error) {
	var cerr error
	for _, l := range entry.Links {
		if l.Rel != relContents {
			continue
		}
		m, err := k.openManifestCopy(ctx, &l, refuse)
		if err == nil && !m.Header.Index {
			return m, nil
		}
		if err == nil {
			err = m.Close() // it leads to the manifest in the package
		}
		if cerr == nil {
			cerr = err
		}
		if ctx.Err() != nil {
			return nil, cerr
		}
	}
	m, err := k.openManifestInside(ctx, entry, shelf, believe)
	if err != nil && cerr != nil {
		return nil, fmt.Errorf("%w; nor in the package: %w", cerr, err)
	}
	if err == nil && cerr != nil && content.IsError(cerr) {
		m.warn(fmt.Sprintf("the copy of the manifest is not used: %v", cerr))
	}
	return m, err
}

// openManifestCopy opens the copy that a link leads to. The copy must come from a
// host that the Source may name, and must match the link.
func (k *Opener) openManifestCopy(ctx context.Context, l *resourcesync.Link, refuse func(uri string) string) (*Manifest, error) {
	resp, err := k.client.GetWhole(ctx, fetch.Request{URI: l.Href, AcceptGzip: true, Document: true, MaxBytes: resourcesync.DefaultReadBytes})
	if err != nil {
		return nil, err
	}
	m := &Manifest{URI: l.Href, body: resp.Body, copied: true}
	if resp.URI != l.Href {
		if reason := refuse(resp.URI); reason != "" {
			_ = m.Close() // another host sent it
			return nil, fmt.Errorf("refuse manifest %s: %s", fetch.Printable(resp.URI), reason)
		}
	}
	if content.HasKnown(l.Hashes) {
		if err := m.verifyCopy(ctx, l, k); err != nil {
			_ = m.Close() // err is reported instead
			return nil, err
		}
	}
	return m.begin(resp.URI)
}

// verifyCopy stores the copy and compares it with the hash that its link states,
// before any of its content is used.
func (m *Manifest) verifyCopy(ctx context.Context, l *resourcesync.Link, k *Opener) error {
	w := content.Description{URI: l.Href, Length: -1, Hashes: l.Hashes}
	aside := &spool{scratch: scratchOf(ctx, k.scratch)}
	hasher := content.NewHasher(l.Hashes, k.all)
	n, err := content.Copy(aside, hasher, m.body)
	if err == nil {
		_, err = content.Verify(w, n, hasher.Sum())
	}
	if err != nil {
		_ = aside.Close() // its content is discarded
		return err
	}
	_ = m.body.Close() // read to its end
	m.body = bodyOf{aside.Section(ctx, 0, n), aside}
	return nil
}

// openManifestInside opens the manifest in the package.
func (k *Opener) openManifestInside(ctx context.Context, entry *resourcesync.Entry, shelf *Shelf, believe bool) (*Manifest, error) {
	src := &Package{URI: entry.Loc, Length: -1, Hashes: entry.Hashes, Shelf: shelf}
	if entry.HasLength {
		src.Length = entry.Length
	}
	for try := 0; ; try++ {
		m, err := k.tryManifestInside(ctx, src, try > 0 || believe && content.HasKnown(src.Hashes))
		if err == nil || !MayReopen(err) || try == MaxReopen {
			return m, err
		}
	}
}

func (k *Opener) tryManifestInside(ctx context.Context, src *Package, whole bool) (*Manifest, error) {
	file, warning, err := k.Open(ctx, src, whole, nil)
	if err != nil {
		return nil, err
	}
	m := newManifest(ctx, src.URI, file)
	if warning != "" {
		m.warn(warning)
	}
	if s, ok := file.(*spool); ok {
		m.file = shelved{s, src}
	}
	err = k.WithDirectory(ctx, file, func(dir *unpack.Directory, large bool) error {
		m.dir = dir
		if err := m.enter(); err != nil {
			return fmt.Errorf("manifest: %w", err)
		}
		if m.Header.Index && large {
			return errors.New("manifest: it is in parts, and the package has too many members")
		}
		if !m.Header.Index {
			m.dir = nil // releases the memory while the manifest is read
		}
		return nil
	})
	if err != nil {
		_ = m.Close() // the error of reading takes precedence
		return nil, fmt.Errorf("package %s: %w", fetch.Printable(src.URI), err)
	}
	return m, nil
}

// shelved is a package that is put on the shelf when it is closed.
type shelved struct {
	*spool
	src *Package
}

func (s shelved) Close() error {
	s.src.Shelf.put(s.src.URI, s.spool)
	return nil
}

// enter opens the manifest in m.dir.
func (m *Manifest) enter() error {
	member, folder := m.dir.Manifest()
	if member == nil {
		return errors.New("there is none")
	}
	if folder != "" {
		m.warn(fmt.Sprintf("its manifest is in the folder %s", fetch.Printable(Clip(folder)))) // RS-ZIP-07
	}
	return m.openMember(member)
}

func (m *Manifest) openMember(member *unpack.Member) error {
	if member.Size > resourcesync.DefaultReadBytes {
		return fmt.Errorf("it has %d bytes, %d are read", member.Size, int64(resourcesync.DefaultReadBytes))
	}
	own := *member // a copy, to release the directory
	packed := m.section(own.Offset, own.Offset+own.Extent())
	content, err := own.Open(packed)
	if err != nil {
		_ = packed.Close() // opened for reading only
		return Cause(err)
	}
	m.body = bodyOf{content, packed}
	_, err = m.begin(m.URI)
	return err
}

// Cause returns the error of reading a package if that is why a member cannot be
// read, otherwise err.
func Cause(err error) error {
	var member *unpack.MemberError
	if errors.As(err, &member) && MayReopen(member.Err) {
		return member.Err
	}
	return err
}

// bodyOf is the content of a member, together with the packed bytes it is read
// from.
type bodyOf struct {
	io.ReadCloser
	packed io.Closer
}

func (b bodyOf) Close() error {
	_ = b.ReadCloser.Close() // opened for reading only
	return b.packed.Close()
}

// begin reads the document up to its first entry.
func (m *Manifest) begin(base string) (*Manifest, error) {
	m.sum = crc32.NewIEEE()
	if m.rules == nil {
		m.rules = map[string]int{}
	}
	m.reader = resourcesync.NewReader(manifestBytes{m}, resourcesync.ReaderOptions{
		Base:     base,
		MaxBytes: resourcesync.DefaultReadBytes,
		OnWarning: func(w resourcesync.Warning) {
			m.liberty(w)
		},
	})
	var err error
	if m.Header, err = m.reader.Header(); err != nil {
		err = m.explain(err)
		_ = m.Close() // the error of reading takes precedence
		return nil, err
	}
	return m, nil
}

func (m *Manifest) warn(text string) {
	if len(m.warnings) < maxManifestWarnings {
		m.warnings = append(m.warnings, text)
	}
}

// liberty warns about the first violation of a rule and counts the others, because
// a program usually makes the same mistake in every entry.
func (m *Manifest) liberty(w resourcesync.Warning) {
	if m.rules[w.Rule]++; m.rules[w.Rule] == 1 {
		m.warn(w.String())
	}
}

func (m *Manifest) explain(err error) error {
	where := ""
	if !m.copied {
		where = "manifest.xml: "
	}
	return fmt.Errorf("read %s: %s%w", fetch.Printable(m.URI), where, Cause(err))
}

// manifestBytes reads the bytes of a manifest, and counts and sums them.
type manifestBytes struct{ m *Manifest }

func (b manifestBytes) Read(p []byte) (int, error) {
	m := b.m
	n, err := m.body.Read(p)
	if m.size == 0 && bytes.HasPrefix(p[:n], []byte{0x1f, 0x8b}) {
		m.gzipped = true
	}
	m.size += int64(n)
	_, _ = m.sum.Write(p[:n]) // never fails
	return n, err
}

// Entries yields the entries of the manifest in order, and if it is an index
// (RS-RDM-06) those of the manifests it leads to. It stops after the first error,
// which it yields with a zero Entry.
func (m *Manifest) Entries() iter.Seq2[resourcesync.Entry, error] {
	return func(yield func(resourcesync.Entry, error) bool) {
		if !m.Header.Index {
			m.entries(yield)
			return
		}
		var parts []*unpack.Member
		for e, err := range m.reader.Entries() {
			if err == nil && len(parts) == maxManifests {
				err = fmt.Errorf("more than %d manifests", maxManifests)
			}
			var part *unpack.Member
			if err == nil {
				part, err = m.partOf(&e)
			}
			if err != nil {
				yield(resourcesync.Entry{}, m.explain(err))
				return
			}
			parts = append(parts, part)
		}
		_ = m.body.Close() // read to its end
		if err := m.reader.Unlocated(); err != nil {
			m.skipped = m.explain(err)
		}
		for _, part := range parts {
			if err := m.openMember(part); err != nil {
				yield(resourcesync.Entry{}, err)
				return
			}
			if m.Header.Index {
				yield(resourcesync.Entry{}, m.explain(errors.New("an index leads to an index")))
				return
			}
			if !m.entries(yield) {
				return
			}
		}
	}
}

// partOf returns a manifest that an index names: by its path, or by a loc that is a
// path.
func (m *Manifest) partOf(e *resourcesync.Entry) (*unpack.Member, error) {
	path := e.Path
	if path == "" {
		if u, err := url.Parse(e.Loc); err == nil {
			path = u.Path
		}
	}
	if m.dir != nil {
		if member, ok := m.dir.Find(path); ok {
			return member, nil
		}
	}
	return nil, fmt.Errorf("the manifest %s is not in the package", fetch.Printable(Clip(path)))
}

func (m *Manifest) entries(yield func(resourcesync.Entry, error) bool) bool {
	for {
		var e resourcesync.Entry
		switch err := m.reader.Read(&e); {
		case err == io.EOF:
			if err := m.reader.Unlocated(); err != nil && m.skipped == nil {
				m.skipped = m.explain(err)
			}
			if h, err := m.reader.Header(); err == nil {
				m.Header = h // RS-XML-03: some of it may come after the entries
			}
			_, err := io.Copy(io.Discard, manifestBytes{m}) // white space after the root element
			m.ended = err == nil
			return true
		case err != nil:
			yield(resourcesync.Entry{}, m.explain(err))
			return false
		}
		if !yield(e, nil) {
			return false
		}
	}
}

// Unlocated returns nil, or an error about entries that were skipped because
// their loc is missing or unreadable, once all entries were read.
func (m *Manifest) Unlocated() error {
	if m.skipped == nil {
		return nil
	}
	return fmt.Errorf("%w: the reading is incomplete", m.skipped)
}

// Warnings returns the liberties taken with the manifest so far, one of each kind.
func (m *Manifest) Warnings() []string {
	all := slices.Clone(m.warnings)
	for _, rule := range slices.Sorted(maps.Keys(m.rules)) {
		if n := m.rules[rule]; n > 1 {
			all = append(all, fmt.Sprintf("%d more warnings of this kind (%s)", n-1, rule))
		}
	}
	return all
}

// Copy identifies the document that the manifest was read from, if it is the copy
// outside the package and all its entries were read.
func (m *Manifest) Copy() Copy {
	if !m.ended || !m.copied || m.gzipped {
		return Copy{}
	}
	return Copy{m.size, m.sum.Sum32()}
}

func (m *Manifest) Close() error {
	if m.body != nil {
		_ = m.body.Close() // opened for reading only
		m.body = nil
	}
	if m.file == nil {
		return nil
	}
	f := m.file
	m.file = nil
	return f.Close()
}

// EnterManifest returns the manifest in a package whose directory was read. The
// package stays open when the manifest is closed.
func EnterManifest(ctx context.Context, uri string, file File, dir *unpack.Directory) (*Manifest, error) {
	m := newManifest(ctx, uri, openFile{file})
	m.dir = dir
	if err := m.enter(); err != nil {
		_ = m.Close() // the package stays open
		return nil, err
	}
	return m, nil
}

// openFile is a package that stays open.
type openFile struct{ File }

func (openFile) Close() error { return nil }

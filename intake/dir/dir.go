package dir

import (
	"context"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/pathname"
	"lockstep/resourcesync"
)

// Options configures a [Dir]. Only BaseURI is required.
type Options struct {
	// BaseURI is the URI at which the root is published; a slash is added if it
	// does not end in one.
	BaseURI string

	// Algorithms are the hashes to record; default MD5 and SHA-256, which
	// Destinations of any age support.
	Algorithms []resourcesync.Algorithm

	// Include and Exclude are globs (with ** for any number of directories) on
	// relative paths. A glob without a slash matches the last element; one with a
	// slash at the end matches directories only. An excluded directory is not
	// entered. If there is any Include, only files that match one, or are in a
	// directory that does, are listed. Exclude takes precedence.
	Include, Exclude []string

	// Sidecar is the suffix of the names of files that state the links of the file
	// beside them, such as ".links.json": paper.pdf.links.json then contains
	// {"links":[{"rel":…,"href":…}]} for paper.pdf, and is not a resource itself.
	// Default: there are no sidecars.
	Sidecar string

	// SkipHidden leaves out files and directories whose names begin with a dot, at any
	// depth, except .well-known at the root.
	SkipHidden bool

	// AllowEmpty lets a scan delete everything if the directory is empty.
	AllowEmpty bool

	// TempDir is for an unnamed temporary file, which a scan needs if it finds
	// very many deletions; default: that of the system.
	TempDir string

	// ScanInterval is how often Watch scans everything for changes that no event
	// reported; default one hour; negative: never.
	ScanInterval time.Duration

	// OnEvent receives events, never concurrently; may be nil. It must not call
	// the Dir.
	OnEvent func(intake.Event)
}

// DefaultScanInterval is short enough for changes that events do not report (lost
// events, changes made on another machine that shares the disk) and costs nothing.
const DefaultScanInterval = time.Hour

// A Dir keeps a set of a catalog in step with a directory. Only one Dir may
// fill a set. Its methods are safe for concurrent use; scans run one at a time.
type Dir struct {
	root   string
	base   string
	cat    catalog.Catalog
	set    string
	o      Options
	filter *pathname.Filter
	prefix string // of Tokens

	scanning sync.Mutex // held by a scan

	events intake.Reporter

	mu      sync.Mutex       // guards the following fields
	tree    *sharedTree      // the root as last opened
	aliases map[string]alias // files with additional names (links, hard links), by path
	newHard bool             // a hard link was found whose other names are not known
	again   []string         // files that the last scan could not settle
	enter   func(rel string) // set by Watch: called before a directory is read
}

// New returns a Dir that fills the set of cat from the directory root.
func New(root string, cat catalog.Catalog, set string, o Options) (*Dir, error) {
	abs, err := filepath.Abs(root)
	if err != nil {
		return nil, fmt.Errorf("directory %s: %w", root, err)
	}
	d := &Dir{root: abs, cat: cat, set: set}
	if d.base, err = pathname.ParseBase(o.BaseURI); err != nil {
		return nil, err
	}
	if d.filter, err = pathname.NewFilter(o.Include, o.Exclude); err != nil {
		return nil, err
	}
	if d.filter.Sidecar, err = parseSuffix(o.Sidecar); err != nil {
		return nil, err
	}
	d.filter.SkipHidden = o.SkipHidden
	if o.ScanInterval == 0 {
		o.ScanInterval = DefaultScanInterval
	}
	o.Algorithms = intake.Algorithms(o.Algorithms)
	d.o = o
	d.events.OnEvent = o.OnEvent
	d.prefix = tokenPrefix(o.Algorithms)
	return d, nil
}

// Root returns the absolute path of the directory.
func (d *Dir) Root() string { return d.root }

// Scan brings the catalog in step with the directory. The Report is correct, as
// far as the scan got, even if there is an error; then nothing has been deleted,
// though new files may have been added.
func (d *Dir) Scan(ctx context.Context) (intake.Report, error) {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	return d.scan(ctx, nil)
}

// ScanPaths does the same for the files and directories at the relative paths and
// everything below them, and ignores everything else: its cost does not depend on
// the size of the collection. If the root is no longer the directory that it was
// at the last scan, everything is scanned.
func (d *Dir) ScanPaths(ctx context.Context, rels ...string) (intake.Report, error) {
	d.scanning.Lock()
	defer d.scanning.Unlock()
	var paths []string
	for _, rel := range rels {
		rel = path.Clean(filepath.ToSlash(rel))
		if rel == "." {
			return d.scan(ctx, nil)
		}
		if !pathname.ValidRel(rel) {
			return intake.Report{}, fmt.Errorf("scan %q: is not below the directory", rel)
		}
		paths = append(paths, rel)
		if of, ok := d.filter.SidecarOf(rel); ok {
			paths = append(paths, of)
		}
	}
	return d.scan(ctx, pathname.Topmost(paths))
}

// scan scans everything, or the given paths.
func (d *Dir) scan(ctx context.Context, paths []string) (intake.Report, error) {
	start := time.Now()
	t, same, err := d.reopen()
	if err != nil {
		return intake.Report{Elapsed: time.Since(start)}, fmt.Errorf("scan %s: %w", d.root, err)
	}
	defer t.release()
	if paths != nil && !same {
		paths = nil
	}
	s := newScan(d, t)
	defer s.gone.Close()
	if paths == nil {
		s.full, s.earlier = true, d.takeAliases()
	}
	err = s.run(ctx, paths)
	r := s.Report()
	if err != nil {
		return r, fmt.Errorf("scan %s: %w", d.root, intake.Cause(ctx, err))
	}
	return r, nil
}

// URI returns the URI of the file at the slash-separated relative path rel.
func (d *Dir) URI(rel string) string { return d.base + pathname.EscapePath(rel) }

// RelPath is the inverse of [Dir.URI]. It reports false for a URI that no file of
// the directory can have.
func (d *Dir) RelPath(uri string) (rel string, ok bool) {
	path, ok := strings.CutPrefix(uri, d.base)
	if !ok {
		return "", false
	}
	return pathname.UnescapePath(path)
}

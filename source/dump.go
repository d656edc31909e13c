package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"

	"lockstep/catalog"
	"lockstep/internal/sleep"
	"lockstep/resourcesync"
	"lockstep/source/internal/demand"
	"lockstep/source/internal/dump"
	"lockstep/source/internal/names"
	"lockstep/source/internal/serve"
)

const (
	defaultDumpEvery   = 24 * time.Hour // of a Resource Dump
	defaultChangeEvery = time.Hour      // of packages of a Change Dump

	// defaultPackageBytes is the content of one package: large enough that a
	// reader takes few, small enough to fetch one again.
	defaultPackageBytes = 1 << 30
)

// A DumpReport says what a PublishDumps came to.
type DumpReport struct {
	Sets    []SetDumpReport
	Failed  map[string]error // by the names of sets; nil if there are none
	Written bool             // false: all was as it should be
}

// A SetDumpReport is the part of a DumpReport about one set.
type SetDumpReport struct {
	Set      string
	Dump     bool  // a new Resource Dump was published
	Packages int   // of the Resource Dump
	Reused   int   // of those, taken over as they were from the one before
	Deviant  int   // resources in new packages that were not as catalogued, or gone; each is logged
	Added    int   // packages added to the Change Dump
	Changes  int64 // in those
	Bytes    int64 // of packages written
	Removed  int   // blobs of older generations removed
	Elapsed  time.Duration
}

// PublishDumps brings the dumps of all sets that have some in step with the
// catalog: a new Resource Dump, packages added to the Change Dump, when they
// are due. It is apart from Publish, which it never holds up, because packages
// take their time; call it after Publish: sets whose lists were never published
// are left out, and so are those named in except. One runs at a time, others
// wait. A set that fails keeps the dumps it has, and does not keep the others
// from being published; the error is that of all sets in Failed.
func (s *Source) PublishDumps(ctx context.Context, except ...string) (DumpReport, error) {
	s.dumping.Lock()
	defer s.dumping.Unlock()
	var report DumpReport
	var errs []error
	for _, set := range s.opts.Sets {
		if err := ctx.Err(); err != nil {
			return report, err
		}
		if slices.Contains(except, set.Name) {
			continue
		}
		published, err := set.isPublished(ctx, s.docs)
		if err == nil && !published {
			report.Sets = append(report.Sets, SetDumpReport{Set: set.Name})
			continue
		}
		r, written := dump.Report{Set: set.Name}, false
		if err == nil {
			r, written, err = s.dumps.Publish(ctx, s.dumped(&set))
		}
		report.Sets = append(report.Sets, SetDumpReport(r))
		report.Written = report.Written || written
		if err != nil {
			err = fmt.Errorf("publish dumps of set %s: %w", set.Name, err)
			if report.Failed == nil {
				report.Failed = make(map[string]error)
			}
			report.Failed[set.Name] = err
			errs = append(errs, err)
		}
	}
	return report, errors.Join(errs...)
}

// dumpDefaults completes the options of dumps.
func (o *Options) dumpDefaults() error {
	for i := range o.Sets {
		set := &o.Sets[i]
		if (set.ResourceDump != nil || set.ChangeDump != nil) && set.Bitstream == nil {
			return fmt.Errorf("set %q: %w", set.Name, errNoBitstream)
		}
		if d := set.ResourceDump; d != nil {
			d = new(*d)
			d.Every, d.PackageBytes, d.PackageEntries = dumpLimits(d.Every, defaultDumpEvery, d.PackageBytes, d.PackageEntries)
			set.ResourceDump = d
		}
		if d := set.ChangeDump; d != nil {
			d = new(*d)
			d.Every, d.PackageBytes, d.PackageEntries = dumpLimits(d.Every, defaultChangeEvery, d.PackageBytes, d.PackageEntries)
			set.ChangeDump = d
		}
	}
	if d := o.OnDemand; d != nil {
		o.OnDemand = new(OnDemand(demand.Limits(*d).WithDefaults()))
	}
	return nil
}

func dumpLimits(every, usual time.Duration, bytes int64, entries int) (time.Duration, int64, int) {
	if every <= 0 {
		every = usual
	}
	if bytes <= 0 {
		bytes = defaultPackageBytes
	}
	if entries <= 0 || entries > resourcesync.MaxEntries {
		entries = resourcesync.MaxEntries // RS-RDM-06
	}
	return every, bytes, entries
}

// newDumps returns the dumps of the sets.
func (s *Source) newDumps() *dump.Dumps {
	return dump.New(dump.Options{
		Docs: s.docs, Catalog: s.catalog, Archives: s.archives, Workers: s.opts.Workers, Temp: s.opts.Temp, Grace: s.opts.Grace,
		ManifestType:  serve.TypeOf(names.Manifest(names.Dumps(DefaultSet).ChangePackage(time.Time{}))),
		NameDocuments: s.description.Name,
	})
}

// dumped returns what the dumps of the set depend on.
func (s *Source) dumped(set *Set) dump.Set {
	return dump.Set{
		Name: set.Name, Rules: s.rules[set.Name], Resource: (*dump.Resource)(set.ResourceDump), Change: (*dump.Change)(set.ChangeDump),
		Keep: s.opts.keep(set), Rotate: set.ChangeList.Rotate, Archive: set.Archive.retain, Bitstream: newest(set, s.catalog, s.docs.CapabilityList(set.Name)), Past: set.Past,
	}
}

// newest returns a function that opens the bitstreams of a set, whose Capability List is list, for
// packages. Of a resource that is being replaced it opens the newest bitstream, which is not the one
// that the record describes: one such resource must not keep others from being packed.
func newest(set *Set, in catalog.Catalog, list string) func(context.Context, *catalog.Record) (io.ReadCloser, error) {
	if set.Bitstream == nil {
		return nil
	}
	return func(ctx context.Context, r *catalog.Record) (io.ReadCloser, error) {
		for try := 1; ; try++ {
			content, err := set.Bitstream(ctx, r)
			if !errors.Is(err, ErrReplaced) || try == serve.ReplacedTries {
				return content, err
			}
			if try > 1 { // the first time its record may be there already
				if err := sleep.For(ctx, serve.ReplacedWait); err != nil {
					return nil, err
				}
			}
			newer, ok, ferr := catalog.Find(ctx, in, list, r.URI)
			switch {
			case ferr != nil:
				return nil, ferr
			case !ok:
				return nil, fmt.Errorf("open %s: %w", r.URI, fs.ErrNotExist)
			}
			r = &newer
		}
	}
}

var errNoBitstream = errors.New("a dump needs Bitstream, which opens the resources")

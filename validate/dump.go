package validate

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"

	"lockstep/resourcesync"
	"lockstep/validate/finding"
	"lockstep/validate/internal/dump"
	"lockstep/validate/internal/visit"
	"lockstep/validate/opener"
)

// dumps checks the packages of a dump. It reports whether all manifests could
// be read.
func (s *set) dumps(ctx context.Context, docs []*document) (whole bool, err error) {
	packages := 0
	for _, d := range docs {
		packages += len(d.entries)
	}
	share := s.visitor.Settings.Sample // of bitstreams, in each package
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
			ok, err := s.dumped(ctx, d, i, share)
			if err != nil {
				return false, err
			}
			whole = whole && ok
		}
	}
	return whole, nil
}

// dumped checks the package that entry i of a dump names. It reports whether
// its manifest could be read.
func (s *set) dumped(ctx context.Context, list *document, i, share int) (ok bool, err error) {
	e, at, p := &list.entries[i], list.places[i], s.visitor.Collector.In(list.uri)
	missing, copied, want := "RS-RD-02", "RS-RD-04", finding.KindResourceDumpManifest
	if list.kind == finding.KindChangeDump {
		missing, copied, want = "RS-CD-02", "RS-CD-04", finding.KindChangeDumpManifest
	}
	r, err := dump.OpenRemote(ctx, s.visitor, e.Loc)
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.visitor.Collector.Report.Unseen++
		return false, nil
	case visit.IsMissing(err):
		p.Errorf(missing, at, "%s: %v", e.Loc, err)
		return false, nil
	case err != nil:
		return false, err
	}
	defer r.Close()
	if err := r.Compare(p, at, e); err != nil {
		return false, err
	}
	var manifest *document
	if err := dump.Check(ctx, s.visitor, r, r.Size, dump.Package{URI: e.Loc, Want: want, Bitstreams: share, Read: s.manifestReader(ctx, &manifest, nil)}); err != nil {
		if !visit.IsMissing(err) {
			return false, err
		}
		p.Errorf(missing, at, "%s: %v", e.Loc, err)
		return false, nil
	}
	if manifest == nil || !manifest.whole || manifest.kind != want {
		return false, nil
	}
	if s.upElsewhere(manifest) {
		s.visitor.Collector.In(manifest.uri).Errorf(lacksUp[want], "", "the link up leads to %s, not to the Capability List", manifest.header.Link(resourcesync.RelUp))
	}
	packageTimes(p, at, list, e, &manifest.header)
	if contents := e.Link(resourcesync.RelContents); contents != "" {
		return true, s.contents(ctx, p, copied, at, contents, manifest)
	}
	return true, nil
}

// packageTimes compares the times that a dump states of a package with those of its
// manifest: a Destination chooses packages by them. A package may be older than the dump,
// if nothing in it has changed since.
func packageTimes(p finding.Place, at string, list *document, e *resourcesync.Entry, manifest *resourcesync.Header) {
	rule := "RS-RD-03"
	if list.kind == finding.KindChangeDump {
		rule = "RS-CD-02"
	}
	for _, t := range []struct {
		name             string
		stated, manifest resourcesync.Datetime
	}{
		{"at", e.At, manifest.At}, {"completed", e.Completed, manifest.Completed}, {"from", e.From, manifest.From}, {"until", e.Until, manifest.Until},
	} {
		if isBefore(t.stated, t.manifest) || isBefore(t.manifest, t.stated) {
			p.Warnf(rule, at, "%s %s, but the manifest of %s says %s", t.name, t.stated, e.Loc, t.manifest)
			return
		}
	}
}

// isBefore reports whether both times are stated, and a is before b and not in the same
// unit (RS-DT-04).
func isBefore(a, b resourcesync.Datetime) bool {
	return !a.IsZero() && !b.IsZero() && a.Compare(b) < 0 && !a.End().After(b.Time())
}

// manifestReader returns a function that reads the manifest of a package into
// manifest, as far as possible.
func (w *walk) manifestReader(ctx context.Context, manifest **document, each eachFunc) dump.ReadManifest {
	return func(src *visit.Source, entry dump.EntryFunc) (finding.Kinds, bool, error) {
		doc, err := w.read(ctx, src, func(doc *document, at func() string, e *resourcesync.Entry) {
			entry(at, e)
			if each != nil {
				each(doc, at, e)
			}
		})
		if err != nil {
			return 0, false, err
		}
		*manifest = doc
		return doc.kind, doc.whole, nil
	}
}

// contents compares the copy of a manifest with the manifest.
func (s *set) contents(ctx context.Context, p finding.Place, rule, at, uri string, manifest *document) error {
	a, err := s.visitor.Ask(ctx, opener.Request{URI: uri, Document: true})
	switch {
	case errors.Is(err, opener.ErrUnseen):
		s.visitor.Collector.Report.Unseen++
		return nil
	case visit.IsMissing(err):
		p.Errorf(rule, at, "contents %s: %v", uri, err)
		return nil
	case err != nil:
		return err
	}
	defer a.Body.Close() // read completely, or useless
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(a.Body, s.visitor.Settings.DocumentBytes))
	if err != nil {
		if err = s.visitor.Broken(ctx, uri, err); visit.IsMissing(err) {
			p.Errorf(rule, at, "contents %s: %v", uri, err)
			return nil
		}
		return err
	}
	s.visitor.Count(uri)
	if [sha256.Size]byte(h.Sum(nil)) != manifest.sum {
		p.Errorf(rule, at, "contents %s (%d bytes) is not equal to the manifest in the package", uri, n)
	}
	return nil
}

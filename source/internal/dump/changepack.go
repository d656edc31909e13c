package dump

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
	"lockstep/source/internal/pack"
)

// A lostChange is one whose bitstream is not available any more.
type lostChange struct {
	uri string
	seq catalog.Seq
	at  time.Time
}

func (l *lostChange) Error() string {
	return fmt.Sprintf("%s: the bitstream of its change at %s is lost", l.uri, l.at)
}

// extend makes the next package and adds it to st. If the bitstream of a change
// is lost, no package can have that change (RS-CDM-02): st begins again after
// it.
func (b *changeBuild) extend(ctx context.Context, st *changeState) error {
	for {
		pkg, err := b.pack(ctx, st)
		if lost, ok := errors.AsType[*lostChange](err); ok {
			b.docs.Log.WarnContext(ctx, "bitstream of a change is lost; the change dump restarts after it",
				slog.String("set", b.set.Name), slog.String("uri", lost.uri), slog.Time("at", lost.at))
			until := lost.at.Add(document.Boundary)
			if err := b.archiveChanges(ctx, st, false, until); err != nil {
				return err
			}
			*st = changeState{After: lost.seq, From: until, Through: lost.seq, Until: until, Built: st.Built}
			if st.Through >= b.status.Last {
				return nil
			}
			continue
		}
		if err != nil {
			return err
		}
		st.Packages = append(st.Packages, *pkg)
		st.Through, st.Until, st.Built = pkg.Last, pkg.Until, b.docs.Now()
		b.report.Added++
		b.report.Changes += int64(pkg.Changes)
		b.report.Bytes += pkg.Length
		return nil
	}
}

// pack makes the package that follows those of st, and commits it.
func (b *changeBuild) pack(ctx context.Context, st *changeState) (*changePackage, error) {
	h := b.docs.Header(b.set.Name, resourcesync.ChangeDumpManifest)
	h.From = resourcesync.NewDatetime(st.Until)
	o := b.dumps.packing(&b.set, h, b.set.Change.PackageEntries, b.set.Change.PackageBytes)
	o.Open = b.open
	p, err := pack.New(o)
	if err != nil {
		return nil, err
	}
	last, err := b.gather(ctx, p, st)
	if err != nil {
		return nil, err
	}
	until := last.At.Add(document.Boundary)
	p.Header.Until = resourcesync.NewDatetime(until)
	name := names.Dumps(b.set.Name).ChangePackage(st.Until)
	for n, plain := 2, name; b.there[name] || b.there[names.Manifest(name)] || b.held[name]; n++ {
		name = names.Numbered(plain, n)
	}
	prefix := strings.TrimSuffix(name, names.PackageSuffix) + "."
	if err := b.announce(ctx, prefix); err != nil {
		return nil, err
	}
	p.Stamp = b.state.Stamp
	done, err := p.Build(ctx, name, func() error { return lastLost(p.Items) })
	if err != nil {
		b.abandon(ctx, prefix)
		return nil, err
	}
	b.there[name], b.there[names.Manifest(name)] = true, true
	return &changePackage{Name: name, From: st.Until, Until: until, Last: last.Seq, Changes: p.Files, Package: done}, nil
}

// gather adds to p the changes after st, as many as fit. It returns the last,
// also if no manifest can state it.
func (b *changeBuild) gather(ctx context.Context, p *pack.Packing, st *changeState) (last catalog.Mark, err error) {
	for c, err := range b.catalog.Changes(ctx, b.key, st.Through) {
		if err != nil {
			return last, err
		}
		dir := strconv.FormatInt(int64(c.Seq), 10) + "/" // RS-CDM-05
		below := b.set.Rules.Below
		patches, err := b.patches(ctx, &c, dir)
		if err == nil {
			err = p.Add(&c, dir+names.NewMembers(below).Name(c.URI), patches...)
		}
		if errors.Is(err, resourcesync.ErrTooLarge) && len(p.Items) > 0 {
			break
		}
		if err != nil {
			return last, fmt.Errorf("%s: %w", c.URI, err)
		}
		last = catalog.Mark{Seq: c.Seq, At: c.EventTime}
	}
	return last, nil
}

// patches returns the patches of a change that we keep ourselves, to be packed
// in dir.
func (b *changeBuild) patches(ctx context.Context, c *catalog.Change, dir string) ([]pack.Item, error) {
	var items []pack.Item
	for i := range c.Links {
		l := &c.Links[i]
		name, ours := strings.CutPrefix(l.Href, b.docs.Base.Prefix)
		if l.Rel != resourcesync.RelPatch || c.Change != resourcesync.Updated || !ours || !blob.ValidName(name) {
			continue
		}
		info, err := b.docs.Stat(ctx, name)
		if errors.Is(err, blob.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		it := pack.Item{Blob: name, Name: dir + names.ClashDir + "patch" + strconv.Itoa(len(items)+1) + "/" + names.SafeName(name[strings.LastIndexByte(name, '/')+1:])}
		it.Change.URI, it.Change.Hashes, it.Change.Length, it.Change.Type, it.Change.Encoding = l.Href, l.Hashes, info.Size, l.Type, l.Encoding
		items = append(items, it)
	}
	return items, nil
}

// open opens the bitstream a change brought. If it was not kept, the present
// one is as good, if it turns out to be the same; without a hash, it is if the
// resource has not changed since.
func (b *changeBuild) open(ctx context.Context, it *pack.Item) (io.ReadCloser, error) {
	if it.Blob != "" {
		return b.docs.Open(ctx, it.Blob)
	}
	if b.set.Past != nil {
		r, err := b.set.Past(ctx, &it.Change)
		if err == nil || !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, blob.ErrNotExist) {
			return r, err
		}
	}
	if len(it.Change.Hashes) == 0 {
		r, ok, err := catalog.Find(ctx, b.catalog, b.key, it.Change.URI)
		if err != nil {
			return nil, err
		}
		if !ok || r.Seq != it.Change.Seq {
			return nil, fs.ErrNotExist
		}
	}
	return b.set.Bitstream(ctx, &it.Change.Record)
}

// lastLost returns the last change among the items whose bitstream is lost, as
// an error.
func lastLost(items []pack.Item) error {
	for _, it := range slices.Backward(items) {
		if it.Deviant && it.Blob == "" {
			return &lostChange{it.Change.URI, it.Change.Seq, it.Change.EventTime}
		}
	}
	return nil
}

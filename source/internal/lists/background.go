package lists

import (
	"context"
	"fmt"
	"time"

	"lockstep/blob"
)

// A Build is a Resource List that is written in the background, while changes are
// published. The publication that gets it in its [Mode] publishes it.
type Build struct {
	list   *listBuild
	before *listState // the list that it is to replace
	state  *listState
	entry  blob.Writer // its entry document, from when all is written until a publication takes it
}

// Begin begins a Resource List of the set, which [Build.Run] writes, if one is due that
// takes its time. It returns nil if Publish is to write the list as well: it is small,
// or goes into an archive, or what is published is of no use until it is there. The
// caller ends each Build with End.
func (s *Lists) Begin(ctx context.Context, set Set) (*Build, error) {
	p := &publication{owner: s, docs: s.opts.Docs, catalog: s.opts.Catalog, set: set}
	if due, err := s.isLargeListDue(ctx, p); err != nil || !due {
		return nil, err
	}
	if err := p.prepare(ctx, true); err != nil {
		return nil, err
	}
	if !p.list || p.listAtOnce {
		return nil, nil
	}
	p.next.Stamp = p.docs.After(p.state.Stamp)
	list, err := newListBuild(ctx, p)
	if err != nil || list.copy != "" {
		return nil, err
	}
	b := &Build{list: list, before: p.state.List}
	s.building[set.Name] = b
	return b, nil
}

// isLargeListDue reports whether Begin has something to do, without looking at documents.
func (s *Lists) isLargeListDue(ctx context.Context, p *publication) (due bool, err error) {
	name := p.docs.CapabilityList(p.set.Name)
	if p.state, err = s.load(ctx, p.set.Name, name); err != nil || p.state.List == nil || p.state.Changes == nil {
		return false, err
	}
	if p.status, err = p.catalog.Status(ctx, name); err != nil {
		return false, fmt.Errorf("read catalog: %w", err)
	}
	return !s.isTiny(p.status.Resources) && p.listDue(p.status.Last != p.state.Changes.Through), nil
}

// Run writes the list, except that its entry document is not committed: nothing that is
// published names what it writes. It may run beside all methods of Lists, one Build of a
// set at a time.
func (b *Build) Run(ctx context.Context) (err error) {
	b.state, b.entry, err = b.list.run(ctx)
	return err
}

// End forgets a Build, whether it has run, was published, or not. It removes the parts of one
// that no publication has used.
func (s *Lists) End(ctx context.Context, b *Build) {
	if b.entry != nil {
		_ = b.entry.Close() // its content is not needed
		b.list.drop(ctx)
	}
	if s.building[b.list.set.Name] == b {
		delete(s.building, b.list.set.Name)
	}
}

// isBuilding reports whether a document is a part of a list that is being written in the background.
func (s *Lists) isBuilding(set, name string) bool {
	b := s.building[set]
	return b != nil && b.list.owns(name)
}

// isUsable reports whether the list is complete, and can be published in place of the one
// that is, by a publication that found these documents and archives.
func (b *Build) isUsable(published *listState, there sizes, archives *archives) bool {
	return b != nil && b.entry != nil && b.before.At.Equal(published.At) && b.before.Seq == published.Seq &&
		there.hasAll(b.state.names()) && !archives.takes(b.list.mark.At, false)
}

// take returns the list for a publication, whose documents have the modification time
// stamp. The caller closes the entry document.
func (b *Build) take(stamp time.Time) (*listBuild, *listState, blob.Writer) {
	entry := b.entry
	b.entry = nil
	entry.SetModTime(stamp)
	return b.list, b.state, entry
}

package lists

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/resourcesync"
	"lockstep/source/internal/archive"
	"lockstep/source/internal/document"
	"lockstep/source/internal/names"
)

// write performs steps 1 to 6 of Publish. It reports whether it wrote anything that
// readers can see.
func (p *publication) write(ctx context.Context) (written bool, err error) {
	defer p.discard(ctx) // has no effect on committed documents
	if p.begun {
		if err := p.keepHistory(ctx); err != nil {
			return false, err
		}
	}
	err = p.take(ctx) // step 1
	if errors.Is(err, errLook) {
		if err = p.prepare(ctx, true); err == nil {
			err = p.take(ctx)
		}
	}
	if err != nil {
		return false, err
	}
	b := p.build
	if p.grown() {
		if b.open == nil {
			p.next = p.state
			return false, nil
		}
		return true, p.owner.saveGrown(ctx, p.set.Name, b.open, p.next)
	}
	p.unnamed = nil
	if _, err := p.owner.opts.Archives.Remember(ctx, p.set.Name, false, p.archives.lists, p.archives.closed); err != nil { // step 2
		return false, err
	}
	if err := p.announce(ctx); err != nil { // step 2
		return false, err
	}
	if p.newHistory {
		if err := p.owner.withdrawDumps(ctx, p.set.Name, p.there); err != nil {
			return true, err
		}
	}
	if err := p.commitAll(ctx); err != nil { // steps 3 and 4
		return true, err
	}
	if _, err := p.owner.opts.NameDocuments(ctx, p.set.Name); err != nil { // step 5
		return true, err
	}
	return true, p.owner.save(ctx, p.set.Name, p.next) // step 6
}

// grown reports whether nothing but the open list has to be written.
func (p *publication) grown() bool {
	b, c := p.build, p.next.Changes
	return !p.list && !p.unsure && !p.newHistory && !p.archiving && len(b.closed) == 0 && b.index == nil && b.ended == nil &&
		!p.state.Saved.IsZero() && p.state.Changes.After == c.After && p.state.Changes.Open.Name == c.Open.Name
}

// commitAll commits the written documents in the order of Publish.
func (p *publication) commitAll(ctx context.Context) error {
	parts, entries := switches(p.build, p.next.Changes, p.entry)
	if err := p.docs.Commit(ctx, parts...); err != nil {
		return err
	}
	if err := p.archives.closed.Publish(ctx, p.next.Stamp); err != nil {
		return err
	}
	for _, w := range entries { // one Commit could leave the Resource List alone after a power cut
		if err := p.docs.Commit(ctx, w); err != nil {
			return err
		}
	}
	if err := p.archives.lists.Publish(ctx, p.next.Stamp); err != nil || p.build.ended == nil {
		return err
	}
	return p.docs.Commit(ctx, p.build.ended)
}

// switches returns the documents to commit, in order: those that b wrote for st, and
// the entry document of the Resource List.
func switches(b *changeBuild, st *changeState, list blob.Writer) (parts, entries []blob.Writer) {
	if b.open != nil && st.Open.Name != "" {
		parts = append(parts, b.open)
	} else if b.open != nil {
		entries = append(entries, b.open)
	}
	for _, w := range slices.Backward(b.closed) {
		parts = append(parts, w)
	}
	if b.index != nil {
		entries = append(entries, b.index)
	}
	if list != nil {
		entries = append(entries, list)
	}
	return parts, entries
}

func (p *publication) discard(ctx context.Context) {
	if p.entry != nil {
		_ = p.entry.Close() // its content is not needed
	}
	if p.unnamed != nil {
		p.unnamed.drop(ctx)
	}
	if p.build != nil {
		p.build.discard()
	}
}

// take writes the documents that are due. It changes no document that another one names.
func (p *publication) take(ctx context.Context) error {
	p.discard(ctx) // documents of an earlier attempt
	p.entry, p.unnamed, p.build = nil, nil, nil
	p.archives.lists.Reset()
	p.archives.closed.Reset()
	p.next.Stamp = p.docs.After(p.state.Stamp)
	if p.list { // before the changes, so that they reach beyond its time
		if err := p.takeList(ctx); err != nil {
			return err
		}
	}
	if err := p.takeChanges(ctx); err != nil {
		return err
	}
	p.archives.expire(currentParts(p.next.Changes, p.state.Changes))
	return nil
}

func (p *publication) takeList(ctx context.Context) (err error) {
	var b *listBuild
	var list *listState
	if p.built != nil {
		b, list, p.entry = p.built.take(p.next.Stamp)
		p.built = nil
	} else if b, err = newListBuild(ctx, p); err != nil {
		return fmt.Errorf("build resource list: %w", err)
	} else if list, p.entry, err = b.run(ctx); err != nil {
		return err
	}
	p.unnamed = b
	if b.copy != "" {
		p.archives.lists.Add(archive.Pointer{Name: b.copy, At: list.At, Seq: list.Seq})
	}
	list.Rules, list.Archived = p.set.Rules.Mark, b.archived
	p.next.List = list
	p.report.List, p.report.Parts = true, len(list.Parts)
	p.report.Resources = list.Resources
	p.report.Bytes += b.bytes.Load()
	p.report.Refused += b.refused.Load()
	if p.status, err = p.catalog.Status(ctx, p.docs.CapabilityList(p.set.Name)); err != nil {
		return fmt.Errorf("read catalog: %w", err)
	}
	return nil
}

func (p *publication) takeChanges(ctx context.Context) error {
	st := *p.next.Changes
	st.Closed = slices.Clone(st.Closed)
	if !p.unsure {
		st.Ended = nil
	}
	b := &changeBuild{owner: p.owner, docs: p.docs, catalog: p.catalog, set: p.set, stamp: p.next.Stamp, prev: p.state.Changes, unsure: p.unsure, there: p.there}
	b.archived = p.set.archived(resourcesync.ChangeList)
	if p.newHistory {
		b.prev = nil
	}
	if p.there != nil {
		if err := p.trim(ctx, b, &st); err != nil {
			b.discard()
			return err
		}
	}
	if err := b.run(ctx, &st, p.status.Last); err != nil {
		return err
	}
	if b.archived && b.prev != nil && !b.prev.Archived {
		if err := p.linkClosed(ctx, b, &st); err != nil {
			b.discard()
			return err
		}
	}
	p.archives.addClosed(&st)
	p.build = b
	p.report.Changes = int64(st.Through - p.next.Changes.Through)
	p.report.Seq = st.Through
	p.report.Bytes += b.bytes
	p.report.Refused += b.refused
	p.next.Changes = &st
	return nil
}

// announce records in the state that the entry documents are about to be switched, and
// completes the state that is saved after that.
func (p *publication) announce(ctx context.Context) error {
	p.next.Switching, p.next.Planned, p.next.PlannedList, p.next.NewHistory = false, nil, nil, false
	now := p.docs.Now()
	p.next.Retired, p.next.Replaced = p.retire(now), nil // clients do not continue from a list of an earlier history
	if !p.newHistory {
		p.next.Replaced = p.state.replaced(now, p.owner.opts.Grace, p.list)
	}
	switching := *p.state
	switching.Switching, switching.Planned, switching.NewHistory, switching.Stamp = true, p.next.Changes, p.newHistory, p.next.Stamp
	switching.PlannedList = nil
	if p.list {
		switching.PlannedList = p.next.List
	}
	if p.newHistory {
		switching.Changes = nil
	}
	return p.owner.save(ctx, p.set.Name, &switching)
}

// withdrawDumps removes dumps that belong to a history which the Change List does not
// continue: changes after their time could not be followed (RS-CL-03). They are rebuilt
// later.
func (s *Lists) withdrawDumps(ctx context.Context, set string, there sizes) error {
	dumps := []string{names.Set(set).ResourceDump(), names.Set(set).ChangeDump()}
	if err := s.opts.Docs.Confirm(ctx, there, dumps...); err != nil || !there.Known(dumps[0]) && !there.Known(dumps[1]) {
		return err
	}
	if _, err := s.opts.NameDocuments(ctx, set, dumps...); err != nil {
		return err
	}
	if err := s.opts.Docs.Remove(ctx, dumps...); err != nil {
		return fmt.Errorf("withdraw dumps: %w", err)
	}
	return nil
}

// retire returns the existing parts that no entry document will name any more. Parts
// that stay for an archive are included for the grace period, for readers of the list
// that they belong to.
func (p *publication) retire(now time.Time) []document.Retired {
	named, archived, left := make(map[string]bool), p.archives.named(), p.archives.left()
	for _, docNames := range [][]string{p.next.List.names(), p.next.Changes.names(), p.archives.parts()} {
		for _, name := range docNames {
			named[name] = true
		}
	}
	var all []document.Retired
	known := make(map[string]bool)
	for _, r := range p.state.Retired {
		if !named[r.Name] && p.there.Known(r.Name) && !(archived(r.Name) && now.Sub(r.Gone) >= p.owner.opts.Grace) {
			all = append(all, r)
			known[r.Name] = true
		}
	}
	var at, taken document.Mark
	last := make(map[string]bool) // the parts of the list that is replaced
	if p.state.List != nil {
		at, taken = document.Mark{Seq: p.state.List.Seq, At: p.state.List.At}, p.state.List.Taken
		for _, name := range p.state.List.names() {
			last[name] = true
		}
	}
	for name := range p.there {
		if names.Set(p.set.Name).IsPart(name) && !named[name] && !known[name] && (last[name] || !archived(name)) && !p.owner.isBuilding(p.set.Name, name) {
			r := document.Retired{Name: name, Gone: now, At: at.At, Seq: at.Seq, Taken: taken}
			if p.newHistory && names.Set(p.set.Name).IsChangePart(name) {
				r.Gone = time.Time{} // at once: clients that follow it must not take it for the present list
			}
			if !last[name] && left(name) {
				r.At, r.Seq, r.Taken = time.Time{}, 0, document.Mark{} // no reader continues from there
			}
			all = append(all, r)
		}
	}
	sort.SliceStable(all, func(i, j int) bool {
		return cmp.Or(all[i].Gone.Compare(all[j].Gone), strings.Compare(all[i].Name, all[j].Name)) < 0
	})
	return all
}

// tidy removes documents and changes that no reader of the published state st needs. It
// can be repeated.
func (p *publication) tidy(ctx context.Context, st *state, withdrawFeed func(context.Context) error) error {
	if c := st.Changes; c.After > p.status.Kept.Seq {
		mark := catalog.Mark{Seq: c.After, At: c.From.Truncate(time.Microsecond)} // see document.Boundary
		if err := p.catalog.Forget(ctx, p.docs.CapabilityList(p.set.Name), mark); err != nil {
			return fmt.Errorf("forget changes up to %d: %w", c.After, err)
		}
	}
	if err := p.owner.tidyPatches(ctx, p.set.Name); err != nil {
		return err
	}
	if err := p.owner.opts.Archives.Withdraw(ctx, p.set.Name, p.set.archived, p.there, listArchives...); err != nil {
		return err
	}
	if err := withdrawFeed(ctx); err != nil {
		return err
	}
	var old []string
	archived := p.archives.named()
	for _, r := range st.Retired {
		if p.there.Known(r.Name) && p.docs.Now().Sub(r.Gone) >= p.owner.opts.Grace && !archived(r.Name) {
			old = append(old, r.Name)
		}
	}
	if len(old) == 0 {
		return nil
	}
	if err := p.docs.Remove(ctx, old...); err != nil {
		return fmt.Errorf("remove replaced parts: %w", err)
	}
	p.report.Removed = len(old)
	return nil
}

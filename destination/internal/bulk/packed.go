package bulk

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/scratch"
	"lockstep/internal/extsort"
)

// packedMemory is the number of actions that wait in memory for their packages; if
// there are more, they are stored in scratch files.
const packedMemory = 20_000

// packed stores actions whose content is in packages until the packages are read.
type packed struct {
	room   scratch.Room
	list   []*plan.Action
	sorter *extsort.Sorter // by package, if there are too many for memory
	out    *extsort.Writer
	buf    []byte
}

// add adds an action.
func (p *packed) add(a *plan.Action) error {
	if p.list = append(p.list, a); len(p.list) < packedMemory {
		return nil
	}
	return p.spill()
}

func (p *packed) spill() error {
	if p.sorter == nil {
		p.sorter = p.room.Sorter()
		p.out = p.sorter.Writer()
	}
	var key [8]byte
	for _, a := range p.list {
		binary.BigEndian.PutUint64(key[:], uint64(a.Member.Package))
		p.buf = a.AppendTo(p.buf[:0])
		if err := p.out.Add(key[:], p.buf); err != nil {
			return fmt.Errorf("sort by package: %w", err)
		}
	}
	clear(p.list)
	p.list = p.list[:0]
	return nil
}

// byPackage yields the actions for each package. It is called once.
func (p *packed) byPackage(ctx context.Context) iter.Seq2[[]*plan.Action, error] {
	return func(yield func([]*plan.Action, error) bool) {
		var same []*plan.Action // of one package
		for a, err := range p.sorted(ctx) {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(same) > 0 && same[0].Member.Package != a.Member.Package {
				if !yield(same, nil) {
					return
				}
				same = nil
			}
			same = append(same, a)
		}
		if len(same) > 0 {
			yield(same, nil)
		}
	}
}

func (p *packed) sorted(ctx context.Context) iter.Seq2[*plan.Action, error] {
	return func(yield func(*plan.Action, error) bool) {
		if p.sorter == nil {
			slices.SortStableFunc(p.list, func(a, b *plan.Action) int { return cmp.Compare(a.Member.Package, b.Member.Package) })
			for i, a := range p.list {
				p.list[i] = nil // so that the receiver's copy can be collected
				if !yield(a, nil) {
					return
				}
			}
			return
		}
		if err := p.spill(); err != nil {
			yield(nil, err)
			return
		}
		for pair, err := range p.sorter.Sorted(ctx) {
			var a *plan.Action
			if err == nil {
				a, err = plan.Decode(pair.Value)
			}
			if !yield(a, err) || err != nil {
				return
			}
		}
	}
}

func (p *packed) close() error {
	p.list = nil
	if p.sorter == nil {
		return nil
	}
	err := p.sorter.Close()
	p.sorter = nil
	return err
}

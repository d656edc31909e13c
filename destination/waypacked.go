package destination

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/scratch"
	"lockstep/internal/extsort"
)

// packedMemory is how many actions wait in memory for their packages; where
// there are more, they wait in scratch files.
const packedMemory = 20_000

// packed are actions whose content is in packages, kept until these are read.
type packed struct {
	room   scratch.Room
	list   []*action
	sorter *extsort.Sorter // by package, where they are many
	out    *extsort.Writer
	buf    []byte
}

// add takes an action.
func (p *packed) add(a *action) error {
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
		p.buf = a.appendTo(p.buf[:0])
		if err := p.out.Add(key[:], p.buf); err != nil {
			return fmt.Errorf("sort by package: %w", err)
		}
	}
	clear(p.list)
	p.list = p.list[:0]
	return nil
}

// byPackage yields what is wanted of each package. It is called once.
func (p *packed) byPackage(ctx context.Context) iter.Seq2[[]*action, error] {
	return func(yield func([]*action, error) bool) {
		var same []*action // of one package
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

func (p *packed) sorted(ctx context.Context) iter.Seq2[*action, error] {
	return func(yield func(*action, error) bool) {
		if p.sorter == nil {
			slices.SortStableFunc(p.list, func(a, b *action) int { return cmp.Compare(a.Member.Package, b.Member.Package) })
			for i, a := range p.list {
				p.list[i] = nil // who takes it may drop it
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
			var a *action
			if err == nil {
				a, err = decodeAction(pair.Value)
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

// Append encodes an action with verbFetch that is had out of a package, for
// the scratch space.
func (a *action) appendTo(b []byte) []byte {
	b = append(b, flag(a.conditional)|flag(a.gone)<<1|flag(a.isHeld())<<2|flag(len(a.Patches) > 0)<<3)
	b = desired.AppendString(b, a.URI)
	b = a.Resource.Append(b)
	if a.isHeld() {
		b = desired.AppendHeld(b, &a.held)
	}
	if len(a.Patches) > 0 {
		b = desired.AppendPatches(b, a.Patches)
	}
	return b
}

func flag(is bool) byte {
	if is {
		return 1
	}
	return 0
}

func decodeAction(b []byte) (*action, error) {
	d := desired.Decoder{B: string(b)}
	flags, uri := d.Byte(), d.Text()
	if !d.OK() {
		return nil, desired.ErrDamaged
	}
	a := &action{verb: verbFetch, conditional: flags&1 != 0, gone: flags&2 != 0}
	var err error
	var rest string
	if a.Resource, rest, err = desired.Decode(uri, d.B); err != nil {
		return nil, err
	}
	if flags&4 != 0 {
		var left []byte
		if a.held, left, err = desired.DecodeHeld([]byte(rest)); err != nil {
			return nil, err
		}
		rest = string(left)
	}
	if flags&8 != 0 {
		d = desired.Decoder{B: rest}
		if a.Patches = d.Patches(); !d.OK() {
			return nil, desired.ErrDamaged
		}
	}
	return a, nil
}

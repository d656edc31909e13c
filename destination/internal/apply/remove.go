package apply

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"lockstep/blob"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
)

// removeCount is how many files are removed before that is recorded, in one
// transaction, and delivered.
const removeCount = 2048

// remove carries out the deletions of a plan.
func (p *Applier) remove(ctx context.Context, actions iter.Seq2[plan.Action, error]) error {
	var batch []plan.Action
	flush := func() error {
		defer func() { batch = batch[:0] }()
		return p.removeBatch(ctx, batch)
	}
	for a, err := range actions {
		if err != nil {
			return err
		}
		if a.Verb != plan.Remove {
			continue
		}
		if batch = append(batch, a); len(batch) == removeCount {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return p.record(ctx, true)
}

// removeBatch removes the files first: a row without a file is found again, but
// a file without a row would belong to no resource. A store that keeps nothing may have taken
// a deletion although it failed, and nothing shows that but the intent.
func (p *Applier) removeBatch(ctx context.Context, batch []plan.Action) error {
	if len(batch) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	batch, err := p.replaced(ctx, batch)
	if err != nil {
		return err
	}
	batch, err = p.keepRemoved(ctx, batch)
	if err != nil || len(batch) == 0 {
		return err
	}
	forgetful := IsForgetful(p.mirror.Store)
	if forgetful {
		if err := p.record(ctx, true, batch...); err != nil {
			return err
		}
	}
	all := p.committer.withdraw(ctx, batch...)
	if all != nil && failure.IsFatal(all) {
		p.broken = true // what was removed is not recorded
		p.mirror.LeftIntent()
		return all
	}
	for i := range batch {
		a := &batch[i]
		if all != nil {
			if err := p.committer.withdraw(ctx, *a); err != nil && !reserve.IsReplaced(err) {
				if isDown(err) {
					p.full++
				}
				if ctx.Err() != nil || failure.IsFatal(err) || p.full >= maxDown && isDown(err) {
					p.broken = true // what was removed is not recorded
					p.mirror.LeftIntent()
					return err
				}
				p.Recorder.fail(a, err)
				continue
			}
		}
		p.full = 0
		p.Recorder.gone(a)
	}
	return p.record(ctx, !forgetful)
}

// replaced leaves out what goes for another representation that did not come,
// which is why it stays until then.
func (p *Applier) replaced(ctx context.Context, batch []plan.Action) ([]plan.Action, error) {
	var uris []string
	for i := range batch {
		if batch[i].Instead != "" {
			uris = append(uris, batch[i].Instead)
		}
	}
	if len(uris) == 0 {
		return batch, nil
	}
	if err := p.record(ctx, true); err != nil {
		return nil, err
	}
	here, err := p.mirror.Journal.Lookup(ctx, uris)
	if err != nil {
		return nil, fmt.Errorf("read what is held: %w", err)
	}
	var rest []plan.Action
	for i := range batch {
		a := &batch[i]
		if a.Instead != "" {
			h := here[0]
			if here = here[1:]; !plan.HasSet(h.Sets, p.Recorder.Set) {
				p.Recorder.owe(a, errors.New("what is kept instead of it has not come"))
				continue
			}
		}
		rest = append(rest, *a)
	}
	return rest, nil
}

// maxDown is how many resources in a row a remote store may reject before no
// more are offered: each has cost several tries.
const maxDown = 3

// isDown reports whether err says that the store accepts nothing at all, as far
// as one resource can show.
func isDown(err error) bool { return errors.Is(err, blob.ErrUnavailable) }

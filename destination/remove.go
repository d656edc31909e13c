package destination

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"lockstep/blob"
	"syscall"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
)

// removeCount is how many files are removed before that is recorded.
const removeCount = 256

// remove carries out the deletions of a plan.
func (p *applier) remove(ctx context.Context, actions iter.Seq2[plan.Action, error]) error {
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
// a file without a row would belong to no resource.
func (p *applier) removeBatch(ctx context.Context, batch []plan.Action) error {
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
	all := p.withdraw(ctx, batch...)
	if all != nil && isFatal(all) {
		return all
	}
	for i := range batch {
		a := &batch[i]
		if all != nil {
			if err := p.withdraw(ctx, *a); err != nil && !reserve.IsReplaced(err) {
				if isDown(err) {
					p.full++
				}
				if ctx.Err() != nil || isFatal(err) || p.full >= maxDown && isDown(err) {
					return err
				}
				p.fail(a, err)
				continue
			}
		}
		p.gone(a)
	}
	return p.record(ctx, true)
}

// gone records a deletion.
func (p *applier) gone(a *plan.Action) {
	p.pending.Drop = append(p.pending.Drop, a.URI)
	p.counts[p.set.Number]--
	p.paid(a)
	p.report.Deleted++
	p.applied(a, &a.Held)
	p.step(a, 0)
}

// replaced leaves out what goes for another representation that did not come,
// which is why it stays until then.
func (p *applier) replaced(ctx context.Context, batch []plan.Action) ([]plan.Action, error) {
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
	here, err := p.d.journal.Lookup(ctx, uris)
	if err != nil {
		return nil, fmt.Errorf("read what is held: %w", err)
	}
	var rest []plan.Action
	for i := range batch {
		a := &batch[i]
		if a.Instead != "" {
			h := here[0]
			if here = here[1:]; !plan.HasSet(h.Sets, p.set.Number) {
				p.owe(a, errors.New("what is kept instead of it has not come"))
				continue
			}
		}
		rest = append(rest, *a)
	}
	return rest, nil
}

// isCanceled reports whether err says only that the caller canceled the run.
func isCanceled(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// IsFull reports whether err says that there is no space left.
func isFull(err error) bool {
	var delivery *DeliveryError // of others, whose disk is none of ours
	var sink *SinkError
	return !errors.As(err, &delivery) && !errors.As(err, &sink) && (errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT))
}

// isFatal reports whether err concerns the place where resources are kept, not
// one of them. Where there is no room for one, there may be for another.
func isFatal(err error) bool {
	var sink *SinkError
	if errors.As(err, &sink) {
		return true
	}
	if !content.IsLocal(err) {
		return false
	}
	for _, e := range []error{syscall.EROFS, syscall.EIO, syscall.EMFILE, syscall.ENFILE, syscall.ENODEV} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// maxDown is how many resources in a row a remote store may reject before no
// more are offered: each has cost several tries.
const maxDown = 3

// isDown reports whether err says that the store accepts nothing at all, as far
// as one resource can show.
func isDown(err error) bool { return errors.Is(err, blob.ErrUnavailable) }

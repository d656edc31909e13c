package follow

import (
	"errors"
	"time"

	"lockstep/destination/internal/deferral"
	"lockstep/destination/report"
)

// A Pass is the result of one pass over a set, or of a Look.
type Pass struct {
	Err    error
	Report report.Report
	State  SetState
	Unread bool // documents could not be read, or nothing was done for another reason; otherwise only resources failed
}

// isIncomplete reports whether the error only reports failures: everything else was
// done.
func (p *Pass) isIncomplete() bool { return errors.Is(p.Err, report.ErrIncomplete) }

// isRefused reports whether nothing was done, for safety.
func (p *Pass) isRefused() bool { return errors.Is(p.Err, report.ErrRefused) }

// isUndelivered reports whether the consumer of changes did not accept some.
func (p *Pass) isUndelivered() bool {
	_, is := errors.AsType[*report.DeliveryError](p.Err)
	return is
}

// hasSynced reports whether the documents were read because they had changed, or
// everything was compared.
func (p *Pass) hasSynced() bool { return p.Report.Mode != report.ModeNone }

// applied returns the number of changes.
func (p *Pass) applied() int64 { return p.Report.Created + p.Report.Updated + p.Report.Deleted }

// patience returns how long retrying a failure is useless.
func (p *Pass) patience(now time.Time) time.Duration {
	return deferral.Patience(p.Report.NotBefore, now)
}

// passed reports that a pull or a Look has ended.
func (f *Follower) passed() {
	if f.opts.OnPass != nil {
		f.opts.OnPass()
	}
}

// notify reports a pass that applied something or failed.
func (f *Follower) notify(p *Pass) {
	if f.opts.OnSync != nil && (p.Err != nil || p.hasSynced() || p.applied() > 0) {
		f.opts.OnSync(p.Report, p.Err)
	}
}

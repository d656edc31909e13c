package apply

import (
	"fmt"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/failure"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/places"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/transfer"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
)

// A Report receives the results of actions, one at a time.
type Report interface {
	Count(Effect)                                   // of an action on the mirror
	CountContent(*transfer.Outcome)                 // by the way it came
	CountRepaired()                                 // of a damaged file, that its content was replaced
	CountFailure(uri string, err error, later bool) // of a resource; later: it is tried again at the end of the run
	WithdrawFailure(uri string, err error)          // it was resolved within the run
	Missing(uri string, err error)                  // content of the past is unavailable
	Failed(uri string, err error, later bool)       // a failure that was counted is final for now
	Refused(uri string, err error)                  // the resource must not be fetched
	NotKept(uri, text string)                       // nothing was left to keep of a version
	Applied(report.Change)                          // it is durable
	Warn(uri, text string)
	Progress(report.Progress)
}

// An Effect is what an action did to the mirror.
type Effect int

// The effects of actions.
const (
	Unchanged Effect = iota
	InStep           // nothing was to be done
	Created
	Updated
	Deleted
)

// A Recorder records the results of the actions of one set: in the rows of the
// next transaction, and in the report.
type Recorder struct {
	Set     int    // number of the set
	Name    string // of the set
	Report  Report
	Counts  saved.Counts
	Results push.Results   // of each resource; nil: they are not wanted
	Push    *push.State    // of the set: what it gives up to another set is not lost
	Marked  *places.Marked // notes which resources have marked names

	Passing      map[int]int64    // counts by set what failed and is tried again at the end of the run; nil: nothing is
	Stale        map[string]error // failures that may succeed after reading the description again; reported if they do not
	Outdated     Outdated         // those of them that nothing describes any more; nil: they are not recorded
	KeepsDeleted bool             // the mirror keeps what the Source deletes

	Progress  report.Progress
	Owing     bool // the Journal has, or may have, pending work of the set
	Confirmed int  // deletions that the resource's own address confirmed, to be carried out
	Moved     MovedOn

	mirror   *Mirror
	fetch    *transfer.Fetcher
	lastTick time.Time
	pending  journal.Batch   // to be recorded with the next transaction
	restated []report.Change // of content that is the same, for a store that takes them
	came     []journal.Owed  // pending work of representations that came, to be deleted when those kept in their place are removed
}

// maxCame limits the representations in Recorder.came. The pending work of others is
// deleted by the next run, which finds that they are there.
const maxCame = 10_000

// MaxStale caps the failures that may succeed within the run with a newer
// description of the resource.
const MaxStale = 10_000

// settled records an outcome whose content is on disk.
func (r *Recorder) settled(o *transfer.Outcome) {
	a := o.Action
	r.put(&o.Held)
	if o.Writer == nil && r.mirror.Keep.IsOn() && history.Differs(&a.Held, &o.Held) { // else it is noted
		r.pending.Past = append(r.pending.Past, history.Before(a.URI, &a.Held))
	}
	was, is := plan.HasSet(a.Held.Sets, r.Set), plan.HasSet(o.Held.Sets, r.Set)
	switch {
	case is && !was:
		r.Counts[r.Set]++
	case was && !is:
		r.Counts[r.Set]--
		r.Push.Released()
	}
	r.paid(a)
	if a.Verb == plan.Fetch && a.IsHeld() && len(a.Held.Hashes) == 0 {
		r.Report.CountRepaired()
	}
	r.Report.CountContent(o)
	r.Moved.add(o)
	if a.Verb == plan.Fetch {
		r.fetch.Names.Release(o.Held.Path)
	}
	switch {
	case (o.Unchanged || a.Verb == plan.Release) && journal.Redescribes(&a.Held, &o.Held):
		r.Report.Count(Updated)
		r.redescribed(a, &o.Held)
	case a.Verb == plan.Release || o.Unchanged:
		r.Report.Count(Unchanged)
		if r.mirror.Statements && a.Verb != plan.Release && !journal.SameStatement(&a.Held, &o.Held) {
			r.mirror.Out.Add(changeOfDescription(r.Name, a, &o.Held))
		}
	case o.Adopted:
		r.Report.Count(Unchanged)
		r.applied(a, &o.Held)
	case a.IsHeld():
		r.Report.Count(Updated)
		r.applied(a, &o.Held)
	default:
		r.Report.Count(Created)
		r.applied(a, &o.Held)
	}
}

// put makes h a row.
func (r *Recorder) put(h *journal.Held) {
	r.pending.Put = append(r.pending.Put, *h)
	r.Marked.Add(h.URI, h.Path)
}

// doubted records that the content of a file is unknown, whose row is going to be h.
func (r *Recorder) doubted(a *plan.Action, h *journal.Held) {
	h.Hashes, h.ETag, h.Modified = nil, "", ""
	r.put(h)
	if plan.HasSet(h.Sets, r.Set) && !plan.HasSet(a.Held.Sets, r.Set) {
		r.Counts[r.Set]++
	}
}

// paid deletes the pending work for a, and withdraws a failure earlier in this
// run. Where another representation was kept in the place of a, nothing but that
// pending work says that it has to go: it is deleted after the removals, so that a
// run that ends before them leaves them to the next.
func (r *Recorder) paid(a *plan.Action) {
	r.mended(a)
	r.Results.Add(a.URI, push.Unchanged)
	switch done := (journal.Owed{Set: r.Set, URI: a.URI}); {
	case !r.Owing:
	case !a.Excused || a.Gone:
		r.pending.Settle = append(r.pending.Settle, done)
	case len(r.came) < maxCame:
		r.came = append(r.came, done)
	}
}

// removed deletes the pending work of representations that came: those kept in
// their place are removed, or their removal is pending.
func (r *Recorder) removed() {
	r.pending.Settle = append(r.pending.Settle, r.came...)
	r.came = nil
}

// failed records a failure. It stays pending until it succeeds or is no longer
// needed.
func (r *Recorder) failed(a *plan.Action, o transfer.Outcome) {
	if o.Stale && a.Unconfirmed {
		r.disproved(a, o.Err)
		return
	}
	if o.Stale {
		r.Outdated.add(a)
	}
	if o.Stale && len(r.Stale) < MaxStale {
		r.book(a, o.Err)
		r.Stale[a.URI] = o.Err
		return
	}
	r.fail(a, o.Err)
}

// fail records a failure and reports it.
func (r *Recorder) fail(a *plan.Action, err error) {
	r.book(a, err)
	r.Progress.Failed++
	r.Report.Failed(a.URI, err, r.triesAgain(err))
}

// book counts a failure and makes it pending.
func (r *Recorder) book(a *plan.Action, err error) {
	r.count(a, err)
	r.owe(a, err)
}

// count counts a failure, once.
func (r *Recorder) count(a *plan.Action, err error) {
	r.mended(a) // it counts once
	later := r.triesAgain(err)
	if later {
		r.Passing[r.Set]++
	}
	r.Report.CountFailure(a.URI, err, later)
	r.missed(a, err)
}

// triesAgain reports whether what failed with err is tried again at the end of
// the run.
func (r *Recorder) triesAgain(err error) bool {
	return r.Passing != nil && failure.IsPassing(err) && !transfer.IsStale(err) && plan.NotBefore(err).IsZero()
}

// disproved records that the content at the Source is not what a notification
// states. It does not retry for the sake of the notification: the Source's own
// documents say what is right, and are read next.
func (r *Recorder) disproved(a *plan.Action, err error) {
	if a.Class == desired.Pending {
		r.paid(a)
		r.Report.Warn(a.URI, fmt.Sprintf("%v, by a notification that its documents do not bear out; the notification is ignored", err))
		return
	}
	if len(r.Stale) < MaxStale {
		r.count(a, err)
		r.Stale[a.URI] = err
	}
}

// missed records that content of the past is unavailable.
func (r *Recorder) missed(a *plan.Action, err error) {
	if r.fetch.OfPast {
		r.Report.Missing(a.URI, err)
	}
}

// mended withdraws a failure earlier in this run.
func (r *Recorder) mended(a *plan.Action) {
	if err, ok := r.Stale[a.URI]; ok {
		delete(r.Stale, a.URI)
		r.Report.WithdrawFailure(a.URI, err)
	}
}

// refused records a resource that must not be fetched.
func (r *Recorder) refused(a *plan.Action) {
	err := fmt.Errorf("refuse %s: %s", fetch.Printable(a.URI), a.Refused)
	r.Report.Refused(a.URI, err)
	r.missed(a, err)
	r.owe(a, err)
}

// excuse records an optional representation that could not be fetched, where
// another one of its record is kept: that is reported once, and tried again by
// later runs.
func (r *Recorder) excuse(a *plan.Action, err error) {
	if !a.Excused {
		r.Report.Warn(a.URI, fmt.Sprintf("%s: this representation of a record cannot be fetched, and another one is kept; later runs try again, and do not report it: %v", fetch.Printable(a.URI), err))
	}
	if a.Excused = true; a.MainURI == "" {
		a.MainURI = a.URI // it is the first one itself
	}
	r.mended(a)
	r.owe(a, err)
}

// owe makes a resource pending because of err.
func (r *Recorder) owe(a *plan.Action, err error) {
	r.Owing = true
	w := a.AsStated()
	w.Class, w.Rank.Doc, w.Rank.Pos, w.Rank.Nth = desired.Pending, 0, 0, 0
	w.Transient, w.NotBefore = r.triesAgain(err), plan.NotBefore(err)
	r.pending.Owe = append(r.pending.Owe, journal.Owed{Set: r.Set, URI: a.URI, Entry: w.Append(nil), Cause: err.Error()})
	if a.FileMissing && a.IsHeld() && len(a.Held.Hashes) > 0 {
		// The pending entry may be of another time: the row must not be taken
		// for that of a file.
		h := a.Held
		h.Hashes, h.ETag, h.Modified = nil, "", ""
		r.put(&h)
		if r.mirror.Keep.IsOn() {
			r.pending.Past = append(r.pending.Past, history.Before(a.URI, &a.Held)) // its bytes may be kept elsewhere
		}
	}
}

// confirm records that a resource is gone, as its own address answers.
func (r *Recorder) confirm(a *plan.Action, err error) {
	if !plan.HasSet(a.Held.Sets, r.Set) || r.KeepsDeleted {
		r.paid(a)
		return
	}
	r.mended(a)
	w := a.AsStated()
	w.Gone, w.Refused, w.Unconfirmed = true, "", false
	w.Class, w.Rank.Doc, w.Rank.Pos, w.Rank.Nth = desired.Pending, 0, 0, 0
	r.Owing = true
	r.Confirmed++
	r.pending.Owe = append(r.pending.Owe, journal.Owed{Set: r.Set, URI: a.URI, Entry: w.Append(nil), Cause: err.Error()})
}

// gone records a deletion.
func (r *Recorder) gone(a *plan.Action) {
	r.pending.Drop = append(r.pending.Drop, a.URI)
	r.Counts[r.Set]--
	r.paid(a)
	r.Report.Count(Deleted)
	r.applied(a, &a.Held)
	r.step(0)
}

// applied reports a change that is on disk.
func (r *Recorder) applied(a *plan.Action, h *journal.Held) {
	c := changeOf(r.Name, a, h)
	if TakesNoContent(r.mirror.Store) && a.Verb == plan.Fetch {
		r.restated = append(r.restated, c)
	}
	r.announce(a, c)
}

// redescribed reports that the Source states another media type or other links of a
// resource, whose content has not changed.
func (r *Recorder) redescribed(a *plan.Action, h *journal.Held) {
	c := changeOfDescription(r.Name, a, h)
	if _, ok := r.mirror.Store.(describer); ok {
		r.restated = append(r.restated, c)
	}
	r.announce(a, c)
}

func (r *Recorder) announce(a *plan.Action, c report.Change) {
	r.Results.Add(a.URI, resultOf(a))
	r.Progress.Applied++
	r.mirror.Out.Add(c)
	r.Report.Applied(c)
}

// tickEvery is the shortest interval between progress events.
const tickEvery = 100 * time.Millisecond

// step reports progress, at most every tickEvery.
func (r *Recorder) step(bytes int64) {
	r.Progress.Done++
	r.Progress.Bytes += bytes
	if time.Since(r.lastTick) < tickEvery {
		return
	}
	r.lastTick = time.Now()
	r.Report.Progress(r.Progress)
}

// rows is how many rows are to be recorded.
func (r *Recorder) rows() int {
	return len(r.pending.Put) + len(r.pending.Drop) + len(r.pending.Owe) + len(r.pending.Settle)
}

// resultOf is the result of an action that changed the mirror.
func resultOf(a *plan.Action) push.Result {
	switch {
	case a.Verb == plan.Remove:
		return push.Removed
	case a.IsHeld():
		return push.Updated
	}
	return push.Created
}

package audit

import (
	"context"
	"fmt"

	"lockstep/blob"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/localcheck"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/reserve"
	"lockstep/destination/internal/saved"
	"lockstep/destination/journal"
	"lockstep/destination/report"
)

// maxMarks is how many marks one transaction records.
const maxMarks = 4096

// The repair is done by an ordinary run. While the audit reads files, it marks
// damaged ones in the Journal: it puts their rows in doubt, so that any
// comparison takes them for another version, and adds them to the pending
// work of all their sets, so that the next run of each fetches them. Then a run
// compares everything, under the guards that apply to every run. Nothing that
// deletes is added to the pending work: the list that the run reads says what
// is to be deleted.

// Marks are the damaged files that a run is going to repair.
type Marks struct {
	Store   blob.Store
	Journal journal.Journal
	Keep    *history.Keeper
	Counts  saved.Counts
	Known   map[string]int // numbers of the sets the Journal knows, by URI
	Offered map[int]bool   // numbers of the sets that the Source offered last

	batch  journal.Batch // not yet in the Journal
	others journal.Batch // what becomes pending for sets other than the one whose file was examined
}

// Add marks a damaged file of a set.
func (m *Marks) Add(ctx context.Context, set *saved.Set, act *plan.Action, f *report.Finding) error {
	w := act.AsStated()
	if w.Class == 0 { // only the Journal says what it should be
		h := &act.Held
		w = desired.Resource{URI: h.URI, Length: h.Length, Hashes: h.Hashes, Undescribed: true}
	}
	if err := m.doubt(ctx, act.Held, f); err != nil {
		return err
	}
	if m.Known[set.URI] == set.Number { // else the run takes it for new anyway
		w.Rank = desired.Rank{Class: desired.Pending, Event: w.Event, Modified: w.Modified}
		cause := "an audit found it " + string(f.Kind)
		m.batch.Owe = append(m.batch.Owe, journal.Owed{Set: set.Number, URI: w.URI, Entry: w.Append(nil), Cause: cause})
	}
	for _, n := range act.Held.Sets { // the run may not read them, or not get that far
		if n != set.Number && m.Offered[n] {
			m.others.Owe = append(m.others.Owe, journal.Owed{Set: n, URI: act.URI, Entry: localcheck.Entry(&act.Held), Cause: "an audit found it " + string(f.Kind)})
		}
	}
	if len(m.batch.Put)+len(m.batch.Drop)+len(m.batch.Owe)+len(m.others.Owe) < maxMarks {
		return nil
	}
	return m.Flush(ctx)
}

// doubt marks the row of a damaged file as one that has to be fetched.
// Something else at its path is moved away, if that destroys nothing. Otherwise
// the resource is no longer held, and gets another file next to it.
func (m *Marks) doubt(ctx context.Context, h journal.Held, f *report.Finding) error {
	if c, ok := m.Store.(blob.Clearer); ok {
		moved, err := c.Clear(ctx, h.Path)
		if err != nil {
			return err
		}
		if moved != "" {
			f.Cause += "; what stood there was moved to " + moved
		}
	}
	blocked, err := reserve.Blocked(ctx, m.Store, h.Path)
	if err != nil {
		return err
	}
	if !blocked {
		h.Hashes, h.ETag, h.Modified = nil, "", ""
		m.batch.Put = append(m.batch.Put, h)
		return nil
	}
	m.batch.Drop = append(m.batch.Drop, h.URI)
	for _, n := range h.Sets {
		m.Counts[n]--
	}
	return nil
}

// Flush records the marks in the Journal.
func (m *Marks) Flush(ctx context.Context) error {
	b, others := m.batch, m.others
	if len(b.Put)+len(b.Drop)+len(b.Owe) == 0 {
		return nil
	}
	m.batch, m.others = journal.Batch{}, journal.Batch{}
	if err := localcheck.KeepPending(ctx, m.Journal, &others); err != nil {
		return err
	}
	b.Owe = append(b.Owe, others.Owe...)
	if len(b.Drop) > 0 {
		b.Save = map[string][]byte{saved.DocCounts: saved.Encode(m.Counts)}
	}
	if err := m.Keep.AddPast(ctx, &b); err != nil {
		return err
	}
	if err := m.Keep.Record(ctx, m.Journal, b); err != nil {
		return fmt.Errorf("note what is to be mended: %w", err)
	}
	return nil
}

package state_test

import (
	"context"
	"errors"
	"io"
	"testing"

	"lockstep/blob"
	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/history"
	"lockstep/destination/internal/outbox"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/state"
	"lockstep/destination/journal"
	"lockstep/destination/report"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// A world has what a mirror is made of.
type world struct {
	store   *blob.Mem
	journal *journal.Mem
	client  *fetch.Client
	events  []report.Event
	warned  []string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	c, err := fetch.New(fetch.Options{AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return &world{store: &blob.Mem{}, journal: &journal.Mem{}, client: c}
}

// open opens the mirror with a consumer of changes, if deliver is not nil.
func (w *world) open(t *testing.T, deliver func(context.Context, []report.Change) (int, error)) *state.Mirror {
	t.Helper()
	w.events, w.warned = nil, nil
	m := state.New(state.Settings{Store: w.store, Journal: w.journal, Client: w.client, MayOwn: true,
		History: history.Mirror{Journal: w.journal, Files: w.store},
		Emit:    func(e report.Event) { w.events = append(w.events, e) },
		Warn:    func(_, text string) { w.warned = append(w.warned, text) }},
		outbox.New(w.journal, deliver, report.Line))
	if err := m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	return m
}

// write writes a file and returns its row.
func (w *world) write(t *testing.T, name, content string) journal.Held {
	t.Helper()
	f, err := w.store.Create(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(f, content); err != nil {
		t.Fatal(err)
	}
	if err := w.store.Commit(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	h := resourcesync.NewHasher(resourcesync.SHA256)
	_, _ = io.WriteString(h, content)
	return journal.Held{URI: "http://a.example/" + name, Path: name, Length: int64(len(content)), Hashes: h.Sum(), Sets: []int{1}}
}

// TestOpenReportsWhatAKilledRunCommitted records its rows and counts them, and delivers
// the changes to the first consumer.
func TestOpenReportsWhatAKilledRunCommitted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := w.open(t, nil)
	if !first.Own.Open || first.Resume {
		t.Fatalf("a new mirror: ownership %+v, resume %t", first.Own, first.Resume)
	}
	if err := first.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	committed := w.write(t, "a", "content")
	absent := journal.Held{URI: "http://a.example/b", Path: "b", Length: 1, Hashes: committed.Hashes, Sets: []int{1}}
	intent := desired.AppendHeld(desired.AppendHeld(nil, &committed), &absent)
	if err := w.journal.Record(t.Context(), journal.Batch{Save: map[string][]byte{saved.DocIntent: intent}}); err != nil {
		t.Fatal(err)
	}

	var delivered []report.Change
	m := w.open(t, func(_ context.Context, cs []report.Change) (int, error) {
		delivered = append(delivered, cs...)
		return len(cs), nil
	})
	if !m.Resume || m.Own.Open || m.Counts[1] != 1 {
		t.Errorf("after a killed run: resume %t, ownership %+v, counts %v", m.Resume, m.Own, m.Counts)
	}
	rows, err := w.journal.Lookup(t.Context(), []string{committed.URI, absent.URI})
	if err != nil || rows[0].Path != "a" || rows[1].Path != "" {
		t.Errorf("rows %+v, %v", rows, err)
	}
	if len(w.events) != 1 || w.events[0].Kind != report.EventApplied || w.events[0].Change != resourcesync.Created {
		t.Errorf("events %+v", w.events)
	}
	if len(delivered) != 1 || delivered[0].URI != committed.URI {
		t.Errorf("delivered %+v", delivered)
	}

	if err := m.Rest(t.Context()); err != nil || m.Resume {
		t.Fatalf("Rest: %v, resume %t", err, m.Resume)
	}
	if again := w.open(t, nil); again.Resume || len(w.events) != 0 || again.Counts[1] != 1 {
		t.Errorf("the next run: resume %t, events %v, counts %v", again.Resume, w.events, again.Counts)
	}
}

// TestOpenDeliversChangesOfAnEarlierRun at least once, and says so without a consumer.
func TestOpenDeliversChangesOfAnEarlierRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	full := errors.New("the queue is full")
	m := w.open(t, func(context.Context, []report.Change) (int, error) { return 0, full })
	rows := m.Rows()
	row := w.write(t, "a", "content")
	rows.Report(resourcesync.Updated, &row)
	if err := rows.Record(t.Context(), journal.Batch{Put: []journal.Held{row}, Save: map[string][]byte{}}, "record a row", nil); !errors.Is(err, full) {
		t.Fatalf("Record with a consumer that fails: %v", err)
	}
	if w.open(t, nil); len(w.warned) != 1 {
		t.Errorf("without a consumer: warnings %q", w.warned)
	}
	var delivered []report.Change
	w.open(t, func(_ context.Context, cs []report.Change) (int, error) {
		delivered = append(delivered, cs...)
		return len(cs), nil
	})
	if len(delivered) != 1 || delivered[0].Kind != resourcesync.Updated || delivered[0].Path != "a" {
		t.Errorf("delivered %+v", delivered)
	}
}

// A refusing Journal records nothing while refuse is set.
type refusing struct {
	journal.Journal
	refuse bool
}

func (j *refusing) Record(ctx context.Context, b journal.Batch) error {
	if j.refuse {
		return errors.New("no space left on device")
	}
	return j.Journal.Record(ctx, b)
}

// TestBeginIsRecordedBeforeFilesAreWritten: if that a run is in progress could not be recorded, the next
// set that begins to write files of the mirror records it.
func TestBeginIsRecordedBeforeFilesAreWritten(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.open(t, nil)
	j := &refusing{w.journal, true}
	m.Journal = j
	if err := m.Begin(t.Context()); err == nil {
		t.Fatal("the run began, and that is not recorded")
	}
	j.refuse = false
	if err := m.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	if doc, err := w.journal.Load(t.Context(), saved.DocOpen); err != nil || doc == nil {
		t.Errorf("the Journal does not say that a run is in progress: %v", err)
	}
}

// TestBeginSettlesWhatThisRunLeft: an intent that a set has left is settled before the next set writes
// files, and replaces it by its own.
func TestBeginSettlesWhatThisRunLeft(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	m := w.open(t, nil)
	if err := m.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	row := w.write(t, "a", "one")
	if err := w.journal.Record(t.Context(), journal.Batch{Save: map[string][]byte{saved.DocIntent: desired.AppendHeld(nil, &row)}}); err != nil {
		t.Fatal(err)
	}
	m.LeaveIntent()
	if err := m.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	held, err := w.journal.Lookup(t.Context(), []string{row.URI})
	if err != nil || held[0].Path != "a" || m.Counts[1] != 1 {
		t.Errorf("the mirror does not have what was committed: %+v, %v, %v", held, m.Counts, err)
	}
	if intent, err := w.journal.Load(t.Context(), saved.DocIntent); err != nil || intent != nil {
		t.Errorf("the Journal still has the intent: %q, %v", intent, err)
	}
}

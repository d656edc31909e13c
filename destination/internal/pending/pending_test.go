package pending_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/pending"
	"lockstep/destination/internal/plan"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

const set = 3

// newJournal returns a Journal in which the resources are pending.
func newJournal(t *testing.T, resources ...desired.Resource) *journal.Mem {
	t.Helper()
	j := &journal.Mem{}
	var b journal.Batch
	for _, w := range resources {
		b.Owe = append(b.Owe, journal.Owed{Set: set, URI: w.URI, Entry: w.Append(nil), Cause: "503 for " + w.URI})
	}
	if err := j.Record(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	return j
}

// later is a pending resource that must not be requested for an hour.
func later(uri string) desired.Resource {
	return desired.Resource{URI: uri, Length: -1, NotBefore: time.Now().Add(time.Hour)}
}

func fetches(uris ...string) iter.Seq2[plan.Action, error] {
	return func(yield func(plan.Action, error) bool) {
		for _, uri := range uris {
			if !yield(plan.Action{Resource: desired.Resource{URI: uri}, Verb: plan.Fetch}, nil) {
				return
			}
		}
	}
}

// TestMergeDefersWhatMustNotBeRequestedYet merges the actions of a plan with pending
// resources whose server asked for patience.
func TestMergeDefersWhatMustNotBeRequestedYet(t *testing.T) {
	t.Parallel()
	j := newJournal(t, later("http://a/1"), later("http://a/3"), desired.Resource{URI: "http://a/4", Length: -1}, later("http://a/5"))
	verbs := map[plan.Verb]string{plan.Fetch: "fetch", plan.Defer: "defer", plan.Skip: "skip"}
	for _, tt := range []struct {
		name   string
		askNow bool
		d      pending.Deferrals
		want   []string
	}{
		{"report", false, pending.Deferrals{Report: true}, []string{"defer 1", "fetch 2", "defer 3", "fetch 4", "defer 5"}},
		{"do not report", false, pending.Deferrals{}, []string{"fetch 2", "defer 3", "fetch 4"}},
		{"settle", false, pending.Deferrals{Settle: true}, []string{"skip 1", "fetch 2", "defer 3", "fetch 4", "skip 5"}},
		{"ask now", true, pending.Deferrals{Report: true}, []string{"fetch 2", "fetch 3", "fetch 4"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := pending.Set{Journal: j, Number: set, AskNow: tt.askNow}
			var got []string
			for a, err := range s.Merge(t.Context(), fetches("http://a/2", "http://a/3", "http://a/4"), tt.d) {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %s", verbs[a.Verb], a.URI[len("http://a/"):]))
				if a.Verb != plan.Defer {
					continue
				}
				if a.Cause.Error() != "503 for "+a.URI || plan.NotBefore(a.Cause).IsZero() {
					t.Errorf("%s is deferred because of %v until %v", a.URI, a.Cause, plan.NotBefore(a.Cause))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("Merge = %q, want %q", got, tt.want)
			}
		})
	}
}

// brokenJournal cannot read pending work.
type brokenJournal struct{ journal.Mem }

var errBroken = errors.New("broken")

func (*brokenJournal) Owed(context.Context, int) iter.Seq2[journal.Owed, error] {
	return func(yield func(journal.Owed, error) bool) { yield(journal.Owed{}, errBroken) }
}

// TestMergeYieldsErrors merges actions with what a broken Journal has.
func TestMergeYieldsErrors(t *testing.T) {
	t.Parallel()
	s := pending.Set{Journal: &brokenJournal{}, Number: set}
	var last error
	for _, err := range s.Merge(t.Context(), fetches("http://a/1"), pending.Deferrals{}) {
		last = err
	}
	if !errors.Is(last, errBroken) {
		t.Errorf("Merge ends with %v, want %v", last, errBroken)
	}
}

// TestDiscardKeepsWhatADocumentCannotReplace discards pending work before a set is
// compared as a whole.
func TestDiscardKeepsWhatADocumentCannotReplace(t *testing.T) {
	t.Parallel()
	notified := desired.Resource{URI: "http://a/2", Gone: true, Unconfirmed: true, Length: -1}
	resources := []desired.Resource{{URI: "http://a/1", Length: -1}, notified, later("http://a/3")}
	for i := range 1500 { // more than one transaction
		resources = append(resources, desired.Resource{URI: fmt.Sprintf("http://b/%04d", i), Length: -1})
	}
	j := newJournal(t, resources...)
	s := pending.Set{Journal: j, Number: set}
	kept, err := s.Discard(t.Context(), map[string][]byte{"doc": []byte("{}")})
	if err != nil || !kept {
		t.Fatalf("Discard = %v, %v, want true", kept, err)
	}
	var left []string
	for o, err := range j.Owed(t.Context(), set) {
		if err != nil {
			t.Fatal(err)
		}
		left = append(left, o.URI)
	}
	if want := []string{"http://a/2", "http://a/3"}; !slices.Equal(left, want) {
		t.Errorf("pending after Discard: %q, want %q", left, want)
	}
	if doc, err := j.Load(t.Context(), "doc"); err != nil || string(doc) != "{}" {
		t.Errorf("saved %q, %v", doc, err)
	}
}

// TestStageSelectsPendingWork stages pending work to be tried again.
func TestStageSelectsPendingWork(t *testing.T) {
	t.Parallel()
	failed := desired.Resource{URI: "http://a/1", Length: -1, Transient: true}
	notified := desired.Resource{URI: "http://a/2", Gone: true, Unconfirmed: true, Length: -1}
	confirmed := desired.Resource{URI: "http://a/3", Gone: true, Length: -1, Change: resourcesync.UnknownChange, Rank: desired.Rank{Class: desired.Pending}}
	old := desired.Resource{URI: "http://a/5", Length: -1}
	j := newJournal(t, failed, notified, confirmed, later("http://a/4"), old)
	for _, tt := range []struct {
		name   string
		s      pending.Stager
		count  int
		staged []string
	}{
		{"all", pending.Stager{}, 4, []string{"http://a/1", "http://a/3", "http://a/5"}},
		{"ask now", pending.Stager{Set: pending.Set{AskNow: true}}, 4, []string{"http://a/1", "http://a/3", "http://a/4", "http://a/5"}},
		{"of this run", pending.Stager{Transient: true}, 1, []string{"http://a/1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.s.Journal, tt.s.Number, tt.s.Refuse = j, set, func(string) string { return "" }
			to := stage.New(j)
			n, err := tt.s.Stage(t.Context(), to)
			if err != nil || n != tt.count {
				t.Errorf("Stage = %d, %v, want %d", n, err, tt.count)
			}
			var staged []string
			for w, err := range to.Resources(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				if w.Gone {
					t.Errorf("%s is staged as deleted", w.URI)
				}
				staged = append(staged, w.URI)
			}
			if !slices.Equal(staged, tt.staged) {
				t.Errorf("staged %q, want %q", staged, tt.staged)
			}
		})
	}
}

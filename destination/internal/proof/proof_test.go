package proof_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/destination/internal/proof"
	"lockstep/destination/internal/saved"
	"lockstep/destination/report"
	"lockstep/discover"
)

var mirror = proof.Mirror{Source: "http://a.example/", Dest: "my copy"}

// TestReasonsNameWhatIsOpenAndItsRemedy goes through what the documents of a set may
// leave open.
func TestReasonsNameWhatIsOpenAndItsRemedy(t *testing.T) {
	t.Parallel()
	const baseline = "lockstep sync http://a.example/ 'my copy' --baseline"
	both := saved.Set{URI: "http://a.example/cl.xml", Name: "main", Lists: "http://a.example/rl.xml", Changes: "http://a.example/ch.xml", ListKind: "list"}
	set := func(change func(*saved.Set)) *saved.Set {
		st := both
		change(&st)
		return &st
	}
	for _, tt := range []struct {
		name    string
		set     *saved.Set
		reason  string // part of it; empty: there is none
		command string
	}{
		{"list and changes", set(func(*saved.Set) {}), "", ""},
		{"changes alone", set(func(st *saved.Set) { st.Lists, st.ListKind = "", "" }), "it was made from a Change List alone, and what was at the Source before its first change is unknown", baseline},
		{"a Change Dump alone", set(func(st *saved.Set) {
			st.Lists, st.ListKind, st.OnlyChangeDump, st.Doubts.Reach = "", "", true, time.Unix(0, 0)
		}), "made from a Change Dump alone, and what was at the Source before 1970-01-01T00:00:00Z", baseline},
		{"a gap", set(func(st *saved.Set) { st.Doubts.Gap = "a list is gone" }), "a list is gone: changes may be missing", baseline},
		{"a gap of this run", set(func(st *saved.Set) { st.Found = &saved.Doubts{Gap: "another is gone"} }), "another is gone", baseline},
		{"no from", set(func(st *saved.Set) { st.Doubts.NoFrom = true }), "does not say from when on it is complete", ""},
		{"no at", set(func(st *saved.Set) { st.Doubts.NoAt = true }), "does not say as of when it is", ""},
		{"pending deletions", set(func(st *saved.Set) { st.Pending = 2 }), "2 deletions that it notified", "lockstep sync http://a.example/ 'my copy'"},
		{"not selected", set(func(st *saved.Set) { st.Unselected, st.Doubts.NoAt = true, true }), "", ""},
		{"harvested in part", set(func(st *saved.Set) {
			st.Foreign, st.Partial, st.Watermark = &discover.Foreign{}, true, time.Unix(0, 0)
		}), "not all of it could be read", baseline},
		{"nothing harvested", set(func(st *saved.Set) { st.Foreign, st.Partial = &discover.Foreign{}, true }), "nothing of it could be read", "lockstep sync http://a.example/ 'my copy'"},
		{"harvested", set(func(st *saved.Set) { st.Foreign, st.Doubts.NoAt = &discover.Foreign{}, true }), "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := mirror.Reasons(tt.set, nil)
			if tt.reason == "" {
				if len(got) != 0 {
					t.Fatalf("Reasons = %v, want none", got)
				}
				return
			}
			if len(got) != 1 || !strings.Contains(got[0].Reason, tt.reason) || got[0].Command != tt.command {
				t.Fatalf("Reasons = %+v, want %q with the command %q", got, tt.reason, tt.command)
			}
		})
	}
}

// TestReasonsIncludeFallbacksOfTheSet adds what was used in place of changes.
func TestReasonsIncludeFallbacksOfTheSet(t *testing.T) {
	t.Parallel()
	st := &saved.Set{URI: "http://a.example/cl.xml", Name: "main", Lists: "http://a.example/rl.xml", Changes: "http://a.example/ch.xml", ListKind: "list"}
	fallbacks := []report.Fallback{
		{Set: "main", Missing: "changelist", URI: "http://a.example/ch.xml", Unproven: "changes since the list are unknown"},
		{Set: "main", Missing: "resourcelist", Unproven: "it concerns the list"},
		{Set: "other", Missing: "changelist", Unproven: "it concerns another set"},
	}
	got := mirror.Reasons(st, fallbacks)
	if len(got) != 1 || got[0].Reason != "set main: http://a.example/ch.xml cannot be read, and changes since the list are unknown" {
		t.Errorf("Reasons = %+v", got)
	}
}

// TestSettleNeedsEverySetAndNoReason decides when a report is complete.
func TestSettleNeedsEverySetAndNoReason(t *testing.T) {
	t.Parallel()
	fails := errors.New("http://a.example/: it does not answer")
	for _, tt := range []struct {
		name     string
		report   report.Report
		err      error
		past     bool
		complete bool
		reasons  int
	}{
		{"nothing failed", report.Report{BySet: make([]report.SetReport, 2)}, nil, false, true, 0},
		{"a set failed", report.Report{BySet: []report.SetReport{{}, {Failed: 1}}}, nil, false, false, 0},
		{"an error", report.Report{}, fails, false, false, 1},
		{"an error of a past state", report.Report{}, fails, true, false, 0},
		{"missing past contents", report.Report{Missing: make([]report.Failure, 1)}, nil, true, false, 0},
		{"a withdrawn set", report.Report{Withdrawn: []report.WithdrawnSet{{Name: "old"}}}, nil, false, false, 1},
		{"a reason", report.Report{Unproven: make([]report.Unproven, 1)}, nil, false, false, 1},
	} {
		r := tt.report
		mirror.Settle(&r, tt.err, tt.past)
		if r.Complete != tt.complete || len(r.Unproven) != tt.reasons {
			t.Errorf("%s: complete %t with the reasons %v, want %t and %d of them", tt.name, r.Complete, r.Unproven, tt.complete, tt.reasons)
		}
		if failed := slices.ContainsFunc(r.Unproven, func(u report.Unproven) bool { return u.IsFailure() }); failed != (tt.err != nil && !tt.past) {
			t.Errorf("%s: a reason is the failure: %t", tt.name, failed)
		}
	}
}

// TestWhatWasRefusedNeedsConsent: the command that closes a refusal has the flags that consent.
func TestWhatWasRefusedNeedsConsent(t *testing.T) {
	t.Parallel()
	for consent, want := range map[string]string{"": "lockstep sync http://a.example/ 'my copy'", "--max-delete 60": "lockstep sync http://a.example/ 'my copy' --max-delete 60"} {
		var r report.Report
		mirror.Settle(&r, &report.RefusedError{Reason: "would delete 60%", Consent: consent}, false)
		if len(r.Unproven) != 1 || r.Unproven[0].Command != want || !r.Unproven[0].IsFailure() {
			t.Errorf("with the consent %q: %+v", consent, r.Unproven)
		}
	}
}

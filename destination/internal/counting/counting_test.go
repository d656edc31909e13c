package counting_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"lockstep/destination/internal/counting"
	"lockstep/destination/report"
)

var errFails = errors.New("it does not answer")

// TestRetryRemovesFailuresThatAreTriedAgain keeps all others.
func TestRetryRemovesFailuresThatAreTriedAgain(t *testing.T) {
	t.Parallel()
	var r counting.Report
	at := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	r.Failed = 2
	r.FailResource("http://a/1", errFails, time.Time{}, true)
	r.FailResource("http://a/2", errFails, at, false)
	r.FailDocument("http://a/list.xml", errFails)
	r.Retry(1)
	if r.Failed != 1 || len(r.Failures) != 2 || r.Failures[0].URI != "http://a/2" || !r.Failures[0].NotBefore.Equal(at.Truncate(time.Second)) {
		t.Fatalf("%d failed: %+v", r.Failed, r.Failures)
	}
	if !r.Failures[0].IsResource() || r.Failures[1].IsResource() {
		t.Error("a document is reported as a resource, or the reverse")
	}
	if got, want := r.Shortfall(), "1 failed, 1 could not be read or written"; got != want {
		t.Errorf("Shortfall = %q, want %q", got, want)
	}
	r.WithdrawFailure("http://a/2", errFails.Error())
	if len(r.Failures) != 1 {
		t.Errorf("after a failure was withdrawn: %+v", r.Failures)
	}
}

// TestListsAreBounded counts what is not listed.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	var r counting.Report
	for i := range report.MaxListed + 10 {
		r.Fail(fmt.Sprintf("http://a/%d", i), "it does not answer")
		r.AddPlan(fmt.Sprintf("plan %d", i))
		r.Warn(fmt.Sprintf("list %d has no at", i))
	}
	if len(r.Failures) != report.MaxListed || len(r.Plan) != report.MaxListed || len(r.Warnings) != 1 {
		t.Errorf("%d failures, %d plans, %d warnings", len(r.Failures), len(r.Plan), len(r.Warnings))
	}
	var emitted []string
	r.FinishWarnings(func(text string) { emitted = append(emitted, text) })
	if want := []string{"list 0 has no at (and 1,009 more like it)"}; !slices.Equal(r.Warnings, want) || !slices.Equal(emitted, want) {
		t.Errorf("warnings %q, emitted %q", r.Warnings, emitted)
	}
}

// TestRaiseModeStatesTheMostThoroughMode of several sets.
func TestRaiseModeStatesTheMostThoroughMode(t *testing.T) {
	t.Parallel()
	var r counting.Report
	for _, set := range [][2]string{{report.ModeNone, report.ViaChangeList}, {report.ModeBaseline, report.ViaDump}, {report.ModeIncremental, report.ViaChangeList}} {
		r.RaiseMode(set[0], set[1])
	}
	if r.Mode != report.ModeBaseline || r.Via != report.ViaDump {
		t.Errorf("mode %s via %s", r.Mode, r.Via)
	}
}

// TestDeferStatesTheEarliestTime of those that servers asked for.
func TestDeferStatesTheEarliestTime(t *testing.T) {
	t.Parallel()
	var r counting.Report
	at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, t := range []time.Time{at.Add(time.Hour), at, at.Add(time.Minute)} {
		r.Defer(t)
	}
	if !r.NotBefore.Equal(at) {
		t.Errorf("not before %s, want %s", r.NotBefore, at)
	}
}

// TestAddSetStatesTheResultOfOneSet among those of several.
func TestAddSetStatesTheResultOfOneSet(t *testing.T) {
	t.Parallel()
	open := []report.Unproven{{Reason: "a list is gone"}}
	for _, tt := range []struct {
		name    string
		err     error
		failed  int64
		reasons []report.Unproven
		text    string
	}{
		{"nothing failed", nil, 0, nil, ""},
		{"resources failed", nil, 2, nil, "2 failed, 0 refused"},
		{"an error", errFails, 2, nil, "it does not answer"},
		{"open questions", nil, 0, open, ""},
	} {
		var r counting.Report
		r.Created, r.Failed = 5, 1
		r.Mode, r.Via = report.ModeIncremental, report.ViaChangeList
		before := r
		r.Created, r.Failed = 8, 1+tt.failed
		r.Mode, r.Via = report.ModeBaseline, report.ViaList
		got := r.AddSet(report.SetReport{URI: "http://a/cl.xml"}, &before, tt.err, tt.reasons)
		if got.URI != "http://a/cl.xml" || got.Created != 3 || got.Failed != tt.failed || got.Error != tt.text {
			t.Errorf("%s: %+v, want the error %q", tt.name, got, tt.text)
		}
		if complete := tt.text == "" && tt.reasons == nil; got.Complete != complete || len(r.Unproven) != len(tt.reasons) {
			t.Errorf("%s: complete %t, reasons %v", tt.name, got.Complete, r.Unproven)
		}
		if len(r.BySet) != 1 || r.Mode != report.ModeBaseline || r.Via != report.ViaList {
			t.Errorf("%s: the report has %d sets and the mode %s via %s", tt.name, len(r.BySet), r.Mode, r.Via)
		}
	}
}

// TestShortfallNamesTheOnlyDocument: where one document is all that is missing, it is named.
func TestShortfallNamesTheOnlyDocument(t *testing.T) {
	t.Parallel()
	var r counting.Report
	r.FailDocument("http://a/list.xml", errFails)
	if got, want := r.Shortfall(), "http://a/list.xml could not be read or written"; got != want {
		t.Errorf("Shortfall = %q, want %q", got, want)
	}
	r.FailDocument("http://a/other.xml", errFails)
	if got, want := r.Shortfall(), "2 could not be read or written"; got != want {
		t.Errorf("Shortfall = %q, want %q", got, want)
	}
}

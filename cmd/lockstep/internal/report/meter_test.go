package report

import (
	"lockstep/destination"
	"testing"
	"time"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	var m Meter
	if got := m.Line(); got != "" {
		t.Errorf("before the first event: %q", got)
	}
	m.Event(destination.Event{Kind: destination.EventDocument, URI: "http://x.org/list.xml"})
	if got, want := m.Line(), "reading http://x.org/list.xml"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	m.Fetched = func() int64 { return 12_300_000 }
	if got, want := m.Line(), "reading http://x.org/list.xml  12.3 MB"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := m.Fit(30), "reading http://x.org/list.xml"; got != want {
		t.Errorf("in few columns %q, want %q", got, want)
	}
	m.Fetched = nil
	m.Event(destination.Event{Kind: destination.EventPlan, Set: "main", Progress: destination.Progress{Total: 4000}})
	m.Event(destination.Event{Kind: destination.EventProgress, Progress: destination.Progress{Done: 1000, Total: 4000, Bytes: 5e6, Failed: 2}})
	if got, want := m.Line(), "main  [=====               ]  25%  1,000 of 4,000  5.0 MB  2 failed"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestMeterFit has what matters most in any width.
func TestMeterFit(t *testing.T) {
	t.Parallel()
	now, fetched := time.Unix(0, 0), int64(0)
	m := Meter{clock: func() time.Time { return now }, Fetched: func() int64 { return fetched }}
	m.Event(destination.Event{Kind: destination.EventSet, Set: "articles", Progress: destination.Progress{Set: 1, Sets: 3}})
	m.Event(destination.Event{Kind: destination.EventDone, Set: "articles"})
	m.Event(destination.Event{Kind: destination.EventSet, Set: "records", Progress: destination.Progress{Set: 2, Sets: 3}})
	fetched = 1e6 // documents
	m.Event(destination.Event{Kind: destination.EventPlan, Set: "records", Progress: destination.Progress{Total: 100_000, TotalBytes: 5e9}})
	for i := range int64(20) {
		now, fetched = now.Add(time.Second), fetched+100e6
		m.Event(destination.Event{Kind: destination.EventProgress, Set: "records",
			Progress: destination.Progress{Done: 2000 * (i + 1), Total: 100_000, TotalBytes: 5e9, Failed: 7}})
		m.Line()
	}
	for _, tt := range []struct {
		columns int
		want    string
	}{
		{200, "2/3  records  [========            ]  40%  40,000 of 100,000  2,000/s  2.0 GB of 5.0 GB  100.0 MB/s  30 s left  7 failed"},
		{100, "2/3  records  [====      ]  40%  40,000 of 100,000  2.0 GB  100.0 MB/s  30 s left  7 failed"},
		{80, "2/3  [====      ]  40%  40,000 of 100,000  100.0 MB/s  30 s left  7 failed"},
		{40, "2/3  40%  40,000 of 100,000  7 failed"},
	} {
		got := m.Fit(tt.columns)
		if got != tt.want {
			t.Errorf("%d columns:\n got %q\nwant %q", tt.columns, got, tt.want)
		}
		if len(got) >= tt.columns {
			t.Errorf("%d columns: %d are taken", tt.columns, len(got))
		}
	}
	m.Event(destination.Event{Kind: destination.EventSet, Set: "rest", Progress: destination.Progress{Set: 3, Sets: 3}})
	if got := m.Line(); got != "" {
		t.Errorf("the next set has %q", got)
	}
}

// TestMeterDone: what an interrupted run says of itself: resources that were under way are
// not done.
func TestMeterDone(t *testing.T) {
	t.Parallel()
	bytes := int64(0)
	m := &Meter{Fetched: func() int64 { return bytes }}
	if got := m.Done(); got != "" {
		t.Errorf("before the run: %q", got)
	}
	m.Event(destination.Event{Kind: destination.EventSet, Set: "a", Progress: destination.Progress{Set: 1, Sets: 2}})
	m.Event(destination.Event{Kind: destination.EventProgress, Set: "a", Progress: destination.Progress{Done: 3}})
	if got := m.Done(); got != "3 resources done, while the list was being read, of set 1 of 2 (a)" {
		t.Errorf("while the list is read: %q", got)
	}
	m.Event(destination.Event{Kind: destination.EventSet, Set: "b", Progress: destination.Progress{Set: 2, Sets: 2}})
	m.Event(destination.Event{Kind: destination.EventPlan, Set: "b", Progress: destination.Progress{Total: 5000}})
	m.Event(destination.Event{Kind: destination.EventProgress, Set: "b", Progress: destination.Progress{Done: 1240, Failed: 6, Total: 5000}})
	bytes = 4_900_000
	if got := m.Done(); got != "1,234 of 5,000 resources done, of set 2 of 2 (b); 4.9 MB received" {
		t.Errorf("in the middle: %q", got)
	}
	m.Event(destination.Event{Kind: destination.EventSet, Set: "a", Progress: destination.Progress{Set: 1, Sets: 2}})
	m.Event(destination.Event{Kind: destination.EventPlan, Set: "a", Progress: destination.Progress{Total: 7}})
	if got := m.Done(); got != "0 of 7 resources done, of set 1 of 2 (a); 4.9 MB received" {
		t.Errorf("when a set has another turn: %q", got)
	}
}

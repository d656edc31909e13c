package resourcesync_test

import (
	"testing"
	"time"

	"lockstep/resourcesync"
)

const newYear = "2012-01-01T00:00:00Z"

// datetimes are texts and the instant they denote, or "" for none; liberty is
// set for those that a strict parser refuses.
var datetimes = []struct {
	text, want  string
	granularity resourcesync.Granularity
	liberty     bool
}{
	{"2012", newYear, resourcesync.Year, false},
	{"2012-01", newYear, resourcesync.Month, false},
	{"2012-01-01", newYear, resourcesync.Day, false},
	{"2012-01-01T00:00Z", newYear, resourcesync.Minute, false},
	{"2012-01-01T00:00:00Z", newYear, resourcesync.Second, false},
	{"2012-01-01T02:00:00+02:00", newYear, resourcesync.Second, false},
	{"2011-12-31T22:00:00-02:00", newYear, resourcesync.Second, false},
	{"2012-01-01T00:00:00.000Z", newYear, resourcesync.Nanosecond, false},
	{"2012-01-01T00:00:00+02:00", "2011-12-31T22:00:00Z", resourcesync.Second, false},
	{"2012-01-01T05:45+05:45", newYear, resourcesync.Minute, false},
	{"2012-01-01T00:00:00-00:00", newYear, resourcesync.Second, false},
	{"2012-02-29T23:59:59.123456789Z", "2012-02-29T23:59:59.123456789Z", resourcesync.Nanosecond, false},
	{"2012-01-01T00:00:00.5Z", "2012-01-01T00:00:00.5Z", resourcesync.Nanosecond, false},
	{"2012-01-01T00:00:00.000000001Z", "2012-01-01T00:00:00.000000001Z", resourcesync.Nanosecond, false},
	{"2000-02-29", "2000-02-29T00:00:00Z", resourcesync.Day, false},
	{"1999-12-31T23:59:59Z", "1999-12-31T23:59:59Z", resourcesync.Second, false},
	{"0000-03-01", "0000-03-01T00:00:00Z", resourcesync.Day, false},
	{"9999-12-31T23:59:59.999999999Z", "9999-12-31T23:59:59.999999999Z", resourcesync.Nanosecond, false},
	{"1969-12-31T23:59:59.5Z", "1969-12-31T23:59:59.5Z", resourcesync.Nanosecond, false},

	{"2012-01-01T00:00:00", newYear, resourcesync.Second, true},
	{"2012-01-01 00:00:00Z", newYear, resourcesync.Second, true},
	{"2012-01-01T00:00:00z", newYear, resourcesync.Second, true},
	{"2012-01-01t00:00:00Z", newYear, resourcesync.Second, true},
	{"2012-01-01T00:00:00+0000", newYear, resourcesync.Second, true},
	{"2012-01-01T00:30:00+0030", newYear, resourcesync.Second, true},
	{"2011-12-31T23:59:60Z", "2011-12-31T23:59:59.999999999Z", resourcesync.Nanosecond, true},
	{"2012-01-01T00:00:00.1234567899Z", "2012-01-01T00:00:00.123456789Z", resourcesync.Nanosecond, true},
	{"2012-01-01T00:00", newYear, resourcesync.Minute, true},

	{"", "", 0, false},
	{"12", "", 0, false},
	{"20120", "", 0, false},
	{"2012-", "", 0, false},
	{"2012-1", "", 0, false},
	{"2012-00", "", 0, false},
	{"2012-13-01", "", 0, false},
	{"2012-01-00", "", 0, false},
	{"2012-04-31", "", 0, false},
	{"2011-02-29", "", 0, false},
	{"1900-02-29", "", 0, false},
	{"2012/01/01", "", 0, false},
	{"2012-01-01T", "", 0, false},
	{"2012-01-01Z", "", 0, false},
	{"2012-01-01T00Z", "", 0, false},
	{"2012-01-01T24:00:00Z", "", 0, false},
	{"2012-01-01T00:60:00Z", "", 0, false},
	{"2012-01-01T00:00:61Z", "", 0, false},
	{"2012-01-01T00:00:00.Z", "", 0, false},
	{"2012-01-01T00:00:00,5Z", "", 0, false},
	{"2012-01-01T00:00:00+2:00", "", 0, false},
	{"2012-01-01T00:00:00+24:00", "", 0, false},
	{"2012-01-01T00:00:00+00:60", "", 0, false},
	{"2012-01-01T00:00:00UTC", "", 0, false},
	{"2012-01-01T00:00:00Z ", "", 0, false},
	{" 2012-01-01", "", 0, false},
	{"-2012-01-01", "", 0, false},
	{"12012-01-01", "", 0, false},
	{"0000-01-01T00:00:00+01:00", "", 0, false},
	{"9999-12-31T23:59:59-01:00", "", 0, false},
	{"Sun, 01 Jan 2012 00:00:00 GMT", "", 0, false},
	{"２０１２", "", 0, false},
}

// RS-DT-02 to RS-DT-05.
func TestParseDatetime(t *testing.T) {
	t.Parallel()
	for _, tt := range datetimes {
		d, liberty, err := resourcesync.ParseDatetimeLenient(tt.text)
		if (err == nil) != (tt.want != "") || (liberty != "") != tt.liberty {
			t.Errorf("ParseDatetimeLenient(%q) = %v, %q, %v", tt.text, d, liberty, err)
			continue
		}
		if d.String() != tt.want || d.Granularity() != tt.granularity {
			t.Errorf("ParseDatetimeLenient(%q) = %v, granularity %d, want %v, %d", tt.text, d, d.Granularity(), tt.want, tt.granularity)
		}
		strict, err := resourcesync.ParseDatetime(tt.text)
		if (err == nil) != (tt.want != "" && !tt.liberty) || err == nil && strict != d {
			t.Errorf("ParseDatetime(%q) = %v, %v", tt.text, strict, err)
		}
		if tt.want != "" {
			if want, err := time.Parse(time.RFC3339Nano, tt.want); err != nil || !d.Time().Equal(want) {
				t.Errorf("ParseDatetimeLenient(%q).Time() = %v, want %v, %v", tt.text, d.Time(), want, err)
			}
		}
	}
}

// Dates agree with package time over the four centuries after which the
// calendar repeats itself, and at both ends.
func TestDatetimeCalendar(t *testing.T) {
	t.Parallel()
	for _, years := range [][2]int{{0, 5}, {1880, 2290}, {9990, 10_000}} {
		for day := time.Date(years[0], 1, 1, 0, 0, 0, 0, time.UTC); day.Year() < years[1]; day = day.AddDate(0, 0, 1) {
			want := day.Format(time.RFC3339)
			if day.IsZero() {
				continue
			}
			if got := resourcesync.NewDatetime(day).String(); got != want {
				t.Fatalf("NewDatetime(%v) = %s", want, got)
			}
			if d, err := resourcesync.ParseDatetime(want); err != nil || !d.Time().Equal(day) {
				t.Fatalf("ParseDatetime(%s) = %v, %v", want, d, err)
			}
		}
	}
}

func TestDatetimeZero(t *testing.T) {
	t.Parallel()
	var zero resourcesync.Datetime
	if !zero.IsZero() || zero.String() != "" || !zero.Time().IsZero() || resourcesync.NewDatetime(time.Time{}) != zero {
		t.Errorf("the zero Datetime is %v, %v", zero, zero.Time())
	}
	if _, err := resourcesync.ParseDatetime("0001-01-01"); err == nil {
		t.Error("the first instant of all, which stands for none, was parsed")
	}
}

func TestDatetimeCompare(t *testing.T) {
	t.Parallel()
	rising := []string{"1969", "2011-12-31T23:59:59.999999999Z", "2012", "2012-01-01T00:00:00.000000001Z", "2012-01-01T00:00:01Z", "2013"}
	for i, a := range rising {
		for j, b := range rising {
			x, _, errA := resourcesync.ParseDatetimeLenient(a)
			y, _, errB := resourcesync.ParseDatetimeLenient(b)
			want := min(1, max(-1, i-j))
			if got := x.Compare(y); errA != nil || errB != nil || got != want {
				t.Errorf("Compare(%s, %s) = %d, want %d", a, b, got, want)
			}
		}
	}
}

package hub

import (
	"testing"
	"time"
)

// TestOptionsDefaults: defaults are consistent with the values given.
func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for name, tt := range map[string]struct{ given, want Options }{
		"nothing": {Options{}, Options{
			LeaseMin: time.Minute, LeaseDefault: 10 * day, LeaseMax: 30 * day, RetryFirst: time.Second, RetryMost: time.Hour,
		}},
		"short leases":  {Options{LeaseMax: 10 * time.Second}, Options{LeaseMin: 10 * time.Second, LeaseDefault: 10 * time.Second, LeaseMax: 10 * time.Second}},
		"long leases":   {Options{LeaseMin: 60 * day}, Options{LeaseMin: 60 * day, LeaseDefault: 60 * day, LeaseMax: 60 * day}},
		"a short one":   {Options{LeaseDefault: time.Second}, Options{LeaseMin: time.Second, LeaseDefault: time.Second, LeaseMax: 30 * day}},
		"a long one":    {Options{LeaseDefault: 40 * day}, Options{LeaseMin: time.Minute, LeaseDefault: 40 * day, LeaseMax: 40 * day}},
		"quick retries": {Options{RetryMost: time.Millisecond}, Options{RetryFirst: time.Millisecond, RetryMost: time.Millisecond}},
		"slow retries":  {Options{RetryFirst: day}, Options{RetryFirst: day, RetryMost: day}},
	} {
		tt.given.PublicURL = "https://hub.example.org/"
		got, err := tt.given.withDefaults()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, d := range []struct{ got, want time.Duration }{
			{got.LeaseMin, tt.want.LeaseMin}, {got.LeaseDefault, tt.want.LeaseDefault}, {got.LeaseMax, tt.want.LeaseMax},
			{got.RetryFirst, tt.want.RetryFirst}, {got.RetryMost, tt.want.RetryMost},
		} {
			if d.want != 0 && d.got != d.want {
				t.Errorf("%s: %+v, want %+v", name, got, tt.want)
				break
			}
		}
	}
	for name, o := range map[string]Options{
		"contradiction":  {LeaseMin: time.Hour, LeaseMax: time.Minute},
		"too short":      {LeaseMin: time.Hour, LeaseDefault: time.Minute},
		"negative":       {Keep: -1},
		"waits backward": {RetryFirst: time.Hour, RetryMost: time.Minute},
	} {
		o.PublicURL = "https://hub.example.org/"
		if _, err := o.withDefaults(); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

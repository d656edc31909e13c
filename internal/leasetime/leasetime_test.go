package leasetime_test

import (
	"testing"
	"time"

	"lockstep/internal/leasetime"
)

func TestStretched(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ least, answer, want time.Duration }{
		{8 * time.Second, 0, 8 * time.Second},
		{8 * time.Second, 500 * time.Millisecond, 8 * time.Second},
		{8 * time.Second, 2 * time.Second, 32 * time.Second},
		{8 * time.Second, time.Hour, time.Minute},
		{time.Hour, time.Hour, time.Hour},
	} {
		if got := leasetime.Stretched(tt.least, tt.answer); got != tt.want {
			t.Errorf("Stretched(%v, %v) = %v, want %v", tt.least, tt.answer, got, tt.want)
		}
	}
	if got := leasetime.Limit(8*time.Second, 32*time.Second); got != 8*time.Second {
		t.Errorf("Limit = %v, want 8s", got)
	}
	if got := leasetime.Limit(8*time.Second, 8*time.Second); got != 4*time.Second {
		t.Errorf("Limit = %v, want 4s", got)
	}
}

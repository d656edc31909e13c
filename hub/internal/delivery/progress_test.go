package delivery

import (
	"testing"
	"time"
)

// Progress is saved every 50 ms, less often if that is expensive or the deliveries
// of many subscriptions can be saved together.
func TestSaveWait(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		took  time.Duration
		saved int
		more  bool
		want  time.Duration
	}{
		{"few", time.Millisecond, 10, false, 50 * time.Millisecond},
		{"expensive", 40 * time.Millisecond, 10, false, 160 * time.Millisecond},
		{"as many as are saved at a time", 5 * time.Millisecond, 1000, false, 200 * time.Millisecond},
		{"more than that", 5 * time.Millisecond, 1000, true, 50 * time.Millisecond},
		{"stuck", time.Minute, 1000, false, 4 * time.Second},
	} {
		if got := saveWait(tt.took, tt.saved, tt.more); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

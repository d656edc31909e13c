package main

import "testing"

// TestMemoryLimit leaves the collector room for what is in use, within the
// memory that is promised.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ live, want int64 }{
		{0, 56 << 20},
		{16 << 20, 56 << 20},
		{40 << 20, 104 << 20},
		{76 << 20, 176 << 20},
		{300 << 20, 176 << 20},
	} {
		if got := memoryLimit(tt.live); got != tt.want {
			t.Errorf("%d MiB in use: limit %d MiB, want %d", tt.live>>20, got>>20, tt.want>>20)
		}
	}
}

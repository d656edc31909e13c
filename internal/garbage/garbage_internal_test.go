package garbage

import "testing"

// TestMemoryLimitWithUpstreams: it is far above what is in use, and never lower than what a thousand need.
func TestMemoryLimitWithUpstreams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ live, want int64 }{
		{0, 512 << 20},
		{100 << 20, 512 << 20},
		{400 << 20, 624 << 20},
	} {
		if got := upstreamsLimit(tt.live, tt.live); got != tt.want {
			t.Errorf("%d MiB in use: limit %d MiB, want %d", tt.live>>20, got>>20, tt.want>>20)
		}
	}
}

// TestMemoryLimitOfASource: there is less garbage than by default where much is in use.
func TestMemoryLimitOfASource(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ live, want int64 }{
		{0, 56 << 20},
		{16 << 20, 56 << 20},
		{80 << 20, 144 << 20},
	} {
		if got := sourceLimit(tt.live, tt.live); got != tt.want {
			t.Errorf("%d MiB in use: limit %d MiB, want %d", tt.live>>20, got>>20, tt.want>>20)
		}
	}
}

// TestMemoryLimit leaves the collector room for what is in use, within the
// memory that is promised.
func TestMemoryLimit(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ live, scanned, want int64 }{
		{0, 0, 56 << 20},
		{16 << 20, 16 << 20, 56 << 20},
		{40 << 20, 40 << 20, 104 << 20},
		{40 << 20, 60 << 20, 104 << 20}, // as measured when the collection began
		{40 << 20, 10 << 20, 74 << 20},
		{76 << 20, 76 << 20, 176 << 20},
		{300 << 20, 300 << 20, 176 << 20},
	} {
		if got := memoryLimit(tt.live, tt.scanned); got != tt.want {
			t.Errorf("%d MiB in use, pointers in %d MiB: limit %d MiB, want %d", tt.live>>20, tt.scanned>>20, got>>20, tt.want>>20)
		}
	}
}

// TestMemoryLimitOfAHub: however much is in use, the collector has as much room as by default.
func TestMemoryLimitOfAHub(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ live, want int64 }{
		{0, 56 << 20},
		{16 << 20, 56 << 20},
		{300 << 20, 624 << 20},
	} {
		if got := hubLimit(tt.live, tt.live); got != tt.want {
			t.Errorf("%d MiB in use: limit %d MiB, want %d", tt.live>>20, got>>20, tt.want>>20)
		}
	}
}

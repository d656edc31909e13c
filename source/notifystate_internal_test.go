package source

import "testing"

// States of before name the last two pings only: the older of them stands for
// those before.
func TestKeptCursor(t *testing.T) {
	t.Parallel()
	a, b, c := place{Seq: 1}, place{Seq: 2}, place{Seq: 3}
	for _, tt := range []struct {
		kept []place
		want acked
	}{
		{nil, acked{}},
		{[]place{a}, acked{a, a, a}},
		{[]place{a, b}, acked{a, a, b}},
		{[]place{a, b, c}, acked{a, b, c}},
		{[]place{{}, a, b, c}, acked{a, b, c}},
	} {
		if got := (&keptCursor{Acked: tt.kept}).acked(); got != tt.want {
			t.Errorf("of %v: %v, want %v", tt.kept, got, tt.want)
		}
	}
}

package notify

import "testing"

// States of before name the last two pings only: the older of them stands for
// those before.
func TestKeptCursor(t *testing.T) {
	t.Parallel()
	a, b, c := Place{Seq: 1}, Place{Seq: 2}, Place{Seq: 3}
	for _, tt := range []struct {
		kept []Place
		want acked
	}{
		{nil, acked{}},
		{[]Place{a}, acked{a, a, a}},
		{[]Place{a, b}, acked{a, a, b}},
		{[]Place{a, b, c}, acked{a, b, c}},
		{[]Place{{}, a, b, c}, acked{a, b, c}},
	} {
		if got := (&storedCursor{Acked: tt.kept}).acked(); got != tt.want {
			t.Errorf("of %v: %v, want %v", tt.kept, got, tt.want)
		}
	}
}

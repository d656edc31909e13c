package intake

import (
	"testing"
	"time"
)

func TestRacy(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 500_000_000)
	at := func(d time.Duration) int64 { return now.Add(d).UnixNano() }
	whole := func(s int64) int64 { return (now.Unix() + s) * int64(time.Second) }
	tests := []struct {
		name         string
		mtime, ctime int64
		want         bool
	}{
		{"long ago", at(-time.Hour), at(-time.Hour), false},
		{"this tick", at(-time.Millisecond), at(-time.Millisecond), true},
		{"a tick ago", at(-time.Second), at(-time.Second), false},
		{"old by name, new by inode", at(-time.Hour), at(-time.Millisecond), true},
		{"new by name, old by inode", at(-time.Millisecond), at(-time.Hour), false},
		{"from the future", at(time.Hour), at(time.Hour), true},
		{"this second, whole seconds only", whole(0), whole(0), true},
		{"the last second, whole seconds only", whole(-1), whole(-1), true},
		{"seconds ago, whole seconds only", whole(-2), whole(-2), false},
		{"no ctime, new", at(-time.Millisecond), 0, true},
		{"no ctime, old", at(-time.Hour), 0, false},
	}
	for _, tt := range tests {
		s := fileStat{mtime: tt.mtime, ctime: tt.ctime}
		if got := s.racy(now); got != tt.want {
			t.Errorf("%s: racy = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	a := fileStat{size: 1, mtime: 2, ctime: 2, ino: 3}
	seen := map[string]bool{}
	for _, s := range []fileStat{
		a, {size: 2, mtime: 2, ctime: 2, ino: 3}, {size: 1, mtime: 3, ctime: 2, ino: 3}, {size: 1, mtime: 2, ctime: 3, ino: 3},
		{size: 1, mtime: 2, ctime: 2, ino: 4}, {size: 1, mtime: noTime, ctime: 2, ino: 3}, {size: 1, mtime: -2, ctime: -2, ino: 3},
	} {
		seen[string(s.appendToken(nil, "1."))] = true
	}
	seen[string(a.appendToken(nil, "2."))] = true
	if len(seen) != 8 {
		t.Errorf("%d tokens of 8 states: %v", len(seen), seen)
	}
}

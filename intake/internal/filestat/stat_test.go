package filestat

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
		s := Stat{Mtime: tt.mtime, Ctime: tt.ctime}
		if got := s.Racy(now); got != tt.want {
			t.Errorf("%s: racy = %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestToken(t *testing.T) {
	t.Parallel()
	a := Stat{Size: 1, Mtime: 2, Ctime: 2, Ino: 3}
	seen := map[string]bool{}
	for _, s := range []Stat{
		a, {Size: 2, Mtime: 2, Ctime: 2, Ino: 3}, {Size: 1, Mtime: 3, Ctime: 2, Ino: 3}, {Size: 1, Mtime: 2, Ctime: 3, Ino: 3},
		{Size: 1, Mtime: 2, Ctime: 2, Ino: 4}, {Size: 1, Mtime: noTime, Ctime: 2, Ino: 3}, {Size: 1, Mtime: -2, Ctime: -2, Ino: 3},
	} {
		seen[string(s.AppendToken(nil, "1."))] = true
	}
	seen[string(a.AppendToken(nil, "2."))] = true
	if len(seen) != 8 {
		t.Errorf("%d tokens of 8 states: %v", len(seen), seen)
	}
}

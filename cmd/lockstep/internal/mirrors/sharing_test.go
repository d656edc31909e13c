package mirrors

import (
	"testing"

	"lockstep/cmd/lockstep/internal/following"
	"lockstep/cmd/lockstep/internal/mirror"
	"lockstep/cmd/lockstep/internal/network"
	"lockstep/cmd/lockstep/internal/syncing"
)

// TestLimitsOfHosts: mirrors of one host share its limits, which are the strictest that one
// of them has; so do all that have none.
func TestLimitsOfHosts(t *testing.T) {
	t.Parallel()
	entries := []*entry{}
	for _, m := range []struct {
		source string
		jobs   int
		rate   float64
	}{
		{"http://a.example/x", 3, 0},
		{"http://user:secret@A.example:80/y", 0, 5},
		{"http://b.example/", 0, 0},
		{"c.example", 0, 0},
		{"https://c.example/y", 0, 0},
		{"http://d.example/", 3, 5},
		{"http://e.example/", 0, 7},
	} {
		sync := syncing.Flags{Selection: mirror.Selection{Source: m.source}, Network: network.Options{Jobs: m.jobs, Rate: m.rate}}
		entries = append(entries, &entry{name: m.source, flags: following.Flags{Sync: sync}})
	}
	share(2, 1, network.Options{}).join(entries)
	net := func(i int) *network.Options { return &entries[i].sync().Network }
	if net(0).Jobs != 3 || net(0).Rate != 5 || net(1).Jobs != 3 || net(1).Rate != 5 {
		t.Errorf("a.example has jobs %d, rate %g; and %d, %g; want 3, 5 for both", net(0).Jobs, net(0).Rate, net(1).Jobs, net(1).Rate)
	}
	if net(2).Jobs != 0 || net(2).Rate != 0 || net(6).Rate != 7 {
		t.Errorf("hosts have limits of others: %+v, %+v", net(2), net(6))
	}
	for _, same := range [][2]int{{0, 1}, {2, 3}, {3, 4}, {0, 5}} {
		if net(same[0]).Limits != net(same[1]).Limits {
			t.Errorf("%s and %s do not share their limits", entries[same[0]].name, entries[same[1]].name)
		}
	}
	if net(0).Limits == net(2).Limits || net(2).Limits == net(6).Limits {
		t.Error("limits are shared by mirrors with different ones")
	}
}

// TestProgress: what does not fit is counted.
func TestProgress(t *testing.T) {
	t.Parallel()
	active := []string{"a 10%", "b 20%", "c 30%", "d 40%", "e 50%"}
	for columns, want := range map[int]string{
		0:  "1 of 6 mirrors done  a 10%  b 20%  c 30%  d 40%  +1",
		80: "1 of 6 mirrors done  a 10%  b 20%  c 30%  d 40%  e 50%",
		30: "1 of 6 mirrors done  a 10%  +4",
	} {
		if got := progress(1, 6, active, columns); got != want {
			t.Errorf("in %d columns: %q, want %q", columns, got, want)
		}
	}
}

package notify

import (
	"fmt"
	"testing"

	"lockstep/catalog"
)

// TestRecentNotifications: what channels hold in memory is limited, however many sets there
// are, and the newest notification is always held.
func TestRecentNotifications(t *testing.T) {
	t.Parallel()
	body := make([]byte, notifiedBytes/2)
	var channels []*Channel
	for i := range 200 {
		channels = append(channels, newChannel(Set{Name: fmt.Sprint("set", i)}))
	}
	s := &Channels{channels: channels}
	for round := range catalog.Seq(2 * recentNotifications) {
		for _, c := range channels {
			n := &notification{from: Place{Seq: round}, to: Place{Seq: round + 1}, entries: 1, body: body}
			s.recent.add(c, n)
			if c.known(n.from, extent{through: n.to}) != n {
				t.Fatalf("%s does not know its newest notification", c.Name)
			}
			if len(c.recent) > recentNotifications {
				t.Fatalf("%s holds %d notifications", c.Name, len(c.recent))
			}
		}
	}
	var held int64
	for _, c := range channels {
		for _, n := range c.recent {
			held += n.weight()
		}
	}
	if held > recentBytes || held != s.recent.bytes || held < recentBytes/2 {
		t.Errorf("channels hold %d bytes, counted as %d, at most %d", held, s.recent.bytes, recentBytes)
	}
}

package destination_test

import (
	"fmt"
	"testing"
	"time"

	"lockstep/destination"
	"lockstep/storage/sqlite"
)

// BenchmarkFollow measures from a notification to the verified file, with the
// Journal and the files on disk.
func BenchmarkFollow(b *testing.B) {
	for _, hub := range []bool{true, false} {
		b.Run(map[bool]string{true: "hub", false: "events"}[hub], func(b *testing.B) {
			s := newSite(b, style{})
			s.put("/a", "one")
			p := newPress(b, s, hub, !hub)
			g := newFollowing(b, s, hub)
			db, err := sqlite.Open(b.TempDir() + "/state.db")
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			g.journal = db.Journal()
			g.start(destination.FollowOptions{})
			g.live(map[bool]string{true: destination.ChannelHub, false: destination.ChannelEvents}[hub])
			var sum time.Duration
			for i := 0; b.Loop(); i++ {
				content := fmt.Sprintf("%2000d", i)
				s.put("/b", content)
				payload := p.payload()
				start := time.Now()
				p.push(payload)
				p.deliver(payload)
				for !g.has("/b", content) {
					time.Sleep(100 * time.Microsecond)
				}
				sum += time.Since(start)
			}
			b.ReportMetric(float64(sum.Milliseconds())/float64(b.N), "ms/change")
			g.end()
		})
	}
}

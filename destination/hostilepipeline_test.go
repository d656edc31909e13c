package destination_test

import (
	"net/http"
	"path"
	"strconv"
	"sync/atomic"
	"testing"

	"lockstep/internal/fetch"
)

// TestHostileServerPipelined is TestHostileServer with so many resources that requests
// are pipelined, which the stated hashes allow: however a server confuses responses then,
// each resource that it sends gets its own content.
func TestHostileServerPipelined(t *testing.T) {
	t.Parallel()
	const count, every = 300, 25
	all := append(misbehaviors(), misbehavior{name: "answers the next request first", respond: func(c *hostileConn, i int) {
		if c.in.Buffered() > 0 {
			if r, err := http.ReadRequest(c.in); err == nil {
				next, _ := strconv.Atoi(path.Base(r.URL.Path))
				c.send("200 OK", "X-A: b", contentOf(next))
			}
		}
		c.send("200 OK", "X-A: b", contentOf(i))
	}}, misbehavior{name: "forgets the next request", respond: func(c *hostileConn, i int) {
		if c.in.Buffered() > 0 {
			_, _ = http.ReadRequest(c.in) // only its absence matters
		}
		c.send("200 OK", "X-A: b", contentOf(i))
	}})
	var pipelined atomic.Int64
	t.Run("each", func(t *testing.T) {
		for _, tt := range all {
			if tt.hangs {
				continue // for each resource
			}
			t.Run(tt.name, func(t *testing.T) {
				t.Parallel()
				s := &hostileServer{count: count, hashes: true, respond: func(c *hostileConn, i int) {
					if c.in.Buffered() > 0 {
						pipelined.Add(1)
					}
					if i%every == every-1 {
						tt.respond(c, i)
					} else {
						c.send("200 OK", "X-A: b", contentOf(i))
					}
				}}
				startHostile(t, s)
				want := count
				if tt.fails {
					want -= count / every
				}
				if found := syncHostile(t, s, false, fetch.Options{}); found < want {
					t.Errorf("%d resources, want %d", found, want)
				}
			})
		}
	})
	if pipelined.Load() == 0 {
		t.Error("no request was pipelined")
	}
}

package ping

import (
	"context"
	"net/url"
	"testing"
	"time"

	"lockstep/hub/hubstore"
)

// A confirming has one request, which becomes a subscription right after the first
// question about it.
type confirming struct{ subscribed bool }

func (c *confirming) expects(string) bool { return !c.Subscribed("") }

func (c *confirming) Subscribed(string) (was bool) {
	was, c.subscribed = c.subscribed, true
	return was
}

func (c *confirming) Topics() []hubstore.Topic                                { return nil }
func (c *confirming) Owns(string) bool                                        { return true }
func (c *confirming) Topic(string) (hubstore.Topic, bool)                     { return hubstore.Topic{}, false }
func (c *confirming) Append(context.Context, hubstore.Message) (int64, error) { return 1, nil }
func (c *confirming) Save(context.Context, hubstore.Changes) error            { return nil }

// TestPingWhileConfirmed: a ping, or a link to the canonical address, that comes
// while the first subscription to the topic begins makes the hub fetch the topic.
func TestPingWhileConfirmed(t *testing.T) {
	t.Parallel()
	const topic = "http://topics.example/a"
	u, err := url.Parse(topic)
	if err != nil {
		t.Fatal(err)
	}
	for name, comes := range map[string]func(ctx context.Context, n *Fetcher) error{
		"ping": func(ctx context.Context, n *Fetcher) error { return n.Ping(ctx, []string{topic}, []*url.URL{u}) },
		"link": func(ctx context.Context, n *Fetcher) error {
			n.follow(ctx, "http://topics.example/alias", u)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := &confirming{}
			n, err := New(Options{Topics: c, Expects: c.expects, Allowed: func(*url.URL) error { return nil }, Clock: time.Now, UserAgent: "test"})
			if err != nil {
				t.Fatal(err)
			}
			if err := comes(t.Context(), n); err != nil {
				t.Fatal(err)
			}
			if got := n.Pending(); got != 1 {
				t.Errorf("%d topics are to be fetched, want 1", got)
			}
		})
	}
}

package diff

import (
	"testing"
	"time"

	"lockstep/destination/internal/content"
	"lockstep/destination/internal/desired"
	"lockstep/resourcesync"
)

// TestCompare compares what was stated about a resource at two instants (RA-DST-06).
func TestCompare(t *testing.T) {
	t.Parallel()
	one := resourcesync.NewDatetime(time.Unix(1e9, 0))
	two := resourcesync.NewDatetime(time.Unix(1e9+5, 0))
	md5 := func(digest string) resourcesync.Hashes {
		return resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: digest}}
	}
	sha := resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: "s"}}
	said := func(hashes resourcesync.Hashes, length int64, lastmod resourcesync.Datetime) statement {
		return statement{Resource: desired.Resource{Hashes: hashes, Length: length, Lastmod: lastmod, Rank: desired.Rank{Class: desired.Listed}}}
	}
	event := func(at resourcesync.Datetime) statement {
		return statement{Resource: desired.Resource{Change: resourcesync.Updated, Length: -1, Rank: desired.Rank{Class: desired.Changed, Event: at}}}
	}
	listed := func(at resourcesync.Datetime) statement {
		w := said(nil, -1, resourcesync.Datetime{})
		w.list = at
		return w
	}
	var none resourcesync.Datetime
	for _, tt := range []struct {
		name string
		a, b statement
		want content.Likeness
	}{
		{"a common hash, whatever else", said(md5("x"), 1, one), said(md5("x"), 1, two), content.Same},
		{"a common hash that differs", said(md5("x"), 1, one), said(md5("y"), 1, one), content.Different},
		{"two common hashes, one differs", said(append(md5("x"), sha...), 1, one), said(append(md5("y"), sha...), 1, one), content.Different},
		{"no common hash, length and lastmod", said(md5("x"), 1, one), said(sha, 1, one), content.Same},
		{"another length", said(nil, 1, none), said(nil, 2, none), content.Different},
		{"another lastmod", said(nil, 1, one), said(nil, 1, two), content.Different},
		{"the same length, no lastmod", said(nil, 1, none), said(nil, 1, one), content.Unknown},
		{"the same lastmod, no length", said(nil, -1, one), said(nil, 1, one), content.Unknown},
		{"nothing", said(nil, -1, none), said(nil, -1, none), content.Unknown},
		{"the same event", event(one), event(one), content.Same},
		{"another event", event(one), event(two), content.Unknown},
		{"an event and a list", event(one), listed(one), content.Unknown},
		{"the same list", listed(one), listed(one), content.Same},
		{"another list", listed(one), listed(two), content.Unknown},
	} {
		if got := compare(&tt.a, &tt.b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := compare(&tt.b, &tt.a); got != tt.want {
			t.Errorf("%s, the other way round: %v, want %v", tt.name, got, tt.want)
		}
	}
}

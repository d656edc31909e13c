package destination

import (
	"testing"
	"time"

	"lockstep/resourcesync"
)

// TestSameThen compares what was said of a resource at two instants (RA-DST-06).
func TestSameThen(t *testing.T) {
	t.Parallel()
	one := resourcesync.NewDatetime(time.Unix(1e9, 0))
	two := resourcesync.NewDatetime(time.Unix(1e9+5, 0))
	md5 := func(digest string) resourcesync.Hashes {
		return resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: digest}}
	}
	sha := resourcesync.Hashes{{Algorithm: resourcesync.SHA256, Digest: "s"}}
	said := func(hashes resourcesync.Hashes, length int64, lastmod resourcesync.Datetime) told {
		return told{want: want{Hashes: hashes, Length: length, Lastmod: lastmod, rank: rank{class: wantListed}}}
	}
	event := func(at resourcesync.Datetime) told {
		return told{want: want{Change: resourcesync.Updated, Length: -1, rank: rank{class: wantChange, event: at}}}
	}
	listed := func(at resourcesync.Datetime) told {
		w := said(nil, -1, resourcesync.Datetime{})
		w.list = at
		return w
	}
	var none resourcesync.Datetime
	for _, tt := range []struct {
		name string
		a, b told
		want likeness
	}{
		{"a common hash, whatever else", said(md5("x"), 1, one), said(md5("x"), 1, two), same},
		{"a common hash that differs", said(md5("x"), 1, one), said(md5("y"), 1, one), different},
		{"two common hashes, one differs", said(append(md5("x"), sha...), 1, one), said(append(md5("y"), sha...), 1, one), different},
		{"no common hash, length and lastmod", said(md5("x"), 1, one), said(sha, 1, one), same},
		{"another length", said(nil, 1, none), said(nil, 2, none), different},
		{"another lastmod", said(nil, 1, one), said(nil, 1, two), different},
		{"the same length, no lastmod", said(nil, 1, none), said(nil, 1, one), unknown},
		{"the same lastmod, no length", said(nil, -1, one), said(nil, 1, one), unknown},
		{"nothing", said(nil, -1, none), said(nil, -1, none), unknown},
		{"the same event", event(one), event(one), same},
		{"another event", event(one), event(two), unknown},
		{"an event and a list", event(one), listed(one), unknown},
		{"the same list", listed(one), listed(one), same},
		{"another list", listed(one), listed(two), unknown},
	} {
		if got := sameThen(&tt.a, &tt.b); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
		if got := sameThen(&tt.b, &tt.a); got != tt.want {
			t.Errorf("%s, the other way round: %v, want %v", tt.name, got, tt.want)
		}
	}
}

package site_test

import (
	"testing"

	"lockstep/cmd/lockstep/internal/site"
)

func TestKindOf(t *testing.T) {
	t.Parallel()
	kind := site.KindOf("/data/")
	for path, want := range map[string]string{
		"/data/": "page", "/data/a/b.txt": "resource", "/data/hub": "hub", "/data/hub/x": "resource", "/data/oai": "oai-pmh",
		"/data/.well-known/resourcesync": "document", "/data/robots.txt": "document", "/data/-/healthz": "page", "/data/-/api/v1/sets": "api", "/data/-/callback/x/": "callback",
		"/data/resourcesync/main/changelist.xml": "document", "/data/resourcesync/main/atom.xml": "feed", "/data/resourcesync/main/dump": "package",
		"/data/resourcesync/main/resourcedump-1.zip": "package", "/data/resourcesync/main/changes": "notification",
		"/data/timegate/http://a.example/": "version", "/data": "other", "/": "other",
	} {
		if got := kind(path); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}

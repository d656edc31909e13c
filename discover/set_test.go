package discover_test

import (
	"testing"

	"lockstep/discover"
)

// TestSetLinks reads the links of a Capability List, also when it is read
// again.
func TestSetLinks(t *testing.T) {
	t.Parallel()
	const rel = "urn:x-example:more"
	srv := usual().with(site{
		"/rs/main/capabilitylist.xml": doc(`capability="capabilitylist"`, []string{"up HOST/.well-known/resourcesync", rel + " /more"},
			`HOST/rs/main/resourcelist.xml capability="resourcelist"`),
	}).serve(t)
	found, err := discover.Find(t.Context(), srv.client, srv.fill("HOST/rs/main/capabilitylist.xml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []func() (*discover.Found, error){
		func() (*discover.Found, error) { return found, nil },
		func() (*discover.Found, error) {
			old := *found
			old.Sets = append([]discover.Set(nil), found.Sets...)
			old.Sets[0].Links, old.Sets[0].Validators = nil, discover.Validators{}
			again, _, err := discover.Refresh(t.Context(), srv.client, &old)
			return again, err
		},
	} {
		found, err := f()
		if err != nil {
			t.Fatal(err)
		}
		if got, want := found.Sets[0].Link(rel), srv.fill("HOST/more"); got != want {
			t.Errorf("Link(%s) = %q, want %q", rel, got, want)
		}
		if got := found.Sets[0].Link("urn:x-example:other"); got != "" {
			t.Errorf("a link nobody made: %q", got)
		}
	}
}

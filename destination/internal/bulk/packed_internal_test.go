package bulk

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"lockstep/destination/internal/desired"
	"lockstep/destination/internal/plan"
	"lockstep/destination/journal"
	"lockstep/resourcesync"
)

// TestPacked keeps more actions than fit into memory, and gets each back with
// the others of its package.
func TestPacked(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 10, packedMemory, packedMemory + 5000} {
		const packages = 7
		p := packed{}
		want := map[string]*plan.Action{}
		for i := range n {
			a := &plan.Action{Verb: plan.Fetch, Resource: wantOf(i)}
			a.Member = desired.Member{Package: 1 + i%packages, Path: fmt.Sprintf("/b/%d", i)}
			if i%3 == 0 {
				a.Held = journal.Held{URI: a.URI, Path: a.URI[4:], Length: 4, Lastmod: time.Unix(1e9, 0).UTC(), Hashes: a.Hashes, Sets: []int{1, 3}}
				a.Conditional, a.FileMissing = i%2 == 0, i%2 == 1
			}
			want[a.URI] = a
			if err := p.add(a); err != nil {
				t.Fatal(err)
			}
		}
		seen := map[int]bool{}
		for same, err := range p.byPackage(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			number := same[0].Member.Package
			if seen[number] {
				t.Fatalf("of %d: package %d comes twice", n, number)
			}
			seen[number] = true
			for _, a := range same {
				if a.Member.Package != number || !reflect.DeepEqual(a, want[a.URI]) {
					t.Fatalf("of %d, package %d: %+v, want %+v", n, number, a, want[a.URI])
				}
				delete(want, a.URI)
			}
		}
		if len(want) > 0 {
			t.Errorf("of %d: %d did not come back", n, len(want))
		}
		if err := p.close(); err != nil {
			t.Fatal(err)
		}
	}
}

func wantOf(i int) desired.Resource {
	w := desired.Resource{URI: fmt.Sprintf("http://example.org/%06d", i), Length: int64(i), Lastmod: resourcesync.NewDatetime(time.Unix(1e9, int64(i)).UTC()), Type: "text/plain"}
	if i%2 == 0 {
		w.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: fmt.Sprintf("%016d", i)}}
		w.Links = []resourcesync.Link{{Rel: "duplicate", Href: "http://example.org/mirror"}}
	}
	return w
}

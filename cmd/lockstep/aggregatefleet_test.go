package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestServeDoesNotWaitForUpstreams: with several upstreams serve is ready although one
// does not answer; what the others have appears, and what it has once it answers. Its set
// is not published before: then all resources are in its Resource List, none is a change.
func TestServeDoesNotWaitForUpstreams(t *testing.T) {
	t.Parallel()
	good, sick := newLiveSource(t), newLiveSource(t)
	good.put("a.txt", 10)
	sick.put("a.txt", 10)
	answers := make(chan struct{})
	sick.handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-r.Context().Done():
		case <-answers:
			sick.serve(w, r)
		}
	}))
	a := newAggregating(t, t.TempDir(), "hub", fmt.Sprintf("- {name: sick, from: \"resourcesync:%s\"}\n- {name: good, from: \"resourcesync:%s\"}\n", sick.address(), good.address()))
	published := func(set string) func() bool {
		return func() bool {
			text, err := get(a.address + "resourcesync/" + set + "/resourcelist.xml")
			return err == nil && strings.Contains(text, set+"/a.txt</loc>")
		}
	}
	waitFor(t, "the resource of the upstream that answers", published("good"))
	resp, err := http.Get(a.address + "resourcesync/sick/resourcelist.xml")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close() // only the status matters
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("the set of the other upstream: %s, Retry-After %q", resp.Status, resp.Header.Get("Retry-After"))
	}
	close(answers)
	waitFor(t, "the resource of the other upstream", published("sick"))
	for _, set := range []string{"good", "sick"} {
		if text, err := get(a.address + "resourcesync/" + set + "/changelist.xml"); err != nil || strings.Contains(text, "<loc>") {
			t.Errorf("the changes of set %s: %v\n%s", set, err, text)
		}
	}
}

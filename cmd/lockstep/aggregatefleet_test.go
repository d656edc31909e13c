package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestServeDoesNotWaitForUpstreams: with several upstreams serve is ready although one
// does not answer; what the others have appears, and what it has once it answers.
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
	if text, err := get(a.address + "resourcesync/sick/resourcelist.xml"); err != nil || strings.Contains(text, "a.txt</loc>") {
		t.Errorf("the set of the other upstream: %v\n%s", err, text)
	}
	close(answers)
	waitFor(t, "the resource of the other upstream", published("sick"))
}

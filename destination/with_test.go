package destination_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"lockstep/destination"
	"lockstep/internal/fetch"
)

// TestWithDescriptions: descriptions are selected with the resources that they
// describe, whatever the order of their URIs, and go with them (RS-REL-40, RS-REL-42).
func TestWithDescriptions(t *testing.T) {
	t.Parallel()
	for _, st := range []style{{}, {noChanges: true}, {listParts: 3}, {parts: 2}} {
		t.Run(fmt.Sprintf("changes %v, list parts of %d, change parts of %d", !st.noChanges, st.listParts, st.parts), func(t *testing.T) {
			t.Parallel()
			testWithDescriptions(t, st)
		})
	}
	m := newMirror(t, newSite(t, style{}))
	client, err := fetch.New(fetch.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = destination.New(m.store, m.journal, client, destination.Options{With: []string{"via"}})
	if err == nil || !strings.Contains(err.Error(), `with "via": want describedby`) {
		t.Errorf("another relation: %v", err)
	}
}

func testWithDescriptions(t *testing.T, st style) {
	s, _, links := describedSite(t, st)
	for _, name := range []string{"m", "n", "o"} {
		links["/"+name+".pdf"] = ln("describedby", s.url("/a/"+name+".xml"), "") + ln("describedby", s.url("/z/"+name+".xml"), "") + ln("describedby", "https://elsewhere.example/x", "")
		links["/a/"+name+".xml"] = ln("describes", s.url("/"+name+".pdf"), "")
		for _, path := range []string{"/" + name + ".pdf", "/a/" + name + ".xml", "/z/" + name + ".xml", "/" + name + ".txt"} {
			s.put(path, "content of "+path)
		}
	}
	links["/m.txt"] = ln("describedby", s.url("/o.txt"), "") // not of a selected resource
	m := newMirror(t, s)
	m.opts.Include, m.opts.Exclude, m.opts.With, m.opts.MaxDelete = []string{"**.pdf"}, []string{"**/z/n.xml"}, []string{"describedby"}, 100
	run := func(want ...string) {
		t.Helper()
		if r, err := m.sync(); err != nil || r.Failed > 0 {
			t.Fatalf("%s: %v", counts(r), err)
		}
		if got := slices.Sorted(maps.Keys(m.files())); !slices.Equal(got, want) {
			t.Fatalf("files %s, want %s", got, want)
		}
	}
	all := []string{"a/m.xml", "a/n.xml", "a/o.xml", "m.pdf", "n.pdf", "o.pdf", "z/m.xml", "z/o.xml"}
	run(all...)
	run(all...)
	s.put("/a/m.xml", "another description") // of a resource that did not change
	s.put("/o.txt", "another text")
	run(all...)
	if got := m.files()["a/m.xml"]; got != "another description" {
		t.Errorf("the description that changed is %q", got)
	}
	links["/b.pdf"] = ln("describedby", s.url("/b.xml"), "")
	s.put("/b.xml", "description of b")
	s.put("/b.pdf", "b")
	run(slices.Insert(slices.Clone(all), 3, "b.pdf", "b.xml")...)
	s.del("/b.pdf")
	s.del("/b.xml")
	run(all...)
	links["/n.pdf"] = "" // it is not described any more
	s.restate("/n.pdf")
	if _, err := m.sync(); err != nil {
		t.Fatal(err)
	}
	less := slices.Delete(slices.Clone(all), 1, 2)
	m.opts.Baseline = true
	run(less...)
	m.opts.Baseline, m.opts.With = false, nil
	run("m.pdf", "n.pdf", "o.pdf")
	m.opts.With = []string{"describedby"}
	run(less...)
	if a := m.audit(); !a.InSync {
		t.Errorf("audit: %+v", a)
	}
}

// TestWithDescriptionsRelisted: a description that changes while it is read is read
// again, and stays selected although the list is read for it alone.
func TestWithDescriptionsRelisted(t *testing.T) {
	t.Parallel()
	s, _, links := describedSite(t, style{noChanges: true})
	links["/a.pdf"] = ln("describedby", s.url("/a.xml"), "")
	s.put("/a.pdf", "a")
	s.put("/a.xml", "description")
	m := newMirror(t, s)
	m.opts.Include, m.opts.With, m.opts.MaxDelete = []string{"**.pdf"}, []string{"describedby"}, 100
	m.mustSync()
	s.put("/a.xml", "another description")
	changed := false
	s.setFault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == "/a.xml" && !changed {
			changed = true
			s.put("/a.xml", "changed while it was read")
		}
		return false
	})
	r := m.mustSync()
	if r.Failed+r.Deleted != 0 || !changed {
		t.Errorf("%s, changed while it was read: %v", counts(r), changed)
	}
}

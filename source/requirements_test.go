package source_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/resourcesync"
	"lockstep/source"
)

// document reads one published document.
func (w *world) document(name string, c resourcesync.Capability) (resourcesync.Header, []resourcesync.Entry) {
	w.Helper()
	found := &crawl{read: reader(w.docs)}
	h, entries, err := found.document(name, c)
	if err != nil {
		w.Fatal(err)
	}
	return h, entries
}

const mainSet = "resourcesync/main/"

// A Source has a Source Description and one Capability List for its set
// (RS-GEN-07, RS-SD-01, RS-CL-01); what has no document is not listed there
// (RS-AMB-21).
func TestEntryDocuments(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.put("a=1")
	w.publish(w.source())
	_, sets := w.document(".well-known/resourcesync", resourcesync.Description)
	if len(sets) != 1 || sets[0].Loc != baseURL+mainSet+"capabilitylist.xml" {
		t.Fatalf("the Source Description has %+v", sets)
	}
	_, documents := w.document(mainSet+"capabilitylist.xml", resourcesync.CapabilityList)
	for _, e := range documents {
		if _, err := reader(w.docs)(name(e.Loc)); err != nil {
			t.Errorf("the Capability List names %s: %v", e.Loc, err)
		}
		if e.Capability == resourcesync.ResourceDump {
			t.Error("the Capability List names a dump that is not configured")
		}
	}
}

// Each set has a Capability List of its own (RS-SET-01).
func TestCapabilityListPerSet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{Sets: []source.Set{{Name: "one"}, {Name: "two"}}})
	w.publish(w.source())
	_, sets := w.document(".well-known/resourcesync", resourcesync.Description)
	var lists []string
	for _, e := range sets {
		lists = append(lists, name(e.Loc))
		w.document(name(e.Loc), resourcesync.CapabilityList)
	}
	if want := []string{"resourcesync/one/capabilitylist.xml", "resourcesync/two/capabilitylist.xml"}; !slices.Equal(lists, want) {
		t.Errorf("Capability Lists %q, want %q", lists, want)
	}
}

// A Resource List states the instant up to which all changes are in it
// (RS-MD-02), by the clock of the Source that publishes it, whatever times its
// resources have (RS-DT-07). A resource last modified before that instant is as
// the list says (RS-RL-11). A new list has a new instant (RS-RL-13), keeps the
// order (RS-RL-09) and lists no resource twice (RS-AMB-19).
func TestResourceListInstantAndOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, source.Options{})
	w.put("c=1", "a=1", "b=1")
	s := w.source()
	w.publish(s)
	first, before := w.document(mainSet+"resourcelist.xml", resourcesync.ResourceList)
	if at := first.At.Time(); at.Before(w.past[len(w.past)-1].at) || at.After(w.now().Add(time.Second)) {
		t.Errorf("at is %s, the last change was at %s, the clock shows %s", at, w.past[len(w.past)-1].at, w.now())
	}
	w.pass(time.Hour)
	w.put("b=2", "d=1")
	w.publish(s)
	second, after := w.document(mainSet+"resourcelist.xml", resourcesync.ResourceList)
	if !second.At.Time().After(first.At.Time()) {
		t.Errorf("at was %s, and is %s after two changes", first.At, second.At)
	}
	var was, is []string
	for _, e := range before {
		was = append(was, e.Loc)
	}
	for _, e := range after {
		if e.Loc != baseURL+"d" {
			is = append(is, e.Loc)
		}
	}
	if !slices.Equal(was, is) {
		t.Errorf("order was %q, is %q", was, is)
	}
	w.upToDate()
}

// A Change List has an entry for each change, not for each resource (RS-CHL-02),
// a renamed resource as one deleted and one created (RS-CHL-17), and all changes
// since its from (RS-MD-06) and of a closed part up to its until (RS-MD-07).
func TestChangeListHasEachChange(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{3, 1000} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, source.Options{MaxEntries: limit})
			s := w.source()
			w.put("a=1")
			w.publish(s)
			w.pass(time.Minute)
			w.put("a=2", "a=3", "a=4") // three changes
			w.put("new=4", "a")        // a rename
			w.publish(s)
			c := w.upToDate() // which compares what intervals claim with what happened
			var kinds []string
			for _, e := range c.events {
				fields := strings.Fields(e)
				kinds = append(kinds, fields[0]+" "+fields[1])
			}
			want := []string{"updated a", "updated a", "updated a", "created new", "deleted a"}
			if !slices.Equal(kinds, want) {
				t.Errorf("changes %q, want %q", kinds, want)
			}
		})
	}
}

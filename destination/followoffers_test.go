package destination_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"lockstep/destination"
)

// TestFollowASetThatOffersNothingYet: a Capability List that was read before it named the
// documents of the set is read again soon, not with the next routine look at the Source.
func TestFollowASetThatOffersNothingYet(t *testing.T) {
	t.Parallel()
	s := newSite(t, style{})
	s.put("/a", "one")
	s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, ""))
	g := newFollowing(t, s, false)
	g.start(destination.FollowOptions{})
	eventually(t, func() bool { return strings.Contains(g.status().Error, "documents could not be read") })
	s.mu.Lock()
	delete(s.doc, "/rs/capabilitylist.xml")
	s.mu.Unlock()
	g.becomes("/a", "one")
	g.end()
	g.same()
}

// TestFollowDocumentsThatMove: when the documents of a set that sends notifications have
// new addresses, the Capability List is read again as soon as one is missing.
func TestFollowDocumentsThatMove(t *testing.T) {
	t.Parallel()
	s, p, g := followHub(t, style{})
	inner := s.fault
	s.setFault(func(w http.ResponseWriter, r *http.Request) bool {
		name, moved := strings.CutPrefix(r.URL.Path, "/moved/")
		switch {
		case moved:
			s.mu.Lock()
			text, _ := s.document("/rs/" + name)
			s.mu.Unlock()
			_, _ = w.Write([]byte(text))
		case r.URL.Path == "/rs/resourcelist.xml" || r.URL.Path == "/rs/changelist.xml":
			http.NotFound(w, r)
		default:
			return inner(w, r)
		}
		return true
	})
	s.put("/b", "lost")
	_ = p.payload() // it reaches no subscriber
	s.put("/c", "heard")
	p.notify()
	eventually(t, func() bool { return strings.Contains(g.status().Error, "documents could not be read") })
	s.replace("/rs/capabilitylist.xml", doc("urlset", `<rs:md capability="capabilitylist"/>`, s.offer+fmt.Sprintf(
		`<url><loc>%s</loc><rs:md capability="resourcelist"/></url><url><loc>%s</loc><rs:md capability="changelist"/></url>`,
		s.url("/moved/resourcelist.xml"), s.url("/moved/changelist.xml"))))
	g.becomes("/b", "lost")
	g.end()
}

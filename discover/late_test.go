package discover_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/discover"
)

// TestLateSet: a Capability List that arrives byte for byte does not keep other sets waiting, when the
// sets are found and when they are read again; if there is no other set, it has all the time it needs.
func TestLateSet(t *testing.T) { // not parallel: it sets how long it may take
	const patience = 300 * time.Millisecond
	defer discover.SetSetTime(patience)()
	set := func(name string) string { return "HOST/" + name + `.xml capability="capabilitylist"` }
	s := site{
		"/.well-known/resourcesync": doc(`capability="description"`, nil, set("slow"), set("one"), set("two")),
		"/alone.xml":                doc(`capability="description"`, nil, set("slow")),
	}
	for _, name := range []string{"slow", "one", "two"} {
		s["/"+name+".xml"] = doc(`capability="capabilitylist"`, nil, "HOST/"+name+`/list.xml capability="resourcelist"`)
	}
	srv := s.serve(t)
	drips := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow.xml" {
			srv.ServeHTTP(w, r)
			return
		}
		text := srv.fill(s["/slow.xml"])
		for end := time.Now().Add(3 * patience); time.Now().Before(end) && r.Context().Err() == nil; time.Sleep(10 * time.Millisecond) {
			_, _ = w.Write([]byte(text[:1]))
			text = text[1:]
			_ = http.NewResponseController(w).Flush()
		}
		_, _ = w.Write([]byte(text))
	}))
	t.Cleanup(drips.Close)
	srv.URL = drips.URL
	c := newClient(t, drips.URL)
	found, err := discover.Find(t.Context(), c, drips.URL)
	if err != nil || len(found.Sets) != 3 {
		t.Fatalf("%v, %+v", err, found)
	}
	check := func(when string, found *discover.Found) {
		for _, set := range found.Sets {
			if slow := strings.HasSuffix(set.CapabilityList, "/slow.xml"); (set.Err != nil) != slow {
				t.Errorf("%s: %s: %v", when, set.CapabilityList, set.Err)
			} else if slow && !strings.Contains(set.Err.Error(), "other sets are waiting") {
				t.Errorf("%s: %v", when, set.Err)
			}
		}
	}
	check("found", found)
	for i := range found.Sets {
		found.Sets[i].Validators = discover.Validators{}
	}
	found.Validators = discover.Validators{}
	again, _, err := discover.Refresh(t.Context(), c, found)
	if err != nil {
		t.Fatal(err)
	}
	check("read again", again)
	if found, err = discover.Find(t.Context(), c, drips.URL+"/alone.xml"); err != nil || found.Sets[0].Err != nil {
		t.Errorf("alone: %v, %+v", err, found)
	}
}

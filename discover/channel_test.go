package discover_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"lockstep/discover"
	"lockstep/internal/fetch"
	"lockstep/resourcesync"
)

// TestChannel reads Change Notification channels from Capability Lists (RN-CH-07,
// RN-CH-08, RN-AMB-03): with the link to the hub before or after rs:md, or
// without one (RN-CH-09), in older spellings (RN-CH-10); it skips other entries
// (RN-FW-03). A topic is never requested (RN-CH-11).
func TestChannel(t *testing.T) {
	t.Parallel()
	const hub, second = `<rs:ln rel="hub" href="https://hub.example.net/"/>`, `<rs:ln rel="hub" href="https://second.example.net/"/>`
	md := func(c string) string { return `<rs:md capability="` + c + `"/>` }
	for _, tt := range []struct {
		name, entry string
		topic       bool
		hubs        []string
		warns       string
	}{
		{"as it should be", md("change-notification") + hub, true, []string{"https://hub.example.net/"}, ""},
		{"the link first, two hubs", hub + md("change-notification") + second, true, []string{"https://hub.example.net/", "https://second.example.net/"}, ""},
		{"no hub", md("change-notification"), true, nil, ""},
		{"one word", md("changenotification") + hub, true, []string{"https://hub.example.net/"}, "RN-CH-10"},
		{"plural", md("change-notifications") + hub, true, []string{"https://hub.example.net/"}, "RN-CH-10"},
		{"short", md("notification") + hub, true, []string{"https://hub.example.net/"}, "RN-CH-10"},
		{"framework", md("framework-notification") + hub, false, nil, "RN-FW-03"},
		{"framework in one word", md("frameworknotification"), false, nil, "RN-FW-03"},
		{"several, the first counts", md("change-notification") + hub + "</url><url><loc>%s/other</loc>" + md("changenotification") + second, true, []string{"https://hub.example.net/"}, "RN-CH-10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			asked := false
			base := ""
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/changes") || strings.HasSuffix(r.URL.Path, "/other") {
					asked = true
					w.WriteHeader(http.StatusMethodNotAllowed)
					return
				}
				fmt.Fprintf(w, `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">
<rs:ln rel="urn:x-lockstep:events" href="%s/changes"/><rs:md capability="capabilitylist"/>
<url><loc>%s/resourcelist.xml</loc><rs:md capability="resourcelist"/></url>
<url><loc>%s/changes</loc>%s</url></urlset>`, base, base, base, strings.ReplaceAll(tt.entry, "%s", base))
			}))
			defer srv.Close()
			base = srv.URL
			c, err := fetch.New(fetch.Options{AllowPrivate: true})
			if err != nil {
				t.Fatal(err)
			}
			found, err := discover.Find(t.Context(), c, base+"/capabilitylist.xml")
			if err != nil {
				t.Fatal(err)
			}
			s := found.Sets[0]
			if got := s.URI(resourcesync.ChangeNotification) == base+"/changes"; got != tt.topic || !slices.Equal(s.Hubs, tt.hubs) {
				t.Errorf("topic %v, hubs %q, want %v, %q", got, s.Hubs, tt.topic, tt.hubs)
			}
			if got := strings.Join(s.Warnings, "; "); !strings.Contains(got, tt.warns) || tt.warns == "" && got != "" {
				t.Errorf("warnings %q, want %q", got, tt.warns)
			}
			if s.Link("urn:x-lockstep:events") != base+"/changes" || asked {
				t.Errorf("events %q, topic asked for: %v", s.Link("urn:x-lockstep:events"), asked)
			}
		})
	}
}

// TestCheck refuses invalid addresses without sending a request.
func TestCheck(t *testing.T) {
	t.Parallel()
	for addr, ok := range map[string]bool{"https://example.org/": true, "example.org": true, "": false, "ftp://example.org/": false, "/no/such/file.xml": false,
		"oai-pmh:https://example.org/?set=a": true, "oai-pmh:https://example.org/?metadataPrefix=": false, "oai-pm:https://example.org/": false} {
		if err := discover.Check(addr); (err == nil) != ok {
			t.Errorf("Check(%q) = %v, want it to be fine: %v", addr, err, ok)
		}
	}
}

// Package linkrel recognizes the valid relations of links (RFC 8288, 2.1): the
// names that IANA has registered, and URIs.
package linkrel

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// Check returns an error if rel is neither a registered name, in any case, nor
// an absolute URI (RS-LN-03).
func Check(rel string) error {
	if registered[strings.ToLower(rel)] {
		return nil
	}
	if u, err := url.Parse(rel); err == nil && u.IsAbs() && len(rel) > len(u.Scheme)+1 {
		return nil
	}
	return fmt.Errorf("relation %.100q is neither registered with IANA nor a URI", rel)
}

// ErrSecondCanonical reports a resource with two canonical URIs.
var ErrSecondCanonical = errors.New("a second canonical link: a resource has one canonical URI")

// Canonical is the relation of which a resource has one link (RFC 6596).
const Canonical = "canonical"

// registered are the names in the registry of IANA, "Link Relation Types", in
// lower case. ResourceSync's own are among them.
var registered = names(`
about acl alternate amphtml api-catalog appendix apple-touch-icon apple-touch-startup-image archives author
blocked-by bookmark c2pa-manifest canonical chapter cite-as collection compression-dictionary contents convertedfrom copyright create-form current
deprecation describedby describes disclosure dns-prefetch duplicate
edit edit-form edit-media enclosure external first geofeed glossary help hosts hub ice-server icon index
intervalafter intervalbefore intervalcontains intervaldisjoint intervalduring intervalequals intervalfinishedby intervalfinishes intervalin
intervalmeets intervalmetby intervaloverlappedby intervaloverlaps intervalstartedby intervalstarts item
last latest-version license linkset lrdd manifest mask-icon me media-feed memento micropub modulepreload monitor monitor-group
next next-archive nofollow noopener noreferrer opener openid2.local_id openid2.provider original
p3pv1 payment pingback preconnect predecessor-version prefetch preload prerender prev prev-archive preview previous privacy-policy profile publication
rdap-active rdap-bottom rdap-down rdap-top rdap-up related replies restconf resourcesync ruleinput
search section self service service-desc service-doc service-meta sip-trunking-capability sponsored start status stylesheet subsection successor-version sunset
tag terms-of-service timegate timemap type ugc up version-history via webmention working-copy working-copy-of
`)

func names(text string) map[string]bool {
	all := make(map[string]bool)
	for name := range strings.FieldsSeq(text) {
		all[name] = true
	}
	return all
}

package resourcesync

import "lockstep/internal/xmlscan"

// The namespaces that this package distinguishes, in the order of namespaces.
const (
	spaceSitemap xmlscan.Space = iota + 1
	spaceRS
	spacePreBeta
	spaceDraft
	spaceXHTML
)

var namespaces = []string{
	nsSitemap,
	nsRS,
	"http://www.openarchives.org/rs/", // RS-GEN-02
	"http://resourcesync.org/ns/",     // RS-VER-21
	"http://www.w3.org/1999/xhtml",
}

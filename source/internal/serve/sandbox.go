package serve

import (
	"net/http"
	"strings"

	"lockstep/source/internal/names"
)

// sandboxPolicy is the Content-Security-Policy of what others have written: the browser gives
// it an origin of its own. Its scripts run, but cannot read what this host answers, and
// their requests are those of another site.
const sandboxPolicy = "sandbox allow-scripts allow-popups allow-forms"

var sandboxed = []string{sandboxPolicy}

// sandbox states the policy of the resource at rel, if it may be one that others have written.
func (h *handler) sandbox(header http.Header, rel string, v view) {
	for _, set := range h.sandboxes {
		if v.sees(set) && set.covers(rel) {
			header["Content-Security-Policy"] = sandboxed
			return
		}
	}
}

// VersionPolicy returns the Content-Security-Policy of the versions of the resource at uri,
// which do not say whose they are. There is none for those of resources below the base URL that
// only sets without Sandbox can have.
func VersionPolicy(base names.Base, sets []Set, uri string) string {
	path, below := strings.CutPrefix(uri, base.Origin())
	rel, located := base.Locate(path)
	policy := sandboxPolicy
	for i := range sets {
		set := &sets[i]
		covers := below && located && set.covers(rel)
		switch {
		case set.Store == nil:
		case set.Sandbox && (covers || set.Elsewhere):
			return sandboxPolicy
		case covers:
			policy = ""
		}
	}
	return policy
}

package site

import (
	"strings"

	"lockstep/cmd/lockstep/internal/admin"
	"lockstep/cmd/lockstep/internal/hubserver"
	"lockstep/cmd/lockstep/internal/origins"
)

// KindOf returns a function that says what kind of thing a request to a Source is for,
// given the path of its base URL and that of the request, as it was sent.
func KindOf(base string) func(path string) string {
	return func(path string) string {
		rel, ok := strings.CutPrefix(path, base)
		if !ok {
			return "other"
		}
		for _, k := range kinds() {
			if rel == k.prefix || strings.HasSuffix(k.prefix, "/") && strings.HasPrefix(rel, k.prefix) {
				return k.name
			}
		}
		if rest, ok := strings.CutPrefix(rel, "resourcesync/"); ok {
			return documentKind(rest)
		}
		return "resource"
	}
}

// A requestKind is what is at a path, or below it if it ends in a slash.
type requestKind struct{ prefix, name string }

func kinds() []requestKind {
	return []requestKind{
		{"", "page"}, {".well-known/resourcesync", "document"}, {"robots.txt", "document"},
		{origins.APIDir, "api"}, {origins.CallbackDir, "callback"}, {admin.PagesDir, "page"}, {hubserver.Path, "hub"}, {oaiName, "oai-pmh"},
		{"timegate/", "version"}, {"timemap/", "version"}, {"versions/", "version"},
	}
}

// documentKind returns the kind of what is at a path below the documents: set, slash,
// name.
func documentKind(rest string) string {
	_, name, _ := strings.Cut(rest, "/")
	switch {
	case strings.HasSuffix(name, ".zip"), name == "dump":
		return "package"
	case strings.HasSuffix(name, ".atom"), name == "atom.xml":
		return "feed"
	case name == "changes":
		return "notification"
	}
	return "document"
}

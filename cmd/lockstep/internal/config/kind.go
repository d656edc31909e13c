package config

import "strings"

// A Kind is a kind of origin.
type Kind struct {
	Scheme string                  // of its addresses
	After  string                  // what follows scheme and colon in each
	wants  string                  // what follows that, for people; "" nothing
	Keys   []string                // of a set that mean something to it, of those that do not to all
	path   func(place string) bool // whether a place is a path of this machine; nil never
	Part   string                  // what it consists of, for people
	Away   bool                    // the resources are wherever their URIs say: to open one is to ask there

	Foreign bool // others write its resources, and serve has them here
	Harvest bool // a record that cannot be read keeps others from being deleted for not being listed
	Rescans bool // each scan compares, so that what an Apply left out is offered again
}

// form shows what an address of this kind looks like.
func (k *Kind) form() string { return k.Scheme + ":" + k.After + k.wants }

// Kinds lists the kinds of origins. This is the only place that knows them all.
func Kinds() []Kind {
	anyPath := func(string) bool { return true }
	file := func(place string) bool { return place != Stdin }
	notURL := func(place string) bool { return !strings.Contains(place, "://") }
	return []Kind{
		{Scheme: "dir", wants: "PATH", Keys: []string{"hash", "include", "exclude", "scan_interval", "rehash", "sidecar", "hidden"}, path: anyPath, Rescans: true},
		{Scheme: "s3", After: "//", wants: "BUCKET/PREFIX", Keys: []string{"hash", "include", "exclude", "scan_interval"}, Part: "object", Rescans: true},
		{Scheme: "jsonl", wants: "FILE", Keys: []string{"scan_interval", "complete"}, path: file, Part: "line", Away: true},
		{Scheme: "sitemap", wants: "URL-OR-FILE", Keys: []string{"hash", "scan_interval"}, path: notURL, Part: "document", Away: true},
		{Scheme: "oai-pmh", wants: "URL?metadataPrefix=PREFIX&set=SET", Keys: []string{"hash", "scan_interval", "full_interval"}, Part: "record", Foreign: true, Harvest: true},
		{Scheme: "atom-pmh", wants: "URL", Keys: []string{"hash", "scan_interval", "types", "full_interval", "overlap", "accept_feed"}, Part: "document", Away: true, Foreign: true},
		{Scheme: "resourcesync", wants: "URL", Keys: []string{"include", "exclude", "scan_interval", "types", "store", "copy", "via", "collection", "allow_hosts", "max_delete", "poll", "poll_max", "first_wait", "upstreams"}, Part: "resource", Foreign: true, Rescans: true},
		{Scheme: "api", Keys: nil, Away: true},
	}
}

// Stdin is the place of JSON lines that come through standard input.
const Stdin = "-"

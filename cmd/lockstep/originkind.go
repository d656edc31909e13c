package main

import "strings"

// An originKind is a way in.
type originKind struct {
	scheme string                  // of its addresses
	after  string                  // what follows scheme and colon in each
	wants  string                  // what stands behind that, for people; "" nothing
	keys   []string                // of a set that mean something to it, of those that do not to all
	path   func(place string) bool // whether a place is a path of this machine; nil never
	part   string                  // what it consists of, for people
	away   bool                    // the resources are wherever their URIs say: to open one is to ask there

	harvest bool // a record that cannot be read keeps others from being deleted for not being listed
	rescans bool // each scan compares, so that what an Apply left out is offered again
}

// form shows what an address of this kind looks like.
func (k *originKind) form() string { return k.scheme + ":" + k.after + k.wants }

// originKinds lists the ways in. This is the only place that knows them all.
func originKinds() []originKind {
	anyPath := func(string) bool { return true }
	file := func(place string) bool { return place != stdin }
	notURL := func(place string) bool { return !strings.Contains(place, "://") }
	return []originKind{
		{scheme: "dir", wants: "PATH", keys: []string{"hash", "include", "exclude", "scan_interval", "sidecar"}, path: anyPath, rescans: true},
		{scheme: "s3", after: "//", wants: "BUCKET/PREFIX", keys: []string{"hash", "include", "exclude", "scan_interval"}, part: "object", rescans: true},
		{scheme: "jsonl", wants: "FILE", keys: []string{"scan_interval", "complete"}, path: file, part: "line", away: true},
		{scheme: "sitemap", wants: "URL-OR-FILE", keys: []string{"hash", "scan_interval"}, path: notURL, part: "document", away: true},
		{scheme: "oai-pmh", wants: "URL?metadataPrefix=PREFIX&set=SET", keys: []string{"hash", "scan_interval", "full_interval"}, part: "record", harvest: true},
		{scheme: "atom-pmh", wants: "URL", keys: []string{"hash", "scan_interval", "types", "full_interval", "overlap", "accept_feed"}, part: "document", away: true},
		{scheme: "api", keys: nil, away: true},
	}
}

// stdin is the place of JSON lines that come through standard input.
const stdin = "-"

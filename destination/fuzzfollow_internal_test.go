package destination

import (
	"context"
	"testing"

	"lockstep/destination/internal/dispatch"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
)

// FuzzNotification reads messages as they come: an error or wants, each with a
// place in its document, none of them foreign.
func FuzzNotification(f *testing.F) {
	const md = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	for _, s := range []string{
		"", "\n<?xml version=\"1.0\"?>" + md + `<rs:md capability="change-notification" from="2024-01-01T00:00:00Z" until="2024-01-02T00:00:00Z"/><url><loc>http://a.example/x</loc><rs:md change="deleted" datetime="2024-01-01T12:00:00Z"/></url></urlset>`,
		md + `<url><loc>http://b.example/x</loc><rs:md change="created"/></url></urlset>`, "<html>", "\x1f\x8b",
	} {
		f.Add([]byte(s))
	}
	client, err := NewClient("http://a.example/", ClientOptions{})
	if err != nil {
		f.Fatal(err)
	}
	d, err := New(nil, &journal.Mem{}, client, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := newSetReader(d, &setState{Set: saved.Set{URI: "http://a.example/capabilitylist.xml"}}, nil, "", stage.New(&journal.Mem{}), nil, nil)
		defer func() { _ = r.Stage.Close(context.Background()) }()
		n, err := readNotification(r, "http://a.example/changes", body)
		if err != nil {
			return
		}
		for i := range n.wants {
			if w := &n.wants[i]; w.Doc != n.doc || w.Refused != "" || dispatch.HostOf(w.URI) == "b.example" {
				t.Fatalf("%+v", w)
			}
		}
	})
}

package notification

import (
	"context"
	"testing"

	"lockstep/destination/internal/dispatch"
	"lockstep/destination/internal/entries"
	"lockstep/destination/internal/push"
	"lockstep/destination/internal/saved"
	"lockstep/destination/internal/selection"
	"lockstep/destination/internal/stage"
	"lockstep/destination/journal"
)

// FuzzNotification reads arbitrary messages: the result is an error, or resources that
// have a place in the document and none of which is on a foreign host.
func FuzzNotification(f *testing.F) {
	const md = `<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:rs="http://www.openarchives.org/rs/terms/">`
	for _, s := range []string{
		"", "\n<?xml version=\"1.0\"?>" + md + `<rs:md capability="change-notification" from="2024-01-01T00:00:00Z" until="2024-01-02T00:00:00Z"/><url><loc>http://a.example/x</loc><rs:md change="deleted" datetime="2024-01-01T12:00:00Z"/></url></urlset>`,
		md + `<url><loc>http://b.example/x</loc><rs:md change="created"/></url></urlset>`, "<html>", "\x1f\x8b",
	} {
		f.Add([]byte(s))
	}
	selects, err := selection.New(selection.Rules{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r := &entries.Reader{
			Selects: selects, Pushed: func() *push.State { return nil },
			Set: &saved.Set{URI: "http://a.example/capabilitylist.xml"}, Stage: stage.New(&journal.Mem{}),
		}
		defer func() { _ = r.Stage.Close(context.Background()) }()
		m, err := read(r, "http://a.example/changes", body)
		if err != nil {
			return
		}
		for i := range m.resources {
			if w := &m.resources[i]; w.Doc != m.doc || w.Refused != "" || dispatch.HostOf(w.URI) == "b.example" {
				t.Fatalf("%+v", w)
			}
		}
	})
}

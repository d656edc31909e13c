package atompmh_test

import (
	"fmt"
	"strings"

	"lockstep/atompmh"
)

// A feed is read entry by entry.
func ExampleReader() {
	const feed = `<feed xmlns="http://www.w3.org/2005/Atom">
  <id>https://example.org/atom.xml</id><title>Records</title><updated>2026-05-02T00:00:00Z</updated>
  <entry>
    <id>https://example.org/records/1</id><title>A record</title><updated>2026-05-01T00:00:00Z</updated>
    <link rel="alternate" type="application/rdf+xml" href="https://example.org/records/1.rdf"/>
  </entry>
</feed>`
	r := atompmh.NewReader(strings.NewReader(feed), atompmh.ReaderOptions{})
	for entry, err := range r.Entries() {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(entry.Kind, entry.ID, entry.Alternates()[0].Href)
	}
	// Output:
	// active https://example.org/records/1 https://example.org/records/1.rdf
}

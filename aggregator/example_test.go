package aggregator_test

import (
	"context"
	"fmt"
	"log"

	"lockstep/aggregator"
	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/destination"
	"lockstep/destination/journal"
)

// A mirror in memory is republished. A program that does this for long keeps the files in
// a [blob.Dir], and the Journal and the catalog in a database (package storage/sqlite).
func Example() {
	const upstream = "https://origin.example.org/"
	cat := catalog.NewMem(nil)
	open := func(deliver func(context.Context, []destination.Change) error) (aggregator.Mirror, error) {
		m := aggregator.Mirror{Store: &blob.Mem{}, Journal: &journal.Mem{}}
		client, err := destination.NewClient(upstream, destination.ClientOptions{})
		if err != nil {
			return m, err
		}
		m.Destination, err = destination.New(m.Store, m.Journal, client, destination.Options{Deliver: deliver, DeliverStatements: true})
		return m, err
	}
	u, err := aggregator.New(cat, "https://here.example.net/resourcesync/main/capabilitylist.xml", aggregator.Options{
		Name: "origin", Address: upstream, URI: "https://here.example.net/", BaseURL: "https://here.example.net/",
	}, open)
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // a real program continues, and publishes when the catalog changes
	fmt.Println(u.Watch(ctx, nil))
	// Output: context canceled
}

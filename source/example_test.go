package source_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/source"
)

// A printer stands where a hub would: a *websub.Publisher tells one elsewhere, a
// *hub.Hub is one in this process.
type printer struct{}

func (printer) Publish(_ context.Context, topic string, _ http.Header, body []byte) error {
	fmt.Printf("%s: %d created\n", topic, bytes.Count(body, []byte(`change="created"`)))
	return nil
}

// What happened since the last time is told when it is published.
func ExampleNotifier() {
	ctx := context.Background()
	const base = "https://data.example.org/"
	cat := catalog.NewMem(nil)
	src, err := source.New(cat, &blob.Mem{}, source.Options{
		BaseURL: base,
		Hubs:    []source.Hub{{URL: "https://hub.example.org/", Notifier: printer{}}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	publish := func() {
		if _, err := src.Publish(ctx); err != nil {
			fmt.Println(err)
		}
		if err := src.NotifyOnce(ctx); err != nil { // or Notify, which stays
			fmt.Println(err)
		}
	}
	publish() // from here on

	set, err := source.CapabilityListURI(base, source.DefaultSet)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = cat.Apply(ctx, set, []catalog.Update{
		{Record: catalog.Record{URI: base + "one.txt", Length: 4}},
		{Record: catalog.Record{URI: base + "two.txt", Length: 4}},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	publish()
	// Output:
	// https://data.example.org/resourcesync/main/changes: 2 created
}

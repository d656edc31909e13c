package catalog_test

import (
	"context"
	"fmt"

	"lockstep/catalog"
)

// Every change of a set gets the next number.
func ExampleCatalog() {
	ctx := context.Background()
	const set = "https://example.org/capabilitylist.xml"
	var cat catalog.Catalog = catalog.NewMem(nil) // or that of storage/sqlite
	if _, err := cat.Mark(ctx, set); err != nil { // changes are kept from here on
		fmt.Println(err)
		return
	}
	for _, length := range []int64{4, 7} {
		update := catalog.Update{Record: catalog.Record{URI: "https://example.org/a.txt", Length: length}}
		if _, err := cat.Apply(ctx, set, []catalog.Update{update}); err != nil {
			fmt.Println(err)
			return
		}
	}
	for change, err := range cat.Changes(ctx, set, 0) {
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(change.Seq, change.Change, change.URI, change.Length)
	}
	// Output:
	// 1 created https://example.org/a.txt 4
	// 2 updated https://example.org/a.txt 7
}

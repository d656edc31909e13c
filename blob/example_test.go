package blob_test

import (
	"context"
	"fmt"
	"io"

	"lockstep/blob"
)

// A blob becomes visible when it is committed, as a whole.
func Example() {
	ctx := context.Background()
	var store blob.Store = new(blob.Mem) // or blob.NewDir, or a bucket of blob/s3
	w, err := store.Create(ctx, "docs/a.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer w.Close() // drops it, unless committed
	fmt.Fprint(w, "some text")
	_, err = store.Stat(ctx, "docs/a.txt")
	fmt.Println(err != nil)
	if err := store.Commit(ctx, w); err != nil {
		fmt.Println(err)
		return
	}
	r, err := store.Open(ctx, "docs/a.txt")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	fmt.Println(string(text), err)
	// Output:
	// true
	// some text <nil>
}

package hubstore_test

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"testing"

	"lockstep/hub/hubstore"
)

// TestOfShards: the rows of few shards and of many are those of these shards.
func TestOfShards(t *testing.T) {
	t.Parallel()
	var keys []hubstore.Key
	for i := range 3000 {
		keys = append(keys, hubstore.KeyOf("https://data.example.org/", fmt.Sprint(i)))
	}
	reads := 0
	read := func(_ context.Context, shard int) iter.Seq2[hubstore.Key, error] {
		reads++
		return func(yield func(hubstore.Key, error) bool) {
			for _, k := range keys {
				if (shard < 0 || k.Shard() == shard) && !yield(k, nil) {
					return
				}
			}
		}
	}
	for _, n := range []int{0, 1, 3, hubstore.Shards / 2, hubstore.Shards} {
		reads = 0
		shards := make([]int, n)
		for i := range shards {
			shards[i] = hubstore.Shards - 1 - i
		}
		var got []hubstore.Key
		for k, err := range hubstore.OfShards(t.Context(), shards, read, func(k *hubstore.Key) hubstore.Key { return *k }) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, k)
		}
		want := slices.DeleteFunc(slices.Clone(keys), func(k hubstore.Key) bool { return !slices.Contains(shards, k.Shard()) })
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) || reads > 32 {
			t.Errorf("%d shards: %d keys after %d readings, want %d", n, len(got), reads, len(want))
		}
	}
}

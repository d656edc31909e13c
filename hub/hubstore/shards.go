package hubstore

import (
	"context"
	"iter"
)

// manyShards is how many shards are read one by one. Of more, all rows are read at once, with those of other hubs:
// a reading takes a time that does not depend on its rows, seconds where the store is slow.
const manyShards = Shards / 8

// OfShards yields the rows of shards. read yields those of a shard, or all if it is negative; key returns the key of a
// row.
func OfShards[T any](ctx context.Context, shards []int, read func(ctx context.Context, shard int) iter.Seq2[T, error], key func(*T) Key) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		reads := shards
		var wanted [Shards]bool
		for _, s := range shards {
			wanted[s] = true
		}
		if len(shards) > manyShards {
			reads = []int{-1}
		}
		for _, s := range reads {
			for row, err := range read(ctx, s) {
				if err == nil && !wanted[key(&row).Shard()] {
					continue
				}
				if !yield(row, err) || err != nil {
					return
				}
			}
		}
	}
}

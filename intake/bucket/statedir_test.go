package bucket_test

import (
	"testing"

	"lockstep/catalog"
	"lockstep/intake/bucket"
)

func TestStateDirectoriesInBucketsAreNeverPublished(t *testing.T) {
	t.Parallel()
	objects := newFakeBucket()
	for _, key := range []string{"a/file", "a/.lockstep/uploads/1", ".lockstep/x", "b/.lockstep"} {
		objects.put(key, "x")
	}
	cat := catalog.NewMem(nil)
	scanBucket(t, newBucket(t, objects, cat, bucket.Options{}))
	wantPaths(t, cat, "a/file", "b/.lockstep")
}

package mirror

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lockstep/blob"
	"lockstep/blob/s3"
	"lockstep/cmd/lockstep/internal/stateplace"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/destination"
	"lockstep/destination/share"
	"lockstep/internal/mirrordir"
)

const (
	// bucketParallel is how many objects of a batch are put at a time: enough
	// to hide the way to the service, few enough for a small one.
	bucketParallel = 32

	// bucketHeld is how many bytes wait in memory to be put: two parts of a large
	// object, and small ones. What is beyond waits in files.
	bucketHeld = 24 << 20

	// firstList is how many objects may be listed at the first question: a page,
	// which costs what asking for one of them does.
	firstList = 1000

	// listFrom is how many objects of a larger bucket are requested one by one
	// before a listing is the cheaper way to learn about all of them.
	listFrom = 100

	// maxObjects caps the objects that are remembered, 40 bytes each, from a
	// listing: in a bucket with more they are asked for one by one.
	maxObjects = 2 << 20
)

// openBucketMirror opens a mirror in a bucket, whose state is at place.
func openBucketMirror(ctx context.Context, dest string, place stateplace.Place, readOnly bool, c BucketClient) (*State, error) {
	switch info, err := os.Stat(place.Dir); {
	case err == nil && !info.IsDir():
		return nil, term.Usagef("--state %s is not a directory", place.Dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("open the state: %w", err)
	}
	bucket, versions, err := openBuckets(dest, place.Dir, c, nil)
	if err != nil {
		return nil, err
	}
	if !place.InDatabase() {
		err = checkStateOf(place.Dir, bucket.String())
	}
	if err != nil {
		return nil, err
	}
	if err := probeBucket(bucket); err != nil {
		if !readOnly && (c.Command == "sync" || c.Command == "follow") {
			recordUnreachable(ctx, place, bucket.String(), c, err)
		}
		return nil, err
	}
	m, err := openMemory(ctx, place, bucket.String(), c.Command, readOnly, c.Log)
	if err != nil {
		return nil, err
	}
	return m.state(bucket, versions, c.Log), nil
}

// recordUnreachable records in the state of the mirror in dest, if there is one that no other
// process uses, that a run ended because the bucket cannot be reached.
func recordUnreachable(ctx context.Context, place stateplace.Place, dest string, c BucketClient, err error) {
	r, rerr := OpenReader(ctx, place)
	if rerr != nil {
		return // there is no mirror yet
	}
	_ = r.Close() // it was only looked at
	if r.Owned {
		return
	}
	m, rerr := openMemory(ctx, place, dest, c.Command, false, c.Log)
	if rerr != nil {
		return // the error of the bucket is reported
	}
	rerr = mirrordir.RecordRun(m.run, c.Command, time.Now(), &destination.Report{}, err, term.HintOf(err), false)
	if rerr = errors.Join(rerr, m.close()); rerr != nil {
		c.Log.Warn("the result of the run is not recorded", slog.Any("err", rerr))
	}
}

// state returns the mirror in a bucket whose memory is m.
func (m *memory) state(bucket, versions *s3.Bucket, log *slog.Logger) *State {
	store := &mirrorBucket{Bucket: bucket, seed: maphash.MakeSeed(), mayWrite: m.mayWrite}
	return &State{Store: store, Journal: m.journal, Versions: versions, state: m.dir, https: m.https, run: m.run, lost: m.lost, mayWrite: m.mayWrite, scratch: m.scratch, Close: func() {
		if err := m.close(); err != nil {
			log.Warn("close the mirror", slog.Any("err", err))
		}
	}}
}

// openBuckets opens the bucket of a mirror, and that of its versions, with room for temporary files in
// dir. mayWrite is nil unless several processes write to the mirror.
func openBuckets(dest, dir string, c BucketClient, mayWrite func() error) (bucket, versions *s3.Bucket, err error) {
	open := func(address string) (*s3.Bucket, error) {
		return OpenBucket(address, c, func(o *s3.Options) {
			o.Attributes, o.Parallel, o.Held, o.TempDir, o.MayWrite = nil, bucketParallel, bucketHeld, mirrordir.State(dir), mayWrite
		})
	}
	if bucket, err = open(dest); err == nil {
		versions, err = open(strings.TrimSuffix(dest, "/") + "/" + mirrordir.Versions)
	}
	return bucket, versions, err
}

// probeTime is how long a bucket may take to answer before anything is fetched
// for it.
const probeTime = 30 * time.Second

// probeBucket checks that a bucket can be reached and listed, so that the
// failure is not reported for each resource after it was fetched.
func probeBucket(bucket *s3.Bucket) error {
	ctx, cancel := context.WithTimeout(context.Background(), probeTime)
	defer cancel()
	for _, err := range bucket.List(ctx, "") {
		if err == nil {
			return nil
		}
		return term.WithHint(fmt.Errorf("reach the mirror in %s: %w", bucket, err),
			"nothing was fetched; see that AWS_ENDPOINT_URL, AWS_REGION, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY are those of the bucket")
	}
	return nil
}

// A mirrorBucket is a bucket that is asked for many objects: it is listed, if
// it is small at the first question, else after the first hundred, and what it
// is asked then is known. One process at a time writes to a mirror, so that what
// it knows stays true.
type mirrorBucket struct {
	*s3.Bucket
	seed     maphash.Seed
	mayWrite func() error               // returns why this process must not write to the mirror any more
	others   atomic.Pointer[share.Pool] // processes that have some of the contents; nil: there are none

	mu      sync.Mutex // guards what follows; held while the bucket is listed
	asked   int
	over    bool                // there are too many to be remembered
	listed  []listedObject      // by key; nil: not listed
	touched map[uint64]struct{} // keys of what was written or removed since: the bucket is asked
}

type listedObject struct {
	key  uint64 // a hash of the name
	size int64
	tag  listedTag
}

// byKey sorts a listing. It is not a comparison for package slices, whose code for this type would make
// the program larger by 10 KB.
type byKey []listedObject

func (b byKey) Len() int           { return len(b) }
func (b byKey) Less(i, j int) bool { return b[i].key < b[j].key }
func (b byKey) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }

// A listedTag is an entity tag of the usual form: the digest of an object, and of
// one that was uploaded in parts their number.
type listedTag struct {
	digest [16]byte
	parts  int32 // 0: uploaded in one piece; -1: the tag has another form
}

func parseTag(tag string) (t listedTag) {
	digest, parts, inParts := strings.Cut(tag, "-")
	n, err := hex.Decode(t.digest[:], []byte(digest[:min(len(digest), 32)]))
	if inParts && err == nil {
		var k int64
		k, err = strconv.ParseInt(parts, 10, 32)
		t.parts = int32(k)
	}
	if err != nil || n != len(t.digest) || t.String() != tag {
		return listedTag{parts: -1}
	}
	return t
}

// String returns the tag as the service has it.
func (t listedTag) String() string {
	if t.parts == 0 {
		return hex.EncodeToString(t.digest[:])
	}
	return hex.EncodeToString(t.digest[:]) + "-" + strconv.Itoa(int(t.parts))
}

// Stat describes an object. Of one that is known from the listing it returns the
// name, the size and the entity tag.
func (s *mirrorBucket) Stat(ctx context.Context, name string) (blob.Info, error) {
	o, there, known, err := s.look(ctx, name)
	switch {
	case err != nil:
		return blob.Info{}, err
	case !known:
		return s.Bucket.Stat(ctx, name)
	case !there:
		return blob.Info{}, &fs.PathError{Op: "stat", Path: s.String() + name, Err: blob.ErrNotExist}
	}
	return blob.Info{Name: name, Size: o.size, Version: o.tag.String()}, nil
}

// look looks a name up in the listing, which it makes when it is time to.
func (s *mirrorBucket) look(ctx context.Context, name string) (o listedObject, there, known bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	if s.listed == nil && s.asked == 1 {
		if err := s.list(ctx, firstList); err != nil {
			return o, false, false, err
		}
	}
	if s.listed == nil && s.asked > listFrom && !s.over {
		if err := s.list(ctx, maxObjects); err != nil {
			return o, false, false, err
		}
		s.over = s.listed == nil
	}
	if s.listed == nil {
		return o, false, false, nil
	}
	key := maphash.String(s.seed, name)
	if _, ok := s.touched[key]; ok {
		return o, false, false, nil
	}
	i, there := slices.BinarySearchFunc(s.listed, key, func(o listedObject, key uint64) int { return cmp.Compare(o.key, key) })
	if there {
		o = s.listed[i]
	}
	return o, there, o.tag.parts >= 0, nil
}

// list reads the listing, unless it has more than most objects. The caller
// holds mu.
func (s *mirrorBucket) list(ctx context.Context, most int) error {
	listed := []listedObject{}
	for info, err := range s.Bucket.List(ctx, "") {
		if err != nil {
			return err
		}
		if len(listed) == most {
			return nil
		}
		listed = append(listed, listedObject{maphash.String(s.seed, info.Name), info.Size, parseTag(info.Version)})
	}
	sort.Sort(byKey(listed))
	s.listed = listed
	return nil
}

// touch notes that a name is, or is going to be, another than when it was listed.
func (s *mirrorBucket) touch(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.touched) == maxObjects {
		s.over, s.listed, s.touched = true, nil, nil
	}
	if s.over {
		return
	}
	if s.touched == nil {
		s.touched = map[uint64]struct{}{}
	}
	s.touched[maphash.String(s.seed, name)] = struct{}{}
}

// Commit puts objects.
func (s *mirrorBucket) Commit(ctx context.Context, ws ...blob.Writer) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	for _, w := range ws {
		s.touch(w.Name())
	}
	if others := s.others.Load(); others != nil {
		return others.Commit(ctx, ws, s.Bucket.Commit)
	}
	return s.Bucket.Commit(ctx, ws...)
}

// forget forgets what is known of the bucket: another process may have written to it. If
// others may write, nothing is remembered from now on.
func (s *mirrorBucket) forget(others bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked, s.over, s.listed, s.touched = 0, others, nil, nil
	if others {
		s.asked = 1 // the first question has the bucket listed
	}
}

// Remove removes objects.
func (s *mirrorBucket) Remove(ctx context.Context, names ...string) error {
	if err := s.mayWrite(); err != nil {
		return err
	}
	for _, name := range names {
		s.touch(name)
	}
	return s.Bucket.Remove(ctx, names...)
}

package bucket_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/bucket"
)

// TestBucketLies: whatever a bucket says wrong, nothing is deleted by it, what
// is new is taken in, and a sentence says what is the matter.
func TestBucketLies(t *testing.T) {
	t.Parallel()
	cut := errors.New("list s3://fake/: the answer is truncated, but does not say where it goes on")
	for _, tt := range []struct {
		name    string
		listing func([]blob.Info) ([]blob.Info, error)
		head    func(key string, h http.Header) error
		want    string // in the error
		created int64
	}{
		{
			name:    "twice",
			listing: func(is []blob.Info) ([]blob.Info, error) { return append(is[:1:1], is...), nil },
			want:    `"k00": is listed twice`, created: 1,
		},
		{
			name: "out of order",
			listing: func(is []blob.Info) ([]blob.Info, error) {
				slices.Reverse(is)
				return is, nil
			},
			want: `"k00": is listed after "new": not in order (and 17 more)`, created: 1,
		},
		{
			name:    "cut off",
			listing: func(is []blob.Info) ([]blob.Info, error) { return is[:10], cut },
			want:    cut.Error(),
		},
		{
			name: "size of the header",
			head: func(key string, h http.Header) error {
				h.Set("Content-Length", "77")
				return nil
			},
			want: `"new": is listed with 3 bytes; its header has 77`,
		},
		{
			name: "negative size",
			listing: func(is []blob.Info) ([]blob.Info, error) {
				is[0].Size = -1
				return is, nil
			},
			want: `"k00": has a negative size`, created: 1,
		},
		{
			name:    "left out",
			listing: func(is []blob.Info) ([]blob.Info, error) { return slices.Delete(is, 3, 4), nil },
			want:    `"k03": exists, and did before the listing began, but is not listed`, created: 1,
		},
		{
			name: "the same page for ever",
			listing: func(is []blob.Info) ([]blob.Info, error) {
				for range 2000 {
					is = append(is, is[:10]...)
				}
				return is, nil
			},
			want: "is listed after",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake, cat := newFakeBucket(), catalog.NewMem(nil)
			for i := range 19 {
				fake.put(fmt.Sprintf("k%02d", i), "text")
			}
			b := newBucket(t, fake, cat, bucket.Options{})
			scanBucket(t, b)
			fake.remove("k05")
			fake.put("new", "new")
			fake.listing, fake.head = tt.listing, tt.head
			r, err := b.Scan(t.Context())
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Count(err.Error(), "s3://fake/") != 1 {
				t.Errorf("Scan = %v, want %q", err, tt.want)
			}
			if tt.name != "cut off" && (!errors.Is(err, bucket.ErrListing) || !strings.Contains(err.Error(), "nothing was deleted")) {
				t.Errorf("Scan = %v, want an ErrListing", err)
			}
			if n := len(records(t, cat)); r.Deleted > 0 || r.Created != tt.created || n != 19+int(tt.created) {
				t.Errorf("Report = %+v, %d resources", r, n)
			}
			fake.listing, fake.head = nil, nil
			if r := scanBucket(t, b); r.Deleted != 1 || r.Created != 1-tt.created {
				t.Errorf("then = %+v", r)
			}
		})
	}
}

// TestBucketRaces: an object may come, go and change while a scan is under way.
func TestBucketRaces(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	for _, key := range []string{"changes", "goes", "stays", "unreadable"} {
		fake.put(key, "1")
	}
	b := newBucket(t, fake, cat, bucket.Options{})
	scanBucket(t, b)
	for _, key := range []string{"changes", "goes", "unreadable"} {
		fake.put(key, "22")
	}
	fake.put("comes and goes", "1")
	fake.listing = func(is []blob.Info) ([]blob.Info, error) {
		fake.put("changes", "333")
		fake.remove("goes", "comes and goes")
		return is, nil
	}
	denied := errors.New("head s3://fake/unreadable: Access Denied")
	fake.head = func(key string, _ http.Header) error {
		if key == "unreadable" {
			return denied
		}
		return nil
	}
	r := scanBucket(t, b)
	if r.Updated != 1 || r.Deleted+r.Created > 0 || r.Skipped.Count != 2 || !strings.Contains(r.Skipped.First[1].String(), `"goes": is listed but does not exist`) ||
		r.Unreadable.Count != 1 || !errors.Is(r.Unreadable.First[0].Err, denied) {
		t.Errorf("Report = %+v", r)
	}
	if rec := records(t, cat)["changes"]; rec.Length != 3 || rec.Hashes[0].Digest != md5Of("333") {
		t.Errorf("what changed = %+v", rec)
	}
	fake.listing, fake.head = nil, nil
	if r := scanBucket(t, b); r.Updated != 1 || r.Deleted != 1 || r.Skipped.Count+r.Unreadable.Count > 0 {
		t.Errorf("then = %+v", r)
	}
	wantPaths(t, cat, "changes", "stays", "unreadable")

	// Not listed, for it came back since.
	fake.listing = func(is []blob.Info) ([]blob.Info, error) {
		o := fake.objects["stays"]
		o.mod = time.Now()
		fake.objects["stays"] = o
		return slices.DeleteFunc(is, func(i blob.Info) bool { return i.Name == "stays" }), nil
	}
	if r := scanBucket(t, b); r.Deleted > 0 {
		t.Errorf("with one that came back = %+v", r)
	}
	// Not listed, and who may not look does not know.
	fake.listing = func(is []blob.Info) ([]blob.Info, error) {
		return slices.DeleteFunc(is, func(i blob.Info) bool { return i.Name == "unreadable" }), nil
	}
	fake.head = func(string, http.Header) error { return denied }
	if r := scanBucket(t, b); r.Deleted > 0 || r.Unreadable.Count == 0 {
		t.Errorf("with one that nobody may look at = %+v", r)
	}
	wantPaths(t, cat, "changes", "stays", "unreadable")
}

// TestBucketContentLies: what is read must be what was promised.
func TestBucketContentLies(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	fake.put("a", "text", "X-Amz-Checksum-Sha256: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=")
	b := newBucket(t, fake, cat, bucket.Options{Content: bucket.ReadAlways})
	r := scanBucket(t, b)
	if r.Unreadable.Count != 1 || !strings.Contains(r.Unreadable.First[0].String(), "does not match the sha-256 that the service reports") {
		t.Errorf("Report = %+v", r)
	}
	fake.put("a", "text")
	fake.head = func(_ string, h http.Header) error {
		h.Del("Content-Length")
		return nil
	}
	fake.listing = func(is []blob.Info) ([]blob.Info, error) {
		is[0].Size = 100
		return is, nil
	}
	if _, err := b.Scan(t.Context()); !errors.Is(err, bucket.ErrListing) || !strings.Contains(err.Error(), `"a": is listed with 100 bytes; its content has 4`) {
		t.Errorf("Scan = %v", err)
	}
	wantPaths(t, cat)
}

// TestBucketEmpty: a bucket that is suddenly empty is the wrong one, more likely.
func TestBucketEmpty(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	for i := range 10 {
		fake.put(fmt.Sprint(i), "text")
	}
	scanBucket(t, newBucket(t, fake, cat, bucket.Options{}))
	clear(fake.objects)
	_, err := newBucket(t, fake, cat, bucket.Options{}).Scan(t.Context())
	empty, ok := errors.AsType[*intake.EmptyError](err)
	if !ok || empty.Resources != 10 || !strings.Contains(err.Error(), "s3://fake/ lists nothing") {
		t.Errorf("Scan = %v, want an EmptyError", err)
	}
	r := scanBucket(t, newBucket(t, fake, cat, bucket.Options{AllowEmpty: true}))
	if r.Deleted != 10 {
		t.Errorf("Report = %+v", r)
	}
}

// TestBucketLarge: more objects than fit in memory, and than a page of anything
// holds, are put in order.
func TestBucketLarge(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	n := 120_000
	if underRace {
		n = 36_000
	}
	key := func(i int) string { return fmt.Sprintf("%c/%060d/é %d", 'a'+i%7, i, i) }
	for i := range n {
		fake.objects[key(i)] = fakeObject{data: []byte{byte(i)}, mod: time.Unix(1e9, 0), header: make(http.Header)}
	}
	b := newBucket(t, fake, cat, bucket.Options{TempDir: t.TempDir()})
	if r := scanBucket(t, b); r.Created != int64(n) {
		t.Errorf("Report = %+v", r)
	}
	for i := 0; i < n; i += 12 {
		delete(fake.objects, key(i))
	}
	if r := scanBucket(t, b); r.Deleted != int64(n/12) || r.Unchanged != int64(n-n/12) {
		t.Errorf("then = %+v", r)
	}
}

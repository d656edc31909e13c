package bucket_test

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lockstep/blob"
	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/bucket"
	"lockstep/resourcesync"
)

func newBucket(t testing.TB, objects bucket.Objects, cat catalog.Catalog, o bucket.Options) *bucket.Bucket {
	t.Helper()
	o.BaseURI = base
	b, err := bucket.New(objects, cat, set, o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func scanBucket(t testing.TB, b *bucket.Bucket) intake.Report {
	t.Helper()
	r, err := b.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func records(t testing.TB, cat catalog.Catalog) map[string]catalog.Record {
	t.Helper()
	m := make(map[string]catalog.Record)
	for r, err := range cat.Resources(t.Context(), set, catalog.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		m[strings.TrimPrefix(r.URI, base)] = r
	}
	return m
}

func wantPaths(t testing.TB, cat catalog.Catalog, want ...string) {
	t.Helper()
	got := slices.Sorted(maps.Keys(records(t, cat)))
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the catalog holds (-want +got):\n%s", diff)
	}
}

func md5Of(text string) string {
	sum := md5.Sum([]byte(text))
	return string(sum[:])
}

func sha256Of(text string) string {
	sum := sha256.Sum256([]byte(text))
	return string(sum[:])
}

// oddKeys are keys with the paths they get, in URI order none of them key order.
var oddKeys = map[string]string{
	"a b/c": "a%20b/c", "a!": "a!", "a$": "a$", "a%20b": "a%2520b", "é": "%C3%A9", "zz": "zz", "a//b": "a//b", "/lead": "/lead",
	"ctl\x01\n": "ctl%01%0A", "~": "~", "a+b": "a+b", "<&>": "%3C&%3E", "a/b": "a/b", "a-b": "a-b", "ab": "ab", "dir/": "dir/", "日本": "%E6%97%A5%E6%9C%AC",
	"...": "...", "a/..b": "a/..b",
}

// TestBucket: what is in the bucket is in the catalog, and a scan asks only for
// what has changed.
func TestBucket(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	var want []string
	for key, path := range oddKeys {
		fake.put(key, "text of "+key)
		want = append(want, path)
	}
	b := newBucket(t, fake, cat, bucket.Options{})
	n := len(oddKeys)
	r := scanBucket(t, b)
	if r.Created != int64(n) || r.Files != int64(n) || r.Skipped.Count+r.Unreadable.Count > 0 {
		t.Errorf("Report = %+v", r)
	}
	wantPaths(t, cat, want...)
	for key, path := range oddKeys {
		rec := records(t, cat)[path]
		if rec.Length != int64(len("text of "+key)) || rec.Hashes.Get(resourcesync.MD5) != md5Of("text of "+key) || len(rec.Hashes) != 1 {
			t.Errorf("%s: %+v", path, rec)
		}
		if got, ok := b.Key(rec.URI); !ok || got != key || b.URI(key) != rec.URI {
			t.Errorf("Key(%q) = %q, %v, want %q", rec.URI, got, ok, key)
		}
	}
	if heads, gets := fake.asked(); heads != n || gets != 1 { // one for the proof
		t.Errorf("%d heads, %d gets, want %d, 1", heads, gets, n)
	}
	if r := scanBucket(t, b); r.Changed() || r.Unchanged != int64(n) {
		t.Errorf("second Report = %+v", r)
	}
	if heads, gets := fake.asked(); heads+gets != 0 {
		t.Errorf("%d heads, %d gets, want none", heads, gets)
	}
	fake.put("zz", "other text")
	fake.put("a b/c", "text of a b/c") // again, as it was
	fake.put("new", "new")
	fake.remove("~", "a!")
	if r := scanBucket(t, b); r.Created != 1 || r.Updated != 1 || r.Deleted != 2 || r.Unchanged != int64(n-3) {
		t.Errorf("third Report = %+v", r)
	}
	if heads, _ := fake.asked(); heads != 5 { // the three, and the two once more
		t.Errorf("%d heads, want 5", heads)
	}
}

// TestBucketSkips: what no URI leads to, or is no resource, is named.
func TestBucketSkips(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	for key, why := range map[string]string{
		"a/../b": `"." or ".."`, "./a": `"." or ".."`, "a/.": `"." or ".."`, "\xff": "not UTF-8", "a\x00": "NUL", "": "empty",
		"marker/": "directory", "robots.txt": "our own", "resourcesync/main/changelist.xml": "our own", "-/x": "our own", ".lockstep/y": "never publishes",
		".well-known/resourcesync": "our own",
	} {
		data := "x"
		if key == "marker/" {
			data = ""
		}
		fake.put(key, data)
		b := newBucket(t, fake, cat, bucket.Options{})
		r := scanBucket(t, b)
		if r.Files != 0 || r.Skipped.Count != 1 || !strings.Contains(r.Skipped.First[0].String(), why) || r.Skipped.First[0].Path != key {
			t.Errorf("%q: %+v, want %q", key, r.Skipped, why)
		}
		fake.remove(key)
	}
	fake.put("in/a.txt", "x")
	fake.put("in/tmp/b.txt", "x")
	fake.put("out/c.txt", "x")
	fake.put("in/d.bak", "x")
	b := newBucket(t, fake, cat, bucket.Options{Include: []string{"in/"}, Exclude: []string{"*.bak", "tmp/"}})
	if r := scanBucket(t, b); r.Skipped.Count > 0 {
		t.Errorf("Report = %+v", r)
	}
	wantPaths(t, cat, "in/a.txt")
}

// TestBucketHeaders: what the bucket says of an object, and when it is believed.
func TestBucketHeaders(t *testing.T) {
	t.Parallel()
	const text = "some text"
	sum := base64.StdEncoding.EncodeToString([]byte(sha256Of(text)))
	md5Hash := resourcesync.Hash{Algorithm: resourcesync.MD5, Digest: md5Of(text)}
	sha := resourcesync.Hash{Algorithm: resourcesync.SHA256, Digest: sha256Of(text)}
	for _, tt := range []struct {
		name, key string
		headers   []string
		typ, enc  string
		hashes    resourcesync.Hashes
	}{
		{"plain", "a.pdf", []string{"Content-Type: text/plain; charset=utf-8"}, "text/plain", "", resourcesync.Hashes{md5Hash}},
		{"by name", "a.pdf", []string{"Content-Type: binary/octet-stream"}, "application/pdf", "", resourcesync.Hashes{md5Hash}},
		{"unknown", "a.qqq", []string{"Content-Type: binary/octet-stream"}, "application/octet-stream", "", resourcesync.Hashes{md5Hash}},
		{"no type", "a.qqq", nil, "", "", resourcesync.Hashes{md5Hash}},
		{"bad type", "a.qqq", []string{"Content-Type: ;;;"}, "", "", resourcesync.Hashes{md5Hash}},
		{"bad parameter", "a.qqq", []string{"Content-Type: Text/HTML; x"}, "text/html", "", resourcesync.Hashes{md5Hash}},
		{"coding", "a.pdf", []string{"Content-Encoding: aws-chunked, GZIP"}, "application/pdf", "gzip", resourcesync.Hashes{md5Hash}},
		{"checksum", "a", []string{"X-Amz-Checksum-Sha256: " + sum, "X-Amz-Checksum-Type: FULL_OBJECT"}, "", "", resourcesync.Hashes{md5Hash, sha}},
		{"untyped checksum", "a", []string{"X-Amz-Checksum-Sha256: " + sum}, "", "", resourcesync.Hashes{md5Hash, sha}},
		{"composite checksum", "a", []string{"X-Amz-Checksum-Sha256: " + sum, "X-Amz-Checksum-Type: COMPOSITE"}, "", "", resourcesync.Hashes{md5Hash}},
		{"counted checksum", "a", []string{"X-Amz-Checksum-Sha256: " + sum + "-3"}, "", "", resourcesync.Hashes{md5Hash}},
		{"short checksum", "a", []string{"X-Amz-Checksum-Sha256: AAAA"}, "", "", resourcesync.Hashes{md5Hash}},
		{"parts", "a", []string{"X-Amz-Checksum-Sha256: " + sum, `ETag: "0123456789abcdef0123456789abcdef-2"`}, "", "", nil},
		{"counted parts", "a", []string{"X-Amz-Mp-Parts-Count: 2"}, "", "", nil},
		{"parts, whole checksum", "a", []string{"X-Amz-Checksum-Sha256: " + sum, "X-Amz-Checksum-Type: FULL_OBJECT", `ETag: "0123456789abcdef0123456789abcdef-2"`}, "", "", resourcesync.Hashes{sha}},
		{"customer's key", "a", []string{"X-Amz-Server-Side-Encryption-Customer-Algorithm: AES256", `ETag: "0123456789abcdef0123456789abcdef"`}, "", "", nil},
		{"key service", "a", []string{"X-Amz-Server-Side-Encryption: aws:kms", `ETag: "0123456789abcdef0123456789abcdef"`}, "", "", nil},
		{"service's key", "a", []string{"X-Amz-Server-Side-Encryption: AES256"}, "", "", resourcesync.Hashes{md5Hash}},
		{"odd tag", "a", []string{`ETag: "0x8D4BCC2E4835CD0"`}, "", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			fake, cat := newFakeBucket(), catalog.NewMem(nil)
			fake.put("proof", "proof")
			fake.put(tt.key, text, tt.headers...)
			b := newBucket(t, fake, cat, bucket.Options{})
			scanBucket(t, b)
			rec := records(t, cat)[tt.key]
			if rec.Type != tt.typ || rec.Encoding != tt.enc || !slices.Equal(rec.Hashes, tt.hashes) || rec.Length != int64(len(text)) {
				t.Errorf("got %q, %q, %v, %d\nwant %q, %q, %v", rec.Type, rec.Encoding, rec.Hashes, rec.Length, tt.typ, tt.enc, tt.hashes)
			}
			if r := scanBucket(t, b); r.Changed() {
				t.Errorf("again = %+v", r)
			}
		})
	}
}

// TestBucketTags: entity tags in the form of an MD5 that are none are no hashes.
func TestBucketTags(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	for _, key := range []string{"a", "b", "c"} {
		fake.put(key, "text", `ETag: "`+hex.EncodeToString([]byte(md5Of("not "+key)))+`"`)
	}
	scanBucket(t, newBucket(t, fake, cat, bucket.Options{}))
	for path, rec := range records(t, cat) {
		if len(rec.Hashes) > 0 {
			t.Errorf("%s has %v", path, rec.Hashes)
		}
	}
}

// TestBucketContent: objects are read as often as asked for, and no oftener.
func TestBucketContent(t *testing.T) {
	t.Parallel()
	both := func(text string) resourcesync.Hashes {
		return resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: md5Of(text)}, {Algorithm: resourcesync.SHA256, Digest: sha256Of(text)}}
	}
	for _, tt := range []struct {
		content bucket.Reading
		whole   resourcesync.Hashes // of the object sent whole
		parts   resourcesync.Hashes // of that sent in parts
		reads   int64
	}{
		{bucket.ReadNever, both("one")[:1], nil, 0},
		{bucket.ReadMissing, both("one")[:1], both("<html>two"), 1},
		{bucket.ReadAlways, both("one"), both("<html>two"), 2},
	} {
		fake, cat := newFakeBucket(), catalog.NewMem(nil)
		fake.put("whole", "one")
		fake.put("parts", "<html>two", `ETag: "0123456789abcdef0123456789abcdef-2"`, "Content-Type: binary/octet-stream")
		b := newBucket(t, fake, cat, bucket.Options{Content: tt.content})
		r := scanBucket(t, b)
		recs := records(t, cat)
		if r.Hashed != tt.reads || !slices.Equal(recs["whole"].Hashes, tt.whole) || !slices.Equal(recs["parts"].Hashes, tt.parts) {
			t.Errorf("%d: read %d, %v and %v", tt.content, r.Hashed, recs["whole"].Hashes, recs["parts"].Hashes)
		}
		if tt.content != bucket.ReadNever && recs["parts"].Type != "text/html" {
			t.Errorf("%d: type %q", tt.content, recs["parts"].Type)
		}
		fake.asked()
		scanBucket(t, b)
		if heads, gets := fake.asked(); heads+gets > 0 {
			t.Errorf("%d: %d heads, %d gets in the second scan", tt.content, heads, gets)
		}
		// A Bucket that needs more hashes reads the objects again.
		r = scanBucket(t, newBucket(t, fake, cat, bucket.Options{Content: bucket.ReadAlways}))
		if want := int64(2); tt.content != bucket.ReadAlways && r.Hashed != want {
			t.Errorf("%d: then read %d", tt.content, r.Hashed)
		}
	}
}

// TestBucketBitstream opens what is listed.
func TestBucketBitstream(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	fake.put("a b", "text")
	b := newBucket(t, fake, cat, bucket.Options{})
	scanBucket(t, b)
	rec := records(t, cat)["a%20b"]
	r, err := b.Bitstream(t.Context(), &rec)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "text" || err != nil {
		t.Errorf("read %q, %v", got, err)
	}
	for _, uri := range []string{base + "gone", "https://elsewhere.example/a", base + "a/../b", base + "a b"} {
		if _, err := b.Bitstream(t.Context(), &catalog.Record{URI: uri}); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), uri) {
			t.Errorf("Bitstream of %s = %v, want not-exist", uri, err)
		}
	}
}

// TestBucketWatch: what changes is seen by a later scan; what fails is reported, because
// it may have changed the catalog, and tried again.
func TestBucketWatch(t *testing.T) {
	t.Parallel()
	fake, cat := newFakeBucket(), catalog.NewMem(nil)
	fake.put("a", "1")
	events := make(chan intake.Event, 100)
	b := newBucket(t, fake, cat, bucket.Options{ScanInterval: 10 * time.Millisecond, OnEvent: func(e intake.Event) {
		if e.Kind == intake.EventScanned {
			select {
			case events <- e:
			default:
			}
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	changes := make(chan intake.Report, 100)
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(r intake.Report) { changes <- r }) }()
	if r := <-changes; r.Created != 1 {
		t.Errorf("Report = %+v", r)
	}
	broken := errors.New("connection refused")
	fake.mu.Lock()
	fake.listing = func(infos []blob.Info) ([]blob.Info, error) { return infos, broken }
	fake.mu.Unlock()
	for e := range events {
		if errors.Is(e.Err, broken) {
			break
		}
	}
	if r := <-changes; r.Changed() {
		t.Errorf("Report of the failure = %+v", r)
	}
	fake.mu.Lock()
	fake.listing = nil
	fake.mu.Unlock()
	fake.put("b", "2")
	fake.remove("a")
	var r intake.Report
	for !r.Changed() { // more scans may have failed
		r = <-changes
	}
	if r.Created != 1 || r.Deleted != 1 {
		t.Errorf("Report = %+v", r)
	}
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("Watch ended with %v", err)
	}
}

func FuzzBucketKey(f *testing.F) {
	for key := range oddKeys {
		f.Add(key)
	}
	f.Add("a/../b")
	fake := newFakeBucket()
	b, err := bucket.New(fake, catalog.NewMem(nil), set, bucket.Options{BaseURI: base})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, key string) {
		got, ok := b.Key(b.URI(key))
		if ok && got != key {
			t.Errorf("Key(URI(%q)) = %q", key, got)
		}
		if got, ok := b.Key(base + key); ok && b.URI(got) != base+key {
			t.Errorf("%q and another URI are both of %q", key, got)
		}
	})
}

// FuzzBucketHeader: whatever the header of an object says, a document can say of
// it what we make of that.
func FuzzBucketHeader(f *testing.F) {
	f.Add("text/html; charset=utf-8", "gzip, aws-chunked", "FULL_OBJECT", "q1MKE+RZFJgrefm34+uplM/R8/si9xzqGvvwK0YMbR0=", "0123456789abcdef0123456789abcdef")
	f.Add("binary/octet-stream", "a\xffb", "", "x-2", "0123456789abcdef0123456789abcdef-2")
	f.Add("0/}", "", "", "", "")
	f.Fuzz(func(t *testing.T, contentType, encoding, kind, sum, etag string) {
		fake, cat := newFakeBucket(), catalog.NewMem(nil)
		fake.put("proof", "proof")
		fake.put("a.bin", "text")
		fake.objects["a.bin"] = fakeObject{data: []byte("text"), mod: time.Unix(1e9, 0), header: http.Header{
			"Content-Type": {contentType}, "Content-Encoding": {encoding}, "X-Amz-Checksum-Type": {kind}, "X-Amz-Checksum-Sha256": {sum}, "Etag": {etag},
		}}
		b := newBucket(t, fake, cat, bucket.Options{})
		scanBucket(t, b)
		r, ok := records(t, cat)["a.bin"]
		if !ok {
			t.Fatal("is not in the catalog")
		}
		w, err := resourcesync.NewWriter(io.Discard, resourcesync.Header{Capability: resourcesync.ResourceList, At: resourcesync.NewDatetime(time.Unix(1e9, 0)), Links: []resourcesync.Link{{Rel: resourcesync.RelUp, Href: set}}})
		if err != nil {
			t.Fatal(err)
		}
		e := resourcesync.Entry{Loc: r.URI, Lastmod: resourcesync.NewDatetime(r.Lastmod)}
		e.Hashes, e.Length, e.HasLength, e.Type, e.Encoding = r.Hashes, r.Length, true, r.Type, r.Encoding
		if err := w.Write(&e); err != nil {
			t.Errorf("%+v: %v", r, err)
		}
		if again := scanBucket(t, b); again.Changed() {
			t.Errorf("again = %+v", again)
		}
	})
}

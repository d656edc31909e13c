package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"lockstep/blob"
	"lockstep/blob/s3"
)

// page is one answer to a listing request.
func page(next string, keys ...string) string {
	var s strings.Builder
	fmt.Fprintf(&s, "<ListBucketResult><Name>bucket</Name><IsTruncated>%v</IsTruncated>", next != "")
	if next != "" && next != "-" {
		fmt.Fprintf(&s, "<NextContinuationToken>%s</NextContinuationToken>", next)
	}
	for _, key := range keys {
		fmt.Fprintf(&s, `<Contents><Key>%s</Key><Size>1</Size><ETag>"x"</ETag><LastModified>2026-01-02T03:04:05.000Z</LastModified></Contents>`, key)
	}
	return s.String() + "</ListBucketResult>"
}

// TestListLies: an impossible listing ends with an error, and terminates.
func TestListLies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		page func(n int64) string
		want string
		raw  bool // Objects returns it unchanged
	}{
		{"no continuation", func(int64) string { return page("-", "p/a") }, "continuation token", false},
		{"empty pages", func(int64) string { return page("again") }, "all without a key", false},
		{"out of order", func(int64) string { return page("", "p/b", "p/a") }, `lists "p/a" after "p/b"`, true},
		{"twice", func(int64) string { return page("", "p/b", "p/b") }, `lists "p/b" after "p/b"`, true},
		{"elsewhere", func(int64) string { return page("", "q/b") }, "does not begin with what was asked for", false},
		{"same page", func(int64) string { return page("again", "p/b") }, `lists "p/b" after "p/b"`, true},
		{"no XML", func(int64) string { return "{}" }, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var n atomic.Int64
			b := serving(t, s3.Options{Prefix: "p", Attempts: 2}, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, tt.page(n.Add(1))) })
			var err error
			for _, e := range b.List(t.Context(), "") {
				err = e
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "list s3://bucket/p/: ") {
				t.Errorf("List = %v, want %q", err, tt.want)
			}
			if tt.raw || tt.name == "empty pages" { // one request suffices
				return
			}
			err = nil
			for _, e := range b.Objects(t.Context()) {
				err = e
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Objects = %v, want %q", err, tt.want)
			}
		})
	}
}

// TestPages: a bucket larger than a page is listed and removed completely.
func TestPages(t *testing.T) {
	t.Parallel()
	services(t, func(t *testing.T, o s3.Options) {
		b := must[*s3.Bucket](t)(s3.New(o))
		var want []string
		var ws []blob.Writer
		for i := range 1203 {
			name := fmt.Sprintf("d%d/%04d", i/600, i)
			want = append(want, name)
			ws = append(ws, must[blob.Writer](t)(b.Create(t.Context(), name)))
		}
		if err := b.Commit(t.Context(), ws...); err != nil {
			t.Fatal(err)
		}
		if got := names(t, b); !slices.Equal(got, want) {
			t.Errorf("%d names, want %d", len(got), len(want))
		}
		if err := b.Remove(t.Context(), want...); err != nil {
			t.Fatal(err)
		}
		if got := names(t, b); len(got) > 0 {
			t.Errorf("%d names after removal", len(got))
		}
	})
}

func TestOptions(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]s3.Options{
		"bucket":   {},
		"slash":    {Bucket: "a/b"},
		"endpoint": {Bucket: "abc", Endpoint: "ftp://x"},
		"path":     {Bucket: "abc", Endpoint: "http://127.0.0.1/path"},
		"secret":   {Bucket: "abc", AccessKey: "x"},
		"prefix":   {Bucket: "abc", Prefix: "\xff"},
	} {
		if _, err := s3.New(o); err == nil {
			t.Errorf("%s: New(%+v) succeeded", name, o)
		}
	}
	for _, tt := range []struct{ in, bucket, prefix string }{
		{"s3://b", "b", ""}, {"s3://b/", "b", ""}, {"s3://b/p", "b", "p"}, {"s3://b/p/q/", "b", "p/q"},
	} {
		if bucket, prefix, err := s3.ParseURL(tt.in); err != nil || bucket != tt.bucket || prefix != tt.prefix {
			t.Errorf("ParseURL(%q) = %q, %q, %v", tt.in, bucket, prefix, err)
		}
	}
	for _, in := range []string{"", "s3://", "s3:///x", "b/p", "http://b/p"} {
		if _, _, err := s3.ParseURL(in); err == nil {
			t.Errorf("ParseURL(%q) succeeded", in)
		}
	}
}

package jsonl

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"lockstep/catalog"
	"lockstep/intake"
	"lockstep/intake/internal/entry"
	"lockstep/intake/internal/listed"
	"lockstep/resourcesync"
)

var byInstant = cmp.Comparer(func(a, b resourcesync.Datetime) bool { return a.Compare(b) == 0 })

// FuzzJSONL sees to it that lists of any bytes are read to their end, line by
// line, and that what is taken survives being put aside.
func FuzzJSONL(f *testing.F) {
	f.Add([]byte("\xef\xbb\xbf{\"uri\":\"http://a\"}\r\n\n{\"uri\":\"http://x.example/\",\"title\":[{}],\"lastmod\":\"2024-05-17T09:30:00.5Z\",\"length\":7}"))
	f.Add([]byte(`{"uri":"urn:x","hash":"md5:d41d8cd98f00b204e9800998ecf8427e","type":"a/b","encoding":"gzip","links":[{"rel":"via","href":"urn:y","modified":"2024","length":0,"pri":9,"x":null}]}` + "\nx\n"))
	f.Add([]byte("\x1f\x8b"))
	f.Fuzz(func(t *testing.T, list []byte) {
		p, in := newLineParser(), newLines(bytes.NewReader(list))
		var n int64
		for {
			text, ended, err := in.next()
			if errors.Is(err, io.EOF) {
				break
			}
			n++
			if err != nil && !errors.Is(err, errLongLine) || in.line != n || !ended && in.at+int64(len(text)) > int64(len(list)) {
				t.Fatalf("line %d of %q: %q at %d, %v", in.line, list, text, in.at, err)
			}
			e, ok, err := p.take(in.line, text, err)
			if _, ofLine := errors.AsType[*intake.LineError](err); err != nil && !ofLine && n > 1 {
				t.Fatalf("line %q: %v", text, err)
			}
			if ok {
				roundTrip(t, &e.Update.Record)
			}
		}
		if want := int64(bytes.Count(list, []byte("\n"))); n != want && (n != want+1 || bytes.HasSuffix(list, []byte("\n"))) {
			t.Fatalf("%d lines in %q", n, list)
		}
	})
}

// roundTrip packs r and unpacks it.
func roundTrip(t *testing.T, r *catalog.Record) {
	t.Helper()
	b := listed.AppendRecord(nil, r)
	got, err := listed.ParseRecord(b)
	got.URI = r.URI
	if diff := cmp.Diff(*r, got, byInstant); diff != "" || err != nil {
		t.Fatalf("parseRecord(appendRecord(%+v)): %v (-want +got)\n%s", *r, err, diff)
	}
	if got, err := listed.ParseRecord(b[:len(b)-1]); err == nil {
		t.Fatalf("a record cut short is %+v", got)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	words := strings.Split(entry.Fields, ", ")
	for name, want := range map[string]string{
		"URI": "uri", "url": "uri", "last_mod": "lastmod", "lastModified": "lastmod", "Length": "length", "lenght": "length",
		"hashes": "hash", "link": "links", "title": "", "id": "", "size": "", "created": "", strings.Repeat("x", 1000): "",
	} {
		if got := nearest(name, words); got != want {
			t.Errorf("nearest(%.40q) = %q, want %q", name, got, want)
		}
	}
}

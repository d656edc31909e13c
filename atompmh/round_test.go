package atompmh_test

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"lockstep/atompmh"
)

func TestQuick(t *testing.T) {
	at := time.Date(2024, 5, 2, 9, 30, 12, 0, time.UTC)
	f := atompmh.Feed{ID: "urn:uuid:1", Title: "a & b", Author: "x", Updated: at, Self: "https://a/b?x=1&y", PrevArchive: "https://a/c", Archive: true}
	var b bytes.Buffer
	w, err := atompmh.NewWriter(&b, f)
	if err != nil {
		t.Fatal(err)
	}
	es := []atompmh.Entry{{ID: "u:1", Title: "T", Updated: at.Add(-time.Millisecond), Kind: atompmh.Active, Links: []atompmh.Link{{Rel: "alternate", Type: "a/b", Href: "https://a/1", Length: 3, Title: "x"}}, Summary: "<s>"},
		{ID: "u:2", Title: "T", Updated: at.Add(-time.Nanosecond), Kind: atompmh.Deletion}}
	for i := range es {
		if err := w.Write(&es[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log(b.String())
	r := atompmh.NewReader(&b, atompmh.ReaderOptions{Strict: true})
	var got []atompmh.Entry
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, e)
	}
	if !reflect.DeepEqual(got, es) {
		t.Error(got)
	}
	g, err := r.Feed()
	if err != nil || !reflect.DeepEqual(g, f) {
		t.Error(err, g)
	}
}

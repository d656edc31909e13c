package memento_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/memento"
)

// A version has its datetime, its links, and the properties it was captured
// with; no datetime is negotiated for it, and it may be cached permanently
// (ME-MM-01, ME-MM-02, ME-MM-03, ME-HD-05, ME-LK-01, ME-LK-02, ME-LK-03).
func TestMemento(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one")
	at := day(4).Add(123456 * time.Microsecond)
	s.put(t, page, at, "<p>two", func(v *memento.Version) {
		v.Type, v.Lastmod = "text/html; charset=utf-8", day(3)
	})
	address := s.base.Memento(page, at)
	if want := string(s.base) + "versions/20260304060000.123456/" + page; address != want {
		t.Errorf("its address is %s, want %s", address, want)
	}
	r := get(t, address, "Accept-Datetime", memento.FormatDatetime(day(2))) // ignored here
	want := map[string]string{
		"Memento-Datetime": "Wed, 04 Mar 2026 06:00:00 GMT", "Content-Type": "text/html; charset=utf-8", "Content-Length": "6",
		"Last-Modified": "Tue, 03 Mar 2026 06:00:00 GMT", "Cache-Control": "public, max-age=31536000, immutable", "Vary": "",
		"X-Content-Type-Options": "nosniff",
	}
	for name, value := range want {
		if got := r.Header.Get(name); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
	if r.StatusCode != http.StatusOK || r.text != "<p>two" {
		t.Errorf("status %d, %q", r.StatusCode, r.text)
	}
	for rel, uri := range map[string]string{
		"original": page, "timegate": s.base.TimeGate(page), "timemap": s.base.TimeMap(page),
		"first": s.base.Memento(page, day(2)), "prev": s.base.Memento(page, day(2)), "last": address,
	} {
		if got := one(r.link(rel)); got != uri {
			t.Errorf("%s: %s, want %s", rel, got, uri)
		}
	}
	tag := r.Header.Get("ETag")
	if !strings.HasPrefix(tag, `"`) || len(tag) < 34 {
		t.Errorf("ETag %s: want a strong one", tag)
	}
	if r := get(t, address, "If-None-Match", tag); r.StatusCode != http.StatusNotModified || r.Header.Get("Memento-Datetime") == "" {
		t.Errorf("asked conditionally: status %d", r.StatusCode)
	}
	if r := get(t, address, "Range", "bytes=3-4"); r.StatusCode != http.StatusPartialContent || r.text != "tw" {
		t.Errorf("asked for a range: status %d, %q", r.StatusCode, r.text)
	}
	if r := get(t, address, "Range", "bytes=-0"); r.StatusCode != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("a range of no bytes: %s", r.Status)
	}
	if r := get(t, address, "Range", "bytes=0-2", "If-Range", `"other"`); r.StatusCode != http.StatusOK {
		t.Errorf("asked for a range of something else: status %d", r.StatusCode)
	}
}

// Content codings are as they were captured (ME-MM-03).
func TestMementoCoded(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "coded", func(v *memento.Version) { v.Encoding, v.Type = "br", "" })
	r := get(t, s.base.Memento(page, day(2)))
	if r.text != "coded" || r.Header.Get("Content-Encoding") != "br" || r.Header.Get("Content-Length") != "5" || r.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%q, %v", r.text, r.Header)
	}
}

// The answer at an instant is replayed, even if the resource did not exist
// (ME-MM-04). An address of no version is not found.
func TestMementoNone(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one")
	s.put(t, page, day(4), "")
	s.put(t, page, day(6), "", func(v *memento.Version) { v.Length = -1 })
	tests := []struct {
		rest     string
		datetime string
		known    bool
	}{
		{"20260304060000/" + page, "Wed, 04 Mar 2026 06:00:00 GMT", true},
		{"20260306060000/" + page, "", true}, // it is unknown what existed
		{"20260303060000/" + page, "", true},
		{"20260302060000.000001/" + page, "", true},
		{"20260302060000/http://h/unknown", "", false},
		{"20260302060000.000000/" + page, "", false}, // a version has one address
		{"20260302/" + page, "", false},
		{"20260230060000/" + page, "", false},
		{"2026030206000a/" + page, "", false},
		{page, "", false},
		{"", "", false},
	}
	for _, tt := range tests {
		r := get(t, string(s.base)+"versions/"+tt.rest)
		if r.StatusCode != http.StatusNotFound || r.Header.Get("Memento-Datetime") != tt.datetime || len(r.link("timegate")) > 0 != tt.known {
			t.Errorf("%s: status %d, Memento-Datetime %q, Link %s", tt.rest, r.StatusCode, r.Header.Get("Memento-Datetime"), r.Header.Get("Link"))
		}
	}
	if r := get(t, s.base.TimeGate(page), "Accept-Datetime", memento.FormatDatetime(day(7))); r.StatusCode != http.StatusNotFound || !strings.Contains(r.text, "not kept") {
		t.Errorf("when it was not kept: status %d, %s", r.StatusCode, r.text)
	}
}

// Dropped versions are gone, from the TimeMap too (ME-RET-01).
func TestMementoDropped(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	for n := 2; n <= 6; n += 2 {
		s.put(t, page, day(n), day(n).String())
	}
	if err := s.store.Drop(t.Context(), "set", []memento.Version{{URI: page, At: day(2)}}); err != nil {
		t.Fatal(err)
	}
	if r := get(t, s.base.Memento(page, day(2))); r.StatusCode != http.StatusGone || one(r.link("first")) != s.base.Memento(page, day(4)) {
		t.Errorf("a dropped version: status %d, Link %s", r.StatusCode, r.Header.Get("Link"))
	}
	if r := get(t, s.base.Memento(page, day(5))); r.StatusCode != http.StatusNotFound {
		t.Errorf("one there never was: status %d", r.StatusCode)
	}
	if r := get(t, s.base.TimeMap(page)); strings.Contains(r.text, "20260302") {
		t.Errorf("the TimeMap lists it: %s", r.text)
	}
	if err := s.store.Drop(t.Context(), "set", []memento.Version{{URI: page, At: day(4)}, {URI: page, At: day(6)}}); err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{s.base.TimeGate(page), s.base.TimeMap(page)} {
		if r := get(t, address); r.StatusCode != http.StatusNotFound {
			t.Errorf("%s: status %d when all are gone, want 404", address, r.StatusCode)
		}
	}
}

// Damaged bytes are never served, and logged by name (ME-MM-02).
func TestMementoDamaged(t *testing.T) {
	t.Parallel()
	small, large := strings.Repeat("small", 1000), strings.Repeat("large", 400_000)
	tests := []struct {
		name, text string
		damage     func(s *site, v *memento.Version) // damages the content
	}{
		{"flipped, unnoticed", small, func(s *site, v *memento.Version) { s.contents[v.Digest] = []byte("S" + small[1:]) }},
		{"cut short", small, func(s *site, v *memento.Version) { s.contents[v.Digest] = []byte(small[1:]) }},
		{"longer", small, func(s *site, v *memento.Version) { s.contents[v.Digest] = []byte(small + "x") }},
		{"gone", small, func(s *site, v *memento.Version) { delete(s.contents, v.Digest) }},
		{"large, flipped at its end", large, func(s *site, v *memento.Version) { s.contents[v.Digest] = []byte(large[1:] + "E") }},
		{"large, longer", large, func(s *site, v *memento.Version) { s.contents[v.Digest] = []byte(large + "x") }},
	}
	for _, tt := range tests {
		s := newSite(t, memento.Options{})
		s.put(t, page, day(2), tt.text, func(v *memento.Version) {
			s.mu.Lock()
			tt.damage(s, v)
			s.mu.Unlock()
		})
		address := s.base.Memento(page, day(2))
		for _, header := range [][]string{nil, {"Range", "bytes=10-20"}} {
			r := get(t, address, header...)
			if r.StatusCode != http.StatusInternalServerError || !strings.Contains(r.text, address) || strings.Contains(r.text, tt.text[:20]) || r.Header.Get("Memento-Datetime") != "" || r.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("%s: status %d, %.200q", tt.name, r.StatusCode, r.text)
			}
		}
		if log := s.logged(); !strings.Contains(log, "stored version is damaged") || !strings.Contains(log, address) {
			t.Errorf("%s: logged %q", tt.name, log)
		}
	}
}

// A keeper opens contents with read errors.
type keeper struct {
	text  []byte
	fails int64
	reads atomic.Int64
}

func (k *keeper) open(context.Context, memento.Version) (memento.Content, error) {
	return &counted{content{bytes.NewReader(k.text), k.fails}, k}, nil
}

type counted struct {
	content
	k *keeper
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.content.Read(p)
	c.k.reads.Add(int64(n))
	return n, err
}

// Damage found after an answer has begun ends it abruptly, so that no client
// considers it complete.
func TestMementoBreaksOff(t *testing.T) {
	t.Parallel()
	k := &keeper{text: make([]byte, 65<<20), fails: 65<<20 - 1000} // too large to be read twice
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "x", func(v *memento.Version) { v.Length = int64(len(k.text)) })
	srv := serve(t, memento.NewHandler(s.store, memento.Options{Base: "http://h/", Open: k.open}))
	resp, err := http.Get(srv + "/versions/20260302060000/" + page)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err == nil || n >= int64(len(k.text)) {
		t.Errorf("read %d bytes, %v; want less, and an error", n, err)
	}
	if resp, err := http.Get(srv + "/versions/20260302060000/" + strings.Replace(page, "a/", "b/", 1)); err != nil || resp.StatusCode != http.StatusNotFound {
		t.Errorf("afterwards: %v", err)
	} else {
		resp.Body.Close()
	}
}

// Recently verified bytes are not verified again before each answer.
func TestMementoCheckedOnce(t *testing.T) {
	t.Parallel()
	k := &keeper{text: bytes.Repeat([]byte("0123456789abcdef"), 1<<17)} // 2 MiB
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), string(k.text))
	srv := serve(t, memento.NewHandler(s.store, memento.Options{Base: "http://h/", Open: k.open}))
	for range 5 {
		r := get(t, srv+"/versions/20260302060000/"+page, "Range", "bytes=16-31")
		if r.StatusCode != http.StatusPartialContent || r.text != "0123456789abcdef" {
			t.Fatalf("status %d, %q", r.StatusCode, r.text)
		}
	}
	if n := k.reads.Load(); n > int64(len(k.text))+1<<20 {
		t.Errorf("%d bytes were read, of %d", n, len(k.text))
	}
}

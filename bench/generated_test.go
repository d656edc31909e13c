//go:build linux

package bench

import (
	"bytes"
	"crypto/md5"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/resourcesync"
)

func resourcePath(i int) string {
	return fmt.Sprintf("/data/%02d/%03d/resource-%06d.bin", i/10_000, i/100%100, i)
}

// TestSourceProcess is the Source that the benchmarks sync from. It ends with
// its standard input.
func TestSourceProcess(t *testing.T) {
	var files, size int
	var big int64
	if n, _ := fmt.Sscan(os.Getenv("LOCKSTEP_BENCH_SOURCE"), &files, &size, &big); n != 3 {
		return // only when a benchmark starts it
	}
	s := &generated{t: t, files: files, size: size, big: big, version: map[int]int{}, gone: map[int]bool{}}
	s.at = time.Now().UTC()
	s.noise = make([]byte, 4*size+1<<16)
	_, _ = rand.NewChaCha8([32]byte{}).Read(s.noise)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.base = "http://" + l.Addr().String()
	s.build(t)
	srv := &http.Server{Handler: s, ConnState: func(c net.Conn, st http.ConnState) {
		if st == http.StateNew {
			s.conns.Add(1)
		}
	}}
	go func() { _ = srv.Serve(l) }() // until Close
	fmt.Println(s.base)
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = srv.Close()
}

// A generated Source makes its resources from their numbers.
type generated struct {
	t           *testing.T
	files, size int
	big         int64
	noise       []byte
	base        string
	at          time.Time
	conns       atomic.Int64
	log         requestLog

	mu      sync.RWMutex // guards what follows
	docs    map[string][]byte
	zipped  map[string][]byte // of the docs, for clients that accept gzip; may be nil
	version map[int]int
	gone    map[int]bool
	changed []resourcesync.Entry
	last    time.Time
}

// body returns the content of a resource: cheap to make, for it is not the
// Source that is measured.
func (g *generated) body(i, version int) []byte {
	b := make([]byte, max(g.size, 16))
	copy(b[16:], g.noise[i%len(g.noise)/2:])
	binary.LittleEndian.PutUint64(b, uint64(i))
	binary.LittleEndian.PutUint64(b[8:], uint64(version))
	return b[:g.size]
}

func (g *generated) entry(i, version int) resourcesync.Entry {
	b := g.body(i, version)
	s5, s2 := md5.Sum(b), sha256.Sum256(b)
	e := resourcesync.Entry{Loc: g.base + resourcePath(i), Lastmod: resourcesync.NewDatetime(g.at.Truncate(time.Second))}
	e.Hashes = resourcesync.Hashes{{Algorithm: resourcesync.MD5, Digest: string(s5[:])}, {Algorithm: resourcesync.SHA256, Digest: string(s2[:])}}
	e.Length, e.HasLength, e.Type = int64(len(b)), true, "application/octet-stream"
	return e
}

// build makes the documents of the first state.
func (g *generated) build(t *testing.T) {
	g.docs = map[string][]byte{}
	at := resourcesync.NewDatetime(g.at)
	up := []resourcesync.Link{{Rel: "up", Href: g.base + "/rs/capabilitylist.xml"}}
	const part = resourcesync.MaxEntries
	var index []resourcesync.Entry
	var one []byte
	for from := 0; from < g.files; from += part {
		var entries []resourcesync.Entry
		for i := from; i < min(from+part, g.files); i++ {
			entries = append(entries, g.entry(i, 0))
		}
		if from == 0 && g.big > 0 {
			entries = append(entries, resourcesync.Entry{Loc: g.base + "/big", Metadata: resourcesync.Metadata{Length: g.big, HasLength: true}})
		}
		one = write(t, resourcesync.Header{Capability: resourcesync.ResourceList, At: at, Links: up}, entries)
		name := fmt.Sprintf("/rs/list-%d.xml", from/part)
		g.docs[name] = one
		index = append(index, resourcesync.Entry{Loc: g.base + name})
	}
	if g.docs["/rs/resourcelist.xml"] = one; len(index) > 1 {
		g.docs["/rs/resourcelist.xml"] = write(t, resourcesync.Header{Capability: resourcesync.ResourceList, Index: true, At: at, Links: up}, index)
	}
	g.docs["/rs/capabilitylist.xml"] = write(t, resourcesync.Header{Capability: resourcesync.CapabilityList,
		Links: []resourcesync.Link{{Rel: "up", Href: g.base + "/.well-known/resourcesync"}}}, []resourcesync.Entry{
		{Loc: g.base + "/rs/resourcelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.ResourceList}},
		{Loc: g.base + "/rs/changelist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.ChangeList}},
	})
	g.docs["/.well-known/resourcesync"] = write(t, resourcesync.Header{Capability: resourcesync.Description}, []resourcesync.Entry{
		{Loc: g.base + "/rs/capabilitylist.xml", Metadata: resourcesync.Metadata{Capability: resourcesync.CapabilityList}},
	})
	g.last = g.at
	g.change(t, nil)
}

// change makes a Change List that goes on with the changes to the resources given.
func (g *generated) change(t *testing.T, which []int) {
	for k, i := range which {
		var e resourcesync.Entry
		if k%10 == 9 {
			g.gone[i] = true
			e.Loc, e.Change = g.base+resourcePath(i), resourcesync.Deleted
		} else {
			g.version[i]++
			e = g.entry(i, g.version[i])
			e.Change = resourcesync.Updated
		}
		g.last = g.last.Add(time.Microsecond)
		e.Datetime = resourcesync.NewDatetime(g.last)
		g.changed = append(g.changed, e)
	}
	g.docs["/rs/changelist.xml"] = write(t, resourcesync.Header{Capability: resourcesync.ChangeList, From: resourcesync.NewDatetime(g.at),
		Links: []resourcesync.Link{{Rel: "up", Href: g.base + "/rs/capabilitylist.xml"}}}, g.changed)
}

func (g *generated) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if what, ok := strings.CutPrefix(r.URL.Path, "/control/"); ok {
		g.control(w, what)
		return
	}
	if r.URL.Path == "/big" {
		w.Header().Set("Content-Length", strconv.FormatInt(g.big, 10))
		_, _ = io.CopyN(w, zeros{}, g.big)
		return
	}
	g.log.add(r.URL.Path)
	g.mu.RLock()
	defer g.mu.RUnlock()
	if text, ok := g.docs[r.URL.Path]; ok {
		if zipped, ok := g.zipped[r.URL.Path]; ok && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			text = zipped
			w.Header().Set("Content-Encoding", "gzip")
		}
		sum := md5.Sum(text)
		w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sum[:6]))
		w.Header().Set("Content-Type", "application/xml")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(text))
		return
	}
	_, no, _ := strings.Cut(r.URL.Path, "resource-")
	i, err := strconv.Atoi(strings.TrimSuffix(no, ".bin"))
	if err != nil || i >= g.files || g.gone[i] {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Length", strconv.Itoa(g.size))
	w.Header().Set("ETag", fmt.Sprintf(`"%d-%d"`, i, g.version[i]))
	_, _ = w.Write(g.body(i, g.version[i]))
}

// control executes a command of a benchmark: restart the count of connections,
// return their number, or change a hundred resources, of which ninety remain.
func (g *generated) control(w http.ResponseWriter, what string) {
	switch what {
	case "reset":
		g.conns.Store(0)
		g.log.restart()
	case "connections":
		fmt.Fprint(w, g.conns.Load()-1) // this one is the benchmark's
	case "first":
		g.log.writeTo(w)
	case "change":
		g.mu.Lock()
		defer g.mu.Unlock()
		var which []int
		for i := len(g.gone); len(which) < 100; i += g.files/101 + 1 {
			for i %= g.files; g.gone[i]; i = (i + 1) % g.files {
			}
			which = append(which, i)
		}
		g.change(g.t, which)
	}
}

// zeros are without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func write(t *testing.T, h resourcesync.Header, entries []resourcesync.Entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	w, err := resourcesync.NewWriter(&buf, h)
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		if err := w.Write(&entries[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

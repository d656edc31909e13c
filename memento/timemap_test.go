package memento_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/internal/weblink"
	"lockstep/memento"
)

// A TimeMap in link format lists the resource, its TimeGate, itself and all
// versions, oldest first, with their relations (ME-TM-01, ME-TM-02, ME-TM-05,
// ME-LK-03, ME-LK-04).
func TestTimeMap(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	const uri = "http://h/a,b;c?q=\"<ü>"
	const escaped = "http://h/a,b;c?q=%22%3C%C3%BC%3E"
	s.put(t, uri, day(4), "two")
	s.put(t, uri, day(2), "one")
	s.put(t, uri, day(6), "")
	s.put(t, uri, day(8).Add(time.Millisecond), "three")
	r := get(t, s.base.TimeMap(uri))
	b := string(s.base)
	want := `<` + escaped + `>; rel="original",
<` + b + `timemap/` + escaped + `>; rel="self"; type="application/link-format"; from="Mon, 02 Mar 2026 06:00:00 GMT"; until="Sun, 08 Mar 2026 06:00:00 GMT",
<` + b + `timegate/` + escaped + `>; rel="timegate",
<` + b + `versions/20260302060000/` + escaped + `>; rel="first memento"; datetime="Mon, 02 Mar 2026 06:00:00 GMT",
<` + b + `versions/20260304060000/` + escaped + `>; rel="memento"; datetime="Wed, 04 Mar 2026 06:00:00 GMT",
<` + b + `versions/20260308060000.001000/` + escaped + `>; rel="last memento"; datetime="Sun, 08 Mar 2026 06:00:00 GMT"
`
	if r.text != want || r.Header.Get("Content-Type") != "application/link-format" || r.Header.Get("Vary") != "Accept" {
		t.Errorf("%v\n%s, want\n%s", r.Header, r.text, want)
	}
	// Conditional requests (ME-TM-07).
	if again := get(t, s.base.TimeMap(uri), "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusNotModified {
		t.Errorf("asked conditionally: status %d", again.StatusCode)
	}
	s.put(t, uri, day(9), "four")
	if again := get(t, s.base.TimeMap(uri), "If-None-Match", r.Header.Get("ETag")); again.StatusCode != http.StatusOK {
		t.Errorf("after a change: status %d", again.StatusCode)
	}
	single := newSite(t, memento.Options{})
	single.put(t, uri, day(2), "one")
	if r := get(t, single.base.TimeMap(uri)); !strings.Contains(r.text, `rel="first last memento"`) {
		t.Errorf("a single version:\n%s", r.text)
	}
}

// JSON is available on request (ME-TM-02).
func TestTimeMapJSON(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{Page: 2})
	for n := 2; n <= 6; n += 2 {
		s.put(t, page, day(n), fmt.Sprint(n))
	}
	type version struct{ Datetime, URI string }
	var m struct {
		Original string                              `json:"original_uri"`
		TimeGate string                              `json:"timegate_uri"`
		TimeMap  map[string]string                   `json:"timemap_uri"`
		Index    []struct{ From, Until, URI string } `json:"timemap_index"`
		Mementos struct {
			First, Last version
			List        []version
		}
	}
	address := string(s.base) + "timemap/json/" + page
	r := get(t, address)
	if err := json.Unmarshal([]byte(r.text), &m); err != nil || r.Header.Get("Content-Type") != "application/json" || r.Header.Get("Vary") != "" {
		t.Fatalf("%v, %v\n%s", err, r.Header, r.text)
	}
	if m.Original != page || m.TimeGate != s.base.TimeGate(page) || m.TimeMap["json_format"] != address || len(m.Mementos.List) != 2 || len(m.Index) != 1 {
		t.Errorf("%+v", m)
	}
	if m.Mementos.First != (version{"2026-03-02T06:00:00Z", s.base.Memento(page, day(2))}) || m.Mementos.Last != (version{"2026-03-06T06:00:00Z", s.base.Memento(page, day(6))}) || m.Mementos.List[0] != m.Mementos.First {
		t.Errorf("%+v", m.Mementos)
	}
	last := m.Mementos.Last
	r = get(t, m.Index[0].URI)
	if err := json.Unmarshal([]byte(r.text), &m); err != nil || len(m.Mementos.List) != 1 || m.Mementos.List[0] != last {
		t.Errorf("second page: %v\n%s", err, r.text)
	}
	for _, tt := range []struct {
		accept string
		json   bool
	}{
		{"", false}, {"application/json", true}, {"*/*", false}, {"application/json, */*;q=0.1", true}, {"application/link-format", false},
		{"application/link-format;q=0.5, application/json", true}, {"application/json;q=0.5, application/link-format", false},
		{"text/html, application/xhtml+xml, */*;q=0.8", false}, {"application/json;q=0", false}, {"APPLICATION/JSON ; Q=1", true}, {"application/json;q=NaN", false},
	} {
		want := "application/link-format"
		if tt.json {
			want = "application/json"
		}
		if got := get(t, s.base.TimeMap(page), "Accept", tt.accept).Header.Get("Content-Type"); got != want {
			t.Errorf("Accept %q: %s, want %s", tt.accept, got, want)
		}
	}
}

// Long TimeMaps are divided into pages, which link to each other and together
// list every version once (ME-TM-04).
func TestTimeMapPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{Page: 10})
	const n = 35
	var all []memento.Version
	for i := range n {
		all = append(all, memento.Version{URI: page, At: day(2).Add(time.Duration(i) * 100 * time.Millisecond), Length: 1, Seq: int64(i + 1)})
	}
	if err := s.store.Append(t.Context(), "set", n, all); err != nil {
		t.Fatal(err)
	}
	m, err := memento.ReadTimeMap(t.Context(), nil, s.base.TimeMap(page), 0)
	if err != nil || len(m.Versions) != n || m.Original != page || m.TimeGate != s.base.TimeGate(page) {
		t.Fatalf("%+v, %v", m, err)
	}
	for i, v := range m.Versions {
		if v.URI != s.base.Memento(page, all[i].At) {
			t.Errorf("version %d: %s", i, v.URI)
		}
	}
	first := get(t, s.base.TimeMap(page)).text
	if strings.Count(first, "memento") != 10 || !strings.Contains(first, "first memento") || strings.Contains(first, "last memento") {
		t.Errorf("first page:\n%s", first)
	}
	if _, err := memento.ReadTimeMap(t.Context(), nil, s.base.TimeMap(page), n-1); !errors.Is(err, memento.ErrTooLong) {
		t.Errorf("with a bound below: %v", err)
	}
	if r := get(t, string(s.base)+"timemap/20270101000000/"+page); r.StatusCode != http.StatusNotFound {
		t.Errorf("a page behind the last: status %d", r.StatusCode)
	}
	long := page + strings.Repeat("x", 2000)
	for i := range all {
		all[i].URI = long
	}
	for len(all) < 3000 {
		v := all[len(all)-1]
		v.At = v.At.Add(time.Second)
		all = append(all, v)
	}
	big := newSite(t, memento.Options{})
	if err := big.store.Append(t.Context(), "set", n, all); err != nil {
		t.Fatal(err)
	}
	if size := len(get(t, big.base.TimeMap(long)).text); size > 16<<20 {
		t.Errorf("a page has %d bytes", size)
	}
	if m, err := memento.ReadTimeMap(t.Context(), nil, big.base.TimeMap(long), 0); err != nil || len(m.Versions) != 3000 {
		t.Errorf("%v", err)
	}
}

// fixed serves texts by path, and counts requests.
func fixed(t testing.TB, texts map[string]string) (base string) {
	t.Helper()
	var asked = map[string]int{}
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if asked[r.URL.Path]++; asked[r.URL.Path] > 1 {
			t.Errorf("%s is asked for again", r.URL.Path)
		}
		text, ok := texts[r.URL.Path]
		if to, moved := strings.CutPrefix(text, "-> "); moved {
			w.Header().Set("Location", to)
			w.WriteHeader(http.StatusFound)
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", memento.LinkFormat)
		_, _ = io.WriteString(w, strings.ReplaceAll(text, "HOST", "http://"+r.Host))
	}))
}

const dt = `; datetime="Thu, 02 May 2024 06:00:01 GMT"`

// TimeMaps of other servers: an index, pages, cycles, each read once
// (ME-TM-04); links with another context (ME-TM-03).
func TestReadTimeMap(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		texts map[string]string
		want  string // URI-Ms by their last letters
		err   error
	}{
		{"a circle", map[string]string{
			"/m":  `<HOST/r>; rel="original", <HOST/m>; rel="self", <HOST/m2>; rel="timemap"; type="application/link-format", <HOST/va>; rel="first memento"` + dt,
			"/m2": `<HOST/r>; rel="original", <HOST/m2>; rel="self timemap", <HOST/m>; rel="timemap", <HOST/m3>; rel="TimeMap", <HOST/vb>; rel=memento` + dt,
			"/m3": `<HOST/m>; rel="timemap", <HOST/m2>;rel="timemap", <HOST/va>; rel="memento"` + dt,
		}, "ab", nil},
		{"an index", map[string]string{
			"/m":  `<m2>; rel="timemap", </m3>; rel="timemap"; type="application/link-format;charset=utf-8", </m4>; rel="timemap"; type="application/json"`,
			"/m2": `</va>; rel="memento"` + dt, "/m3": "-> /m5", "/m5": `</vb>; rel="memento"` + dt,
		}, "ab", nil},
		{"sorted", map[string]string{"/m": `</va>; rel="last memento"; datetime="Fri, 03 May 2024 06:00:01 GMT", </vb>; rel="first memento"` + dt}, "ba", nil},
		{"anchors", map[string]string{"/m": `<HOST/r>; rel="original", </va>; rel="memento"; anchor="HOST/r"` + dt + `, </vb>; rel="memento"; anchor="HOST/other"` + dt}, "a", nil},
		{"no datetime", map[string]string{"/m": `</va>; rel="memento", </vb>; rel="memento"; datetime="yesterday", </vc>; rel="memento"` + dt}, "c", nil},
		{"other forms of datetimes", map[string]string{"/m": `</va>; rel="memento"; datetime="Thursday, 02-May-24 06:00:01 GMT"`}, "a", nil},
		{"not there", nil, "", memento.ErrNoMemento},
		{"empty", map[string]string{"/m": ""}, "", memento.ErrNoMemento},
		{"only itself", map[string]string{"/m": `<HOST/m>; rel="timemap"`}, "", memento.ErrNoMemento},
		{"a page is missing", map[string]string{"/m": `</va>; rel="memento"` + dt + `, </m2>; rel="timemap"`}, "", memento.ErrNoMemento},
		{"a page", map[string]string{"/m": "There is nothing here."}, "", weblink.ErrSyntax},
		{"cut short", map[string]string{"/m": `</va>; rel="memento"` + dt + `, </vb>; rel="mem`}, "", weblink.ErrSyntax},
	}
	for _, tt := range tests {
		m, err := memento.ReadTimeMap(t.Context(), http.DefaultClient, fixed(t, tt.texts)+"/m", 0)
		if !errors.Is(err, tt.err) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.err)
			continue
		}
		got := ""
		for i := 0; err == nil && i < len(m.Versions); i++ {
			got += m.Versions[i].URI[len(m.Versions[i].URI)-1:]
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Endless TimeMaps are cut off (ME-TM-04).
func TestReadTimeMapEndless(t *testing.T) {
	t.Parallel()
	n := 0
	base := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		fmt.Fprintf(w, `</m%d>; rel="timemap"`, n)
	}))
	if _, err := memento.ReadTimeMap(t.Context(), nil, base, 0); !errors.Is(err, memento.ErrTooLong) {
		t.Errorf("pages without an end: %v", err)
	}
	if n > 1000 {
		t.Errorf("%d were read", n)
	}
	circle := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusFound) }))
	if _, err := memento.ReadTimeMap(t.Context(), nil, circle, 0); err == nil || !strings.Contains(err.Error(), "more than 10 addresses") {
		t.Errorf("redirects in a circle: %v", err)
	}
}

// Current is the latest version up to an instant.
func TestTimeMapCurrent(t *testing.T) {
	t.Parallel()
	m := memento.TimeMap{Versions: []memento.Found{{URI: "a", At: day(2)}, {URI: "b", At: day(4)}}}
	for at, want := range map[int]string{1: "", 2: "a", 3: "a", 4: "b", 9: "b"} {
		got, err := m.Current(day(at))
		if got.URI != want || (want == "") != errors.Is(err, memento.ErrNoMemento) {
			t.Errorf("day %d: %q, %v", at, got.URI, err)
		}
	}
}

// Many clients that read a long page slowly share it. Not in parallel: it
// measures the memory of the process.
func TestTimeMapShared(t *testing.T) {
	s := newSite(t, memento.Options{})
	var all []memento.Version
	for i := range 10_000 {
		all = append(all, memento.Version{URI: page + strings.Repeat("x", 150), At: day(2).Add(time.Duration(i) * time.Second), Length: 1, Seq: int64(i + 1)})
	}
	if err := s.store.Append(t.Context(), "set", 1, all); err != nil {
		t.Fatal(err)
	}
	h := memento.NewHandler(s.store, memento.Options{Base: "http://h/"})
	const readers = 40
	arrived, leave := make(chan struct{}, readers), make(chan struct{})
	var wg sync.WaitGroup
	for range readers {
		wg.Go(func() {
			h.ServeHTTP(&slowWriter{header: http.Header{}, arrived: arrived, leave: leave}, httptest.NewRequest("GET", "/timemap/"+all[0].URI, nil))
		})
	}
	for range readers {
		<-arrived
	}
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	close(leave)
	wg.Wait()
	if m.HeapAlloc > 80<<20 { // 40 copies of 4 MB would be 160
		t.Errorf("%d MB are in use", m.HeapAlloc>>20)
	}
}

// A slowWriter blocks its first write until released.
type slowWriter struct {
	header  http.Header
	arrived chan<- struct{}
	leave   <-chan struct{}
	once    sync.Once
}

func (w *slowWriter) Header() http.Header { return w.header }
func (w *slowWriter) WriteHeader(int)     {}
func (w *slowWriter) Write(p []byte) (int, error) {
	w.once.Do(func() {
		w.arrived <- struct{}{}
		<-w.leave
	})
	return len(p), nil
}

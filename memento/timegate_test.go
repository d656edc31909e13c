package memento_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
)

const page = "https://data.example.org/a/page?x=1&y=//2"

// Each instant leads to the version that was current then, never to a later one
// that is nearer (ME-TG-05, ME-TG-04, ME-GEN-04, ME-TG-02).
func TestTimeGate(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one")
	s.put(t, page, day(4), "two")
	s.put(t, page, day(6).Add(250*time.Millisecond), "three")
	tests := []struct {
		name string
		at   string // Accept-Datetime; empty: none
		want time.Time
	}{
		{"before the first", memento.FormatDatetime(day(1)), day(2)},
		{"one second before it", memento.FormatDatetime(day(2).Add(-time.Second)), day(2)},
		{"the first", memento.FormatDatetime(day(2)), day(2)},
		{"just before the second", memento.FormatDatetime(day(4).Add(-time.Second)), day(2)},
		{"the second", memento.FormatDatetime(day(4)), day(4)},
		{"within the second of the third", memento.FormatDatetime(day(6)), day(6).Add(250 * time.Millisecond)},
		{"after the last", memento.FormatDatetime(day(9)), day(6).Add(250 * time.Millisecond)},
		{"far away", "Fri, 31 Dec 9999 23:59:59 GMT", day(6).Add(250 * time.Millisecond)},
		{"long ago", "Mon, 01 Jan 0001 00:00:00 GMT", day(2)},
		{"blanks around it", " \t" + memento.FormatDatetime(day(4)) + " ", day(4)},
		{"none", "", day(6).Add(250 * time.Millisecond)},
	}
	for _, tt := range tests {
		var header []string
		if tt.at != "" {
			header = []string{"Accept-Datetime", tt.at}
		}
		r := get(t, s.base.TimeGate(page), header...)
		if r.StatusCode != http.StatusFound || r.Header.Get("Location") != s.base.Memento(page, tt.want) {
			t.Errorf("%s: status %d to %q, want 302 to %q", tt.name, r.StatusCode, r.Header.Get("Location"), s.base.Memento(page, tt.want))
		}
		if r.Header.Get("Vary") != "accept-datetime" || r.Header.Get("Memento-Datetime") != "" { // ME-TG-01, ME-TG-02
			t.Errorf("%s: Vary %q, Memento-Datetime %q", tt.name, r.Header.Get("Vary"), r.Header.Get("Memento-Datetime"))
		}
		if got := one(r.link("original")); got != page { // ME-LK-01
			t.Errorf("%s: original %q, want %q", tt.name, got, page)
		}
	}
}

// A datetime in any other form is refused (ME-HD-01, ME-HD-02).
func TestTimeGateRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one")
	for _, at := range []string{
		"", "now", "Tue, 20 Mar 2001 20:35:00 gmt", "tue, 20 mar 2001 20:35:00 GMT", "2001-03-20T20:35:00Z",
		"Tuesday, 20-Mar-01 20:35:00 GMT", "Tue Mar 20 20:35:00 2001", "Tue, 20 Mar 2001 20:35:00 +0000",
		"Tue, 20 Mar 2001 20:35:00 UTC", "Tue, 20 Mar 01 20:35:00 GMT", "Tue, 5 Mar 2001 20:35:00 GMT",
		"Wed, 20 Mar 2001 20:35:00 GMT", "Thu, 30 Feb 2001 20:35:00 GMT", "Tue, 20 Mar 2001 24:35:00 GMT",
		"Tue, 20 Mar 2001 20:35:00.5 GMT", "Tue,  20 Mar 2001 20:35:00 GMT",
		"Tue, 20 Mar 2001 20:35:00 GMT, Tue, 20 Mar 2001 20:35:00 GMT", strings.Repeat("x", 10_000),
	} {
		r := get(t, s.base.TimeGate(page), "Accept-Datetime", at)
		if r.StatusCode != http.StatusBadRequest || !strings.Contains(r.text, http.TimeFormat) || len(r.text) > 300 {
			t.Errorf("Accept-Datetime %.50q: status %d, %q; want 400 that names the form", at, r.StatusCode, r.text)
		}
	}
	again := memento.FormatDatetime(day(2))
	if r := get(t, s.base.TimeGate(page), "Accept-Datetime", again, "Accept-Datetime", again); r.StatusCode != http.StatusBadRequest {
		t.Errorf("two of them: status %d, want 400", r.StatusCode)
	}
}

// A TimeGate names the adjacent versions (ME-TG-01, ME-LK-02, ME-LK-03,
// ME-LK-04), each version once, with all its relations.
func TestTimeGateLinks(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	for i := 1; i <= 5; i++ {
		s.put(t, page, day(2*i), fmt.Sprint(i))
	}
	version := func(n int, rel string) string {
		return fmt.Sprintf(`<%s>; rel="%s"; datetime="%s"`, s.base.Memento(page, day(2*n)), rel, memento.FormatDatetime(day(2*n)))
	}
	head := fmt.Sprintf(`<%s>; rel="original", <%s>; rel="timegate", <%s>; rel="timemap"; type="application/link-format"; from="%s"; until="%s", `,
		page, s.base.TimeGate(page), s.base.TimeMap(page), memento.FormatDatetime(day(2)), memento.FormatDatetime(day(10)))
	tests := []struct {
		at   time.Time
		want []string
	}{
		{day(1), []string{version(1, "first memento"), version(2, "next memento"), version(5, "last memento")}},
		{day(3), []string{version(1, "first memento"), version(2, "next memento"), version(5, "last memento")}},
		{day(4), []string{version(1, "first prev memento"), version(2, "memento"), version(3, "next memento"), version(5, "last memento")}},
		{day(6), []string{version(1, "first memento"), version(2, "prev memento"), version(3, "memento"), version(4, "next memento"), version(5, "last memento")}},
		{day(8), []string{version(1, "first memento"), version(3, "prev memento"), version(4, "memento"), version(5, "next last memento")}},
		{day(30), []string{version(1, "first memento"), version(4, "prev memento"), version(5, "last memento")}},
	}
	for _, tt := range tests {
		want := head + strings.Join(tt.want, ", ")
		if got := get(t, s.base.TimeGate(page), "Accept-Datetime", memento.FormatDatetime(tt.at)).Header.Get("Link"); got != want {
			t.Errorf("%v: Link\n%s, want\n%s", tt.at, got, want)
		}
	}
	single := newSite(t, memento.Options{})
	single.put(t, page, day(2), "one")
	if r := get(t, single.base.TimeGate(page)); one(r.link("first")) != one(r.link("last")) || len(r.link("memento")) != 1 {
		t.Errorf("a single version: %s", r.Header.Get("Link"))
	}
	long := page + strings.Repeat("x", 1800)
	for i := 1; i <= 5; i++ {
		s.put(t, long, day(2*i), fmt.Sprint(i))
	}
	if r := get(t, s.base.TimeGate(long), "Accept-Datetime", memento.FormatDatetime(day(6))); r.StatusCode != http.StatusFound || len(r.Header.Get("Link")) > 10_000 {
		t.Errorf("a long URI: status %d, %d bytes of links", r.StatusCode, len(r.Header.Get("Link")))
	}
}

// Within a second the last version is selected, and the others stay reachable
// (ME-HD-04).
func TestTwoInASecond(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	first, second := day(2).Add(100*time.Microsecond), day(2).Add(900*time.Millisecond)
	s.put(t, page, first, "one")
	s.put(t, page, second, "two")
	s.put(t, page, day(3), "three")
	for _, at := range []time.Time{day(2), day(2).Add(time.Minute)} {
		r := get(t, s.base.TimeGate(page), "Accept-Datetime", memento.FormatDatetime(at))
		if got := r.Header.Get("Location"); got != s.base.Memento(page, second) {
			t.Errorf("%v leads to %s, want the last of that second", at, got)
		}
	}
	r := get(t, s.base.Memento(page, first))
	if r.StatusCode != http.StatusOK || r.text != "one" || r.Header.Get("Memento-Datetime") != memento.FormatDatetime(day(2)) {
		t.Errorf("the first of the second: status %d, %q, %s", r.StatusCode, r.text, r.Header.Get("Memento-Datetime"))
	}
	if got, want := one(r.link("next")), s.base.Memento(page, second); got != want {
		t.Errorf("next of the first is %s, want %s", got, want)
	}
	if r := get(t, s.base.Memento(page, day(2))); r.StatusCode != http.StatusNotFound {
		t.Errorf("a version of the whole second: status %d, want 404", r.StatusCode)
	}
	if r := get(t, s.base.TimeMap(page)); strings.Count(r.text, "memento") != 3 {
		t.Errorf("the TimeMap does not list all: %s", r.text)
	}
}

// At an instant at which a resource was deleted there is no version, unless
// configured (ME-DEL-01); before and after there is (ME-TG-07).
func TestDeleted(t *testing.T) {
	t.Parallel()
	strict, earlier := newSite(t, memento.Options{}), newSite(t, memento.Options{Earlier: true})
	for _, s := range []*site{strict, earlier} {
		s.put(t, page, day(2), "one")
		s.put(t, page, day(4), "")
		s.put(t, page, day(6), "again")
		s.put(t, page, day(8), "")
	}
	tests := []struct {
		at   int // day; 0: not requested
		want int // day of the version; 0: there is none
		prev int // adjacent versions
		next int
	}{
		{2, 2, 0, 6}, {3, 2, 0, 6}, {4, 0, 2, 6}, {5, 0, 2, 6}, {6, 6, 2, 0}, {7, 6, 2, 0}, {8, 0, 6, 0}, {9, 0, 6, 0}, {0, 6, 2, 0},
	}
	for _, tt := range tests {
		var header []string
		if tt.at > 0 {
			header = []string{"Accept-Datetime", memento.FormatDatetime(day(tt.at))}
		}
		r := get(t, strict.base.TimeGate(page), header...)
		status, to := http.StatusNotFound, ""
		if tt.want > 0 {
			status, to = http.StatusFound, strict.base.Memento(page, day(tt.want))
		}
		if r.StatusCode != status || r.Header.Get("Location") != to {
			t.Errorf("day %d: status %d to %q, want %d to %q", tt.at, r.StatusCode, r.Header.Get("Location"), status, to)
		}
		if one(r.link("original")) != page || one(r.link("timemap")) != strict.base.TimeMap(page) || r.Header.Get("Vary") != "accept-datetime" {
			t.Errorf("day %d: Link %s, Vary %s", tt.at, r.Header.Get("Link"), r.Header.Get("Vary"))
		}
		for rel, n := range map[string]int{"prev": tt.prev, "next": tt.next} {
			want := ""
			if n > 0 {
				want = strict.base.Memento(page, day(n))
			}
			if got := one(r.link(rel)); got != want {
				t.Errorf("day %d: %s is %q, want %q", tt.at, rel, got, want)
			}
		}
		r = get(t, earlier.base.TimeGate(page), header...)
		want := tt.want
		if want == 0 {
			want = tt.prev
		}
		if r.StatusCode != http.StatusFound || r.Header.Get("Location") != earlier.base.Memento(page, day(want)) {
			t.Errorf("day %d, strictly: status %d to %q, want the version of day %d", tt.at, r.StatusCode, r.Header.Get("Location"), want)
		}
	}
	for _, address := range []string{strict.base.TimeGate("https://data.example.org/unknown"), strict.base.TimeMap("https://data.example.org/unknown"), string(strict.base) + "timegate/", string(strict.base) + "timemap/json/", string(strict.base) + "else/x"} {
		if r := get(t, address); r.StatusCode != http.StatusNotFound { // ME-TG-07, ME-TM-07
			t.Errorf("%s: status %d, want 404", address, r.StatusCode)
		}
	}
	for _, prefix := range []string{"timegate/", "timemap/"} {
		if r := get(t, string(strict.base)+prefix); r.StatusCode != http.StatusNotFound || !strings.Contains(r.text, "as in "+string(strict.base)+prefix+"https://") {
			t.Errorf("%s alone: status %d, %q, want 404 that says how an address looks", prefix, r.StatusCode, r.text)
		}
	}
}

// raw sends a request line unchanged, because clients normalize some.
func raw(t testing.TB, s *site, target string) *http.Response {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n", target)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp
}

// The address contains the URI unchanged, which may also be escaped once more
// (ME-TG-08).
func TestEmbeddedURI(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	tests := []struct {
		uri     string
		targets []string // that are equivalent
	}{
		{"http://h/a//b", []string{"http://h/a//b", "http%3A%2F%2Fh%2Fa%2F%2Fb", "http:/h/a//b", "http%3a%2f%2fh/a//b"}},
		{"http://h/?", []string{"http://h/?"}},
		{"http://h/q?a=b&c=http://i/?d", []string{"http://h/q?a=b&c=http://i/?d", "http%3A%2F%2Fh%2Fq%3Fa%3Db%26c%3Dhttp%3A%2F%2Fi%2F%3Fd"}},
		{"http://h/a%2Fb", []string{"http://h/a%2Fb", "http%3A%2F%2Fh%2Fa%252Fb"}},
		{"http://h/a%20b", []string{"http://h/a%20b", "http%3A%2F%2Fh%2Fa%2520b"}},
		{"http://h/%C3%BC", []string{"http://h/%C3%BC", "http%3A%2F%2Fh%2F%25C3%25BC", "http://h/ü"}},
		{"http://h/ö{x}", []string{"http://h/%C3%B6%7Bx%7D", "http%3A%2F%2Fh%2F%C3%B6%7Bx%7D", "http://h/ö{x}"}},
		{"http://h/a/../b/./c", []string{"http://h/a/../b/./c"}},
		{"http://h/comma,semi;colon", []string{"http://h/comma,semi;colon"}},
		{"http://h/<x>\"y", []string{"http://h/%3Cx%3E%22y"}},
		{"urn:isbn:123", []string{"urn:isbn:123", "urn%3Aisbn%3A123"}},
		{"https://h:8443/a:b@c", []string{"https://h:8443/a:b@c"}},
		{"http://h/json/x", []string{"http://h/json/x"}},
	}
	for _, tt := range tests {
		s.put(t, tt.uri, day(2), tt.uri)
		for _, target := range tt.targets {
			for _, base := range []string{"", "http://h"} { // also as sent to a proxy
				resp := raw(t, s, base+"/past/timegate/"+target)
				if got := resp.Header.Get("Location"); resp.StatusCode != http.StatusFound || got != s.base.Memento(tt.uri, day(2)) {
					t.Errorf("%s: TimeGate %s%s: status %d to %s", tt.uri, base, target, resp.StatusCode, got)
				}
			}
			for _, prefix := range []string{"timemap/", "timemap/json/", "timemap/link/", "versions/20260302060000/"} {
				if resp := raw(t, s, "/past/"+prefix+target); resp.StatusCode != http.StatusOK {
					t.Errorf("%s: %s%s: status %d", tt.uri, prefix, target, resp.StatusCode)
				}
			}
		}
		r := get(t, s.base.TimeGate(tt.uri))
		if v := get(t, r.Header.Get("Location")); v.text != tt.uri {
			t.Errorf("%s: its version is %q", tt.uri, v.text)
		}
		if m, err := memento.ReadTimeMap(t.Context(), nil, s.base.TimeMap(tt.uri), 0); err != nil || len(m.Versions) != 1 || m.Versions[0].URI != s.base.Memento(tt.uri, day(2)) {
			t.Errorf("%s: TimeMap %+v, %v", tt.uri, m, err)
		}
	}
}

// HEAD is GET without a body, and other methods are not allowed (ME-TG-09).
func TestHead(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one")
	s.put(t, page, day(4), "")
	for _, address := range []string{
		s.base.TimeGate(page), s.base.TimeGate("http://h/unknown"), s.base.TimeMap(page), string(s.base) + "timemap/json/" + page,
		s.base.Memento(page, day(2)), s.base.Memento(page, day(4)), s.base.Memento(page, day(3)),
	} {
		g, h := get(t, address), ask(t, http.MethodHead, address)
		g.Header.Del("Date")
		h.Header.Del("Date")
		if got, want := fmt.Sprint(h.Header), fmt.Sprint(g.Header); h.StatusCode != g.StatusCode || got != want || h.text != "" {
			t.Errorf("HEAD %s: %d %s, want %d %s", address, h.StatusCode, got, g.StatusCode, want)
		}
		if r := ask(t, http.MethodPost, address); r.StatusCode != http.StatusMethodNotAllowed || r.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("POST %s: status %d, Allow %q", address, r.StatusCode, r.Header.Get("Allow"))
		}
	}
}

// Only the datetime is negotiated: other preferences apply to the version
// (ME-TG-06).
func TestTimeGateOtherPreferences(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one", func(v *memento.Version) { v.Type = "text/html" })
	s.put(t, page, day(4), "two", func(v *memento.Version) { v.Type = "application/json" })
	r := get(t, s.base.TimeGate(page), "Accept-Datetime", memento.FormatDatetime(day(3)), "Accept", "application/json", "Accept-Language", "de")
	if got := r.Header.Get("Location"); got != s.base.Memento(page, day(2)) {
		t.Errorf("leads to %s", got)
	}
}

// An address that is too long is not repeated in the answer.
func TestTooLong(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	for _, prefix := range []string{"timegate/", "timemap/", "versions/20260302060000/"} {
		r := get(t, string(s.base)+prefix+page+strings.Repeat("x", 20_000))
		if r.StatusCode != http.StatusRequestURITooLong || len(r.text) > 200 || r.Header.Get("Link") != "" {
			t.Errorf("%s: status %d, %d bytes, Link %.100q", prefix, r.StatusCode, len(r.text), r.Header.Get("Link"))
		}
	}
}

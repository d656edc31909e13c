package memento_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lockstep/memento"
)

// A stranger is a server that answers from a table: by path, the status and the
// header as names and values in turn. HOST is replaced by its address.
type stranger map[string][]string

func (s stranger) serve(t testing.TB) (base string, asked *atomic.Int64) {
	t.Helper()
	asked = new(atomic.Int64)
	return serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		a, ok := s[r.URL.Path]
		if method, rest, only := strings.Cut(r.URL.Path, "/only"); only && method == "" && rest == "" && r.Method == http.MethodHead {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		status := 0
		_, _ = fmt.Sscan(a[0], &status)
		for i := 1; i+1 < len(a); i += 2 {
			w.Header().Add(a[i], strings.ReplaceAll(a[i+1], "HOST", "http://"+r.Host))
		}
		if want := memento.FormatDatetime(day(3)); w.Header().Get("Echo") == "" && r.Header.Get("Accept-Datetime") != want && r.URL.Path != "/tm" {
			t.Errorf("%s: Accept-Datetime %q, want %q", r.URL.Path, r.Header.Get("Accept-Datetime"), want)
		}
		w.WriteHeader(status)
		if r.URL.Path == "/tm" {
			fmt.Fprintf(w, `</r>;rel=original </m1>;rel="memento";datetime=%q </m2>;rel="memento";datetime=%q`, memento.FormatDatetime(day(2)), memento.FormatDatetime(day(5)))
		}
	})), asked
}

const (
	md   = "Memento-Datetime"
	when = "Mon, 02 Mar 2026 06:00:00 GMT" // day(2)
	vary = "Vary"
	ad   = "negotiate, accept-datetime"
)

// Every pattern of RFC 7089 leads to a version (ME-GEN-03): a TimeGate may
// answer with it (ME-TG-03), and there may be only a TimeMap (ME-MM-07). So do
// redirects (ME-IM-01), and deleted resources (ME-LK-07).
func TestNegotiate(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		site   stranger
		uri    string // found, below the site
		dated  bool
		accept bool
		asked  int64 // maximum number of requests
	}{
		{"1.1", stranger{"/r": {"302", "Location", "HOST/m", vary, ad, "Link", `<HOST/r>; rel="original timegate"`}, "/m": {"200", md, when}}, "/m", true, false, 2},
		{"1.2", stranger{"/r": {"200", "Content-Location", "/m", vary, ad, md, when}}, "/m", true, false, 1},
		{"1.3", stranger{"/r": {"200", vary, ad, md, when}}, "/r", true, true, 1},
		{"2.1", stranger{"/r": {"200", "Link", `<HOST/g>; rel="timegate"`}, "/g": {"302", "Location", "HOST/m", vary, ad}, "/m": {"200", md, when, "Link", `<HOST/g>; rel="timegate"`}}, "/m", true, false, 3},
		{"2.1, said at once", stranger{"/r": {"302", "Location", "HOST/m", vary, ad, "Link", `<HOST/m>; rel="memento"; datetime="` + when + `", <HOST/x>; rel="last memento"; datetime="` + when + `"`}}, "/m", true, false, 1},
		{"2.2", stranger{"/r": {"200", "Link", `</g>; rel="timegate"`}, "/g": {"200", "Content-Location", "HOST/m", vary, ad, md, when}}, "/m", true, false, 2},
		{"2.3", stranger{"/r": {"200", "Link", `</g>; rel="timegate"`}, "/g": {"200", vary, ad, md, when}}, "/g", true, true, 2},
		{"3", stranger{"/r": {"200", md, when, "Link", `<HOST/r>; rel="original"`}}, "/r", true, false, 1},
		{"4", stranger{"/r": {"200", "Link", `</tm>; rel="timemap"; type="application/link-format"`}, "/tm": {"200"}}, "/m1", true, false, 2},
		{"gone", stranger{"/r": {"410", "Link", `</g>; rel="timegate"`}, "/g": {"302", "Location", "/m", vary, ad}, "/m": {"200", md, when}}, "/m", true, false, 3},
		{"intermediates", stranger{
			"/r": {"301", "Location", "/r2", "Link", `<HOST/o>; rel="original"`}, "/r2": {"303", "Location", "HOST/g"},
			"/g": {"302", "Location", "/m", vary, "Accept-Datetime"}, "/m": {"307", "Location", "/n"}, "/n": {"200", md, when},
		}, "/n", true, false, 5},
		{"no Memento-Datetime", stranger{"/r": {"302", "Location", "HOST/m", vary, ad}, "/m": {"200", "Link", `</r>; rel="timegate"`}}, "/m", false, false, 2},
		{"a replayed redirect", stranger{"/r": {"302", "Location", "/m", vary, ad}, "/m": {"301", md, when, "Location", "/o"}, "/o": {"200", "Link", `</g>; rel="timegate"`}, "/g": {"302", "Location", "/n", vary, ad}, "/n": {"200", md, when}}, "/n", true, false, 5}, // ME-MM-05
		{"no HEAD", stranger{"/r": {"302", "Location", "/only", vary, ad}, "/only": {"200", md, when}}, "/only", true, false, 3},
		{"a date in another form", stranger{"/r": {"200", md, "Monday, 02-Mar-26 06:00:00 GMT"}}, "/r", true, false, 1},
		{"a link of another resource", stranger{"/r": {"200", md, when, "Link", `</g>; rel="timegate"; anchor="/other"`}}, "/r", true, false, 1},
	}
	for _, tt := range tests {
		base, asked := tt.site.serve(t)
		got, err := memento.Negotiate(t.Context(), nil, base+"/r", day(3).Add(-time.Nanosecond)) // ME-HD-03
		want := memento.Found{URI: base + tt.uri}
		if tt.dated {
			want.At = day(2)
		}
		if tt.accept {
			want.Accept = memento.FormatDatetime(day(3))
		}
		if err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, want)
		}
		if n := asked.Load(); n > tt.asked {
			t.Errorf("%s: %d requests, want %d", tt.name, n, tt.asked)
		}
	}
}

// Dead ends are reported, and negotiation always terminates.
func TestNegotiateFails(t *testing.T) {
	t.Parallel()
	circle := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Link", `<`+r.URL.Path+`x>; rel="timegate"`)
	}
	tests := []struct {
		name string
		site stranger
		err  error
		text string
	}{
		{"unknown", stranger{}, memento.ErrNoMemento, "status 404"},
		{"a replayed 404", stranger{"/r": {"302", "Location", "/m", vary, ad}, "/m": {"404", md, when}}, memento.ErrNoMemento, "when there was nothing"}, // ME-MM-04
		{"no TimeGate", stranger{"/r": {"200"}}, memento.ErrNoTimeGate, ""},
		{"refused", stranger{"/r": {"400"}}, nil, "status 400"},
		{"broken", stranger{"/r": {"503"}}, nil, "status 503"},
		{"nowhere", stranger{"/r": {"302", vary, ad}}, nil, "leads nowhere"},
		{"to no address", stranger{"/r": {"302", vary, ad, "Location", "file:///etc/passwd"}}, nil, "leads nowhere"},
		{"to no host", stranger{"/r": {"302", vary, ad, "Location", "http:///x"}}, nil, "leads nowhere"},
		{"a circle", stranger{"/r": {"302", "Location", "/r"}}, nil, "more than 10 addresses"},
		{"a TimeGate that names itself", stranger{"/r": {"200", "Link", `</r>; rel="timegate"`}}, nil, ""},
		{"before the first of a TimeMap", stranger{"/r": {"200", "Link", `</none>; rel="timemap"`}}, memento.ErrNoMemento, ""},
		{"a dump of mine", stranger{"/r": {"200", md, "yesterday"}}, memento.ErrNoTimeGate, ""},
	}
	for _, tt := range tests {
		base, asked := tt.site.serve(t)
		_, err := memento.Negotiate(t.Context(), http.DefaultClient, base+"/r", day(3))
		if err == nil || tt.err != nil && !errors.Is(err, tt.err) || !strings.Contains(err.Error(), tt.text) || !strings.Contains(err.Error(), base) {
			t.Errorf("%s: %v; want %v that says %q", tt.name, err, tt.err, tt.text)
		}
		if asked.Load() > 12 {
			t.Errorf("%s: %d requests", tt.name, asked.Load())
		}
	}
	endless := serve(t, http.HandlerFunc(circle))
	if _, err := memento.Negotiate(t.Context(), nil, endless+"/r", day(3)); err == nil || !strings.Contains(err.Error(), "more than 10") {
		t.Errorf("TimeGates without an end: %v", err)
	}
	for _, address := range []string{"", "file:///x", "http://", "%", "urn:x"} {
		if _, err := memento.Negotiate(t.Context(), nil, address, day(3)); err == nil {
			t.Errorf("%q: no error", address)
		}
	}
	var status *memento.StatusError
	base, _ := stranger{}.serve(t)
	if _, err := memento.Negotiate(t.Context(), nil, base+"/r", day(3)); !errors.As(err, &status) || status.Status != http.StatusNotFound {
		t.Errorf("%v has no status", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := memento.Negotiate(ctx, nil, base+"/r", day(3)); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// A following Doer sends requests like an http.Client by default: it follows
// redirects itself.
type following struct{ c http.Client }

func (f *following) Do(r *http.Request) (*http.Response, error) { return f.c.Do(r) }

// The client works with the Handler, also through a Doer that follows redirects
// itself.
func TestNegotiateOurs(t *testing.T) {
	t.Parallel()
	s := newSite(t, memento.Options{})
	s.put(t, page, day(2), "one")
	s.put(t, page, day(4).Add(time.Millisecond), "two")
	s.put(t, page, day(6), "")
	for _, client := range []memento.Doer{nil, &following{}} {
		for n, want := range map[int]time.Time{1: day(2), 3: day(2), 5: day(4).Add(time.Millisecond)} {
			got, err := memento.Negotiate(t.Context(), client, s.base.TimeGate(page), day(n))
			if err != nil || got != (memento.Found{URI: s.base.Memento(page, want), At: want.Truncate(time.Second)}) {
				t.Errorf("day %d: %+v, %v", n, got, err)
			}
		}
		if _, err := memento.Negotiate(t.Context(), client, s.base.TimeGate(page), day(7)); !errors.Is(err, memento.ErrNoMemento) {
			t.Errorf("when it was deleted: %v", err)
		}
		// The first full second after an event with fractions of a second is the next
		// one.
		if got, err := memento.Negotiate(t.Context(), client, s.base.TimeGate(page), day(4).Add(time.Microsecond)); err != nil || got.At != day(4) {
			t.Errorf("rounded up: %+v, %v", got, err)
		}
	}
}

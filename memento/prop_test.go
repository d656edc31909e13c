package memento_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"lockstep/memento"
)

// For any history of a resource, a TimeGate leads to its state at any instant
// (ME-TG-05, ME-DEL-01, ME-HD-04), and its TimeMap lists all versions
// (ME-TM-01, ME-TM-05).
func TestRandomHistories(t *testing.T) {
	t.Parallel()
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		s := newSite(t, memento.Options{Page: 1 + rnd.IntN(5)})
		var history []memento.Version // ascending
		at := day(2)
		for i := range 1 + rnd.IntN(20) {
			at = at.Add(time.Duration(1+rnd.Int64N(2_500_000)) * time.Microsecond)
			text := ""
			if i == 0 || rnd.IntN(4) > 0 {
				text = fmt.Sprint(seed, i)
			}
			s.put(t, page, at, text)
			history = append(history, memento.Version{URI: page, At: at, Gone: text == ""})
		}
		checkTimeMap(t, s, history)
		for range 30 {
			wanted := day(2).Add(time.Duration(rnd.IntN(60)-5) * time.Second)
			checkTimeGate(t, s, history, wanted)
		}
	}
}

func checkTimeMap(t *testing.T, s *site, history []memento.Version) {
	t.Helper()
	m, err := memento.ReadTimeMap(t.Context(), nil, s.base.TimeMap(page), 0)
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, v := range history {
		if !v.Gone {
			want = append(want, s.base.Memento(page, v.At))
		}
	}
	var got []string
	for _, v := range m.Versions {
		got = append(got, v.URI)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("TimeMap lists\n%v, want\n%v", got, want)
	}
}

func checkTimeGate(t *testing.T, s *site, history []memento.Version, wanted time.Time) {
	t.Helper()
	want := history[0] // ME-TG-04
	for _, v := range history {
		if v.At.Before(wanted.Add(time.Second)) {
			want = v
		}
	}
	r := get(t, s.base.TimeGate(page), "Accept-Datetime", memento.FormatDatetime(wanted))
	to := r.Header.Get("Location")
	if want.Gone {
		if r.StatusCode != http.StatusNotFound || to != "" {
			t.Errorf("%v, deleted at %v: status %d to %q", wanted, want.At, r.StatusCode, to)
		}
		return
	}
	if r.StatusCode != http.StatusFound || to != s.base.Memento(page, want.At) {
		t.Errorf("%v leads to %q, want %q", wanted, to, s.base.Memento(page, want.At))
		return
	}
	v := get(t, to)
	if v.StatusCode != http.StatusOK || v.Header.Get("Memento-Datetime") != memento.FormatDatetime(want.At) || one(v.link("original")) != page {
		t.Errorf("%s: status %d, %v", to, v.StatusCode, v.Header)
	}
	if got, named := v.Header.Get("Link"), r.Header.Get("Link"); got != named {
		t.Errorf("%s names\n%s, the TimeGate\n%s", to, got, named)
	}
}

// Every request gets an answer, never with a status of a server error.
func FuzzAnswer(f *testing.F) {
	s := newSite(f, memento.Options{})
	s.put(f, page, day(2), "one")
	s.put(f, page, day(4), "")
	h := memento.NewHandler(s.store, memento.Options{Base: "http://h/", Open: s.open})
	for _, target := range []string{
		"timegate/" + page, "timemap/json/20260302060000/" + page, "versions/20260302060000/" + page, "versions/20260302060000.000001/x:",
		"timegate/http:/%C3%BC%2", "timemap/link/%00:", "timegate/%68ttps%3A%2F%2Fdata.example.org%2Fa%2Fpage%3Fx%3D1%26y%3D%2F%2F2",
	} {
		f.Add(target, "Tue, 03 Mar 2026 06:00:00 GMT")
	}
	f.Fuzz(func(t *testing.T, target, datetime string) {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Accept-Datetime", datetime)
		h.Answer(w, r, target)
		if w.Code >= 500 || w.Code < 200 {
			t.Errorf("%q: status %d, %s", target, w.Code, w.Body)
		}
		for _, v := range append(w.Header().Values("Link"), w.Header().Get("Location")) {
			if strings.ContainsAny(v, "\r\n\x00") {
				t.Errorf("%q: header %q", target, v)
			}
		}
		if to := w.Header().Get("Location"); w.Code == http.StatusFound && !strings.HasPrefix(to, "http://h/versions/") {
			t.Errorf("%q leads to %q", target, to)
		}
	})
}

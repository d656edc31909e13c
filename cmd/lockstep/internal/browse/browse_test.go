package browse_test

import (
	"context"
	"fmt"
	"html"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lockstep/catalog"
	"lockstep/cmd/lockstep/internal/browse"
	"lockstep/internal/reader"
	"lockstep/memento"
	"lockstep/resourcesync"
)

const base = "https://x.org/data/"

// world returns pages of two sets, of which one is private.
func world(t *testing.T, c catalog.Catalog, updates ...catalog.Update) *browse.Pages {
	t.Helper()
	for set, all := range map[string][]catalog.Update{"main": updates, "plans": {put("https://x.org/data/plans/secret.txt")}} {
		if _, err := c.Mark(t.Context(), set); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Apply(t.Context(), set, all); err != nil {
			t.Fatal(err)
		}
	}
	return browse.New(browse.Options{Title: "Things <b>", Home: "/data/", Catalog: c, Logger: slog.New(slog.DiscardHandler), Sets: []browse.Set{
		{Name: "main", Title: "All & everything", Summary: "What there is.", List: "main", Prefix: base, Versions: memento.Base(base)},
		{Name: "plans", Title: "Confidential", List: "plans", Prefix: base + "plans/", Private: true},
	}})
}

func put(uri string) catalog.Update {
	return catalog.Update{Record: catalog.Record{URI: uri, Length: int64(len(uri)), Type: "text/plain", Lastmod: time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)}}
}

func remove(uri string) catalog.Update {
	return catalog.Update{Record: catalog.Record{URI: uri}, Deleted: true}
}

// get requests a page.
func get(t *testing.T, p http.Handler, target string, sets ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, target, nil)
	if len(sets) > 0 {
		r = r.WithContext(reader.With(r.Context(), func() reader.Grant { return reader.Grant{Name: "alice", Sets: sets} }))
	}
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if n := w.Body.Len(); n > 100_000 {
		t.Errorf("%.100s has %d bytes", target, n)
	}
	return w
}

var link = regexp.MustCompile(`<td><a href="([^"]*)"|<a href="([^"]*)" rel="next"`)

// walk returns the texts of the links in the tables of a page and those after it.
func walk(t *testing.T, p http.Handler, target string) (hrefs []string) {
	t.Helper()
	for pages := 0; target != ""; pages++ {
		if pages == 100 {
			t.Fatal("the pages have no end")
		}
		w := get(t, p, target)
		if w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", target, w.Code, w.Body)
		}
		target = ""
		for _, m := range link.FindAllStringSubmatch(w.Body.String(), -1) {
			if m[2] != "" {
				target = "/" + html.UnescapeString(m[2])
				continue
			}
			hrefs = append(hrefs, html.UnescapeString(m[1]))
		}
	}
	return hrefs
}

// TestFolders shows what is in each folder once, over several pages.
func TestFolders(t *testing.T) {
	t.Parallel()
	var updates []catalog.Update
	for i := range 250 {
		updates = append(updates, put(fmt.Sprintf("%sfolder%03d/a", base, i)), put(fmt.Sprintf("%sfolder%03d/b/c", base, i)), put(fmt.Sprintf("%sfile%03d", base, i)))
	}
	updates = append(updates, put(base+"folder000/"), put(base+"folder000")) // like the folder
	p := world(t, catalog.NewMem(nil), updates...)
	if top := walk(t, p, "/"); len(top) != 501 || top[0] != "resource?name=main&uri=https%3A%2F%2Fx.org%2Fdata%2Ffile000" || top[250] != "resource?name=main&uri=https%3A%2F%2Fx.org%2Fdata%2Ffolder000" || top[251] != "set?in=https%3A%2F%2Fx.org%2Fdata%2Ffolder000%2F&name=main" {
		t.Errorf("%d links: %q …", len(top), top[:min(len(top), 3)])
	}
	if in := walk(t, p, "/set?name=main&in="+base+"folder000/"); fmt.Sprint(in) != "[resource?name=main&uri=https%3A%2F%2Fx.org%2Fdata%2Ffolder000%2F resource?name=main&uri=https%3A%2F%2Fx.org%2Fdata%2Ffolder000%2Fa set?in=https%3A%2F%2Fx.org%2Fdata%2Ffolder000%2Fb%2F&name=main]" {
		t.Errorf("in a folder: %q", in)
	}
	if found := walk(t, p, "/set?name=main&q=0%2FB"); len(found) != 25 {
		t.Errorf("found %d: %q", len(found), found)
	}
}

// TestElsewhere begins at the deepest folder that has all resources.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	p := world(t, catalog.NewMem(nil), put("https://other.org/a/b/1"), put("https://other.org/a/c/2"))
	if got := fmt.Sprint(walk(t, p, "/")); got != "[set?in=https%3A%2F%2Fother.org%2Fa%2Fb%2F&name=main set?in=https%3A%2F%2Fother.org%2Fa%2Fc%2F&name=main]" {
		t.Error(got)
	}
	p = world(t, catalog.NewMem(nil), put("https://other.org/a/1"), put("https://b.org/2"), put("urn:x:3"))
	if got := fmt.Sprint(walk(t, p, "/")); got != "[set?in=https%3A%2F%2Fb.org%2F&name=main set?in=https%3A%2F%2Fother.org%2F&name=main resource?name=main&uri=urn%3Ax%3A3]" {
		t.Error(got)
	}
	p = world(t, catalog.NewMem(nil))
	if w := get(t, p, "/"); !strings.Contains(w.Body.String(), "There are no resources here.") {
		t.Error(w.Body)
	}
}

// TestChanges shows all changes, the latest first, and those of a resource on its page.
func TestChanges(t *testing.T) {
	t.Parallel()
	var updates []catalog.Update
	for i := range 220 {
		updates = append(updates, put(fmt.Sprintf("%s%03d", base, i)))
	}
	updates = append(updates, remove(base+"007"))
	p := world(t, catalog.NewMem(nil), updates...)
	all := walk(t, p, "/changes?name=main")
	if len(all) != 221 || all[0] != "resource?name=main&uri=https%3A%2F%2Fx.org%2Fdata%2F007" || all[220] != "resource?name=main&uri=https%3A%2F%2Fx.org%2Fdata%2F000" {
		t.Errorf("%d changes", len(all))
	}
	body := get(t, p, "/resource?name=main&uri="+base+"007").Body.String()
	if !strings.Contains(body, "This resource was deleted.") || strings.Count(body, "<td class=\"short\">created</td>") != 1 || strings.Count(body, ">deleted</td>") != 1 || strings.Contains(body, "Open the resource") {
		t.Errorf("a deleted resource: %s", body)
	}
	body = get(t, p, "/resource?name=main&uri="+base+"008").Body.String()
	for _, want := range []string{`<a href="https://x.org/data/008" rel="noreferrer noopener">Open`, "text/plain", "2026-05-01 00:00:00Z", "https://x.org/data/timemap/"} {
		if !strings.Contains(body, want) {
			t.Errorf("a resource has no %s: %s", want, body)
		}
	}
	for _, target := range []string{"/resource?name=main&uri=" + base + "nothing", "/resource?name=main", "/resource?name=main&uri=a%00b", "/set?name=main&in=x", "/nothing"} {
		if w := get(t, p, target); w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", target, w.Code)
		}
	}
}

// TestPrivate: only readers of a private set learn that it exists.
func TestPrivate(t *testing.T) {
	t.Parallel()
	p := world(t, catalog.NewMem(nil), put(base+"a"))
	for target, of := range map[string]string{"/": "", "/set?name=": "plans", "/changes?name=": "plans", "/resource?uri=https://x.org/data/plans/secret.txt&name=": "plans"} {
		w, other := get(t, p, target+of), get(t, p, target+"nothing")
		if body := w.Body.String(); strings.Contains(body, "Confidential") || strings.Contains(body, "secret") || w.Header().Get("Vary") != "Authorization" || w.Header().Get("Cache-Control") != "no-store" {
			t.Errorf("%s for everyone: %v %s", target, w.Header(), body)
		}
		if of != "" && (w.Code != http.StatusUnauthorized || len(w.Header()["Www-Authenticate"]) == 0 || w.Body.String() != other.Body.String() || other.Code != w.Code) {
			t.Errorf("%s for everyone: %d, and %d if there is no such set", target, w.Code, other.Code)
		}
		if w := get(t, p, target+of, "plans"); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "Confidential") && !strings.Contains(w.Body.String(), "secret") {
			t.Errorf("%s for a reader: %d %s", target, w.Code, w.Body)
		}
		if w := get(t, p, target+of, "other"); of != "" && w.Code != http.StatusUnauthorized {
			t.Errorf("%s for another reader: %d", target, w.Code)
		}
	}
}

// TestHostile shows what strangers wrote as text, on small pages that request nothing.
func TestHostile(t *testing.T) {
	t.Parallel()
	var updates []catalog.Update
	for i := range 120 {
		updates = append(updates, put(fmt.Sprintf("%s<script>alert(%d)</script>%s", base, i, strings.Repeat("é\"'/&", 500))), put(fmt.Sprintf("javascript:alert(%d)%s", i, strings.Repeat("<", 5000))))
	}
	hostile := put(base + "x")
	hostile.Links = []resourcesync.Link{{Rel: "describedby", Href: "javascript:alert(1)"}, {Rel: `"><img src=https://foreign.org/x>`, Href: "https://foreign.org/y"}}
	p := world(t, catalog.NewMem(nil), append(updates, hostile)...)
	targets := []string{"/", "/changes?name=main", "/set?name=main&q=script", "/set?name=main&q=%3Cscript%3E", "/resource?name=main&uri=" + base + "x", "/set?name=main&in=" + strings.Repeat("%3Cimg%20src=x%3E/", 300), "/set?name=main&in=" + base + strings.Repeat("%3Cimg%20src=x%3E/", 300) + "&from=" + base + strings.Repeat("x", 4000)}
	for i := 0; i < len(targets); i++ {
		w := get(t, p, targets[i])
		body := w.Body.String()
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			if target := html.UnescapeString(m[1] + m[2]); len(targets) < 60 && !strings.HasPrefix(target, "#") {
				targets = append(targets, "/"+target)
			}
		}
		if strings.Contains(body, "<script>") || strings.Contains(body, "<img") || strings.Contains(body, `href="javascript`) || strings.Contains(body, `src="http`) {
			t.Errorf("%.200s: %s", targets[i], body)
		}
		if csp := w.Header().Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'") {
			t.Errorf("%.200s: policy %q", targets[i], csp)
		}
	}
	if len(targets) < 20 {
		t.Errorf("only %d pages", len(targets))
	}
}

// A counting catalog counts what is read, and may have readers wait.
type counting struct {
	catalog.Catalog
	rows atomic.Int64
	wait chan struct{}
}

func (c *counting) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	return func(yield func(catalog.Record, error) bool) {
		if c.wait != nil {
			<-c.wait
		}
		for r, err := range c.Catalog.Resources(ctx, set, r) {
			if c.rows.Add(1); !yield(r, err) {
				return
			}
		}
	}
}

// TestWork: a page reads few rows, however many there are, and a search ends.
func TestWork(t *testing.T) {
	t.Parallel()
	var updates []catalog.Update
	for i := range 25_000 {
		updates = append(updates, put(fmt.Sprintf("%s%d/%05d", base, i/2500, i)))
	}
	c := &counting{Catalog: catalog.NewMem(nil)}
	p := world(t, c, updates...)
	for target, most := range map[string]int64{"/": 50, "/set?name=main&in=" + base + "3/": 110, "/set?name=main&q=nothing": 20_050} {
		c.rows.Store(0)
		if get(t, p, target); c.rows.Load() > most {
			t.Errorf("%s reads %d rows, want at most %d", target, c.rows.Load(), most)
		}
	}
	if all := walk(t, p, "/set?name=main&q=9999"); len(all) != 2 {
		t.Errorf("found %d: %q", len(all), all)
	}
}

// TestBusy refuses requests that would wait too long, and answers others afterwards.
func TestBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := &counting{Catalog: catalog.NewMem(nil), wait: make(chan struct{})}
		p := world(t, c, put(base+"a"))
		codes := make(chan int)
		for range 6 {
			go func() { codes <- get(t, p, "/").Code }()
		}
		for range 2 {
			if code := <-codes; code != http.StatusServiceUnavailable {
				t.Errorf("status %d", code)
			}
		}
		close(c.wait)
		for range 4 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("status %d", code)
			}
		}
	})
}

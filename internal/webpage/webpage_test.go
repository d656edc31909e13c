package webpage_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lockstep/internal/webpage"
)

const everything = `{{template "facts" .Facts}}{{template "notice" .Notice}}{{template "copy" .Command}}
{{template "table" .Table}}{{template "chart" .Chart}}{{template "chart" .Line}}{{template "bars" .Bars}}{{template "when" .Time}}`

// hostile is text of a stranger that would break out of a page that does not escape it.
const hostile = `"><script src=//evil.example/x.js></script><img src=x onerror=alert(1) style="color:red">`

func content(text, href string) map[string]any {
	points := []webpage.Point{{Label: text, Value: 3}, {Label: "2026-01-02", Value: 1234, Text: text, Href: href}, {Label: "2026-01-03"}}
	return map[string]any{
		"Facts":   []webpage.Fact{{Name: "Address", Value: text, Href: href, Code: true}, {Name: "Age", Value: text, Live: true}},
		"Notice":  webpage.Notice{Kind: "warn", Text: text, Remedy: text, Action: &webpage.Action{Text: text, Href: "/read", Fields: []webpage.Field{{Name: "set", Value: text}}}},
		"Command": text,
		"Table": webpage.Table{
			Caption: "Entries", Columns: []webpage.Column{{Title: "URI", Sort: "?sort=uri", Sorted: "ascending"}, {Title: "Size", Numeric: true}},
			Rows:  []webpage.Row{{Cells: []webpage.Cell{{Text: text, Href: href, Title: text, Code: true}, {Text: "12"}}, Mark: "bad"}},
			Pager: &webpage.Pager{Label: "1 to 1 of 2", Next: "?from=1"},
		},
		"Chart": webpage.Chart{Title: "Changes per day", Unit: "changes", Points: points},
		"Line":  webpage.Chart{Title: "Latency", Unit: "ms", Points: points, Line: true},
		"Bars":  webpage.Bars{Caption: "Media types", Name: "Type", Unit: "Resources", Points: points},
		"Time":  time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func render(t *testing.T, text, href string) (*httptest.ResponseRecorder, *html.Node) {
	t.Helper()
	site := &webpage.Site{Name: "Test", Home: "/", Assets: "/assets/", Nav: []webpage.Link{{Text: "Overview", Href: "/"}, {Text: "Entries", Href: "/entries"}}}
	w := httptest.NewRecorder()
	webpage.Parse(everything).Write(w, httptest.NewRequest(http.MethodGet, "/entries", nil), http.StatusOK, site,
		webpage.Page{Title: text, Lead: text, Nav: "/entries", Crumbs: []webpage.Link{{Text: text, Href: href}}, Data: content(text, href)})
	if w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	doc, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	return w, doc
}

// elements returns those of a name.
func elements(doc *html.Node, name string) []*html.Node {
	var found []*html.Node
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name {
			found = append(found, n)
		}
	}
	return found
}

func attribute(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}

func TestPage(t *testing.T) {
	t.Parallel()
	w, doc := render(t, "plain text", "/resource?uri=x")
	for name, n := range map[string]int{"header": 1, "main": 1, "footer": 1, "h1": 1, "figure": 2, "svg": 5, "dl": 1, "form": 1, "time": 1, "caption": 4, "polyline": 1} {
		if got := len(elements(doc, name)); got != n {
			t.Errorf("%d elements %s, want %d", got, name, n)
		}
	}
	ids := map[string]bool{}
	current := ""
	for n := range doc.Descendants() {
		if id := attribute(n, "id"); id != "" && ids[id] {
			t.Errorf("two elements have the id %q", id)
		} else {
			ids[id] = true
		}
		if attribute(n, "aria-current") == "page" {
			current = attribute(n, "href")
		}
	}
	if current != "/entries" {
		t.Errorf("the navigation marks %q as the current page", current)
	}
	if got := w.Header().Get("Cache-Control"); got != "no-store" {
		t.Errorf("Cache-Control: %s", got)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, part := range []string{"default-src 'none'", "script-src 'self'", "frame-src 'none'", "form-action 'none'", "frame-ancestors 'none'"} {
		if !strings.Contains(policy, part) {
			t.Errorf("the policy %q lacks %s", policy, part)
		}
	}
}

func TestNothingInlineAndNothingForeign(t *testing.T) {
	t.Parallel()
	_, doc := render(t, hostile, "javascript:alert(1)")
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if (n.Data == "script" || n.Data == "style") && n.FirstChild != nil {
			t.Errorf("inline %s: %s", n.Data, n.FirstChild.Data)
		}
		if n.Data == "img" || n.Data == "iframe" {
			t.Errorf("an element %s of a stranger", n.Data)
		}
		for _, a := range n.Attr {
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style":
				t.Errorf("attribute %s of %s", a.Key, n.Data)
			case a.Key == "src" && !strings.HasPrefix(a.Val, "/assets/"):
				t.Errorf("%s loads %s", n.Data, a.Val)
			case a.Key == "href" && strings.Contains(a.Val, "javascript:"):
				t.Errorf("a link executes %s", a.Val)
			}
		}
	}
}

func TestAssets(t *testing.T) {
	t.Parallel()
	_, doc := render(t, "x", "/")
	var addresses []string
	for _, n := range append(elements(doc, "link"), elements(doc, "script")...) {
		addresses = append(addresses, attribute(n, "href")+attribute(n, "src"))
	}
	if len(addresses) != 3 {
		t.Fatalf("the page loads %q", addresses)
	}
	foreign := regexp.MustCompile(`https?://|url\(|@import`)
	for _, address := range append(addresses, "/assets/style.css") {
		w := httptest.NewRecorder()
		webpage.Assets().ServeHTTP(w, httptest.NewRequest(http.MethodGet, address, nil))
		if address == "/assets/style.css" {
			if w.Code != http.StatusNotFound {
				t.Errorf("GET %s: %d", address, w.Code)
			}
			continue
		}
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") {
			t.Errorf("GET %s: %d, Cache-Control %s", address, w.Code, w.Header().Get("Cache-Control"))
		}
		text := strings.ReplaceAll(w.Body.String(), "http://www.w3.org/2000/svg", "")
		if found := foreign.FindString(text); found != "" {
			t.Errorf("%s names another address: %s", address, found)
		}
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct{ got, want string }{
		{webpage.Count(1234567), "1,234,567"}, {webpage.Count(-999), "-999"}, {webpage.Count(int64(0)), "0"},
		{webpage.Size(999), "999 B"}, {webpage.Size(1500), "1.5 kB"}, {webpage.Size(999_600), "1.0 MB"}, {webpage.Size(1 << 62), "4.6 EB"},
		{webpage.Ago(now.Add(-90*time.Minute), now), "1 hour ago"}, {webpage.Ago(now.Add(50*time.Hour), now), "in 2 days"}, {webpage.Ago(time.Time{}, now), ""},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}

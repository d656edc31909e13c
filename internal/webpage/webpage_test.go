package webpage_test

import (
	"crypto/sha256"
	"encoding/base64"
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

// TestPlainChart: a plain chart is small, and has no more than its drawing and a description.
func TestPlainChart(t *testing.T) {
	t.Parallel()
	c := webpage.Chart{Title: "Requests", Unit: "requests", Plain: true, Bad: true, Legend: "in red, what failed"}
	for i := range 96 {
		c.Points = append(c.Points, webpage.Point{Label: hostile, Value: float64(i * 1000)})
		c.Front = append(c.Front, float64(i))
	}
	body, err := webpage.Parse(`{{template "chart" .}}`).Render(&webpage.Site{}, webpage.Page{Data: c})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	if paths := elements(doc, "path"); len(paths) != 2 || len(elements(doc, "rect"))+len(elements(doc, "details")) > 0 || len(elements(doc, "desc")) != 1 {
		t.Errorf("%d paths in\n%s", len(paths), body)
	}
	if len(body) > 10_000 {
		t.Errorf("%d bytes", len(body))
	}
}

// TestInline: a page that loads nothing allows itself its own style and script, and nothing else.
func TestInline(t *testing.T) {
	t.Parallel()
	site := &webpage.Site{Name: hostile, Home: "/", Inline: true}
	w := httptest.NewRecorder()
	webpage.Parse(`<p>{{.}}</p>`).Write(w, httptest.NewRequest(http.MethodGet, "/", nil), http.StatusOK, site, webpage.Page{
		Title: hostile, Data: hostile, Links: []webpage.HeadLink{{Rel: "alternate", Href: "javascript:alert(1)", Title: hostile, Feed: true}},
	})
	doc, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	policy := w.Header().Get("Content-Security-Policy")
	for _, name := range []string{"style", "script"} {
		all := elements(doc, name)
		if len(all) != 1 {
			t.Fatalf("%d elements %s", len(all), name)
		}
		sum := sha256.Sum256([]byte(all[0].FirstChild.Data))
		if want := name + "-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"; !strings.Contains(policy, want) {
			t.Errorf("policy %s, want %s", policy, want)
		}
	}
	if strings.Contains(policy, "'self'") || strings.Contains(w.Body.String(), `href="javascript:`) || len(elements(doc, "img")) > 0 {
		t.Errorf("policy %s\n%.3000s", policy, w.Body)
	}
}

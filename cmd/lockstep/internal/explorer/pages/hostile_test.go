package pages_test

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// evil is text that breaks out of a page that does not escape it, and is much longer as
// HTML than as text.
var evil = `"><script>alert(1)</script><img src=x onerror=alert(2)>'` + strings.Repeat(`"'<&>`, 400)

// newHostile returns a Source in which everything that a Source can choose is evil.
func newHostile(t *testing.T) *world {
	w := newWorld(t)
	text := html.EscapeString(evil)
	w.document("/.well-known/resourcesync", "urlset", `<rs:md capability="description"/><url><loc>BASE/capabilitylist.xml</loc><rs:md capability="capabilitylist"/></url>`)
	w.document("/capabilitylist.xml", "urlset", `<rs:ln rel="up" href="BASE/.well-known/resourcesync"/><rs:ln rel="describedby" href="javascript:alert(3)"/><rs:md capability="capabilitylist"/>
<url><loc>BASE/resourcelist.xml</loc><rs:md capability="resourcelist"/></url><url><loc>BASE/changelist.xml</loc><rs:md capability="changelist"/></url><url><loc>BASE/resourcedump.xml</loc><rs:md capability="resourcedump"/></url>`)
	entries := `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="resourcelist" at="2026-03-05T00:00:00Z"/>`
	for n := range 120 {
		entries += fmt.Sprintf(`<url><loc>BASE/%d/%s</loc><changefreq>%s</changefreq><rs:md type="text/%s" hash="md5:%s"/><rs:ln rel="%s" href="javascript:alert(4)"/><rs:ln rel="alternate" href="BASE/%s" type="%s"/></url>`, n, text, text, text, text, text, text, text)
	}
	for _, uri := range []string{"javascript:alert(5)", "data:text/html,&lt;script&gt;alert(6)&lt;/script&gt;", "file:///etc/passwd", "http://user:secret@example.invalid/", "urn:x:y"} {
		entries += `<url><loc>` + uri + `</loc></url>`
	}
	w.document("/resourcelist.xml", "urlset", entries)
	w.document("/changelist.xml", "urlset", `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="changelist" from="2026-03-01T00:00:00Z"/>`+
		strings.Repeat(`<url><loc>javascript:alert(7)</loc><rs:md change="created" datetime="2026-03-02T10:00:00Z"/><rs:ln rel="http://www.openarchives.org/rs/terms/patch" href="javascript:alert(8)"/></url>`, 200))
	w.document("/resourcedump.xml", "urlset", `<rs:ln rel="up" href="BASE/capabilitylist.xml"/><rs:md capability="resourcedump" at="2026-03-05T00:00:00Z"/><url><loc>BASE/`+text+`.zip</loc></url>`)
	return w
}

// TestHostile follows all links of the pages about a hostile Source. No page executes or
// loads what the Source wrote, or is larger than 100 kB, and none of the addresses that it
// names is requested.
func TestHostile(t *testing.T) {
	t.Parallel()
	w := newHostile(t)
	v := visit(t, w.URL, nil)
	v.until("/", "125")
	w.requests()
	seen := map[string]bool{}
	queue := []string{"/", "/list?list=1", "/xml?list=1", "/xml?list=2", "/compare", "/start", "/list?list=1&q=" + "%22%3E%3Cscript%3E&type=%22%3E&kind=%3Cb%3E&from=%22&to=%22", "/compare?from=%22%3E%3Cscript%3E&to=%3Cb%3E", "/xml?list=1&q=%22%3E%3Cscript%3E"}
	for len(queue) > 0 && len(seen) < 150 {
		path := queue[0]
		queue = queue[1:]
		if seen[path] {
			continue
		}
		seen[path] = true
		p := v.get(path)
		inspect(t, p)
		for _, a := range p.all("a") {
			href := attribute(a, "href")
			asks := strings.Contains(href, "show=") || strings.HasPrefix(href, "/download") || strings.HasPrefix(href, "/look") || strings.HasPrefix(href, "/content")
			if strings.HasPrefix(href, "/") && !asks {
				queue = append(queue, href)
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("only %d pages were looked at", len(seen))
	}
	for _, path := range w.requests() {
		if !slices.Contains([]string{"/resourcelist.xml", "/changelist.xml", "/resourcedump.xml", "/capabilitylist.xml", "/.well-known/resourcesync"}, path) {
			t.Errorf("%.100s was requested, although no one asked for it", path)
		}
	}
	for _, path := range []string{"/content?list=1&part=0&row=120", "/content?list=1&part=0&row=122", "/resource?list=1&part=0&row=122&show=hash", "/look?list=1&part=0&row=122", "/resource?list=1&part=0&row=0&show=preview"} {
		p := v.get(path)
		if strings.Contains(p.body, "root:") {
			t.Errorf("%s shows a file of this machine", path)
		}
		inspect(t, p)
	}
}

// inspect checks what no page may contain.
func inspect(t *testing.T, p *shown) {
	t.Helper()
	if len(p.body) > 100_000 {
		t.Errorf("%s has %d bytes", p.path, len(p.body))
	}
	if !strings.HasPrefix(p.header.Get("Content-Type"), "text/html") {
		return
	}
	policy := p.header.Get("Content-Security-Policy")
	if !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'self'") {
		t.Errorf("%s has the policy %q", p.path, policy)
	}
	for n := range p.Descendants() {
		switch n.Data {
		case "script":
			if n.FirstChild != nil || !strings.HasPrefix(attribute(n, "src"), "/assets/page.") {
				t.Errorf("%s executes %s", p.path, attribute(n, "src"))
			}
		case "style", "object", "embed", "base":
			if n.Namespace == "" && n.Type == 3 {
				t.Errorf("%s has an element %s", p.path, n.Data)
			}
		}
		for _, a := range n.Attr {
			value := strings.ToLower(strings.TrimSpace(a.Val))
			switch {
			case strings.HasPrefix(a.Key, "on") || a.Key == "style" || a.Key == "srcdoc":
				t.Errorf("%s: %s has the attribute %s", p.path, n.Data, a.Key)
			case (a.Key == "href" || a.Key == "src" || a.Key == "action") && (strings.HasPrefix(value, "javascript:") || strings.HasPrefix(value, "data:")):
				t.Errorf("%s: %s leads to %.60s", p.path, n.Data, value)
			case (a.Key == "src" || a.Key == "action") && !strings.HasPrefix(value, "/"):
				t.Errorf("%s: %s loads %.60s", p.path, n.Data, value)
			}
		}
	}
}

// TestForeignRequests refuses what other pages of the browser could have it send.
func TestForeignRequests(t *testing.T) {
	t.Parallel()
	v := visit(t, newSource(t).URL, nil)
	for name, c := range map[string]struct {
		header, value string
		status        int
	}{
		"origin": {"Origin", "http://evil.example", http.StatusForbidden}, "null origin": {"Origin", "null", http.StatusForbidden}, "site": {"Sec-Fetch-Site", "cross-site", http.StatusForbidden},
		"port": {"Sec-Fetch-Site", "same-site", http.StatusForbidden}, "own": {"Sec-Fetch-Site", "same-origin", http.StatusOK}, "own origin": {"Origin", v.base, http.StatusOK},
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, v.base+"/compare", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set(c.header, c.value)
		resp, err := v.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if resp.StatusCode != c.status {
			t.Errorf("%s: status %d, want %d", name, resp.StatusCode, c.status)
		}
	}
	if p := v.post("/read", "list", "1", "all", "1", "back", "//evil.example/"); !strings.HasPrefix(p.path, "/list?") {
		t.Errorf("a form leads to %s", p.path)
	}
}

package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/api"
)

// An openAPI is of openapi.json what the tests look at.
type openAPI struct {
	OpenAPI    string
	Paths      map[string]map[string]json.RawMessage
	Components map[string]map[string]json.RawMessage
}

// readOpenAPI asks an API for its description.
func readOpenAPI(a *apiTest) (doc openAPI, text string) {
	a.t.Helper()
	resp, text := a.do(apiRequest{method: "GET", path: "/-/api/openapi.json"}.with("Authorization", "Bearer secret"))
	if got := resp.Header.Get("Content-Type"); got != "application/json" {
		a.t.Errorf("openapi.json is of type %s", got)
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		a.t.Fatal(err)
	}
	return doc, text
}

// operations returns the responses described, by "METHOD path" and status.
func (d *openAPI) operations(t *testing.T) map[string]map[string]json.RawMessage {
	t.Helper()
	all := make(map[string]map[string]json.RawMessage)
	for path, item := range d.Paths {
		for method, text := range item {
			if method == "parameters" {
				continue
			}
			var op struct {
				OperationID string
				Summary     string
				Responses   map[string]json.RawMessage
			}
			if err := json.Unmarshal(text, &op); err != nil {
				t.Fatal(err)
			}
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s lacks operationId or summary", method, path)
			}
			all[strings.ToUpper(method)+" "+path] = op.Responses
		}
	}
	return all
}

// A failing catalog returns err from Apply.
type failing struct {
	catalog.Catalog
	err error
}

func (f *failing) Apply(ctx context.Context, set string, us []catalog.Update) (catalog.Applied, error) {
	if f.err != nil {
		return catalog.Applied{}, f.err
	}
	return f.Catalog.Apply(ctx, set, us)
}

func (f *failing) Status(ctx context.Context, set string) (catalog.Status, error) {
	if f.err != nil && !errors.Is(f.err, syscall.ENOSPC) {
		return catalog.Status{}, f.err
	}
	return f.Catalog.Status(ctx, set)
}

func (f *failing) Resources(ctx context.Context, set string, r catalog.Range) iter.Seq2[catalog.Record, error] {
	if f.err != nil {
		return func(yield func(catalog.Record, error) bool) { yield(catalog.Record{}, f.err) }
	}
	return f.Catalog.Resources(ctx, set, r)
}

// TestAPIDescribed makes every kind of request there is and compares the
// answers with openapi.json: each is described there, and nothing else is.
func TestAPIDescribed(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cat := &failing{Catalog: catalog.NewMem(nil)}
	a := newAPI(t, cat, api.Options{TokenFile: token, MaxBatch: 2, MaxBody: 1 << 17, BodyTime: 50 * time.Millisecond})
	doc, text := readOpenAPI(a)
	d := &describedTest{apiTest: a, token: token, cat: cat, doc: doc, text: text, operations: doc.operations(t), seen: make(map[string]bool)}
	const set = "/v1/sets/{set}"
	d.operation("GET /", apiRequest{method: "GET", path: "/-/api/"})
	d.operation("GET /openapi.json", apiRequest{method: "GET", path: "/-/api/openapi.json"})
	d.operation("GET /v1/sets", apiRequest{method: "GET", path: "/-/api/v1/sets"})
	d.operation("GET "+set, apiRequest{method: "GET", path: "/-/api/v1/sets/papers"})
	d.request("PUT "+set+"/resources", 201, put("http://x", "{}"))
	d.operation("GET "+set+"/resources", apiRequest{method: "GET", path: resource("http://x")})
	d.write("PUT "+set+"/resources", put("http://x", `{"length":1,"links":[{"rel":"via","href":"http://y","length":7}]}`))
	d.write("DELETE "+set+"/resources", del("http://x"))
	d.write("POST "+set+"/changes", apiRequest{method: "POST", path: "/-/api/v1/sets/papers/changes", body: `[{"uri":"http://x"}]`})
	for _, op := range slices.Sorted(maps.Keys(d.operations)) {
		for _, status := range slices.Sorted(maps.Keys(d.operations[op])) {
			if !d.seen[op+" "+status] {
				t.Errorf("openapi.json describes %s of %s, which no request came to", status, op)
			}
		}
	}
}

// A describedTest makes requests and notes what they came to.
type describedTest struct {
	*apiTest
	token      string // the file
	cat        *failing
	doc        openAPI
	text       string
	operations map[string]map[string]json.RawMessage
	seen       map[string]bool
}

// request makes a request for an operation, which must come to a status.
func (d *describedTest) request(op string, status int, r apiRequest) {
	d.t.Helper()
	if r.header["Authorization"] == "" {
		r = r.with("Authorization", "Bearer secret")
	}
	resp, body := d.do(r)
	d.answer(op, status, resp, body)
}

// answer notes an answer.
func (d *describedTest) answer(op string, status int, resp *http.Response, body string) {
	d.t.Helper()
	if resp.StatusCode != status {
		d.t.Errorf("%s: status %d, want %d: %s", op, resp.StatusCode, status, body)
	}
	d.doc.check(d.t, d.text, op, d.operations[op], resp, body)
	d.seen[fmt.Sprint(op, " ", status)] = true
}

// operation makes r, which is right, and in all ways that can be wrong.
func (d *describedTest) operation(op string, r apiRequest) {
	d.t.Helper()
	d.request(op, 200, r)
	d.request(op, 401, r.with("Authorization", "Basic x"))
	d.request(op, 403, r.with("Authorization", "Bearer wrong"))
	if strings.Contains(op, "{set}") {
		none := r
		none.path = strings.Replace(none.path, "papers", "books", 1)
		d.request(op, 404, none)
		d.cat.err = errors.New("disk on fire")
		d.request(op, 500, r)
		d.cat.err = nil
	}
	if strings.HasSuffix(op, "/resources") {
		bad := r
		bad.path = strings.Replace(bad.path, "http%3A%2F%2Fx", "x", 1)
		d.request(op, 422, bad)
		bad.path = r.path + "&x=y"
		d.request(op, 400, bad)
	}
	if err := os.Rename(d.token, d.token+"~"); err != nil {
		d.t.Fatal(err)
	}
	d.request(op, 503, r)
	if err := os.Rename(d.token+"~", d.token); err != nil {
		d.t.Fatal(err)
	}
}

// write does the same for an operation that changes something.
func (d *describedTest) write(op string, r apiRequest) {
	d.t.Helper()
	d.operation(op, r)
	d.cat.err = fmt.Errorf("write: %w", syscall.ENOSPC)
	d.request(op, 507, r)
	d.cat.err = nil
	d.request(op, 200, r.key(op))
	d.request(op, 200, r.key(op))
	other := r
	other.path, other.body = strings.Replace(other.path, "http%3A%2F%2Fx", "http%3A%2F%2Fz", 1), strings.Replace(other.body, "http://x", "http://z", 1)
	d.request(op, 422, other.key(op))
	d.request(op, 400, r.key(strings.Repeat("k", 256)))
	if r.body != "" {
		d.request(op, 415, r.with("Content-Type", "text/plain"))
		large := r
		large.body = strings.Repeat(" ", 1<<17) + r.body
		d.request(op, 413, large)
		resp, body := d.slow(r.method, r.path)
		d.answer(op, 408, resp, body)
	}
	g := newGate()
	b := newAPI(d.t, g, api.Options{})
	done := make(chan struct{})
	go func() { b.do(r.key("K")); close(done) }()
	<-g.arrived
	resp, body := b.do(r.key("K"))
	d.answer(op, 409, resp, body)
	g.orders <- gateOrder{apply: true}
	<-done
}

// slow begins a request, and waits for its answer without sending all of it.
func (a *apiTest) slow(method, path string) (*http.Response, string) {
	a.t.Helper()
	conn, err := (&net.Dialer{}).DialContext(a.t.Context(), "tcp", strings.TrimPrefix(a.url, "http://"))
	if err != nil {
		a.t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", method, path)
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusRequestTimeout {
		a.t.Errorf("%s %s with half a body: %d %s", method, path, resp.StatusCode, body)
	}
	return resp, string(body)
}

// check compares an answer with those described for an operation.
func (d *openAPI) check(t *testing.T, text, op string, described map[string]json.RawMessage, resp *http.Response, body string) {
	t.Helper()
	status := fmt.Sprint(resp.StatusCode)
	var r struct {
		Ref     string `json:"$ref"`
		Headers map[string]any
		Content map[string]struct {
			Schema struct {
				Ref string `json:"$ref"`
			}
		}
	}
	raw, ok := described[status]
	if !ok {
		t.Errorf("%s answers %s, which openapi.json does not describe", op, status)
		return
	}
	for range 2 { // a reference is followed once
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		raw = d.Components["responses"][strings.TrimPrefix(r.Ref, "#/components/responses/")]
		if r.Ref == "" {
			break
		}
	}
	typ, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	media, ok := r.Content[typ]
	if !ok {
		t.Errorf("%s answers %s with %s, which openapi.json does not describe", op, status, typ)
	}
	for _, name := range []string{"WWW-Authenticate", "Retry-After", "Idempotency-Replayed"} {
		if _, ok := r.Headers[name]; resp.Header.Get(name) != "" && !ok {
			t.Errorf("%s answers %s with the header %s, which openapi.json does not describe", op, status, name)
		}
	}
	if media.Schema.Ref == "" {
		return
	}
	var schema struct {
		Required   []string
		Properties map[string]any
	}
	if err := json.Unmarshal(d.Components["schemas"][strings.TrimPrefix(media.Schema.Ref, "#/components/schemas/")], &schema); err != nil {
		t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Errorf("%s answers %s with %s: %v", op, status, body, err)
	}
	for _, name := range schema.Required {
		if _, ok := v[name]; !ok {
			t.Errorf("%s answers %s with %s, which lacks %s", op, status, body, name)
		}
	}
	for name := range v {
		if _, ok := schema.Properties[name]; !ok {
			t.Errorf("%s answers %s with %s, whose %s openapi.json does not describe", op, status, body, name)
		}
	}
}

// TestAPIDocument looks at openapi.json itself.
func TestAPIDocument(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{})
	doc, text := readOpenAPI(a)
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("openapi %s", doc.OpenAPI)
	}
	var all any
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		t.Fatal(err)
	}
	used := make(map[string]bool)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				kind, name, _ := strings.Cut(strings.TrimPrefix(ref, "#/components/"), "/")
				if doc.Components[kind][name] == nil {
					t.Errorf("openapi.json refers to %s, which is not there", ref)
				}
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(all)
	for kind, named := range doc.Components {
		for name := range named {
			if ref := "#/components/" + kind + "/" + name; kind != "securitySchemes" && !used[ref] {
				t.Errorf("nothing refers to %s", ref)
			}
		}
	}
	methods := make(map[string][]string)
	for op := range doc.operations(t) {
		method, path, _ := strings.Cut(op, " ")
		methods[path] = append(methods[path], method)
		if method == "GET" {
			methods[path] = append(methods[path], "HEAD")
		}
	}
	for path, want := range methods {
		resp, _ := a.do(apiRequest{method: "PATCH", path: "/-/api" + strings.Replace(path, "{set}", "papers", 1)})
		got := strings.Split(resp.Header.Get("Allow"), ", ")
		slices.Sort(got)
		slices.Sort(want)
		if resp.StatusCode != http.StatusMethodNotAllowed || !slices.Equal(got, want) {
			t.Errorf("%s allows %v, openapi.json describes %v", path, got, want)
		}
	}
}

// TestAPIExamples sees to it that what the document shows as examples is taken.
func TestAPIExamples(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{})
	doc, _ := readOpenAPI(a)
	const set = "/v1/sets/{set}"
	for path, method := range map[string]string{set + "/resources": "put", set + "/changes": "post"} {
		var op struct {
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			}
		}
		if err := json.Unmarshal(doc.Paths[path][method], &op); err != nil {
			t.Fatal(err)
		}
		for typ, media := range op.RequestBody.Content {
			var body string
			if err := json.Unmarshal(media.Example, &body); err != nil {
				body = string(media.Example) // JSON itself
			}
			r := apiRequest{method: strings.ToUpper(method), path: "/-/api" + strings.Replace(path, "{set}", "papers", 1), body: body}
			if method == "put" {
				r.path = resource("https://data.example.org/papers/17.pdf")
			}
			if resp, body := a.do(r.with("Content-Type", typ)); resp.StatusCode > 201 {
				t.Errorf("example of %s for %s: %d %s", typ, path, resp.StatusCode, body)
			}
		}
	}
}

// TestAPIPage checks that the page describes every operation and its address, and
// loads nothing from other servers.
func TestAPIPage(t *testing.T) {
	t.Parallel()
	for _, tokens := range []bool{false, true} {
		o := api.Options{Path: "/data/-/api/"}
		if tokens {
			o.TokenFile = filepath.Join(t.TempDir(), "token")
			if err := os.WriteFile(o.TokenFile, []byte("secret\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a := newAPI(t, nil, o)
		resp, body := a.do(apiRequest{method: "GET", path: "/data/-/api/"}.with("Authorization", "Bearer secret"))
		if typ := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || typ != "text/html; charset=utf-8" {
			t.Errorf("page: %d, %s", resp.StatusCode, typ)
		}
		if csp := resp.Header.Get("Content-Security-Policy"); !strings.HasPrefix(csp, "default-src 'none'; style-src 'sha256-") {
			t.Errorf("Content-Security-Policy: %s", csp)
		}
		words := []string{`<a href="openapi.json">`, "<code>GET v1/sets</code>", "<code>GET v1/sets/{set}</code>", "<code>PUT v1/sets/{set}/resources</code>",
			"<code>DELETE v1/sets/{set}/resources</code>", "<code>POST v1/sets/{set}/changes</code>", "<code>Idempotency-Key</code>", "<code>encoding</code>", `id="status-507"`}
		if tokens {
			words = append(words, "Authorization: Bearer TOKEN")
		} else {
			words = append(words, "http://localhost/data/-/api/")
		}
		for _, w := range words {
			if !strings.Contains(body, w) {
				t.Errorf("the page lacks %s", w)
			}
		}
		for _, w := range []string{"<script", "src=", "<no value>", "ZgotmplZ", "secret\n"} {
			if strings.Contains(body, w) {
				t.Errorf("the page has %s", w)
			}
		}
		if dir := os.Getenv("LOCKSTEP_TEST_PAGES"); dir != "" {
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("api-%v.html", tokens)), []byte(body), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}

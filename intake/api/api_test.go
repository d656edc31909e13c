package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lockstep/catalog"
	"lockstep/intake/api"
	"lockstep/internal/trust"
)

const papers = "https://data.example.org/resourcesync/papers/capabilitylist.xml"

// An apiTest is an API that listens.
type apiTest struct {
	t   *testing.T
	cat catalog.Catalog
	api *api.API
	url string
}

// newAPI serves an API that changes the set papers of cat; nil is a new one.
func newAPI(t *testing.T, cat catalog.Catalog, o api.Options) *apiTest {
	t.Helper()
	if cat == nil {
		cat = catalog.NewMem(nil)
	}
	if o.State == "" {
		o.State = t.TempDir()
	}
	if o.Sets == nil {
		o.Sets = map[string]string{"papers": papers}
	}
	api, err := api.New(cat, o)
	if err != nil {
		t.Fatal(err)
	}
	serve := http.Handler(api)
	if o.TokenFile == "" {
		serve = asOwner(api)
	}
	srv := httptest.NewServer(serve)
	t.Cleanup(func() {
		srv.Close()
		if err := api.Close(); err != nil {
			t.Error(err)
		}
	})
	return &apiTest{t, cat, api, srv.URL}
}

// asOwner serves by h as the admin socket does.
func asOwner(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r.WithContext(trust.WithOwner(r.Context())))
	})
}

// An apiRequest is one to make.
type apiRequest struct {
	method, path string
	body         string
	header       map[string]string // a body is application/json unless it says otherwise
}

func put(uri, body string) apiRequest {
	return apiRequest{method: "PUT", path: resource(uri), body: body}
}

func del(uri string) apiRequest { return apiRequest{method: "DELETE", path: resource(uri)} }

func resource(uri string) string {
	return "/-/api/v1/sets/papers/resources?uri=" + url.QueryEscape(uri)
}

// key returns r with an idempotency key.
func (r apiRequest) key(key string) apiRequest { return r.with("Idempotency-Key", key) }

func (r apiRequest) with(name, value string) apiRequest {
	h := map[string]string{name: value}
	for k, v := range r.header {
		h[k] = v
	}
	r.header = h
	return r
}

// do makes a request and returns the answer and its body.
func (a *apiTest) do(r apiRequest) (*http.Response, string) {
	a.t.Helper()
	req, err := http.NewRequestWithContext(a.t.Context(), r.method, a.url+r.path, strings.NewReader(r.body))
	if err != nil {
		a.t.Fatal(err)
	}
	if r.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for name, value := range r.header {
		req.Header.Set(name, value)
		if name == "Host" {
			req.Host = value
		}
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		a.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return resp, string(body)
}

// want makes a request whose answer must have a status, and words in its body.
func (a *apiTest) want(r apiRequest, status int, words ...string) {
	a.t.Helper()
	resp, body := a.do(r)
	if resp.StatusCode != status {
		a.t.Errorf("%s %s: status %d, want %d: %s", r.method, r.path, resp.StatusCode, status, body)
	}
	for _, w := range words {
		if !strings.Contains(body, w) {
			a.t.Errorf("%s %s: %s\nlacks %s", r.method, r.path, body, w)
		}
	}
	if status >= 400 {
		if typ := resp.Header.Get("Content-Type"); typ != "application/problem+json" {
			a.t.Errorf("%s %s: Content-Type %s of a problem", r.method, r.path, typ)
		}
		var p struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal([]byte(body), &p); err != nil || p.Status != status || p.Title == "" || p.Detail == "" {
			a.t.Errorf("%s %s: problem %s: %v", r.method, r.path, body, err)
		}
	}
}

// history returns the changes of the set since the first request.
func (a *apiTest) history() string {
	a.t.Helper()
	var b strings.Builder
	for c, err := range a.cat.Changes(context.Background(), papers, 0) {
		if err != nil {
			a.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %s %d\n", c.Seq, c.Change, c.URI, c.Length)
	}
	return b.String()
}

func TestAPI(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{})
	const x, y = "https://x.example/a?b=c&d=%20+", "http://isbn/123"
	a.want(apiRequest{method: "GET", path: "/-/api/v1/sets"}, 200, `{"sets":["papers"]}`)
	a.want(apiRequest{method: "GET", path: "/-/api/v1/sets/papers"}, 200, `{"set":"papers","resources":0,"seq":0}`)
	a.want(apiRequest{method: "GET", path: resource(x)}, 404, x)
	a.want(put(x, `{"length":7,"type":"text/plain","links":[{"rel":"duplicate","href":"ftp://m.example/a","pri":1}]}`), 201,
		`{"uri":"https://x.example/a?b=c&d=%20+","change":"created","seq":1,"datetime":"2`)
	a.want(put(x, `{"uri":"`+x+`","length":7,"type":"text/plain","links":[{"rel":"Duplicate","href":"ftp://m.example/a","pri":1}]}`), 200, `"change":"unchanged"}`)
	a.want(put(x, `{"length":8}`), 200, `"change":"updated","seq":2,`)
	a.want(put(y, `{}`), 201, `"change":"created","seq":3,`)
	a.want(del(y), 200, `"change":"deleted","seq":4,`)
	a.want(del(y), 200, `"change":"unchanged"}`)
	a.want(apiRequest{method: "GET", path: resource(x)}, 200, `{"resource":{"uri":"https://x.example/a?b=c&d=%20+","length":8},"seq":2,"datetime":"2`)
	batch := apiRequest{method: "POST", path: "/-/api/v1/sets/papers/changes"}
	batch.body = `[{"uri":"http://a","length":1}, {"uri":"` + x + `","change":"deleted"}, {"uri":"http://a","length":2,"change":"updated"}, {"uri":"http://b","change":"deleted"}]`
	a.want(batch, 200, `{"changes":4,"created":1,"updated":1,"deleted":1,"unchanged":1,"seq":7,"datetime":"2`)
	batch.body = "{\"uri\":\"http://a\",\"length\":3}\n\n{\"uri\":\"http://c\"}"
	a.want(batch.with("Content-Type", "application/x-ndjson"), 200, `{"changes":2,"created":1,"updated":1,"deleted":0,"unchanged":0,"seq":9`)
	a.want(apiRequest{method: "GET", path: "/-/api/v1/sets/papers"}, 200, `"resources":2,"seq":9,"datetime":"2`)
	want := "1 created " + x + " 7\n2 updated " + x + " 8\n3 created http://isbn/123 -1\n4 deleted http://isbn/123 0\n" +
		"5 created http://a 1\n6 deleted " + x + " 0\n7 updated http://a 2\n8 updated http://a 3\n9 created http://c -1\n"
	if got := a.history(); got != want {
		t.Errorf("history\n%swant\n%s", got, want)
	}
}

// TestAPIRoundTrip sees to it that what GET gives is what PUT takes.
func TestAPIRoundTrip(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{})
	const uri = "https://x.example/a"
	a.want(put(uri, `{"lastmod":"2024-05-17T09:30:00.123456Z","length":0,"hash":{"md5":"d41d8cd98f00b204e9800998ecf8427e"},"type":"a/b","encoding":"gzip",
		"links":[{"rel":"via","href":"http://x","type":"a/b","encoding":"br","modified":"2024-05-17","length":0,"hash":"md5:d41d8cd98f00b204e9800998ecf8427e"}]}`), 201)
	_, body := a.do(apiRequest{method: "GET", path: resource(uri)})
	var v struct{ Resource json.RawMessage }
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatal(err)
	}
	a.want(put(uri, string(v.Resource)), 200, `"unchanged"`)
}

func TestAPIRefusals(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{MaxBatch: 3, MaxBody: 1 << 20})
	const changes, x = "/-/api/v1/sets/papers/changes", "http://x"
	batch := func(body string) apiRequest { return apiRequest{method: "POST", path: changes, body: body} }
	for _, tt := range []struct {
		name   string
		req    apiRequest
		status int
		word   string
	}{
		{"nowhere", apiRequest{method: "GET", path: "/-/api/v2"}, 404, "nothing at this address"},
		{"outside", apiRequest{method: "GET", path: "/x"}, 404, "the API is below /-/api/"},
		{"set", apiRequest{method: "GET", path: "/-/api/v1/sets/books"}, 404, `no set \"books\" here; there are: papers`},
		{"encoded set", apiRequest{method: "GET", path: "/-/api/v1/sets/a%2Fb"}, 404, `no set \"a/b\"`},
		{"method", apiRequest{method: "POST", path: resource(x), body: "{}"}, 405, "possible here: GET, HEAD, PUT, DELETE"},
		{"method of batches", apiRequest{method: "GET", path: changes}, 405, "possible here: POST"},
		{"no uri", apiRequest{method: "PUT", path: "/-/api/v1/sets/papers/resources", body: "{}"}, 400, "want the parameter uri once"},
		{"two uris", apiRequest{method: "PUT", path: resource(x) + "&uri=http://y", body: "{}"}, 400, "2 times"},
		{"uri not encoded", apiRequest{method: "PUT", path: "/-/api/v1/sets/papers/resources?uri=http://x.example/?a=b&c=d", body: "{}"}, 400, `unknown parameter \"c\"`},
		{"bad escape", apiRequest{method: "PUT", path: "/-/api/v1/sets/papers/resources?uri=%zz", body: "{}"}, 400, "malformed query"},
		{"relative uri", put("/a", "{}"), 422, `parameter uri: \"/a\" is no absolute URI`},
		{"uri that cannot be fetched", put("ftp://x.example/a", "{}"), 422, "cannot be fetched"},
		{"uri with a fragment", put("http://x.example/a#b", "{}"), 422, "has a fragment"},
		{"uri with a password", put("http://u:s3cret@x.example/", "{}"), 422, "user name or password"},
		{"uri with a blank", put("http://x.example/a b", "{}"), 422, "must be percent-encoded"},
		{"deleted uri", del("a"), 422, "no absolute URI"},
		{"asked for uri", apiRequest{method: "GET", path: resource("a")}, 422, "no absolute URI"},
		{"query of a batch", apiRequest{method: "POST", path: changes + "?x=y", body: "[]"}, 400, "no parameters"},
		{"no type", put(x, "{}").with("Content-Type", ""), 415, "want application/json"},
		{"type", put(x, "{}").with("Content-Type", "text/plain"), 415, "want application/json"},
		{"lines for one", put(x, "{}").with("Content-Type", "application/jsonl"), 415, "want application/json"},
		{"charset", put(x, "{}").with("Content-Type", "application/json; charset=latin1"), 415, "in UTF-8"},
		{"coding", put(x, "{}").with("Content-Encoding", "gzip"), 415, "Content-Encoding"},
		{"malformed", put(x, `{"length":}`), 400, `"byte":10,`},
		{"not an object", put(x, `[]`), 422, "is an array, want an object"},
		{"empty", put(x, ` `), 400, "ends where an object should be"},
		{"field", put(x, `{"lastmod":"never"}`), 422, `"field":"lastmod"`},
		{"unknown field", put(x, `{"lenght":7}`), 422, `unknown field \"lenght\"`},
		{"another uri", put(x, `{"uri":"http://y"}`), 422, "differs from the one"},
		{"deleted", put(x, `{"change":"deleted"}`), 422, "DELETE"},
		{"key", put(x, `{}`).key(strings.Repeat("k", 256)), 400, "Idempotency-Key"},
		{"empty key", put(x, `{}`).key(`""`), 400, "Idempotency-Key"},
		{"body of DELETE", apiRequest{method: "DELETE", path: resource(x), body: "{}"}, 400, "no body"},
		{"large", put(x, `{"type":"`+strings.Repeat("a", 1<<20)+`"}`), 413, "larger than 65536 bytes"},
		{"large batch", batch(strings.Repeat(" ", 1<<20) + "[]"), 413, "larger than 1048576 bytes"},
		{"many", batch(`[{"uri":"http://a"},{"uri":"http://b"},{"uri":"http://c"},{"uri":"http://d"}]`), 413, "more than 3 changes"},
		{"many lines", batch("{}\n{}\n{}\n{}\n").with("Content-Type", "application/jsonl"), 413, "more than 3 changes"},
		{"no array", batch(`{}`), 422, "is an object, want an array"},
		{"half an array", batch(`[{"uri":"http://a"},`), 400, `"byte":20`},
		{"after the array", batch(`[] []`), 400, "where the end should be"},
		{"no uri in a batch", batch(`[{"uri":"http://a"},{"length":7}]`), 422, `"errors":[{"index":1,"byte":20,"field":"uri","detail":"is missing"}]`},
		{"bad line", batch("{\"uri\":\"http://a\"}\n\n{\"uri\":\"b\"}\nx").with("Content-Type", "application/jsonl"), 400,
			`"errors":[{"index":1,"line":3,"byte":21,"field":"uri","detail":"\"b\" is no absolute URI"},{"index":2,"line":4,"byte":32,"detail":"malformed JSON: 'x' where an object should be"}],"error_count":2`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			a := *a
			a.t = t
			a.want(tt.req, tt.status, tt.word)
		})
	}
	if got := a.history(); got != "" {
		t.Errorf("something was changed by requests that were refused:\n%s", got)
	}
}

func TestAPIChunked(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{MaxBody: 1 << 20})
	for body, want := range map[string]int{`{"length":7}`: 201, strings.Repeat(" ", 65537) + "{}": 413} {
		req, err := http.NewRequestWithContext(t.Context(), "PUT", a.url+resource("http://x"), io.MultiReader(strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%d bytes: status %d, want %d", len(body), resp.StatusCode, want)
		}
	}
}

func TestAPIHead(t *testing.T) {
	t.Parallel()
	a := newAPI(t, nil, api.Options{})
	for _, path := range []string{"/-/api/", "/-/api/openapi.json", "/-/api/v1/sets", "/-/api/v1/sets/papers"} {
		resp, body := a.do(apiRequest{method: "HEAD", path: path})
		if resp.StatusCode != 200 || body != "" {
			t.Errorf("HEAD %s: status %d, body %q", path, resp.StatusCode, body)
		}
	}
}

func TestAPIToken(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := api.New(nil, api.Options{State: t.TempDir(), TokenFile: file}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("NewAPI without the token file: %v", err)
	}
	write("\n")
	if _, err := api.New(nil, api.Options{State: t.TempDir(), TokenFile: file}); err == nil || !strings.Contains(err.Error(), "has no token in it") {
		t.Errorf("NewAPI with an empty token file: %v", err)
	}
	write("first secret\n  second \n")
	a := newAPI(t, nil, api.Options{TokenFile: file})
	req := put("http://x", "{}")
	token := func(token string) apiRequest { return req.with("Authorization", token) }
	resp, _ := a.do(req)
	if got := resp.Header.Get("WWW-Authenticate"); resp.StatusCode != 401 || got != `Bearer realm="lockstep"` {
		t.Errorf("without token: %d, WWW-Authenticate %s", resp.StatusCode, got)
	}
	a.want(token("Basic OmZpcnN0IHNlY3JldA=="), 201) // as a password
	a.want(token("Basic Zmlyc3Q6c2VjcmV0"), 403)
	a.want(token("Bearer"), 401)
	a.want(token("Bearer first"), 403)
	a.want(token("Bearer second"), 200)
	a.want(token("bearer  first secret"), 200)
	a.want(token("Bearer second").with("Host", "data.example.org"), 200)
	for _, path := range []string{"/-/api/v1/sets", "/-/api/v1/sets/papers", "/-/api/v1/sets/none", resource("http://x")} {
		a.want(apiRequest{method: "GET", path: path}, 401)
	}
	for _, path := range []string{"/-/api/", "/-/api/openapi.json"} {
		a.want(apiRequest{method: "GET", path: path}, 401)
		a.want(apiRequest{method: "GET", path: path}.with("Authorization", "Bearer second"), 200)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	write("first 3ecret\n  third! \n") // neither size nor time shows the change
	if err := os.Chtimes(file, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	a.want(token("Bearer second"), 403)
	a.want(token("Bearer third!"), 200)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	a.want(token("Bearer third!"), 503)
}

// TestAPIAddressGrantsNothing: a request without a token is refused whatever
// its address, Host and headers, for a reverse proxy on this machine sends the
// requests of anyone. The admin socket and the admin token are let in.
func TestAPIAddressGrantsNothing(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "admin-token")
	tokens, err := trust.MakeTokens(file)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	a := newAPI(t, nil, api.Options{Admin: trust.NewGuard(tokens)})
	for _, tt := range []struct {
		name, peer, host string
		header           map[string]string
		owner            bool
		want             int
	}{
		{name: "this machine", want: 401},
		{name: "this machine by IPv6", peer: "[::1]:1", host: "[::1]:8080", want: 401},
		{name: "this machine by name", host: "localhost", want: 401},
		{name: "through a proxy that adds no header", host: "data.example.org", want: 401},
		{name: "through a proxy", header: map[string]string{"X-Forwarded-For": "127.0.0.1"}, want: 401},
		{name: "elsewhere", peer: "192.0.2.1:1234", want: 401},
		{name: "no peer", peer: "@", want: 401},
		{name: "another token", header: map[string]string{"Authorization": "Bearer x"}, want: 403},
		{name: "the admin token", peer: "192.0.2.1:1234", header: map[string]string{"Authorization": "Bearer " + strings.TrimSpace(string(text))}, want: 201},
		{name: "the admin socket", owner: true, want: 200},
		{name: "the admin socket, a page of another site", owner: true, header: map[string]string{"Origin": "https://evil.example"}, want: 403},
	} {
		r := httptest.NewRequestWithContext(t.Context(), "PUT", "http://127.0.0.1"+resource("http://x"), strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		r.RemoteAddr = "127.0.0.1:1"
		if tt.peer != "" {
			r.RemoteAddr = tt.peer
		}
		if tt.host != "" {
			r.Host = tt.host
		}
		for name, value := range tt.header {
			r.Header.Set(name, value)
		}
		if tt.owner {
			r = r.WithContext(trust.WithOwner(r.Context()))
		}
		w := httptest.NewRecorder()
		a.api.ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s: status %d, want %d: %s", tt.name, w.Code, tt.want, w.Body)
		}
	}
}

func TestNewAPIErrors(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		o    api.Options
		want string
	}{
		{api.Options{}, "the state directory is missing"},
		{api.Options{State: "x", Path: "api"}, "must begin and end with a slash"},
		{api.Options{State: "x", Sets: map[string]string{"": papers}}, "a name has letters"},
		{api.Options{State: "x", Sets: map[string]string{"..": papers}}, "a name has letters"},
		{api.Options{State: "x", Sets: map[string]string{"a/b": papers}}, "a name has letters"},
		{api.Options{State: "x", Sets: map[string]string{"a": ""}}, "set a"},
	} {
		if _, err := api.New(catalog.NewMem(nil), tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("NewAPI(%+v): %v, want %s", tt.o, err, tt.want)
		}
	}
}

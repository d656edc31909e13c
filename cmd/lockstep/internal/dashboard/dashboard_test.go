package dashboard_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/html"

	"lockstep/aggregator"
	"lockstep/cmd/lockstep/internal/dashboard"
	"lockstep/cmd/lockstep/internal/recent"
	"lockstep/cmd/lockstep/internal/upstreams"
	"lockstep/hub/hubstore"
	"lockstep/hub/status"
)

// hostile is text of a stranger that would break out of a page that does not escape it.
const hostile = `"'><script src=//evil.example/x.js></script><img src=//evil.example onerror=alert(1)>` + "\x00\x1b[31m\u202e"

// A service is what a dashboard in a test shows.
type service struct {
	mu   sync.Mutex // guards the rest
	work recent.Total
	rows []upstreams.Row
	subs []status.Subscription
	text string // of what is wrong besides
}

func (s *service) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
}

func (s *service) process(time.Time) (upstreams.Process, []upstreams.Row) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return upstreams.Process{Kind: upstreams.Serve, BaseURL: "https://data.example.org/", Sets: len(s.rows), Origins: slices.Clone(s.rows)}, nil
}

func (s *service) subscriptions(_ context.Context, c status.Selection, order func(a, b *status.Subscription) int, limit int) ([]status.Subscription, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []status.Subscription
	for i := range s.subs {
		if sub := &s.subs[i]; (c.Topic == "" || sub.Topic == c.Topic) && (!c.Behind || sub.Lag > 0) {
			all = append(all, *sub)
		}
	}
	slices.SortStableFunc(all, func(a, b status.Subscription) int { return order(&a, &b) })
	return all[:min(limit, len(all))], len(all)
}

func (s *service) options() dashboard.Options {
	ready := make(chan struct{})
	close(ready)
	total := func() recent.Total {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.work
	}
	return dashboard.Options{
		Name: "serve", Process: s.process,
		Activities: []dashboard.Activity{
			{Counter: recent.Counter{Name: "requests", Total: total}, Title: "Requests", Unit: "requests", Latency: "time to answer"},
			{Counter: recent.Counter{Name: "messages", Total: total}, Title: "Messages", Unit: "messages accepted"},
		},
		Hub: &dashboard.Hub{
			URL: "https://data.example.org/hub", Ready: ready, Subscriptions: s.subscriptions,
			Stats: func() status.Stats {
				s.mu.Lock()
				defer s.mu.Unlock()
				stats := status.Stats{Subscriptions: len(s.subs)}
				for i := range s.subs {
					if s.subs[i].Attempts > 0 {
						stats.Waiting++
					}
				}
				return stats
			},
		},
		Problem: func() string {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.text
		},
	}
}

// get requests a page, and checks what is true of all of them.
func get(t *testing.T, h http.Handler, target string) (*httptest.ResponseRecorder, *html.Node) {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
	if w.Code != http.StatusOK {
		t.Fatalf("%s: status %d: %s", target, w.Code, w.Body)
	}
	if size := w.Body.Len(); size > 100_000 {
		t.Errorf("%s: %d bytes", target, size)
	}
	if p := w.Header().Get("Content-Security-Policy"); !strings.Contains(p, "default-src 'none'") || strings.Contains(p, "unsafe") {
		t.Errorf("%s: policy %q", target, p)
	}
	doc, err := html.Parse(strings.NewReader(w.Body.String()))
	if err != nil {
		t.Fatal(err)
	}
	ids := map[string]bool{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if id := attr(n, "id"); id != "" {
			if ids[id] {
				t.Errorf("%s: two elements have the ID %s", target, id)
			}
			ids[id] = true
		}
		if src := attr(n, "src"); src != "" && !strings.HasPrefix(src, "assets/") || n.Data == "img" || n.Data == "iframe" || n.Data == "script" && n.FirstChild != nil {
			t.Errorf("%s: element %s with src %q", target, n.Data, src)
		}
		for _, a := range n.Attr {
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s: element %s has the attribute %s", target, n.Data, a.Key)
			}
		}
		if href := attr(n, "href"); strings.Contains(href, ":") || strings.HasPrefix(href, "//") {
			t.Errorf("%s: a link leads to %s", target, href)
		}
	}
	return w, doc
}

func attr(n *html.Node, key string) string {
	for _, a := range n.Attr {
		if a.Key == key {
			return a.Val
		}
	}
	return ""
}

// elements returns the elements of a name, with a class if that is given.
func elements(doc *html.Node, name, class string) (found []*html.Node) {
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode && n.Data == name && (class == "" || slices.Contains(strings.Fields(attr(n, "class")), class)) {
			found = append(found, n)
		}
	}
	return found
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

// column returns the texts of a column of the first table.
func column(doc *html.Node, i int) (texts []string) {
	for _, row := range elements(elements(doc, "tbody", "")[0], "tr", "") {
		texts = append(texts, textOf(elements(row, "td", "")[i]))
	}
	return texts
}

func TestOverview(t *testing.T) {
	t.Parallel()
	s := &service{rows: []upstreams.Row{
		{Name: "a", Set: "a", State: upstreams.StatePublished, Pending: 2},
		{Name: "b", Set: "b", State: aggregator.StateFailing, Error: "no such directory", Hint: "mount it", Pending: 3},
	}, text: "publish: disk full\n"}
	d := dashboard.New(s.options())
	s.work.Count, s.work.Failed = 1234, 7
	s.work.Latency.Add(12*time.Millisecond, 1234)
	w, doc := get(t, d, "/")
	if got, want := textOf(elements(doc, "p", "lead")[0]), "serving https://data.example.org/: 2 sets, 1 failing"; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	if link := w.Header().Get("Link"); link != `<index.json>; rel="alternate"; type="application/json"` {
		t.Errorf("Link: %s", link)
	}
	charts := elements(doc, "svg", "")
	if len(charts) != 6 {
		t.Errorf("%d charts, want 4 of requests and 2 of messages", len(charts))
	}
	for _, c := range charts {
		if attr(c, "role") != "img" || len(elements(c, "title", "")) != 1 || len(elements(c, "desc", "")) != 1 || len(elements(c, "path", "")) == 0 {
			t.Errorf("chart %s", textOf(c))
		}
	}
	page := textOf(doc)
	for _, want := range []string{"1,234 requests, 7 failed; time to answer: median ", "1,234 messages accepted", "5 pending", "no such directory", "mount it", "publish: disk full", "the log of the process has the details", "State: failing"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	for _, table := range elements(doc, "table", "") {
		if len(elements(table, "caption", "")) != 1 {
			t.Error("a table without a caption")
		}
	}
	_, doc = get(t, d, "/activity?of=requests")
	if got := column(doc, 1); len(got) != 1 || got[0] != "1,234" {
		t.Errorf("minutes %q", got)
	}
}

// TestJSON: each page is JSON, too, at two addresses.
func TestJSON(t *testing.T) {
	t.Parallel()
	s := &service{rows: []upstreams.Row{{Name: "a", Set: "a", State: upstreams.StatePublished}}, subs: []status.Subscription{{Key: "k", Topic: "t", Callback: "https://x.org"}}}
	d := dashboard.New(s.options())
	for target, want := range map[string]string{
		"/index.json": `"summary":"serving https://data.example.org/`, "/?format=json": `"summary":"serving`,
		"/sets.json": `{"page":1,"sets":[{"name":"a"`, "/sets?format=json&sort=name": `"total":1}`,
		"/subscribers.json": `"subscriptions":[{"key":"k"`, "/subscribers.json?topic=other": `"subscriptions":[],"total":0}`,
		"/errors.json": `{"errors":[]}`, "/activity.json?of=messages": `"name":"messages"`,
	} {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" || !strings.Contains(w.Body.String(), want) || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s: %d %s, want %s", target, w.Code, w.Body, want)
		}
	}
	for target, want := range map[string]int{
		"/sets.json?sort=x": 400, "/sets.json?page=0": 400, "/sets.json?page=9999": 400, "/sets.json?order=up": 400, "/subscribers.json?behind=x": 400,
		"/none.json": 404, "/activity.json?of=x": 404,
	} {
		w := httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, target, nil))
		var p struct {
			Title, Detail string
			Status        int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != want || p.Status != want || p.Detail == "" || w.Header().Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %d %s (%v), want a problem with status %d", target, w.Code, w.Body, err, want)
		}
		w = httptest.NewRecorder()
		d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, strings.Replace(target, ".json", "", 1), nil))
		if w.Code != want || !strings.Contains(w.Body.String(), "<!DOCTYPE html>") && want != 404 {
			t.Errorf("%s as a page: %d, want %d", target, w.Code, want)
		}
	}
	w := httptest.NewRecorder()
	if d.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/sets", nil)); w.Code != 405 || w.Header().Get("Allow") == "" {
		t.Errorf("POST: %d", w.Code)
	}
}

// TestHostile: what strangers wrote remains text, and cannot make a page large.
func TestHostile(t *testing.T) {
	t.Parallel()
	s := &service{text: hostile + "\n"}
	for i := range 60 {
		s.rows = append(s.rows, upstreams.Row{Name: hostile, Set: fmt.Sprint(hostile, i), URL: "javascript:alert(1)//" + hostile, State: aggregator.StateFailing, Error: strings.Repeat(hostile, 100), Hint: strings.Repeat(hostile, 100)})
		s.subs = append(s.subs, status.Subscription{Key: hubstore.Key(fmt.Sprint(i, hostile)), Topic: "javascript:" + strings.Repeat(hostile, 20), Callback: hostile, State: "waiting", Attempts: 1, Lag: 1, LastError: strings.Repeat(hostile, 50)})
	}
	d := dashboard.New(s.options())
	for _, target := range []string{
		"/", "/sets", "/subscribers", "/errors", "/activity?of=requests", "/sets?" + url.QueryEscape(hostile) + "=" + url.QueryEscape(hostile),
		"/subscribers?behind=true&topic=" + url.QueryEscape(hostile), "/sets?sort=error&order=desc&page=2",
	} {
		w, doc := get(t, d, target)
		if n := len(elements(doc, "script", "")); n != 1 {
			t.Errorf("%s: %d scripts", target, n)
		}
		if strings.ContainsAny(w.Body.String(), "\x00\x1b\u202e") {
			t.Errorf("%s: control characters", target)
		}
	}
}

// TestManySubscribers: the tables of 10,000 subscribers have pages, in any order, and lead to
// each other without a script.
func TestManySubscribers(t *testing.T) {
	t.Parallel()
	s := &service{}
	for i := range 10_000 {
		s.subs = append(s.subs, status.Subscription{
			Key: hubstore.Key(fmt.Sprintf("%05d", i)), Topic: fmt.Sprint("https://data.example.org/topic", i%3), Callback: fmt.Sprintf("https://s%05d.example", i), State: "idle", Lag: int64(i * 7919 % 10_000),
		})
	}
	d := dashboard.New(s.options())
	_, doc := get(t, d, "/subscribers")
	follow := func(text string) bool {
		t.Helper()
		for _, a := range elements(doc, "a", "") {
			if textOf(a) == text {
				_, doc = get(t, d, "/"+attr(a, "href"))
				return true
			}
		}
		return false
	}
	if got := column(doc, 0); len(got) != 50 || got[0] != "https://s00000.example" {
		t.Errorf("%d rows, the first %q", len(got), got[0])
	}
	if !follow("Lacks") || column(doc, 3)[0] != "0" {
		t.Errorf("by lag: %q", column(doc, 3)[:3])
	}
	if !follow("Lacks") || column(doc, 3)[0] != "9,999" || column(doc, 3)[1] != "9,998" {
		t.Errorf("by lag, descending: %q", column(doc, 3)[:3])
	}
	for _, th := range elements(doc, "th", "") {
		if want := map[bool]string{true: "descending"}[textOf(th) == "Lacks"]; attr(th, "aria-sort") != want {
			t.Errorf("column %s: aria-sort %q, want %q", textOf(th), attr(th, "aria-sort"), want)
		}
	}
	if !follow("Next") || column(doc, 3)[0] != "9,949" || !strings.Contains(textOf(elements(doc, "nav", "pager")[0]), "51–100 of 10,000") {
		t.Errorf("the next page: %q", column(doc, 3)[:3])
	}
	if !follow("Last") || column(doc, 3)[49] != "0" || follow("Next") {
		t.Errorf("the last page: %q", column(doc, 3))
	}
	if !follow("Previous") || !follow("First") || column(doc, 3)[0] != "9,999" {
		t.Errorf("back at the first: %q", column(doc, 3)[:3])
	}
	for _, key := range []string{"callback", "topic", "state", "lag", "taken", "last", "attempts", "next", "expires", "error"} {
		get(t, d, "/subscribers?sort="+key+"&order=desc&page=200")
	}
	if _, doc := get(t, d, "/subscribers?topic=https://data.example.org/topic1&page=3"); column(doc, 1)[0] != "https://data.example.org/topic1" {
		t.Errorf("of one topic: %q", column(doc, 1))
	}
}

// TestSets: what the command status shows, in any order.
func TestSets(t *testing.T) {
	t.Parallel()
	s := &service{}
	for i, name := range []string{"b", "c", "a"} {
		n := int64(10 * i)
		s.rows = append(s.rows, upstreams.Row{Name: name, Set: name, State: upstreams.StatePublished, Resources: &n, Pending: -n})
	}
	d := dashboard.New(s.options())
	for query, want := range map[string]string{
		"": "b c a", "?sort=name": "a b c", "?sort=name&order=desc": "c b a", "?sort=resources&order=desc": "a c b", "?sort=pending": "a c b", "?sort=state": "b c a",
	} {
		_, doc := get(t, d, "/sets"+query)
		if got := strings.Join(column(doc, 0), " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
	}
}

// TestEvents: an open page learns of a change, and the stream ends with the service.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := &service{rows: []upstreams.Row{{Name: "a", Set: "a", State: upstreams.StatePublished}}}
	d := dashboard.New(s.options())
	srv := httptest.NewServer(d)
	t.Cleanup(srv.Close)
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, slog.New(slog.DiscardHandler)) }()

	open := func() (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, srv.URL+"/events", nil)
		if err != nil {
			return nil, err
		}
		return srv.Client().Do(req)
	}
	resp, err := open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }() // read as far as needed
	if typ := resp.Header.Get("Content-Type"); resp.StatusCode != 200 || typ != "text/event-stream" {
		t.Fatalf("%s, %s", resp.Status, typ)
	}
	lines := bufio.NewScanner(resp.Body)
	next := func() (e struct{ State, Summary string }) {
		t.Helper()
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Errorf("%s: %v", data, err)
				}
				return e
			}
		}
		t.Fatalf("the stream has ended: %v", lines.Err())
		return e
	}
	if e := next(); e.State != "ok" {
		t.Errorf("first event %+v", e)
	}
	s.change(func() { s.rows[0].State, s.rows[0].Error = aggregator.StateFailing, "no such directory" })
	if e := next(); e.State != "failing" || !strings.Contains(e.Summary, "1 failing") {
		t.Errorf("after a failure: %+v", e)
	}

	var others []*http.Response
	for {
		r, err := open()
		if err != nil {
			t.Fatal(err)
		}
		if others = append(others, r); r.StatusCode != 200 || len(others) > 100 {
			break
		}
	}
	if last := others[len(others)-1]; last.StatusCode != 503 || last.Header.Get("Retry-After") == "" {
		t.Errorf("%d streams, the last: %s", len(others), last.Status)
	}
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
	for _, r := range others {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			t.Error(err)
		}
		_ = r.Body.Close() // it was read
	}
	for lines.Scan() {
	}
	if err := lines.Err(); err != nil {
		t.Error(err)
	}
}

// TestAggregator: upstreams are what it is about.
func TestAggregator(t *testing.T) {
	t.Parallel()
	o := dashboard.Options{Name: "serve", Process: func(now time.Time) (upstreams.Process, []upstreams.Row) {
		n := int64(5)
		row := upstreams.Row{Name: "z", Set: "all", URL: "https://z.example/", State: aggregator.StateFailing, Error: "down", LastSuccess: now.Add(-time.Hour), Resources: &n}
		return upstreams.Process{Kind: upstreams.Serve, BaseURL: "https://agg.example/", Sets: 1}, []upstreams.Row{row}
	}}
	d := dashboard.New(o)
	_, doc := get(t, d, "/")
	if h := textOf(elements(doc, "h1", "")[0]); h != "Aggregator https://agg.example/" {
		t.Errorf("heading %q", h)
	}
	_, doc = get(t, d, "/sets")
	row := strings.Join([]string{column(doc, 0)[0], column(doc, 1)[0], column(doc, 2)[0], column(doc, 6)[0]}, "|")
	if want := "all/z|failing|1 hour ago|down"; row != want || textOf(elements(doc, "th", "")[0]) != "Upstream" {
		t.Errorf("row %s, want %s", row, want)
	}
	w := httptest.NewRecorder()
	if d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/subscribers", nil)); w.Code != 404 {
		t.Errorf("subscribers of a service without a hub: %d", w.Code)
	}
}

// TestLoading: a hub that is loading is starting, and has no figures.
func TestLoading(t *testing.T) {
	t.Parallel()
	ready := make(chan struct{})
	d := dashboard.New(dashboard.Options{Name: "hub", Hub: &dashboard.Hub{URL: "https://hub.example/", Ready: ready, Stats: func() status.Stats {
		select {
		case <-ready:
		default:
			t.Error("asked for figures")
		}
		return status.Stats{Topics: 3}
	}}})
	_, doc := get(t, d, "/")
	if lead := textOf(elements(doc, "p", "lead")[0]); !strings.Contains(lead, "loading") || !strings.Contains(textOf(doc), "State: starting") {
		t.Errorf("%q", lead)
	}
	w := httptest.NewRecorder()
	if d.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/subscribers", nil)); w.Code != 503 || w.Header().Get("Retry-After") == "" {
		t.Errorf("subscribers: %d", w.Code)
	}
	close(ready)
}

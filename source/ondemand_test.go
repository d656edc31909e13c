package source_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"lockstep/resourcesync"
	"lockstep/source"
)

// demandSite serves a set of which packages can be asked for.
func demandSite(t *testing.T, limits source.OnDemand) (*dumpWorld, *httptest.Server) {
	t.Helper()
	d := newDumpWorld(t, source.Options{OnDemand: &limits}, source.Set{})
	d.put("a=1", "b/c=22", "big="+strings.Repeat("x", 300_000), "gone=x", "changed=x", "locked=x")
	s := d.source()
	d.publish(s)
	server := httptest.NewServer(source.NewServer(s.Handler()).Handler)
	t.Cleanup(server.Close)
	return d, server
}

func ask(t *testing.T, server *httptest.Server, typ, body string) (*http.Response, []byte) {
	t.Helper()
	resp, err := server.Client().Post(server.URL+"/resourcesync/main/dump", typ, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, data
}

func TestOnDemandDump(t *testing.T) {
	t.Parallel()
	d, server := demandSite(t, source.OnDemand{})
	h, _, err := (&crawl{read: reader(d.docs)}).document("resourcesync/main/capabilitylist.xml", resourcesync.CapabilityList)
	if err != nil || h.Link(source.RelDemand) != baseURL+"resourcesync/main/dump" {
		t.Errorf("Capability List links to %q, %v", h.Link(source.RelDemand), err)
	}
	d.write(baseURL+"gone", "", false)
	d.write(baseURL+"changed", "something else", true)
	d.broken[baseURL+"locked"] = fs.ErrPermission
	lines := "\n" + baseURL + "b/c\r\n" + baseURL + "a\n" + baseURL + "a\n  " + baseURL + "gone\n" + baseURL + "never\n" +
		baseURL + "changed\n" + baseURL + "locked\n" + baseURL + "big\nnonsense\x00"
	array := `["` + strings.Join(strings.Fields(strings.ReplaceAll(lines, "\x00", "")), `","`) + `"]`
	for typ, body := range map[string]string{"text/plain; charset=utf-8": lines, "": lines, "application/json": array} {
		resp, data := ask(t, server, typ, body)
		if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "application/zip" || resp.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("%s: %s %v\n%s", typ, resp.Status, resp.Header, data)
		}
		got := demanded(t, data)
		want := map[string]string{"a": "1", "b/c": "22", "changed": "something else", "big": strings.Repeat("x", 300_000)}
		for name, text := range want {
			if got[baseURL+name] != text {
				t.Errorf("%s: %s is %d bytes, want %d", typ, name, len(got[baseURL+name]), len(text))
			}
		}
		if len(got) != len(want) {
			t.Errorf("%s: %d resources, want %d", typ, len(got), len(want))
		}
	}
	if resp, data := ask(t, server, "text/plain", ""); resp.StatusCode != 200 || len(demanded(t, data)) != 0 {
		t.Errorf("nothing asked for: %s", resp.Status)
	}
}

// However far apart they lie, just those that are asked for are packed.
func TestOnDemandSparse(t *testing.T) {
	t.Parallel()
	d, server := demandSite(t, source.OnDemand{})
	var puts []string
	for i := range 700 {
		puts = append(puts, fmt.Sprintf("n%03d=%d", i, i))
	}
	d.put(puts...)
	for _, step := range []int{1, 2, 31, 32, 33, 34, 100} {
		var body strings.Builder
		want := map[string]string{}
		for i := 0; i < 700; i += step {
			fmt.Fprintf(&body, "%sn%03d\n%sn%03d-none\n", baseURL, i, baseURL, i)
			want[fmt.Sprintf("%sn%03d", baseURL, i)] = fmt.Sprint(i)
		}
		_, data := ask(t, server, "text/plain", body.String())
		if got := demanded(t, data); !maps.Equal(got, want) {
			t.Errorf("every %d: %d resources, want %d", step, len(got), len(want))
		}
	}
}

// demanded reads a package, which must be true to itself.
func demanded(t *testing.T, data []byte) map[string]string {
	t.Helper()
	files, err := unpack(data, "")
	if err != nil {
		t.Fatal(err)
	}
	r := resourcesync.NewReader(strings.NewReader(files[""]), resourcesync.ReaderOptions{Base: baseURL, Strict: true})
	h, err := r.Header()
	if err != nil || h.Capability != resourcesync.ResourceDumpManifest || h.At.IsZero() || h.Link("up") == "" {
		t.Fatalf("manifest: %+v, %v", h, err)
	}
	var items []resourcesync.Entry
	got := make(map[string]string)
	for e, err := range r.Entries() {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, e)
		got[e.Loc] = files[e.Path]
	}
	if err := manifestTrue("package", items, files); err != nil {
		t.Error(err)
	}
	return got
}

func TestOnDemandRefuses(t *testing.T) {
	t.Parallel()
	_, server := demandSite(t, source.OnDemand{Resources: 3, Bytes: 200_000})
	lines := func(names ...string) string { return baseURL + strings.Join(names, "\n"+baseURL) }
	for _, tt := range []struct {
		name, typ, body string
		status          int
	}{
		{"too many", "text/plain", lines("a", "b", "c", "d"), 413},
		{"too many in JSON", "application/json", `["a","b","c","d"]`, 413},
		{"too large", "text/plain", lines("big", "a"), 413},
		{"too large alone", "text/plain", lines("big"), 413},
		{"body too large", "text/plain", strings.Repeat("\n", 10_000), 413},
		{"no URI", "text/plain", strings.Repeat("x", 5_000), 200},
		{"no array", "application/json", `{"a":1}`, 400},
		{"cut short", "application/json", `["a"`, 400},
		{"no string", "application/json", `[1]`, 400},
		{"something behind", "application/json", `["a"] ["b"]`, 400},
		{"another type", "application/xml", `<a/>`, 415},
		{"a form", "multipart/form-data; boundary=x", `--x`, 415},
	} {
		resp, data := ask(t, server, tt.typ, tt.body)
		if resp.StatusCode != tt.status {
			t.Errorf("%s: %s, want %d: %s", tt.name, resp.Status, tt.status, data)
		}
	}
	resp, err := server.Client().Get(server.URL + "/resourcesync/main/dump")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 405 || resp.Header.Get("Allow") != "POST" {
		t.Errorf("GET: %s, Allow %q", resp.Status, resp.Header.Get("Allow"))
	}
	resp, err = server.Client().Post(server.URL+"/resourcesync/other/dump", "text/plain", bytes.NewReader(nil))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 405 && resp.StatusCode != 404 {
		t.Errorf("unknown set: %s", resp.Status)
	}
}

// A place that is taken is waited for, not for long.
func TestOnDemandAtOnce(t *testing.T) {
	t.Parallel()
	d, server := demandSite(t, source.OnDemand{AtOnce: 1})
	release, first := takePlace(d, server)
	resp, _ := ask(t, server, "text/plain", baseURL+"a")
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") == "" {
		t.Errorf("second request: %s %v", resp.Status, resp.Header)
	}
	const patience = 2 * time.Second
	for tries := 1; ; tries++ {
		time.AfterFunc(50*time.Millisecond, release)
		began := time.Now()
		resp, _ := ask(t, server, "text/plain", baseURL+"a")
		took := time.Since(began)
		if got := <-first; got != "200 <nil>" {
			t.Errorf("first request: %s", got)
		}
		if resp.StatusCode == 200 {
			break
		}
		if resp.StatusCode != 503 || took < patience || tries == 20 {
			t.Fatalf("a request that waits for its turn: %s after %v", resp.Status, took)
		}
		release, first = takePlace(d, server) // a loaded machine did not finish the first in time
	}
}

// takePlace asks for a package, which is not finished before release is called. When
// it returns, the package is being made; its answer comes from the channel.
func takePlace(d *dumpWorld, server *httptest.Server) (release func(), answer <-chan string) {
	opened, released, done := make(chan struct{}), make(chan struct{}), make(chan string, 1)
	open := sync.OnceFunc(func() { close(opened) })
	d.mu.Lock()
	d.onOpen = func(string) {
		open()
		<-released
	}
	d.mu.Unlock()
	go func() {
		resp, err := server.Client().Post(server.URL+"/resourcesync/main/dump", "text/plain", strings.NewReader(baseURL+"a"))
		if err != nil {
			done <- err.Error()
			return
		}
		defer resp.Body.Close()
		_, err = io.Copy(io.Discard, resp.Body)
		done <- fmt.Sprint(resp.StatusCode, err)
	}()
	<-opened
	return func() { close(released) }, done
}

// A client that goes away ends the work for it.
func TestOnDemandClientGoesAway(t *testing.T) {
	t.Parallel()
	d, server := demandSite(t, source.OnDemand{AtOnce: 1})
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	d.mu.Lock()
	d.onOpen = func(string) {
		leave()
		time.Sleep(50 * time.Millisecond)
	}
	d.mu.Unlock()
	r, err := http.NewRequestWithContext(ctx, "POST", server.URL+"/resourcesync/main/dump", strings.NewReader(baseURL+"a\n"+baseURL+"big"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "text/plain")
	if resp, err := server.Client().Do(r); err == nil {
		_ = resp.Body.Close()
		t.Error("a client that left has an answer")
	}
	d.mu.Lock()
	d.onOpen = nil
	d.mu.Unlock()
	for range 100 {
		if resp, _ := ask(t, server, "text/plain", baseURL+"a"); resp.StatusCode == 200 {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("the place of a client that went away is never free again")
}

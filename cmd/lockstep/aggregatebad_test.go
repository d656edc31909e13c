package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestDescriptionsAreRepublishedWithoutARequestForAResource: with copy: false the
// Aggregator passes on what its upstream states, also changes and deletions.
func TestDescriptionsAreRepublishedWithoutARequestForAResource(t *testing.T) {
	t.Parallel()
	up := newBadSource(t)
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("sets:\n- {name: up, from: \"resourcesync:%s/capabilitylist.xml\", poll: 50ms, copy: false}\n", up.URL)
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", config, "--listen", "127.0.0.1:0", "--state", filepath.Join(dir, "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	describes := func(path, body string) bool {
		list, err := get(p.address + "resourcesync/up/resourcelist.xml")
		sum := sha256.Sum256([]byte(body))
		_, after, listed := strings.Cut(list, "<loc>"+up.URL+path+"</loc>")
		after, _, _ = strings.Cut(after, "</url>")
		return err == nil && listed == (body != "") && strings.Contains(after, hex.EncodeToString(sum[:])) == listed
	}
	waitFor(t, "the description", func() bool { return describes("/r1.txt", fmt.Sprintf("resource 1 of %s\n", up.URL)) })
	up.become(func() { up.put("/r1.txt", "changed"); up.put("/new.txt", "new"); up.remove("/r2.txt") })
	waitFor(t, "the change", func() bool {
		return describes("/r1.txt", "changed") && describes("/new.txt", "new") && describes("/r2.txt", "")
	})
	if n := up.gets.Load(); n != 0 {
		t.Errorf("%d requests for resources", n)
	}
}

// republish starts an Aggregator of up, and returns its address.
func republish(t *testing.T, up *badSource) string {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("sets:\n- {name: up, uri: URL, from: \"resourcesync:%s/capabilitylist.xml\", poll: 50ms, max_delete: 100}\n", up.URL)
	listen := freeAddress(t)
	text = strings.Replace(text, "URL", "http://"+listen+"/up/", 1)
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", config, "--listen", listen, "--state", filepath.Join(dir, "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	return p.address
}

// TestResourcesComeBackAfterTheDeletionOfAll: what an upstream creates again after it has
// deleted everything has the same address, is created, and has the right bytes.
func TestResourcesComeBackAfterTheDeletionOfAll(t *testing.T) {
	t.Parallel()
	up := newBadSource(t)
	base := republish(t, up)
	changes := func(path string) (kinds string) {
		list, _ := get(base + "resourcesync/up/changelist.xml") // it is asked for again
		for _, m := range regexp.MustCompile(`<loc>([^<]*)</loc>.*? change="([a-z]*)"`).FindAllStringSubmatch(list, -1) {
			if m[1] == base+"up"+path {
				kinds += " " + m[2]
			}
		}
		return kinds
	}
	listed := func() int {
		list, _ := get(base + "resourcesync/up/resourcelist.xml") // likewise
		return strings.Count(list, "<url>")
	}
	waitFor(t, "all resources", func() bool { return listed() == 8 })
	same := up.files["/r2.txt"]
	up.become(func() {
		for i := range 8 {
			up.remove(fmt.Sprintf("/r%d.txt", i))
		}
	})
	for i := range 8 {
		path := fmt.Sprintf("/r%d.txt", i)
		waitFor(t, "the deletion of "+path, func() bool { return strings.HasSuffix(changes(path), " deleted") })
		if text, _ := get(base + "up" + path); strings.HasPrefix(text, "resource ") { // otherwise it is the page that says so
			t.Errorf("%s is still served: %q", path, text)
		}
	}
	up.become(func() {
		for path, text := range map[string]string{"/r1.txt": "another content", "/r2.txt": same} {
			up.files[path] = text
			up.changes = append(up.changes, up.entry(path, "created"))
		}
	})
	for path, want := range map[string]string{"/r1.txt": "another content", "/r2.txt": same} {
		waitFor(t, path+" again", func() bool { return strings.HasSuffix(changes(path), " deleted created") })
		if text, err := get(base + "up" + path); err != nil || text != want {
			t.Errorf("%s = %q, %v, want %q", path, text, err, want)
		}
	}
	waitFor(t, "the Resource List of the two", func() bool { return listed() == 2 })
}

// TestLinksToADeletedDescriptionGoSoon: also if the description had no link back.
func TestLinksToADeletedDescriptionGoSoon(t *testing.T) {
	t.Parallel()
	up := newBadSource(t)
	up.md = func(path, attributes string) string {
		if path == "/r1.txt" {
			attributes += fmt.Sprintf(`/><rs:ln rel="describedby" href="%s/r2.txt"`, up.URL)
		}
		return attributes
	}
	base := republish(t, up)
	describes := func() bool {
		list, _ := get(base + "resourcesync/up/resourcelist.xml") // it is asked for again
		return strings.Contains(list, `rel="describedby" href="`+base+`up/r2.txt"`)
	}
	waitFor(t, "the link", describes)
	up.become(func() { up.remove("/r2.txt") })
	waitFor(t, "the end of the link", func() bool { return !describes() })
}

// published returns the documents of a set and the resources in its list, by address.
func published(t *testing.T, base, set string) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, name := range []string{"capabilitylist.xml", "resourcelist.xml", "changelist.xml"} {
		address := base + "resourcesync/" + set + "/" + name
		text, err := get(address)
		if err != nil {
			t.Fatalf("%s: %v", address, err)
		}
		if !strings.HasPrefix(text, "<?xml") {
			continue // it is not published yet
		}
		all[address] = text
		if name != "resourcelist.xml" {
			continue
		}
		for _, m := range regexp.MustCompile(`<loc>([^<]*)</loc>`).FindAllStringSubmatch(text, -1) {
			if all[m[1]], err = get(m[1]); err != nil {
				t.Fatalf("%s: %v", m[1], err)
			}
		}
	}
	return all
}

// A badCase is an upstream that turns bad.
type badCase struct {
	name   string
	turn   func(c *badRun)
	say    string // expression for the message, in which URL is the upstream; "": none
	behave bool   // what is published may change
	early  bool   // it is bad from the beginning
	merged bool   // it fills a set together with another upstream
	lines  int    // how many messages there may be; default: one
	check  func(c *badRun)
}

// A badRun is a badCase under test.
type badRun struct {
	*badCase
	t      *testing.T
	up     *badSource
	other  *badSource        // that fills the same set; nil: there is none
	hub    string            // base URL of the Aggregator
	asked  *atomic.Int64     // requests to an address that must never be requested
	secret string            // that address
	before map[string]string // what was published
}

func (c *badRun) list() string {
	c.t.Helper()
	text, err := get(c.hub + "resourcesync/" + c.name + "/resourcelist.xml")
	if err != nil {
		c.t.Fatal(err)
	}
	return text
}

var badCases = []badCase{
	{name: "gone", lines: 2 /* one says later that it has failed every request */, turn: func(c *badRun) { c.up.Listener.Close(); c.up.CloseClientConnections() }, say: `follow URL.*connection refused`},
	{name: "notfound", say: `follow URL.*404`, turn: func(c *badRun) {
		c.up.answer = func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
	}},
	{name: "page", say: `follow URL`, turn: func(c *badRun) {
		c.up.answer = func(w http.ResponseWriter, r *http.Request) bool {
			fmt.Fprint(w, "<html><body>This domain is for sale</body></html>")
			return true
		}
	}},
	{name: "emptylists", say: `URL.*would delete 100% of the mirror`, turn: func(c *badRun) { c.up.replace(map[string]string{}) }},
	{name: "rewritten", say: `URL.*would delete`, turn: func(c *badRun) { // the same resources at other addresses
		files := map[string]string{}
		for path, body := range c.up.files {
			files["/new"+path] = body
		}
		c.up.replace(files)
	}},
	{name: "moved", say: `URL`, turn: func(c *badRun) { // to another host, with a redirect
		to := newBadSource(c.t)
		c.up.answer = func(w http.ResponseWriter, r *http.Request) bool {
			http.Redirect(w, r, to.URL+r.URL.Path, http.StatusMovedPermanently)
			return true
		}
	}},
	{name: "otherhost", say: `URL`, turn: func(c *badRun) { // the documents name resources of another host
		c.up.base = newBadSource(c.t).URL
		c.up.replace(c.up.files)
	}},
	{name: "othercollection", say: `URL.*would delete`, turn: func(c *badRun) {
		c.up.replace(map[string]string{"/x1.txt": "1", "/x2.txt": "2", "/x3.txt": "3", "/x4.txt": "4", "/x5.txt": "5", "/x6.txt": "6", "/x7.txt": "7", "/x8.txt": "8"})
	}},
	{name: "hashes", say: `URL/r1.txt.*(hash|length)`, turn: func(c *badRun) {
		c.up.md = func(path, attributes string) string {
			return ` change="updated" datetime="` + c.up.time() + `" hash="sha-256:` + strings.Repeat("ab", 32) + `" length="7"`
		}
		c.up.put("/r1.txt", "new content")
	}},
	{name: "samehash", lines: 3, say: `URL/r\d.txt.*hash`, turn: func(c *badRun) {
		c.up.md = func(path, attributes string) string {
			sum := sha256.Sum256([]byte("new 1"))
			return fmt.Sprintf(` change="updated" datetime=%q hash="sha-256:%x"`, c.up.time(), sum)
		}
		for i := 2; i < 5; i++ {
			c.up.put(fmt.Sprintf("/r%d.txt", i), fmt.Sprint("new ", i))
		}
	}},
	{name: "negative", turn: func(c *badRun) {
		c.up.md = func(path, attributes string) string {
			return fmt.Sprintf(` change="updated" datetime=%q length="-5"`, c.up.time())
		}
		c.up.put("/r1.txt", "negative")
	}, behave: true, check: func(c *badRun) {
		waitFor(c.t, "the change", func() bool { text, err := get(c.hub + "negative/r1.txt"); return err == nil && text == "negative" })
	}},
	{name: "huge", say: `URL/r1.txt`, turn: func(c *badRun) {
		c.up.md = func(path, attributes string) string {
			return fmt.Sprintf(` change="updated" datetime=%q length="9223372036854775807"`, c.up.time())
		}
		c.up.put("/r1.txt", "huge")
	}},
	{name: "masschange", say: `URL.*would delete 88% of the mirror`, turn: func(c *badRun) {
		for i := range 7 {
			c.up.remove(fmt.Sprintf("/r%d.txt", i))
		}
	}},
	{name: "ownuris", lines: 2, say: `http://[^ ]*/resourcesync/healthy/resourcelist.xml: not republished: it is a copy of a resource of this Source\n`, turn: func(c *badRun) {
		c.up.changes = append(c.up.changes, fmt.Sprintf("<url><loc>%sr1.txt</loc><rs:md change=\"updated\" datetime=%q/></url>", c.hub, c.up.time()),
			fmt.Sprintf("<url><loc>%sresourcesync/healthy/resourcelist.xml</loc><rs:md change=\"updated\" datetime=%q/></url>", c.hub, c.up.time()))
	}},
	{name: "ownhub", early: true, say: `names the callback of this Destination as its hub; it is not used.*/-/callback/ownhub`, turn: func(c *badRun) {
		c.up.offers = fmt.Sprintf(`<url><loc>%s/topic</loc><rs:md capability="change-notification"/><rs:ln rel="hub" href="%s-/callback/ownhub/"/></url>`, c.up.URL, c.hub)
	}},
	{name: "member", merged: true, say: `URL.*would delete 88% of the mirror`, turn: func(c *badRun) {
		for i := range 7 {
			c.up.remove(fmt.Sprintf("/r%d.txt", i))
		}
	}},
	{name: "members", merged: true, say: `URL.*404`, turn: func(c *badRun) {
		broken := func(w http.ResponseWriter, r *http.Request) bool { http.NotFound(w, r); return true }
		c.up.answer = broken
		c.other.become(func() { c.other.answer = broken })
	}},
	{name: "via", behave: true, turn: func(c *badRun) {
		c.up.put("/r1.txt", "with links")
		links := ""
		for _, rel := range []string{"via", "describedby", "describes", "collection", "canonical", "alternate", "memento", "timegate", "timemap", "up", "index", "profile"} {
			links += fmt.Sprintf("<rs:ln rel=%q href=\"%s/%s\"/>", rel, c.secret, rel)
		}
		n := len(c.up.changes) - 1
		c.up.changes[n] = strings.Replace(c.up.changes[n], "</url>", links+"</url>", 1)
	}, check: func(c *badRun) {
		waitFor(c.t, "the via link", func() bool { return strings.Contains(c.list(), `rel="via" href="`+c.secret) })
	}},
	{name: "up", behave: true, turn: func(c *badRun) {
		c.up.links = fmt.Sprintf(`<rs:ln rel="up" href="%s/up.xml"/><rs:ln rel="describedby" href="%s/d.xml"/>`, c.secret, c.secret)
	}},
	{name: "future", behave: true, turn: func(c *badRun) {
		c.up.md = func(path, attributes string) string {
			return attributes + ` modified="2999-01-01T00:00:00Z"`
		}
		c.up.put("/r1.txt", "of the future")
		n := len(c.up.changes) - 1
		c.up.changes[n] = strings.Replace(c.up.changes[n], "<rs:md", "<lastmod>2999-01-01T00:00:00Z</lastmod><rs:md", 1)
	}, check: func(c *badRun) {
		waitFor(c.t, "the change", func() bool { text, err := get(c.hub + "future/r1.txt"); return err == nil && text == "of the future" })
		c.up.become(func() { c.up.put("/r1.txt", "of the present") })
		waitFor(c.t, "the next change", func() bool { text, err := get(c.hub + "future/r1.txt"); return err == nil && text == "of the present" })
	}},
}

// TestAnUpstreamThatTurnsBad: whatever an upstream does, the Aggregator says what is wrong
// in one message, once; what it published of the upstream remains, byte for byte; other
// upstreams in the same process are followed as before; and no address is requested
// that only links lead to.
func TestAnUpstreamThatTurnsBad(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { asked.Add(1) }))
	t.Cleanup(secret.Close)
	healthy := newBadSource(t)
	listen := freeAddress(t)
	sets := fmt.Sprintf("- {name: healthy, from: \"resourcesync:%s/capabilitylist.xml\", poll: 250ms}\n", healthy.URL)
	runs := make([]*badRun, len(badCases))
	for i := range badCases {
		c := &badRun{badCase: &badCases[i], t: t, up: newBadSource(t), asked: &asked, secret: secret.URL}
		runs[i] = c
		c.hub = "http://" + listen + "/"
		if c.early {
			c.up.become(func() { c.turn(c) })
		}
		if !c.merged {
			sets += fmt.Sprintf("- {name: %s, from: \"resourcesync:%s/capabilitylist.xml\", poll: 250ms}\n", c.name, c.up.URL)
			continue
		}
		c.other = newBadSource(t)
		sets += fmt.Sprintf("- name: %s\n  poll: 250ms\n  upstreams:\n", c.name)
		for i, up := range []*badSource{c.up, c.other} {
			sets += fmt.Sprintf("  - {name: up%d, from: \"resourcesync:%s/capabilitylist.xml\"}\n", i, up.URL)
		}
	}
	dir := t.TempDir()
	config := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(config, []byte("retries: 0\nsets:\n"+sets), 0o666); err != nil {
		t.Fatal(err)
	}
	p, err := startReady(exec.CommandContext(t.Context(), "lockstep", "serve", "--config", config, "--listen", listen, "--state", filepath.Join(dir, "state")))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.kill)
	for _, c := range runs {
		want := 3 + 8
		if c.merged {
			want += 8
		}
		waitFor(t, c.name+": all resources", func() bool {
			was := c.before
			c.before = published(t, p.address, c.name)
			return len(c.before) == want && difference(c.before, was) == "" // not in the middle of a publication
		})
	}
	start := time.Now()
	t.Cleanup(func() { t.Logf("said:\n%s\n%s", p.out, p.stderr) })
	for _, c := range runs {
		if !c.early {
			c.up.become(func() { c.turn(c) })
		}
	}
	said := func() string { return p.stderr.String() }
	for _, c := range runs {
		say := regexp.MustCompile(strings.ReplaceAll(c.say, "URL", regexp.QuoteMeta(c.up.URL)))
		if c.say != "" {
			waitFor(t, c.name+": its message "+say.String(), func() bool { return say.MatchString(said()) })
		}
		if c.name != "gone" && c.name != "moved" { // there is no server, and a permanent redirection is remembered
			// Not from now on: an upstream that fails for long is polled seldom.
			waitFor(t, c.name+": further polls", c.up.again.Load)
		}
	}
	healthy.become(func() { healthy.put("/r1.txt", "changed"); healthy.remove("/r2.txt") })
	waitFor(t, "the change of the healthy upstream", func() bool {
		text, err := get(p.address + "healthy/r1.txt")
		gone, err2 := get(p.address + "healthy/r2.txt")
		return err == nil && err2 == nil && text == "changed" && !strings.Contains(gone, "resource 2")
	})

	for _, c := range runs {
		if c.check != nil {
			c.check(c)
		}
		n := 0
		for line := range strings.Lines(said()) {
			if strings.Contains(line, c.up.URL[len("http://"):]) {
				n++
			}
		}
		if most := max(c.lines, 1) + int(time.Since(start)/time.Minute); n > most {
			t.Errorf("%s: %d messages, want at most %d", c.name, n, most)
		}
		if diff := difference(published(t, p.address, c.name), c.before); diff != "" && !c.behave {
			t.Errorf("%s: what is published has changed: %s", c.name, diff)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("%d requests for addresses that only links lead to", n)
	}
}

package main

import (
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"fmt"
	"html"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"lockstep/cmd/lockstep/internal/certificate/certificatetest"
	"lockstep/cmd/lockstep/internal/readers"
)

// secretWords are in everything that belongs to the private sets of a privateSource, and in
// nothing else: names of sets, addresses and contents.
var secretWords = []string{"quarry", "hollow", "pebble", "whisper", "gemstone"}

// A privateSource is a running Source with a public set, a private one with every capability,
// and a private one whose resources are elsewhere.
type privateSource struct {
	*testing.T
	p      *process
	base   string
	host   string
	secure bool
	token  string
	files  string
}

const privateConfig = `base_url: %[1]s
state: state
oai_pmh: true
atom_pmh: true
dump: true
hub.allow_private: true
%[2]s
sets:
  - name: main
    from: dir:files
    exclude: ['hollow/', 'changing/']
    versions: keep
    oai_pmh: true
  - name: quarry
    from: dir:files/hollow
    uri: %[1]shollow/
    readers: file:readers
    versions: keep
    patches: true
    oai_pmh: true
    resource_dump: {every: 1s}
    change_dump: {every: 1s}
    change_list: {entries: 3}
    archive: {resource_lists: {keep: 5, every: 1s}, resource_dumps: all, change_lists: all, change_dumps: all}
    atom_pmh: {entries: 2}
    links: [{rel: describedby, href: 'https://pebble.example/{path}'}]
  - name: whisper
    from: jsonl:gems.jsonl
    uri: https://gemstone.example/
    scan_interval: 1s
    readers: [file:readers]
`

// newPrivateSource starts one, with changes in all sets.
func newPrivateSource(t *testing.T, secure bool) *privateSource {
	t.Helper()
	room := t.TempDir()
	s := &privateSource{T: t, secure: secure, host: freeAddress(t), files: filepath.Join(room, "files")}
	scheme, flags := "http", ""
	if s.secure {
		certificatetest.Make(t, time.Now().Add(365*24*time.Hour), "127.0.0.1").Write(t, room)
		scheme, flags = "https", "tls_cert: cert.pem\ntls_key: key.pem"
	}
	s.base = scheme + "://" + s.host + "/"
	token, line, err := readers.Make("alice")
	if err != nil {
		t.Fatal(err)
	}
	s.token = token
	for name, text := range map[string]string{
		"lockstep.yaml": fmt.Sprintf(privateConfig, s.base, flags), "readers": line + "\n",
		"gems.jsonl":  `{"uri":"https://gemstone.example/1","length":8,"hash":{"sha-256":"` + strings.Repeat("0", 64) + `"},"lastmod":"2026-01-01T00:00:00Z"}` + "\n",
		"files/a.txt": "public", "files/sub/b.txt": "public",
		"files/hollow/pebble-1.txt": "a pebble", "files/hollow/deep/pebble-2.xml": `<pebble xmlns="urn:pebble"/>`, "files/hollow/pebble-big.txt": strings.Repeat("a large pebble\n", 5000),
	} {
		path := filepath.Join(room, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("lockstep", "serve", "--config", filepath.Join(room, "lockstep.yaml"), "--listen", s.host)
	if s.p, err = startReady(cmd); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.p.kill)
	for i := range 6 {
		s.change(fmt.Sprintf("hollow/pebble-new-%d.txt", i), fmt.Sprintf("pebble %d", i))
		s.change("hollow/pebble-big.txt", strings.Repeat("a large pebble\n", 5000)+fmt.Sprint(i))
		s.change("sub/b.txt", fmt.Sprint("public ", i))
		within(t, "the change is published", func() bool {
			return bytes.Contains(s.get("resourcesync/quarry/capabilitylist.xml"), []byte("changelist")) && s.listed(fmt.Sprintf("pebble-new-%d.txt", i))
		})
	}
	if err := os.Remove(filepath.Join(s.files, "hollow", "pebble-new-0.txt")); err != nil {
		t.Fatal(err)
	}
	packaged := regexp.MustCompile(`<loc>[^<]*changedump-`)
	var late time.Time
	within(t, "everything is offered", func() bool {
		if !packaged.Match(s.get("resourcesync/quarry/changedump.xml")) {
			if time.Since(late) > 3*time.Second { // the first Change Dump may be later than all changes
				late = time.Now()
				s.change("hollow/pebble-late.txt", late.String())
			}
			return false
		}
		list := string(s.get("resourcesync/quarry/capabilitylist.xml"))
		for _, c := range []string{"resourcedump", "changedump", "resourcelist-archive", "changelist-archive", "changedump-archive", "atom.xml", "change-notification"} {
			if !strings.Contains(list, c) {
				return false
			}
		}
		return true
	})
	// The origin of a private set cannot be read: readiness says so of public ones only.
	if err := os.Remove(filepath.Join(room, "gems.jsonl")); err != nil {
		t.Fatal(err)
	}
	within(t, "the origin fails", func() bool {
		text, err := get("http://" + s.host + "/-/metrics")
		return err == nil && strings.Contains(text, `lockstep_source_origin_failing{set="whisper"} 1`)
	})
	return s
}

// change writes a file of the Source.
func (s *privateSource) change(name, text string) {
	s.Helper()
	if err := os.WriteFile(filepath.Join(s.files, filepath.FromSlash(name)), []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
}

// get returns what a reader gets below the base URL; nil if that is not 200.
func (s *privateSource) get(rel string) []byte {
	a := s.ask("GET", "/"+rel, s.credential())
	if a.status != 200 {
		return nil
	}
	return a.body
}

// listed reports whether a change of a file is in the newest part of the Change List.
func (s *privateSource) listed(name string) bool {
	list := s.get("resourcesync/quarry/changelist.xml")
	for _, part := range regexp.MustCompile(`<loc>([^<]*changelist-[^<]*)</loc>`).FindAllSubmatch(list, -1) {
		list = append(list, s.get(strings.TrimPrefix(string(part[1]), s.base))...)
	}
	return bytes.Contains(list, []byte(name))
}

func (s *privateSource) credential() string { return "Authorization: Bearer " + s.token }

// An answer is one that was received.
type rawAnswer struct {
	status int
	header http.Header
	body   []byte
	err    error
}

// shown returns everything that an answer shows: its header, and its body unpacked.
func (a *rawAnswer) shown() string {
	var b strings.Builder
	_ = a.header.Write(&b) // to memory
	body := a.body
	if zr, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		if text, err := io.ReadAll(zr); err == nil {
			body = text
		}
	}
	if zr, err := zip.NewReader(bytes.NewReader(body), int64(len(body))); err == nil {
		for _, f := range zr.File {
			b.WriteString(f.Name + "\n")
			if r, err := f.Open(); err == nil {
				_, _ = io.Copy(&b, r) // what cannot be read shows nothing
			}
		}
	}
	b.Write(body)
	return b.String()
}

// plain returns an answer in a form that can be compared with another one.
func (a *rawAnswer) plain() string {
	h := a.header.Clone()
	h.Del("Date")
	var b strings.Builder
	_ = h.Write(&b) // to memory
	return fmt.Sprintf("%d\n%s\n%s", a.status, b.String(), a.body)
}

// ask sends a request with the target exactly as given, by HTTP/1.1.
func (s *privateSource) ask(method, target string, header ...string) *rawAnswer {
	text := method + " " + target + " HTTP/1.1\r\nHost: " + s.host + "\r\n"
	for _, h := range header {
		text += h + "\r\n"
	}
	if method == "POST" || method == "PUT" {
		text += "Content-Length: 0\r\n"
	}
	return s.send(method, text+"Connection: close\r\n\r\n")
}

// send sends the text of a request.
func (s *privateSource) send(method, text string) *rawAnswer {
	var c net.Conn
	var err error
	if s.secure {
		c, err = tls.Dial("tcp", s.host, &tls.Config{InsecureSkipVerify: true})
	} else {
		c, err = net.Dial("tcp", s.host)
	}
	if err != nil {
		return &rawAnswer{err: err}
	}
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(readyLimit))
	if _, err := io.WriteString(c, text); err != nil {
		return &rawAnswer{err: err}
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
	if err != nil {
		return &rawAnswer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 32<<20))
	return &rawAnswer{resp.StatusCode, resp.Header, body, err}
}

// frontAsk sends a plain request on a connection that stays open, as the front answers it.
func (s *privateSource) frontAsk(target string) *rawAnswer {
	return s.send("GET", "GET "+target+" HTTP/1.1\r\nHost: "+s.host+"\r\n\r\n")
}

// http2 sends a request over HTTP/2.
func (s *privateSource) http2(target string) *rawAnswer {
	tr := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer tr.CloseIdleConnections()
	r, err := http.NewRequest(http.MethodGet, s.base+target[1:], nil)
	if err != nil {
		return &rawAnswer{err: err}
	}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		return &rawAnswer{err: err}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if resp.ProtoMajor != 2 {
		err = fmt.Errorf("the answer is %s", resp.Proto)
		return &rawAnswer{err: err}
	}
	return &rawAnswer{resp.StatusCode, resp.Header, body, err}
}

var anyURL = regexp.MustCompile(`https?://[^\s"'<>\\]+`)

// crawl follows every address that answers name, from the ones that are known to all, and
// returns what each answered.
func (s *privateSource) crawl(header ...string) map[string]*rawAnswer {
	s.Helper()
	list, oai := "verb=ListRecords&metadataPrefix=oai_dc", "/oai?"
	queue := []string{"/", "/.well-known/resourcesync", "/robots.txt", "/resourcesync/", "/hub", "/-/healthz", "/-/readyz", "/-/", "/-/metrics", "/-/api/v1/sets", "/favicon.ico",
		oai + "verb=Identify", oai + "verb=ListSets", oai + "verb=ListMetadataFormats", oai + list, oai + "verb=ListIdentifiers&metadataPrefix=oai_dc"}
	found := map[string]*rawAnswer{}
	for len(queue) > 0 {
		target := queue[0]
		queue = queue[1:]
		if found[target] != nil {
			continue
		}
		a := s.ask("GET", target, header...)
		if a.err != nil {
			s.Fatalf("%s: %v", target, a.err)
		}
		found[target] = a
		for _, text := range []string{a.shown(), html.UnescapeString(a.shown())} {
			for _, u := range anyURL.FindAllString(text, -1) {
				u, _, _ = strings.Cut(u, "#")
				u = strings.TrimRight(u, ">;,.)")
				if rest, ok := strings.CutPrefix(u, strings.TrimSuffix(s.base, "/")); ok && strings.HasPrefix(rest, "/") && len(rest) < 400 && strings.Count(rest, "://") < 2 {
					queue = append(queue, rest)
				}
				queue = append(queue, "/timegate/"+u, "/timemap/"+u)
			}
		}
		if m := regexp.MustCompile(`<resumptionToken[^>]*>([^<]+)<`).FindSubmatch(a.body); m != nil {
			queue = append(queue, oai+"verb=ListRecords&resumptionToken="+url.QueryEscape(string(m[1])))
		}
		for _, m := range regexp.MustCompile(`<identifier>([^<]+)<`).FindAllSubmatch(a.body, -1) {
			queue = append(queue, oai+"verb=GetRecord&metadataPrefix=oai_dc&identifier="+url.QueryEscape(html.UnescapeString(string(m[1]))))
		}
		if len(found) > 5000 {
			s.Fatal("the crawl does not end")
		}
		queue = slices.DeleteFunc(queue, func(target string) bool {
			return found[target] != nil || strings.HasPrefix(target, "/timegate/") && strings.Contains(target[len("/timegate/"):], "/time") || strings.Contains(target, "/versions/"+s.base)
		})
	}
	return found
}

// secretIn returns a word of the private sets in a text; "" if there is none.
func secretIn(text string) string {
	text = strings.ToLower(text)
	for _, word := range secretWords {
		if strings.Contains(text, word) {
			return word
		}
	}
	return ""
}

// disguises returns spellings of a target that a server may take for the same.
func disguises(target, base string) []string {
	all := []string{
		target, target + "?", target + "?x=1", target + "/", target + "/.", target + "%00", target + ";x", target + ".gz", target + "%20", target + ".",
		"/" + target, "/." + target, "/x/.." + target, "/%2e" + target, "/x/%2e%2e" + target, strings.ToUpper(target), strings.TrimSuffix(base, "/") + target,
		"http://localhost" + target, strings.ReplaceAll(target, "/", "//"), strings.Replace(target[1:], "/", "%2f", 1), "/" + strings.ReplaceAll(target[1:], "/", "%2F"), strings.ReplaceAll(target, "/", `\`),
	}
	for i := 1; i < len(target); i += 5 {
		if c := target[i]; c != '%' && c != '/' {
			all = append(all, fmt.Sprintf("%s%%%02x%s", target[:i], c, target[i+1:]), fmt.Sprintf("%s%%25%02x%s", target[:i], c, target[i+1:]))
		}
	}
	return all
}

// TestPrivateSetsHaveNoLeaks goes through every address of a Source, as a reader, as a stranger,
// and as a stranger who has learnt the addresses: with methods, ranges, conditions and
// spellings of all kinds, on connections of all kinds. Nothing of a private set is answered, and
// nothing names one.
func TestPrivateSetsHaveNoLeaks(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		name := "HTTP"
		if secure {
			name = "TLS"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newPrivateSource(t, secure)
			mine, theirs := s.crawl(s.credential()), s.crawl()
			s.checkReader(mine)
			for target, a := range theirs {
				if word := secretIn(a.shown()); word != "" && secretIn(target) == "" {
					t.Errorf("%s shows a stranger %q: %s", target, word, a.shown())
				}
			}
			var secret []string
			for target, a := range mine {
				if word := secretIn(target); word != "" && a.status < 400 {
					secret = append(secret, target)
				}
			}
			slices.Sort(secret)
			s.checkStranger(secret)
			s.checkSame()
			s.checkHub()
		})
	}
}

// checkReader checks that the crawl of a reader has found all that there is to hide.
func (s *privateSource) checkReader(mine map[string]*rawAnswer) {
	s.Helper()
	for _, kind := range []string{
		`^/resourcesync/quarry/capabilitylist\.xml`, `^/resourcesync/quarry/resourcelist\.xml`, `^/resourcesync/quarry/resourcelist-2.*\.xml`, `^/resourcesync/quarry/changelist-2`,
		`^/resourcesync/quarry/resourcedump\.xml`, `^/resourcesync/quarry/resourcedump-.*\.zip`, `^/resourcesync/quarry/changedump.*\.zip`, `^/resourcesync/quarry/changelist-archive`,
		`^/resourcesync/quarry/patches/`, `^/resourcesync/quarry/atom\.xml`, `^/resourcesync/quarry/feed-`, `^/resourcesync/quarry/changes`, `^/hollow/pebble-1\.txt`, `^/hollow/deep/`,
		`^/timegate/.*hollow/pebble`, `^/timemap/.*hollow/pebble`, `^/versions/.*hollow/pebble`, `GetRecord.*hollow`, `^/resourcesync/whisper/capabilitylist\.xml`,
	} {
		if !slices.ContainsFunc(slices.Collect(keysOf(mine)), func(target string) bool {
			return regexp.MustCompile(kind).MatchString(target) && mine[target].status < 400
		}) {
			s.Errorf("a reader finds no %s", kind)
		}
	}
	for target, a := range mine {
		if caching := a.header.Get("Cache-Control"); secretIn(target) != "" && a.status < 300 && !strings.HasPrefix(caching, "private") && caching != "no-store" {
			s.Errorf("%s: Cache-Control %q for a reader", target, caching)
		}
	}
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// checkStranger asks for secret addresses without a credential, and with wrong ones.
func (s *privateSource) checkStranger(secret []string) {
	s.Helper()
	check := func(what string, a *rawAnswer) {
		s.Helper()
		switch {
		case a.err != nil && a.status == 0:
			s.Errorf("%s: %v", what, a.err)
		case a.status < 400:
			s.Errorf("%s is answered %d: %.300s", what, a.status, a.shown())
		case secretIn(a.shown()) != "" && !strings.Contains(what, "/time") && !strings.Contains(what, "/versions"):
			s.Errorf("%s shows %q: %s", what, secretIn(a.shown()), a.shown())
		}
	}
	n := 0
	for i, target := range secret {
		if strings.HasPrefix(target, "/oai?") { // answered as if there were no such record
			if a := s.ask("GET", target); secretIn(strings.ReplaceAll(a.shown(), html.EscapeString(target), "")) != "" && !strings.Contains(a.shown(), "idDoesNotExist") {
				s.Errorf("%s: %s", target, a.shown())
			}
			continue
		}
		n++
		for _, method := range []string{"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PROPFIND"} {
			check(method+" "+target, s.ask(method, target))
		}
		for _, h := range []string{
			"Range: bytes=0-9", "If-None-Match: *", "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT", "Accept-Encoding: gzip", "Accept: text/event-stream", "Accept-Datetime: Fri, 01 Jan 2100 00:00:00 GMT",
			"X-Forwarded-For: 127.0.0.1", "Cookie: token=" + s.token, "X-Original-URL: /a.txt", "Authorization: Bearer", "Authorization: Bearer %00", "Authorization: Basic YWxpY2U6", "Proxy-Authorization: Bearer " + s.token,
			"Authorization: Bearer " + s.token + "\r\nAuthorization: Bearer x",
		} {
			check(h+" "+target, s.ask("GET", target, h))
		}
		check("the front "+target, s.frontAsk(target))
		if s.secure {
			check("HTTP/2 "+target, s.http2(target))
		}
		check("HTTP/1.0 "+target, s.send("GET", "GET "+target+" HTTP/1.0\r\n\r\n"))
		check("pipelined "+target, s.send("GET", "GET "+target+" HTTP/1.1\r\nHost: "+s.host+"\r\n\r\nGET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"))
		if i%4 > 0 { // all spellings of each fourth
			continue
		}
		for _, spelled := range disguises(target, s.base) {
			if a := s.ask("GET", spelled); a.status < 400 && a.status != 0 && secretIn(a.shown()) != "" {
				s.Errorf("%s is answered %d: %.300s", spelled, a.status, a.shown())
			}
		}
	}
	if n < 40 {
		s.Errorf("a reader knows %d addresses only: %v", n, secret)
	}
}

// checkSame checks that a stranger gets the same answer for what exists and what does not.
func (s *privateSource) checkSame() {
	s.Helper()
	for is, isNot := range map[string]string{
		"/hollow/pebble-1.txt": "/hollow/none.txt", "/hollow/deep": "/hollow/none", "/hollow/deep/pebble-2.xml": "/hollow/none/none.xml",
		"/resourcesync/quarry/capabilitylist.xml": "/resourcesync/quarry/none.xml", "/resourcesync/quarry/resourcelist.xml": "/resourcesync/none/resourcelist.xml",
		"/resourcesync/quarry/changes": "/resourcesync/none/changes", "/resourcesync/quarry/dump": "/resourcesync/none/dump", "/resourcesync/quarry": "/resourcesync/none", "/resourcesync/whisper/": "/resourcesync/none/",
	} {
		for _, method := range []string{"GET", "HEAD", "POST", "OPTIONS"} {
			for _, header := range []string{"X-None: 1", "Authorization: Bearer", "Accept: text/event-stream", "Accept-Encoding: gzip"} {
				if got, want := s.ask(method, is, header).plain(), s.ask(method, isNot, header).plain(); got != want {
					s.Errorf("%s %s, %s:\n%s\n%s %s:\n%s", method, is, header, got, method, isNot, want)
				}
			}
		}
	}
}

// checkHub checks that strangers cannot subscribe to private topics, whose names they cannot
// guess either, and that readers can, but not by a page of another site in their browser.
func (s *privateSource) checkHub() {
	s.Helper()
	subscribe := func(topic string, header ...string) *rawAnswer {
		form := url.Values{"hub.mode": {"subscribe"}, "hub.topic": {topic}, "hub.callback": {"http://127.0.0.1:9/" + url.QueryEscape(topic)}}.Encode()
		text := "POST /hub HTTP/1.1\r\nHost: " + s.host + "\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: " + fmt.Sprint(len(form)) + "\r\nConnection: close\r\n"
		for _, h := range header {
			text += h + "\r\n"
		}
		return s.send("POST", text+"\r\n"+form)
	}
	open := s.base + "resourcesync/main/changes"
	if a := subscribe(open); a.status != 202 {
		s.Errorf("subscribing to %s: %d %s", open, a.status, a.body)
	}
	guess := subscribe(s.base + "resourcesync/none/changes").plain()
	for _, topic := range []string{"resourcesync/quarry/changes", "resourcesync/qu%61rry/changes", "%72esourcesync/quarry/changes", "resourcesync/whisper/changes"} {
		for _, header := range []string{"X-None: 1", "Authorization: Bearer", "X-Forwarded-For: 127.0.0.1"} {
			if a := subscribe(s.base+topic, header); a.status != 401 || header == "X-None: 1" && a.plain() != guess || len(a.header.Values("WWW-Authenticate")) != 2 {
				s.Errorf("subscribing to %s, %s: %s, want %s", topic, header, a.plain(), guess)
			}
		}
		if a := subscribe(s.base+topic, s.credential()); a.status != 202 {
			s.Errorf("a reader subscribes to %s: %d %s", topic, a.status, a.body)
		}
		for header, want := range map[string]int{"Origin: https://other.example": 403, "Sec-Fetch-Site: cross-site": 403, "Sec-Fetch-Site: same-site": 403, "Sec-Fetch-Site: same-origin": 202} {
			if a := subscribe(s.base+topic, s.credential(), header); a.status != want {
				s.Errorf("the browser of a reader subscribes to %s, %s: %d %s, want %d", topic, header, a.status, a.body, want)
			}
		}
	}
}

// putAddress: `address FILE...` writes a free address in place of ADDRESS into files.
func putAddress(t *testing.T, ts *testscript.TestScript, args []string) {
	address := freeAddress(t)
	for _, name := range args {
		text, err := os.ReadFile(ts.MkAbs(name))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(name), bytes.ReplaceAll(text, []byte("ADDRESS"), []byte(address)), 0o600))
	}
}

// TestReadersBehindProxies: a reverse proxy on this machine makes no stranger a reader, whatever
// headers it adds; with --trusted-proxy, the addresses it names are those that are logged and
// whose failures are counted.
func TestReadersBehindProxies(t *testing.T) {
	t.Parallel()
	room := t.TempDir()
	token, line, err := readers.Make("alice")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(room, "files"), "a.txt", "secret")
	write(t, room, "lockstep.yaml", "state: state\ntrusted_proxy: 127.0.0.1\nsets:\n- {from: dir:files, readers: '"+line+"'}\n")
	src, err := startReady(exec.Command("lockstep", "serve", "--config", filepath.Join(room, "lockstep.yaml"), "--listen", "127.0.0.1:0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.kill)
	client := 0
	for proxy, base := range proxies(t, src.address) {
		for _, path := range []string{"/a.txt", "/none.txt", "/resourcesync/main/resourcelist.xml", "/.well-known/resourcesync", "/"} {
			for _, header := range []map[string]string{nil, {"X-Forwarded-For": "127.0.0.1", "X-Real-Ip": "127.0.0.1"}, {"Host": "localhost"}, {"X-Forwarded-User": "alice"}} {
				if status, text, err := (knock{method: "GET", path: path, header: header}).send(base); err != nil || status != 401 {
					t.Errorf("%s: %s %v is answered %d, %v: %.100s", proxy, path, header, status, err, text)
				}
			}
		}
		client++
		address := fmt.Sprintf("198.51.100.%d", client)
		guess := func(from string) int {
			status, _, err := (knock{method: "GET", path: "/a.txt", header: map[string]string{"Authorization": "Bearer wrong", "X-Forwarded-For": from}}).send(base)
			if err != nil {
				t.Fatal(err)
			}
			return status
		}
		if proxy != "HTTP" { // which removes the header
			for range 100 {
				if guess(address) == 429 {
					break
				}
			}
			if first, other := guess(address), guess(address+"9"); first != 429 || other != 401 {
				t.Errorf("%s: %d for a client that has guessed, %d for another one; want 429 and 401", proxy, first, other)
			}
			within(t, "the client is logged", func() bool { return strings.Contains(src.stderr.String(), "client="+address) })
		}
		status, text, err := (knock{method: "GET", path: "/a.txt", header: map[string]string{"Authorization": "Bearer " + token}}).send(base)
		if err != nil || status != 200 || text != "secret" {
			t.Errorf("%s: a reader is answered %d, %v", proxy, status, err)
		}
	}
}

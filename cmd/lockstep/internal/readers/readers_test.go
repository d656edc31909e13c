package readers_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/bcrypt"

	"lockstep/cmd/lockstep/internal/readers"
	"lockstep/cmd/lockstep/internal/term"
	"lockstep/internal/reader"
	"lockstep/internal/statedir"
)

// hashed returns the line of a reader with a password, of the least cost.
func hashed(t *testing.T, name, password string) string {
	t.Helper()
	h, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	return name + ":" + string(h)
}

func token(name, text string) string {
	sum := sha256.Sum256([]byte(text))
	return name + ":sha256:" + hex.EncodeToString(sum[:])
}

// A logBuffer may be written by several goroutines.
type logBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// A world is a gate with its log.
type world struct {
	*testing.T
	gate *readers.Gate
	log  *logBuffer
}

func newWorld(t *testing.T, sets map[string][]string, proxies ...string) *world {
	t.Helper()
	w := &world{T: t, log: &logBuffer{}}
	var trusted []netip.Prefix
	for _, p := range proxies {
		trusted = append(trusted, netip.MustParsePrefix(p))
	}
	w.gate = readers.NewGate(readers.NewLogins(trusted, slog.New(slog.NewTextHandler(w.log, nil))))
	for name, entries := range sets {
		list, err := readers.Open(entries)
		if err != nil {
			t.Fatal(err)
		}
		w.gate.Guard(name, list)
	}
	return w
}

// ask returns what a request from an address, with pairs of headers, may read.
func (w *world) ask(peer string, header ...string) reader.Grant {
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
	r.RemoteAddr = peer
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	g := reader.Of(w.gate.Mark(r).Context())
	slices.Sort(g.Sets)
	return g
}

func basic(name, password string) string {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth(name, password)
	return r.Header.Get("Authorization")
}

const here = "203.0.113.7:99"

// TestCheck: a credential opens the sets of which it is one, and no address opens any.
func TestCheck(t *testing.T) {
	t.Parallel()
	alice, bob := token("alice", "alices-token"), hashed(t, "bob", "bobs password")
	file := filepath.Join(t.TempDir(), "readers")
	if err := os.WriteFile(file, []byte("# readers\n\n  "+bob+"  \n"+token("carol", "carols-token")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, map[string][]string{
		"a": {alice, "file:" + file}, "b": {hashed(t, "bob", "bobs password"), hashed(t, "alice", "alices other")}, "c": {alice},
		"d": {"dave:$2y$05$Zp3ORbCyImi20R1UEOQGUuKhVFW8wS/7kM1eah2Wb8lHCOIn3cUF2"}, // of htpasswd
	})
	for name, tt := range map[string]struct {
		credential string
		sets       []string
		status     int
		reader     string
	}{
		"none":                        {"", nil, 0, ""},
		"a token":                     {"Bearer alices-token", []string{"a", "c"}, 0, "alice"},
		"a token, another case":       {"bearer  alices-token", []string{"a", "c"}, 0, "alice"},
		"a token as a password":       {basic("alice", "alices-token"), []string{"a", "c"}, 0, "alice"},
		"a token of another name":     {basic("carol", "alices-token"), nil, 401, ""},
		"another password of alice":   {basic("alice", "alices other"), []string{"b"}, 0, "alice"},
		"a token in a file":           {"Bearer carols-token", []string{"a"}, 0, "carol"},
		"a password":                  {basic("bob", "bobs password"), []string{"a", "b"}, 0, "bob"},
		"a password by htpasswd":      {basic("dave", "hunter2"), []string{"d"}, 0, "dave"},
		"a wrong password":            {basic("bob", "bobs"), nil, 401, ""},
		"a wrong name":                {basic("robert", "bobs password"), nil, 401, ""},
		"a password as a token":       {"Bearer bobs password", nil, 401, ""},
		"a hash as a token":           {"Bearer " + strings.TrimPrefix(alice, "alice:sha256:"), nil, 401, ""},
		"a hash as a password":        {basic("bob", strings.TrimPrefix(bob, "bob:")), nil, 401, ""},
		"an empty token":              {"Bearer ", nil, 401, ""},
		"an empty password":           {basic("bob", ""), nil, 401, ""},
		"an empty name":               {basic("", "alices-token"), nil, 401, ""},
		"another scheme":              {"Digest alices-token", nil, 401, ""},
		"nothing but a scheme":        {"Bearer", nil, 401, ""},
		"a token and something after": {"Bearer alices-token x", nil, 401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := *w
			w.T = t
			for i := range 3 { // what is remembered is the same
				header := []string{"Authorization", tt.credential}
				if tt.credential == "" {
					header = nil
				}
				// Each attempt from an address of its own: failures are counted.
				if g := w.ask(fmt.Sprintf("198.51.100.%d:1", len(name)*3+i), header...); !slices.Equal(g.Sets, tt.sets) || g.Status != tt.status || g.Name != tt.reader {
					t.Errorf("%d: %+v, want %v, %d, %q", i, g, tt.sets, tt.status, tt.reader)
				}
			}
		})
	}
	if g := w.ask(here, "Authorization", "Bearer alices-token", "Authorization", "Bearer carols-token"); g.Status != 401 {
		t.Errorf("two credentials: %+v", g)
	}
	for _, peer := range []string{"127.0.0.1:1", "[::1]:1", "@", ""} {
		if g := w.ask(peer, "X-Forwarded-For", "127.0.0.1"); len(g.Sets) > 0 {
			t.Errorf("%s: %+v", peer, g)
		}
	}
}

// TestReadAgain: a reader who is removed from a file is refused at once, and one who is added is
// accepted; if the file cannot be read, none of it is accepted, and it is logged once.
func TestReadAgain(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "readers")
	put := func(lines ...string) {
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	bob := hashed(t, "bob", "password")
	put(token("alice", "one"), bob)
	w := newWorld(t, map[string][]string{"a": {"file:" + file}, "b": {token("alice", "one")}})
	ask := func(credential string, status int, sets ...string) {
		t.Helper()
		if g := w.ask(here, "Authorization", credential); g.Status != status || !slices.Equal(g.Sets, sets) {
			t.Errorf("%s: %+v, want %d %v", credential, g, status, sets)
		}
	}
	ask("Bearer one", 0, "a", "b")
	ask(basic("bob", "password"), 0, "a")
	put(token("carol", "two"))
	ask("Bearer one", 0, "b")
	ask(basic("bob", "password"), 401)
	ask("Bearer two", 0, "a")
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		ask("Bearer one", 0, "b")
		ask("Bearer two", 503)
	}
	put("nonsense")
	ask("Bearer two", 503)
	put(token("carol", "two"))
	ask("Bearer two", 0, "a")
	if n := strings.Count(w.log.b.String(), "level=ERROR"); n != 2 || !strings.Contains(w.log.b.String(), "can be read again") {
		t.Errorf("%d errors are logged: %s", n, &w.log.b)
	}
}

// TestFailures: wrong credentials from an address are limited, those from others are not, and
// right ones are accepted all the same if that costs nothing; a proxy that is trusted names the address.
func TestFailures(t *testing.T) {
	t.Parallel()
	sets := map[string][]string{"a": {token("alice", "right"), hashed(t, "bob", "password"), hashed(t, "carol", "password")}}
	exhaust := func(w *world, peer string, header ...string) {
		t.Helper()
		for i := range 100 {
			g := w.ask(peer, append(header, "Authorization", basic("bob", fmt.Sprint(i)))...)
			if g.Status == 429 {
				if g.After <= 0 {
					t.Errorf("no time to retry: %+v", g)
				}
				return
			}
			if g.Status != 401 {
				t.Fatalf("%+v", g)
			}
		}
		t.Fatal("a hundred wrong passwords are checked")
	}
	w := newWorld(t, sets)
	if g := w.ask(here, "Authorization", basic("bob", "password")); len(g.Sets) != 1 {
		t.Fatalf("%+v", g)
	}
	exhaust(w, here)
	for _, tt := range []struct {
		peer, credential string
		status           int
	}{
		{here, "Bearer wrong", 429},
		{here, "Bearer right", 0},
		{here, basic("bob", "password"), 0},     // remembered
		{here, basic("carol", "password"), 429}, // has to be compared
		{"203.0.113.8:1", basic("carol", "password"), 0},
		{here, basic("carol", "password"), 0},
	} {
		if g := w.ask(tt.peer, "Authorization", tt.credential); g.Status != tt.status {
			t.Errorf("%s from %s: %+v, want %d", tt.credential, tt.peer, g, tt.status)
		}
	}
	if n := strings.Count(w.log.b.String(), "client=203.0.113.7"); n == 0 || n > 15 {
		t.Errorf("%d failures are logged", n)
	}
	if strings.Contains(w.log.b.String(), "bob") {
		t.Errorf("the log has names, which may be passwords: %s", &w.log.b)
	}

	// X-Forwarded-For is believed only if a trusted proxy sends it, and opens nothing.
	w = newWorld(t, sets, "127.0.0.0/8")
	exhaust(w, "127.0.0.1:1", "X-Forwarded-For", "198.51.100.1")
	if g := w.ask("127.0.0.1:1", "X-Forwarded-For", "198.51.100.2", "Authorization", "Bearer wrong"); g.Status != 401 {
		t.Errorf("another client of the proxy: %+v", g)
	}
	if !strings.Contains(w.log.b.String(), "client=198.51.100.1") || strings.Contains(w.log.b.String(), "127.0.0.1") {
		t.Errorf("log: %s", &w.log.b)
	}
	w = newWorld(t, sets)
	exhaust(w, "127.0.0.1:1", "X-Forwarded-For", "198.51.100.1")
	if g := w.ask("127.0.0.1:1", "X-Forwarded-For", "198.51.100.2", "Authorization", "Bearer wrong"); g.Status != 429 {
		t.Errorf("a client that names another one: %+v", g)
	}
}

// TestManyAtOnce: a password that comes with many requests at a time is counted once.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, map[string][]string{"a": {hashed(t, "bob", "password")}})
	var all sync.WaitGroup
	for range 100 {
		all.Go(func() {
			if g := w.ask(here, "Authorization", basic("bob", "password")); len(g.Sets) != 1 {
				t.Errorf("%+v", g)
			}
		})
	}
	all.Wait()
}

// TestOpenRefuses: a line that cannot be used is named, with what to write instead, and
// without its hash.
func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const hash = "5e884898da28047151d0e56f8dc6292773603d0d6aabbdd62a11ef721d1542d8"
	file := filepath.Join(t.TempDir(), "readers")
	if err := os.WriteFile(file, []byte(token("alice", "x")+"\n\nbob:"+hash+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		entries   []string
		err, hint string
	}{
		"none":           {nil, "readers: there are none", "leave readers out"},
		"no name":        {[]string{":sha256:" + hash}, "begins with the name of a reader and a colon", "lockstep reader NAME"},
		"no colon":       {[]string{"alice"}, "begins with the name", ""},
		"a path":         {[]string{"/etc/readers"}, "begins with the name", ""},
		"a missing file": {[]string{"file:/none/readers"}, "stat /none/readers", ""},
		"short":          {[]string{"alice:sha256:" + hash[1:]}, "reader alice: sha256: is not followed by the 64 hexadecimal digits", ""},
		"no hash":        {[]string{"alice:secret"}, "reader alice: what follows the name is no hash", "htpasswd -nB"},
		"an MD5 hash":    {[]string{"alice:$apr1$abc$xyz"}, "is no hash", "htpasswd -nB"},
		"too expensive":  {[]string{"alice:$2y$17$" + strings.Repeat("a", 53)}, "cost 17 takes too long", "-C 10 alice"},
		"in a file":      {[]string{"file:" + file}, file + ", line 3: reader bob: what follows", ""},
	} {
		_, err := readers.Open(tt.entries)
		if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(term.HintOf(err), tt.hint) || strings.Contains(err.Error(), hash[5:40]) {
			t.Errorf("%s: error %v, hint %q; want %q, %q", name, err, term.HintOf(err), tt.err, tt.hint)
		}
	}
}

// TestMake: a token that was made opens the set of its line.
func TestMake(t *testing.T) {
	t.Parallel()
	text, line, err := readers.Make("alice")
	if err != nil || strings.Contains(line, text) || len(text) != 64 {
		t.Fatalf("%q, %q, %v", text, line, err)
	}
	if g := newWorld(t, map[string][]string{"a": {line}}).ask(here, "Authorization", "Bearer "+text); len(g.Sets) != 1 {
		t.Errorf("%+v", g)
	}
	for _, name := range []string{"", "a b", "a:b", "file", "a\nb", "#a"} {
		if _, _, err := readers.Make(name); err == nil {
			t.Errorf("%q is accepted", name)
		}
	}
}

// TestFormer: sets that become private are new once, also after they were public again.
func TestFormer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open := func() *readers.Former {
		f, err := readers.OpenFormer(statedir.Files(dir))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	f := open()
	if err := f.Record(nil); err != nil || f.Any() || open().Any() {
		t.Errorf("without private sets: %v, %v", err, f.Any())
	}
	if err := f.Keep(); err != nil || !f.Any() || !open().Any() || len(open().New([]string{"a"})) != 1 {
		t.Errorf("with one that is about to be served: %v", err)
	}
	for _, step := range []struct{ private, fresh []string }{
		{[]string{"a"}, []string{"a"}}, {[]string{"a", "b"}, []string{"b"}}, {[]string{"b"}, nil}, {[]string{"a", "b"}, []string{"a"}}, {nil, nil},
	} {
		f := open()
		if got := f.New(step.private); !slices.Equal(got, step.fresh) {
			t.Errorf("%v: new are %v, want %v", step.private, got, step.fresh)
		}
		if err := f.Record(step.private); err != nil {
			t.Fatal(err)
		}
	}
	if !open().Any() {
		t.Error("it is forgotten that there were private sets")
	}
}
